from . import fit as fit
from . import leakage as leakage
from . import priors as priors
from . import shifting as shifting
from . import shown as shown
from .predictor import TwoTemperaturePredictor as TwoTemperaturePredictor
from .sets import Prediction as Prediction
from .sets import PredictionArrays as PredictionArrays

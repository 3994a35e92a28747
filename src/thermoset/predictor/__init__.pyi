from . import fit as fit
from . import label_shift as label_shift
from . import leakage as leakage
from . import shown as shown
from .predictor import TwoTemperaturePredictor as TwoTemperaturePredictor
from .sets import DecidedArrays as DecidedArrays
from .sets import Prediction as Prediction
from .sets import PredictionArrays as PredictionArrays

from . import class_shares as class_shares
from . import fit as fit
from . import label_shift as label_shift
from . import leakage as leakage
from .predictor import TwoTemperaturePredictor as TwoTemperaturePredictor
from .sets import Prediction as Prediction
from .sets import PredictionArrays as PredictionArrays

from . import any_level as any_level
from . import fitting as fitting
from . import judging as judging
from . import shown as shown
from . import used_rows as used_rows
from .answers import Answers as Answers
from .answers import Prediction as Prediction
from .estimator import TwoTemperaturePredictor as TwoTemperaturePredictor

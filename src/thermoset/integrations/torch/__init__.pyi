from .collecting import Collected as Collected
from .collecting import Spool as Spool
from .collecting import collect_logits as collect_logits
from .collecting import collect_to_file as collect_to_file
from .module import Answers as Answers
from .module import SetModule as SetModule
from .module import save_torch as save_torch
from .module import to_torch as to_torch

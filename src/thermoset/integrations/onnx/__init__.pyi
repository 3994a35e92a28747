from .export import OPSETS as OPSETS
from .export import group_codes as group_codes
from .export import id_keys as id_keys
from .export import to_onnx as to_onnx

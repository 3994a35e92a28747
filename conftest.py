"""Examples in docstrings and pages that need PyTorch run where it is installed; tests say themselves what they need."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["src/thermoset/integrations/torch.py", "docs/collect.md"]

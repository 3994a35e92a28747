"""Examples that need PyTorch or Altair run where these are installed; tests say themselves what they need."""

from importlib.util import find_spec

_NEED_TORCH = ["src/thermoset/integrations/torch.py", "src/thermoset/integrations/models.py", "docs/collect.md"]
collect_ignore = [] if find_spec("torch") else _NEED_TORCH
if not find_spec("altair"):
    collect_ignore = [*collect_ignore, "src/thermoset/report/charts"]

"""The paper, executable: `theory` is its section 4 and appendix A, `study` its tables and figures."""

from lazy_loader import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, submodules=["study", "theory"])

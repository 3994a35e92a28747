"""The paper's guideline as a drawing: the same logits, one temperature for confidence, another for sets."""

from html import escape
from importlib.resources import files

__all__ = ["guideline"]


def guideline(
    star: str = "T*", hat: str = "T\u0302", score: str = "score", coverage: str = "1 \u2212 \u03b1 of rows"
) -> str:
    """The drawing as SVG that stands alone; where a page has colours of its own it takes those.

    >>> drawing = guideline("T* = 1.23", score="RAPS score")
    >>> "\u00f7 T* = 1.23</text>" in drawing, "RAPS score</text>" in drawing
    (True, True)
    """
    drawing = files("thermoset.report").joinpath("files/guideline.svg").read_text(encoding="utf-8")
    filled = {"star": star, "hat": hat, "score": score, "coverage": coverage}
    return drawing.format(**{name: escape(text) for name, text in filled.items()})

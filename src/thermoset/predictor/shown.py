"""What a notebook shows for a fitted predictor."""

from html import escape

from thermoset.notebook import html_curves, html_table
from thermoset.predictor.document import Document

__all__ = ["predictor_html"]


def predictor_html(made: Document) -> str:
    """The recommendation, what sets will look like, and the curves behind the choice."""
    choice = made.choice
    about = f" The rest refers to alpha = {choice.alpha}, for which T-hat was chosen." if made.is_moved else ""
    if made.shift is not None:
        about += " It was adjusted for other class shares (label shift) than those shown here."
    head = (
        f"{choice.setting.kind}, alpha = {made.recipe.alpha}: T* = {made.temperature:.3f}.{about} {choice.sentences[0]}"
    )
    if made.is_weighted:
        head += (
            f" Conformal rows have weights: {made.provenance.conformal_rows:,} rows are worth "
            f"{made.effective_rows:,.1f} equally weighted rows, and rows to predict need weights too."
        )
    rows = [
        [
            at.name,
            f"{at.temperature:.2f}",
            *map(_known, (at.class_gap, at.worst_tenth)),
            f"{at.size:.2f}",
            f"{at.empty_share:.1%}",
        ]
        for at in choice.outlooks
    ]
    table = html_table(["sets at", "T", choice.words.gap, "worst tenth", "labels", "empty"], rows)
    marks = {at.name: at.temperature for at in choice.outlooks}
    curves = {"labels in a set": choice.curve.size, f"unevenness of {choice.words.many}": choice.curve.loss}
    plots = [
        html_curves(title, choice.curve.temperatures, {made.recipe.method.name: values}, marks)
        for title, values in curves.items()
    ]
    return f"<div><p>{escape(head)}</p>{table}{''.join(plots)}</div>"


def _known(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"

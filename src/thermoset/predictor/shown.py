"""What a notebook shows for a fitted predictor."""

from contextlib import suppress

from thermoset.errors import MissingExtraError
from thermoset.predictor.document import Document
from thermoset.text_tables import html_paragraphs


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
    drawn = ""
    with suppress(MissingExtraError, ArithmeticError, ValueError):  # no Matplotlib, or numbers beyond any axis
        from thermoset.plots import choice_figure, inline  # noqa: PLC0415  (only notebooks ask)

        drawn = inline(choice_figure(choice, made.temperature), f"Sizes and {choice.words.gap} against temperature")
    return f"{html_paragraphs(head)}{choice.to_table().to_html()}{drawn}"

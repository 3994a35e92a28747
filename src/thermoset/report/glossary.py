"""A glossary one click away on every page: in plain HTML, so that it opens offline and without scripts.

A term is a button that shows its meaning; another button shows all of them. Both use the `popover` attribute, which
browsers operate by mouse, touch and keyboard. Browsers that do not know it show the glossary at the end of the page, as
on paper.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["GLOSSARY_BUTTON", "glossary_html", "term_button", "with_symbols"]

GLOSSARY_BUTTON = "<button type='button' class='glossary' popovertarget='words'>Glossary</button>"
"""Shows all terms."""

_SPELT = {"T*": "t-star", "\u03b1": "alpha", "u": "u"}


def term_button(terms: Sequence[str], term: str, text: str | None = None) -> str:
    """A term, or other words for it, that shows its meaning; an error if the page does not explain it.

    >>> print(term_button(["ECE"], "ECE"))
    <button type='button' class='term' popovertarget='word-ece'>ECE</button>
    """
    if term not in terms:
        raise KeyError(f"the glossary does not explain {term!r}")
    shown = with_symbols(term if text is None else text)
    return f"<button type='button' class='term' popovertarget='{_place(term)}'>{shown}</button>"


def glossary_html(words: Mapping[str, str]) -> str:
    """All terms with their meanings, and each of them alone.

    >>> "<div popover id='word-t-star' class='word'><b>T*</b>" in glossary_html({"T*": "a temperature"})
    True
    """
    entries = "".join(f"<dt>{with_symbols(term)}</dt><dd>{_sentence(text)}</dd>" for term, text in words.items())
    more = "<button type='button' popovertarget='words'>All terms</button>"
    single = "".join(
        f"<div popover id='{_place(term)}' class='word'><b>{with_symbols(term)}</b> {_sentence(text)} {more}</div>"
        for term, text in words.items()
    )
    close = "<button type='button' class='close' popovertarget='words' popovertargetaction='hide'>Close</button>"
    return f"<section popover id='words'><h2>Glossary</h2>{close}<dl class='kv'>{entries}</dl></section>{single}"


def with_symbols(text: str) -> str:
    """Text as HTML, with the names of temperatures as pages write them.

    >>> print(with_symbols("T_c & T-hat"))
    T<sub>c</sub> &amp; T̂
    """
    return escape(text).replace("T-hat", "T\u0302").replace("T_c", "T<sub>c</sub>")


def _sentence(text: str) -> str:
    return with_symbols(text[0].upper() + text[1:] + ("" if text.endswith(".") else "."))


def _place(term: str) -> str:
    """Where the meaning of a term stands."""
    return "word-" + (_SPELT.get(term) or re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-"))

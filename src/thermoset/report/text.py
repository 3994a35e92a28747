"""Names as the page shows them: any text, of any length, as text."""

import unicodedata

__all__ = ["shortened", "visible"]

_LONGEST = 60
_OVERRIDES = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def visible(text: str) -> str:
    """Text with what cannot be shown, or changes what is beside it, written as escapes.

    Control characters, bytes of no character, and overrides of the direction of writing.

    >>> print(visible("two" + chr(10) + "lines").replace(chr(92), "/"))
    two/nlines
    """
    return "".join(c.encode("unicode_escape").decode() if _is_hidden(c) else c for c in text)


def _is_hidden(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in _OVERRIDES


def shortened(text: str, mark: str) -> str:
    """Text of at most 60 characters; a longer one is cut, and `mark` keeps it apart from others that begin alike.

    >>> shortened("a cat", "class 3"), shortened("long " * 20, "class 3")
    ('a cat', 'long long long long long long long long long long… (class 3)')
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - len(mark) - 4].rstrip()}… ({mark})"

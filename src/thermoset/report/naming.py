"""Names as the page shows them: of any length."""

__all__ = ["shortened"]

_LONGEST = 60


def shortened(text: str, mark: str) -> str:
    """Text of at most 60 characters; a longer one is cut, and `mark` keeps it apart from others that begin alike.

    >>> shortened("a cat", "class 3"), shortened("long " * 20, "class 3")
    ('a cat', 'long long long long long long long long long long… (class 3)')
    """
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - len(mark) - 4].rstrip()}… ({mark})"

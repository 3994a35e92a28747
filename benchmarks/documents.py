"""Parts of pages that a command writes: what stands between two comments is replaced, the rest is left alone."""

import re
from pathlib import Path

__all__ = ["between", "write_between"]


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: written by [^>]+ -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


def between(text: str, name: str) -> str:
    """What stands there."""
    found = _pattern(name).search(text)
    if found is None:
        raise ValueError(f"the page has no part between <!-- {name}: written by ... --> and <!-- end of {name} -->")
    return found[2]


def write_between(path: Path, name: str, text: str) -> None:
    """Replace it."""
    page = path.read_text(encoding="utf-8")
    between(page, name)
    path.write_text(_pattern(name).sub(lambda found: found[1] + text + found[3], page), encoding="utf-8")

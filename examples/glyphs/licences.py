"""Licences of the font packages, from their copyright files. Only Debian's main section is used: all of it is free."""

import csv
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from examples.glyphs.fonts import Font

KINDS = {
    "SIL Open Font License": r"OFL|\bSIL\b|open.font.licen[sc]e",
    "Arphic Public License": r"arphic public licen[sc]e",
    "GPL with font exception": r"GPL.*(exception|FE)\b|GPL.*font exception",
    "LGPL": r"LGPL",
    "GPL": r"\bA?GPL|GNU-GPL|general public licen[sc]e",
    "Apache": r"Apache",
    "MIT, BSD or ISC": r"\bMIT\b|Expat|BSD|\bISC\b|M\+",
    "public domain or CC0": r"public.?domain|\bPD\b|CC0|unlicense|WTFPL",
    "Creative Commons": r"CC-BY",
    "Bitstream Vera": r"\bvera\b|bitstream",
    "LPPL or GUST": r"LPPL|GUST|LaTeX",
    "IPA Font License": r"\bIPA\b",
    "Artistic": r"artistic",
}
"""Kinds of licences, each with a pattern; the first that fits counts."""


def licence_of(package: Path) -> str:
    """Return the licence that the copyright file of an unpacked package names for its fonts."""
    copyright_file = next((package / "usr/share/doc").glob("*/copyright"), None)
    text = "" if copyright_file is None else copyright_file.read_text(errors="replace")
    # Machine-readable files: paragraphs of Files and License; those of the packaging itself come under
    # debian/. A sentence, with its full stop, is not the name of a licence.
    named = re.findall(r"^Files:(?! *debian/).*?^License: *([^\n]*[^.\n])$", text, re.MULTILINE | re.DOTALL)
    return kind_of(named[0] if named else " ".join(text.split()))


def write_table(path: Path, fonts: Iterable[Font], archives: Path, folder: Path) -> None:
    """Write the packages of some fonts with their versions and licences, as csv."""
    versions = dict(archive.name.split("_")[:2] for archive in archives.glob("*.deb"))
    counts = Counter(font.package for font in fonts)
    with path.open("w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["package", "version", "licence", "fonts"])
        for package, count in sorted(counts.items()):
            version = unquote(versions.get(package, ""))
            table.writerow([package, version, licence_of(folder / package), count])


def kind_of(name: str) -> str:
    """Return the kind of a licence.

    >>> kind_of("OFL-1.1"), kind_of("GPL-2+ with Font exception"), kind_of("GPL-3+"), kind_of("?")
    ('SIL Open Font License', 'GPL with font exception', 'GPL', 'other')
    """
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE)), "other")

"""Debian's free fonts: download, unpack, and say which files are used, of which family, under which licence."""

import hashlib
import logging
import re
import string
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fontTools.ttLib import TTFont, TTLibError

logging.getLogger("fontTools").setLevel(logging.ERROR)  # many fonts have small faults that do not matter here

LARGEST = 4_000_000  # bytes of a package: larger ones hold East Asian scripts or hundreds of cuts of one family

EXCLUDED = {
    "symbols or music": r"awesome|icons|symbol|emoji|entypo|powerline|^feta|biolinum_k|jsmath|mathjax|lyx",
    "other scripts or phonetic signs in ASCII slots": (
        r"taml|washra|bwht|alfa-beta|^elle[bn]|^[ai]p[ai](bol|ita|reg)|futhark|dutsa|triod"
    ),
    "digits of a display": r"dseg",
    "letters on ruled lines": r"lignes|guiada|pautada",
}
"""Reasons to leave a package or a file out, each with a pattern of names in small letters."""


@dataclass(frozen=True)
class Font:
    """A font file and where it came from."""

    path: Path
    package: str
    name: str


def wanted_packages() -> list[str]:
    """Font packages of the machine's Debian archive: small enough, and not known for symbols or other scripts."""
    names = _run("apt-cache", "pkgnames", "fonts-").split()
    records = _run("apt-cache", "show", "--no-all-versions", *sorted(names)).split("\n\n")
    sizes = {}
    for record in filter(None, records):
        fields = dict(re.findall(r"^(Package|Size): (\S+)$", record, re.MULTILINE))
        sizes[fields["Package"]] = int(fields["Size"])
    return sorted(name for name, size in sizes.items() if size < LARGEST and excluded(name) is None)


def excluded(package: str) -> str | None:
    """Return the reason to leave a package out, or None."""
    return next((reason for reason, pattern in EXCLUDED.items() if re.search(pattern, package)), None)


def download(folder: Path, packages: Iterable[str]) -> Iterator[str]:
    """Download packages into a folder, without installing them; yields the names of those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    have = {path.name.split("_")[0] for path in folder.glob("*.deb")}
    yield from have
    missing = [name for name in packages if name not in have]
    for some in (missing[i : i + 20] for i in range(0, len(missing), 20)):
        _run("apt-get", "download", "--quiet", *some, cwd=folder)
        yield from some


def unpack(archives: Path, folder: Path) -> Iterator[str]:
    """Unpack every package of a folder into a folder of its name; yields the names."""
    folder.mkdir(parents=True, exist_ok=True)
    for archive in sorted(archives.glob("*.deb")):
        target = folder / archive.name.split("_")[0]
        if not target.exists():
            part = target.with_suffix(".part")  # a name that says so, should the work be interrupted
            _run("dpkg", "-x", str(archive), str(part))
            part.rename(target)
        yield target.name


def find_fonts(folder: Path) -> list[Font]:
    """Fonts of all packages in a folder that hold a-z, A-Z and 0-9, each file once."""
    found, seen = [], set()
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in {".ttf", ".otf"}):
        if path.is_symlink() or excluded(path.stem.lower()):
            continue
        digest = hashlib.sha256(path.read_bytes()).digest()
        name = None if digest in seen else name_of(path)
        if name is not None:
            seen.add(digest)
            found.append(Font(path, path.relative_to(folder).parts[0], name))
    return found


def name_of(path: Path) -> str | None:
    """Return the name of a font's family as the file gives it; None for a font without the basic characters."""
    try:
        with TTFont(path, lazy=True) as font:
            codes, name = font.getBestCmap() or {}, font["name"].getBestFamilyName() or ""
    except (TTLibError, KeyError, AssertionError):  # not a font that Pillow could draw either
        return None
    if not all(ord(character) in codes for character in string.ascii_letters + string.digits):
        return None
    return name if name.isprintable() and name[:1].isalnum() else path.stem


def _run(*command: str, cwd: Path | None = None) -> str:
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603  # fixed words

"""Interpreters of the versions asked for, one path to a line: `python tools/pythons.py 3.12 3.13`.

Those on the PATH come first, then pyenv's; each is run before it is named, since a name may stand for nothing.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def candidates(version: str) -> Iterator[str]:
    """Where an interpreter of this version may be."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from map(str, sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True))


def runs(python: str, version: str) -> bool:
    """Whether it starts and is what its name says."""
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (a Python at hand)
    except OSError:
        return False
    return done.stdout.strip() == version


def main(versions: list[str]) -> None:
    """Name the first that runs of each version; a version that is not at hand is passed over."""
    for version in versions:
        print(*[python for python in candidates(version) if runs(python, version)][:1])


if __name__ == "__main__":
    main(sys.argv[1:])

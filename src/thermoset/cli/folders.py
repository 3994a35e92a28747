"""Folders that commands write to."""

import os
from pathlib import Path

from thermoset.errors import InputError

__all__ = ["check_folder"]


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be made or written, without making it yet."""
    standing = out.absolute()
    while not standing.exists() and standing != standing.parent:
        standing = standing.parent
    if not standing.is_dir():
        raise InputError(f"--out {out} cannot be made a folder ({standing} is a file). Name another.")
    if not os.access(standing, os.W_OK | os.X_OK):
        raise InputError(f"--out {out} cannot be written ({standing}: permission denied). Name another.")

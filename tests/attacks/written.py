"""What commands read and write."""

from pathlib import Path
from typing import NamedTuple


class Files(NamedTuple):
    """Logits, others that were drawn alike, a predictor made of the first, and a folder of logits."""

    val: Path
    fresh: Path
    predictor: Path
    folder: Path


def writing(files, out):
    """Every command that writes, by name, with its arguments for a folder to write to."""
    few = ("--trials", "2", "--temperatures", "1,2")
    return {
        "tune": ("tune", files.val, "--out", out),
        "predict": ("predict", files.predictor, files.val, "--out", out / "sets.csv"),
        "adapt": ("adapt", files.predictor, files.fresh, "--out", out / "renewed.json"),
        "shift": ("adapt", files.predictor, files.val, "--shift", "--out", out / "shifted.json", "--bootstrap", "5"),
        "report": ("report", files.predictor, files.val, "--out", out / "page.html"),
        "sweep": ("sweep", files.val, "--out", out, *few),
        "study": ("study", files.folder, "--out", out),
    }


WRITING = ("tune", "predict", "adapt", "shift", "report", "sweep", "study")


def content(folder):
    """All files below a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

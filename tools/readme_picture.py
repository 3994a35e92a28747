"""Draw four characters that the demo's predictor has not seen, with confidence and set, into docs/images.

`sets.png` stands in the README; `social-preview.png` (1280 x 640) is what other sites show of a link to the repository.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import thermoset as ts
from thermoset.data.splits import split_indices
from thermoset.predictor import Prediction

SHOWN = (112, 127, 176, 234)
"""Rows of the bundled data: one clear case, and three characters that share their shape with others."""


def predictions() -> list[tuple[np.ndarray, str, Prediction]]:
    """Picture, true label and prediction of each row that is shown; the predictor is that of `thermoset demo`."""
    glyphs = ts.datasets.load_glyphs()
    known, fresh = split_indices(len(glyphs.logits), 0.7)
    if not set(SHOWN) <= set(fresh.tolist()):
        raise SystemExit("the rows shown must be fresh")
    predictor = ts.TwoTemperaturePredictor("auto", 0.1, "protect").fit(glyphs.logits.take(known))
    rows = glyphs.logits.take(np.array(SHOWN))
    pictures = dict(zip(glyphs.thumbnail_rows.tolist(), glyphs.thumbnails, strict=True))
    names = [rows.classes[label] for label in rows.require_labels("the picture")]
    return [
        (pictures[row], name, record)
        for row, name, record in zip(SHOWN, names, predictor.predict_records(rows), strict=True)
    ]


def drawn(title: str = "", size: tuple[float, float] = (9.6, 2.9), scale: float = 1.0) -> Figure:
    """The pictures side by side, with what the predictor says of each."""
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=26, fontweight="bold", linespacing=1.8)
    for ax, (picture, name, record) in zip(figure.subplots(1, len(SHOWN)), predictions(), strict=True):
        ax.imshow(~picture, cmap="gray", interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        right = record.label == name
        ax.set_title(
            f"most likely: {record.label} ({record.confidence:.0%})\ntruth: {name}",
            fontsize=10 * scale,
            color="black" if right else "#b3261e",
        )
        members = [str(member) for member in record.set]
        ax.set_xlabel("set: {" + ", ".join(members) + "}", fontsize=10 * scale, fontweight="bold")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    folder = parser.parse_args().out
    drawn().savefig(folder / "sets.png", dpi=150)
    title = "thermoset\nconfidence you can trust, sets that hold the truth"
    drawn(title, (12.8, 6.4), 1.4).savefig(folder / "social-preview.png", dpi=100)

"""Draw docs/images/sets.png: four characters that the demo's predictor has not seen, with confidence and set."""

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


def drawn() -> Figure:
    """The pictures side by side, with what the predictor says of each."""
    figure = Figure(figsize=(9.6, 2.9), layout="constrained")
    FigureCanvasAgg(figure)
    for ax, (picture, name, record) in zip(figure.subplots(1, len(SHOWN)), predictions(), strict=True):
        ax.imshow(~picture, cmap="gray", interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        right = record.label == name
        ax.set_title(
            f"most likely: {record.label} ({record.confidence:.0%})\ntruth: {name}",
            fontsize=10,
            color="black" if right else "#b3261e",
        )
        members = [str(member) for member in record.set]
        ax.set_xlabel("set: {" + ", ".join(members) + "}", fontsize=10, fontweight="bold")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images/sets.png"))
    drawn().savefig(parser.parse_args().out, dpi=150)

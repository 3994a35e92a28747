"""The bundled arrays: logits of held-out glyphs, small enough to ship."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.glyphs.render import SIDE
from thermoset import Logits

ROWS_OF_A_CLASS = 80
THUMBNAILS_OF_A_CLASS = 2


def few_fonts(families: NDArray[np.str_], wanted: set[str], most: int, seed: int) -> NDArray[np.int64]:
    """Numbers of at most `most` fonts of each wanted family, drawn at random: no family outweighs the others."""
    order = np.random.default_rng(seed).permutation(len(families))
    drawn = [order[families[order] == family][:most] for family in sorted(wanted)]
    return np.sort(np.concatenate(drawn))


def choose_rows(labels: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Rows to ship, in random order: of each class the same number, or all where there are fewer."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return order[_place_in_class(labels[order]) < ROWS_OF_A_CLASS]


def pack(path: Path, logits: Logits, images: NDArray[np.uint8], families: NDArray[np.str_]) -> None:
    """Write the file that `thermoset.datasets` reads, from logits and the pictures and families of their rows."""
    names, codes = np.unique(families, return_inverse=True)
    labels = logits.require_labels("pack")
    shown = np.flatnonzero(_place_in_class(labels) < THUMBNAILS_OF_A_CLASS)
    ink = images[shown] >= 80  # thin strokes are grey
    arrays = {
        "logits": halved(logits.logits),
        "labels": labels.astype(np.uint8),
        "classes": np.array(logits.classes),
        "families": names,
        "family": codes.astype(np.uint8 if len(names) <= 256 else np.uint16),
        "thumbnails": np.packbits(ink.reshape(len(ink), -1), axis=1),
        "thumbnail_rows": shown.astype(np.int32),
        "side": np.array(SIDE),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


def halved(logits: NDArray[np.floating]) -> NDArray[np.float16]:
    """Logits in float16, a row's largest at 0: digits are spent where probabilities are."""
    return (logits - logits.max(axis=1, keepdims=True)).astype(np.float16)


def _place_in_class(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows of the same class come before each row."""
    order = np.argsort(labels, kind="stable")
    ranked = labels[order]
    place = np.empty(len(labels), dtype=np.int64)
    place[order] = np.arange(len(labels)) - np.searchsorted(ranked, ranked)
    return place

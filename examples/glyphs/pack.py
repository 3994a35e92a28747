"""The bundled arrays: logits of held-out glyphs, small enough to ship."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.glyphs.render import SIDE
from examples.glyphs.sampling import place_in_class
from thermoset import Logits

THUMBNAILS_OF_A_CLASS = 2


def pack(path: Path, logits: Logits, images: NDArray[np.uint8], families: NDArray[np.str_]) -> None:
    """Write the file that `thermoset.datasets` reads, from logits and the pictures and families of their rows."""
    names, codes = np.unique(families, return_inverse=True)
    labels = logits.require_labels("pack")
    shown = np.flatnonzero(place_in_class(labels) < THUMBNAILS_OF_A_CLASS)
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

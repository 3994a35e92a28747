"""Bundled real data: logits of a network that recognises characters in fonts it has never seen.

>>> from thermoset.datasets import load_glyphs
>>> glyphs = load_glyphs()
>>> glyphs.logits.n_classes
209
"""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits


@dataclass(frozen=True, repr=False, eq=False)
class Glyphs:
    """Which character is this? Logits for glyphs of font families that the network was not trained on.

    Rows of one family are not independent. To promise coverage for a new font, split by family:
    `glyphs.logits.split(0.1, 0.1, split_by=glyphs.family)`.

    Attributes
    ----------
    logits : Logits
        Labelled and named: letters of the Latin, Greek and Cyrillic alphabets, digits and ASCII punctuation. The
        largest logit of a row is 0.
    family : array of str (n,)
        The font family of each row.
    thumbnails : bool array (m, 28, 28)
        Pictures of two rows of each class; True is ink.
    thumbnail_rows : int array (m,)
        The rows they belong to.
    """

    logits: Logits
    family: NDArray[np.str_]
    thumbnails: NDArray[np.bool_]
    thumbnail_rows: NDArray[np.int64]

    def __repr__(self) -> str:
        families = len(np.unique(self.family))
        return (
            f"Glyphs({self.logits.n_rows} rows x {self.logits.n_classes} classes, {families} font families, "
            f"{len(self.thumbnails)} thumbnails)"
        )


def load_glyphs() -> Glyphs:
    """Load the bundled logits of rendered characters; see the data card in the documentation.

    Examples
    --------
    >>> glyphs = load_glyphs()
    >>> classes = glyphs.logits.classes
    >>> classes[0], classes[94], classes[143]  # three letters that most fonts draw alike
    ('A', 'Alpha', 'Cyrillic A')
    """
    with (
        files("thermoset.datasets").joinpath("data/glyphs.npz").open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        side = int(stored["side"])
        family = stored["families"][stored["family"]]
        bits = np.unpackbits(stored["thumbnails"], axis=1, count=side * side)
        arrays = (family, bits.reshape(-1, side, side).view(np.bool_), stored["thumbnail_rows"].astype(np.int64))
        logits = Logits(
            stored["logits"].astype(np.float32), stored["labels"].astype(np.int64), stored["classes"].tolist()
        )
    for array in arrays:
        array.flags.writeable = False
    return Glyphs(logits, *arrays)

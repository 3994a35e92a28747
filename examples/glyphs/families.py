"""Families of fonts: what must stay on one side of a split between training and held-out fonts.

The name alone does not say it. One design comes under many names (fonts for other scripts borrow their Latin letters
from a few well-known ones), and one name has many cuts.
"""

import re

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from examples.glyphs.characters import CHARACTERS
from examples.glyphs.render import BASIC, SIDE, Pictures

ALIKE = 0.06  # root mean square difference of letters, paper 0 and ink 1, below which two fonts are one design
FIRST_WORD = re.compile(r".+?(?=Bold|Italic|Regular|[\s_-]|$)")


def join_families(names: list[str], pictures: Pictures) -> NDArray[np.str_]:
    """Family of each font: fonts whose names begin with the same word or whose letters and digits look the same.

    A family is called by the words that begin the names of most of its fonts.
    """
    words = np.array([FIRST_WORD.match(name).group() for name in names])
    _, component = connected_components((words[:, None] == words) | (_differences(len(names), pictures) < ALIKE))
    called = {}
    for number in np.unique(component):
        members, counts = np.unique(words[component == number], return_counts=True)
        most = words == members[counts.argmax()]
        called[number] = _common_start([name for name, one in zip(names, most, strict=True) if one])
    return np.array([called[number] for number in component])


def held_out_families(families: NDArray[np.str_], share: float, seed: int) -> set[str]:
    """Draw the families that training does not see."""
    distinct = np.unique(families)
    drawn = np.random.default_rng(seed).choice(distinct, round(share * len(distinct)), replace=False)
    return set(drawn.tolist())


def _differences(n_fonts: int, pictures: Pictures) -> NDArray[np.float32]:
    """Root mean square difference of the letters and digits of every pair of fonts, at half resolution."""
    half = SIDE // 2
    letters = np.zeros((n_fonts, len(CHARACTERS), half * half), np.float32)
    coarse = pictures.images.reshape(-1, half, 2, half, 2).mean(axis=(2, 4), dtype=np.float32) / 255
    letters[pictures.fonts, pictures.labels] = coarse.reshape(len(coarse), -1)
    flat = letters[:, sorted(BASIC)].reshape(n_fonts, -1)
    squares = np.einsum("ij,ij->i", flat, flat)
    squared = squares[:, None] + squares - 2 * flat @ flat.T
    return np.sqrt(np.maximum(squared, 0) / flat.shape[1])


def _common_start(names: list[str]) -> str:
    """Words that all names begin with, or the start of a word."""
    first, last = min(names), max(names)
    length = next((i for i, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    shared = first[:length]
    whole = all(name == shared or name[len(shared)] in " -_" for name in names)
    words = shared if whole or " " not in shared else shared.rpartition(" ")[0]
    return words.strip(" -_")

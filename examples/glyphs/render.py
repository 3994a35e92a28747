"""Glyphs as small grey pictures, tightly cropped: size and height above the line are gone, as in a cut-out."""

import string
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fontTools.ttLib import TTFont
from numpy.typing import NDArray
from PIL import Image, ImageFont

from examples.glyphs.characters import CHARACTERS

SIDE = 28
BASIC = frozenset(CHARACTERS.index(character) for character in string.ascii_letters + string.digits)
MARGIN = 1
MOST_ALIKE = 12  # characters of a font with one picture; more are placeholders (O, 0, o, Ο, ο, О, о are seven)
DRAWN = 112  # pixels of the em when drawn: four times the picture, so that hinting leaves no trace


@dataclass(frozen=True)
class Pictures:
    """Pictures (n, SIDE, SIDE) uint8, 0 is paper; their classes, and the number of the font of each."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    fonts: NDArray[np.int64]

    @classmethod
    def join(cls, parts: list["Pictures"]) -> "Pictures":
        """Put the pictures of fonts behind each other and number the fonts."""
        counts = [len(part.labels) for part in parts]
        return cls(
            np.concatenate([part.images for part in parts]),
            np.concatenate([part.labels for part in parts]),
            np.repeat(np.arange(len(parts)), counts),
        )

    def take(self, rows: NDArray[np.generic]) -> "Pictures":
        """Select rows by number or mask."""
        return Pictures(self.images[rows], self.labels[rows], self.fonts[rows])

    def of_fonts(self, numbers: NDArray[np.int64]) -> "Pictures":
        """Select the pictures of some fonts."""
        return self.take(np.isin(self.fonts, numbers))


def render(paths: Iterable[Path]) -> Iterator[Pictures]:
    """Draw every font's glyphs, one `Pictures` a font; none of a font that lacks a letter or digit."""
    for path in paths:
        drawn = draw_font(path)
        if not BASIC.issubset(drawn):
            drawn = {}
        images = np.array(list(drawn.values()), np.uint8).reshape(-1, SIDE, SIDE)
        yield Pictures(images, np.fromiter(drawn, np.int64, len(drawn)), np.zeros(len(drawn), np.int64))


def draw_font(path: Path) -> dict[int, NDArray[np.uint8]]:
    """Pictures of the classes for which the font has a real glyph.

    Equal pictures of different classes stay: that A, Alpha and Cyrillic A are drawn alike is the problem to be solved.
    """
    try:
        pen = ImageFont.truetype(str(path), DRAWN, layout_engine=ImageFont.Layout.BASIC)
    except OSError:  # a font of bitmaps in fixed sizes
        return {}
    with TTFont(path, lazy=True) as font:
        mapped = {code for code, name in font.getBestCmap().items() if name != ".notdef"}
    missing = draw(pen, "\uffff")  # never a character: every font shows its box for missing glyphs
    drawn = {}
    for label, character in enumerate(CHARACTERS):
        image = draw(pen, character) if ord(character) in mapped else None
        if image is not None:
            drawn[label] = image
    same = Counter(image.tobytes() for image in drawn.values())
    same[b"" if missing is None else missing.tobytes()] = len(CHARACTERS)
    return {label: image for label, image in drawn.items() if same[image.tobytes()] <= MOST_ALIKE}


def draw(pen: ImageFont.FreeTypeFont, character: str) -> NDArray[np.uint8] | None:
    """One glyph, cropped to its ink and scaled so that its longer side fills the picture; None without ink."""
    mask = pen.getmask(character, mode="L")
    canvas = Image.frombytes("L", mask.size, bytes(mask)) if min(mask.size) else None
    box = canvas.getbbox() if canvas else None
    if canvas is None or box is None:
        return None
    ink = canvas.crop(box)
    scale = (SIDE - 2 * MARGIN) / max(ink.size)
    width, height = (max(round(scale * length), 1) for length in ink.size)
    picture = Image.new("L", (SIDE, SIDE))
    picture.paste(ink.resize((width, height), Image.Resampling.BILINEAR), ((SIDE - width) // 2, (SIDE - height) // 2))
    return np.asarray(picture)

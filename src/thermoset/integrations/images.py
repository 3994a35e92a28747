"""Pictures for a model: from a folder of class folders or an archive, resized, cropped and normalised.

The steps are those torchvision uses for evaluation: the shorter side is resized (bilinear, antialiased), the middle is
cut out, bytes are divided by 255, and (x - mean) / std.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import real_number, whole_number
from thermoset.core.memory import physical_memory
from thermoset.core.pool import thread_count
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import LABELS, NAMES, FilePath, as_path, existing, first_of, need
from thermoset.io.numpy_files import read_npz_arrays, texts

__all__ = ["ImageBatches", "ImageSet", "Preprocessing", "read_images"]

PICTURES = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_MOST_PIXELS = 16_384  # of a side: a picture of that size, in float32, has 3 GiB
_MOST_PICTURES = 1_000_000  # of a batch
_LARGEST = 1e6  # of mean and std: pictures lie between 0 and 1
AHEAD = 2  # batches in work: one that the model waits for, one behind it

Pixels = NDArray[Any]
Batch = NDArray[np.float32] | tuple[NDArray[np.float32], NDArray[np.generic]]


@dataclass(frozen=True)
class Preprocessing:
    """What happens to a picture before a model sees it; the length of `mean` says how many channels that has.

    >>> steps = Preprocessing(resize=2, crop=1, mean=(0.5,), std=(0.25,))
    >>> steps.apply(np.full((4, 6, 1), 255, dtype=np.uint8))  # (1 - 0.5) / 0.25
    array([[[2.]]], dtype=float32)
    """

    resize: int | None = None
    crop: int | None = None
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        for name, size in (("resize", self.resize), ("crop", self.crop)):
            if size is not None:
                whole_number(size, name, 1, _MOST_PIXELS, "Pass a number of pixels, such as 224.")
        if self.resize is not None and self.crop is not None and self.crop > self.resize:
            raise InputError(f"crop must not be larger than resize; got {self.crop} and {self.resize}.")
        if len(self.mean) not in (1, 3) or len(self.mean) != len(self.std):
            raise InputError(
                f"mean and std must hold 3 numbers each, or 1 for grey pictures; "
                f"got {len(self.mean)} and {len(self.std)}."
            )
        for number in self.mean:
            real_number(number, "mean", -_LARGEST, _LARGEST, f"finite, up to {_LARGEST:g}", "Try 0.5.")
        for number in self.std:
            wanted = f"finite and above 0, from {1 / _LARGEST:g} to {_LARGEST:g}"
            real_number(number, "std", 1 / _LARGEST, _LARGEST, wanted, "Try 0.25.")

    @property
    def channels(self) -> int:
        """Number of channels a picture must have."""
        return len(self.mean)

    def apply(self, pixels: Pixels) -> NDArray[np.float32]:
        """Turn pixels (H, W, channels), bytes or floats, into what a model takes: float32 (channels, H, W)."""
        if self.resize is not None:
            pixels = _resized(pixels, self.resize)
        if self.crop is not None:
            pixels = _middle(pixels, self.crop)
        x = pixels.astype(np.float32)
        if pixels.dtype == np.uint8:
            x /= np.float32(255)
        mean, std = (np.asarray(numbers, dtype=np.float32) for numbers in (self.mean, self.std))
        if (mean.any() or (std != 1).any()) and (x.min() < 0 or x.max() > 1):
            raise InputError(
                f"mean and std are for pictures between 0 and 1; got floats from {x.min():g} to {x.max():g}. Pass "
                "bytes (uint8), divide by 255, or omit mean and std."
            )
        return np.ascontiguousarray(((x - mean) / std).transpose(2, 0, 1))


@dataclass(frozen=True)
class ImageSet:
    """Pictures that are read one by one, with labels and class names if there are any."""

    n_rows: int
    pixels: Callable[[int], Pixels]
    """Gives picture i as (H, W, channels), uint8 or float."""
    labels: NDArray[np.generic] | None
    classes: tuple[str, ...] | None


def read_images(path: FilePath, channels: int = 3) -> ImageSet:
    """Find pictures: a folder with a folder for each class, or an npz archive.

    The sorted names of the class folders become the class names; a class folder may be empty. An archive has an array
    `images`, (n, H, W, channels) or (n, channels, H, W), bytes or floats, and optionally `labels` and `classes`. Grey
    pictures may be (n, H, W).

    A model with 3 channels gets grey pictures three times, one with 1 channel gets the luma of colours. Files may have
    palettes, 16 bits or CMYK; transparency is dropped, as torchvision drops it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/test.npz", images=np.zeros((5, 3, 32, 32), dtype=np.uint8), labels=[0, 1, 2, 0, 1])
    ...     found = read_images(f"{folder}/test.npz")
    >>> found.n_rows, found.pixels(0).shape, found.labels
    (5, (32, 32, 3), array([0, 1, 2, 0, 1]))
    """
    source = as_path(path)
    return _read_folder(source, channels) if source.is_dir() else _read_archive(source, channels)


class ImageBatches:
    """Batches (inputs, labels) of preprocessed pictures in order; threads prepare the next while one is used.

    >>> pictures = ImageSet(3, lambda i: np.full((2, 2, 3), i / 2), np.arange(3), None)
    >>> [(x.shape, y.tolist()) for x, y in ImageBatches(pictures, Preprocessing(), batch_size=2)]
    [((2, 3, 2, 2), [0, 1]), ((1, 3, 2, 2), [2])]
    """

    def __init__(self, images: ImageSet, preprocessing: Preprocessing, batch_size: int) -> None:
        self._images = images
        self._preprocessing = preprocessing
        self._batch_size = whole_number(batch_size, "batch_size", 1, _MOST_PICTURES, "Try 64.")

    def __len__(self) -> int:
        return math.ceil(self._images.n_rows / self._batch_size)

    def __iter__(self) -> Iterator[Batch]:
        waiting: deque[tuple[range, list[Future[NDArray[np.float32]]]]] = deque()
        with ThreadPoolExecutor(thread_count()) as pool:
            for start in range(0, self._images.n_rows, self._batch_size):
                rows = range(start, min(start + self._batch_size, self._images.n_rows))
                waiting.append((rows, [pool.submit(self._prepare, row) for row in rows]))
                if len(waiting) == AHEAD:
                    yield self._batch(*waiting.popleft())
            while waiting:
                yield self._batch(*waiting.popleft())

    def _prepare(self, row: int) -> NDArray[np.float32]:
        return self._preprocessing.apply(self._images.pixels(row))

    def _batch(self, rows: range, work: Sequence[Future[NDArray[np.float32]]]) -> Batch:
        pictures = [job.result() for job in work]
        shapes = sorted({picture.shape[1:] for picture in pictures})
        if len(shapes) > 1:
            raise InputError(
                "all pictures of a batch must have the same size; got "
                f"{' and '.join(f'{h} x {w}' for h, w in shapes[:2])} "
                f"(height x width). Resize and crop them."
            )
        inputs = np.stack(pictures)
        return inputs if self._images.labels is None else (inputs, self._images.labels[rows.start : rows.stop])


def _resized(pixels: Pixels, size: int) -> Pixels:
    """Resize the shorter side to `size`; Pillow's bilinear filter antialiases."""
    library = need("PIL.Image", "torch", "resizing pictures")
    height, width = pixels.shape[:2]
    if min(height, width) == size:
        return pixels
    # The longer side is cut to a whole number, as torchvision does.
    new = (size, int(size * height / width)) if width <= height else (int(size * width / height), size)
    if pixels.dtype == np.uint8 and pixels.shape[2] == 3:
        return np.asarray(library.fromarray(pixels).resize(new, library.Resampling.BILINEAR))
    kind = np.uint8 if pixels.dtype == np.uint8 else np.float32  # what Pillow has for one band
    bands = (library.fromarray(pixels[:, :, c].astype(kind)) for c in range(pixels.shape[2]))
    return np.stack([np.asarray(band.resize(new, library.Resampling.BILINEAR)) for band in bands], axis=2)


def _middle(pixels: Pixels, size: int) -> Pixels:
    """Cut out the middle; halves are rounded as Python and torchvision round them, to even."""
    height, width = pixels.shape[:2]
    if min(height, width) < size:
        raise InputError(f"a picture of {height} x {width} (height x width) is smaller than crop {size}. Resize first.")
    top, left = round((height - size) / 2), round((width - size) / 2)
    return pixels[top : top + size, left : left + size]


def _read_folder(folder: Path, channels: int) -> ImageSet:
    library = need("PIL.Image", "torch", "reading pictures")
    mode = "L" if channels == 1 else "RGB"
    try:
        places = sorted(place for place in folder.iterdir() if place.is_dir() and not place.name.startswith("."))
        found = [
            (file, label)
            for label, place in enumerate(places)
            for file in sorted(place.rglob("*"))
            if file.suffix.lower() in PICTURES and file.is_file()
        ]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror or error}).") from None
    if not found:
        raise InputError(f"{folder}: no pictures in class folders; expected {folder}/class name/picture.png.")
    files = [file for file, _ in found]

    def pixels(row: int) -> Pixels:
        try:
            with library.open(files[row]) as picture:
                return _pixels(picture, mode).reshape(picture.height, picture.width, channels)
        except (OSError, ValueError, SyntaxError, library.DecompressionBombError) as error:
            reason = " ".join(str(error).split())[:160]
            raise FileFormatError(f"{files[row]}: not a readable picture ({reason}). Remove or replace it.") from None

    labels = np.array([label for _, label in found], dtype=np.int64)
    return ImageSet(len(files), pixels, labels, tuple(place.name for place in places))


def _pixels(picture: Any, mode: str) -> Pixels:
    """A picture as bytes, or as floats from 0 to 1 where it has 16 bits: Pillow would cut those at 255."""
    if picture.mode in ("I", "F"):
        raise ValueError("it has 32 bits for each pixel and does not tell their range: save it with 8 or 16")
    if picture.mode.startswith("I;16"):
        grey = np.asarray(picture).astype(np.float32)[..., None] / np.float32(2**16 - 1)
        return np.repeat(grey, len(mode), axis=2)
    return np.asarray(picture.convert(mode))


def _read_archive(path: Path, channels: int) -> ImageSet:
    source, _ = existing(path, (".npz",))

    def choose(held: Collection[str]) -> list[str | None]:
        return [first_of(("images",), held), first_of(LABELS, held), first_of(NAMES, held)]

    try:
        images, labels, classes = read_npz_arrays(source, choose, physical_memory() // 2)
        if images is None:
            raise FileFormatError("no array called 'images'. Use numpy.savez(file, images=..., labels=...).")
        pictures = _channels_last(images, channels)
        if labels is not None and labels.shape != (len(pictures),):
            raise InputError(f"labels must have shape ({len(pictures)},), one per picture; got {labels.shape}.")
        names = None if classes is None else tuple(texts(classes))
    except InputError as error:
        raise type(error)(f"{source}: {error}") from None
    return ImageSet(len(pictures), pictures.__getitem__, labels, names)


def _channels_last(images: Pixels, channels: int) -> Pixels:
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        wide = " Divide them by 65535." if images.dtype == np.uint16 else ""
        raise InputError(f"images must be bytes (uint8), or floats from 0 to 1; got {images.dtype}.{wide}")
    if images.ndim == 3:
        images = images[..., None]
    shape = images.shape
    if images.ndim == 4 and channels not in (shape[1], shape[3]) and 1 in (shape[1], shape[3]):
        grey = images if shape[3] == 1 else images.transpose(0, 2, 3, 1)
        images = np.broadcast_to(grey, (*grey.shape[:3], channels))
        shape = images.shape
    if images.ndim != 4 or 0 in shape or channels not in (shape[1], shape[3]):
        raise InputError(
            f"images must have shape (n, H, W, {channels}) or (n, {channels}, H, W); got {shape}. "
            f"Use one number in mean and std for grey pictures, three for colour."
        )
    if shape[1] == shape[3]:
        raise InputError(f"images of shape {shape} are ambiguous: (n, H, W, channels) or (n, channels, H, W).")
    return images if shape[3] == channels else images.transpose(0, 2, 3, 1)

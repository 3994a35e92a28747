"""CIFAR-10 and CIFAR-100 from their binary files: no pickle, so nothing in them can run."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError

PIXELS = 3 * 32 * 32  # a plane of 32 x 32 bytes for each of red, green and blue


@dataclass(frozen=True)
class Layout:
    """How one of the two data sets lies on disk."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    names: str
    label_bytes: int  # CIFAR-100 has a coarse label before the fine one, which is the last


LAYOUTS = (
    Layout(tuple(f"data_batch_{i}.bin" for i in range(1, 6)), ("test_batch.bin",), "batches.meta.txt", 1),
    Layout(("train.bin",), ("test.bin",), "fine_label_names.txt", 2),
)


@dataclass(frozen=True)
class Part:
    """Pictures (n, 3, 32, 32) as bytes, and their labels."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Cifar:
    """Both parts and the names of the classes."""

    train: Part
    test: Part
    classes: tuple[str, ...]


def read_cifar(folder: Path) -> Cifar:
    """Read the folder that unpacks from the binary version of CIFAR-10 or CIFAR-100."""
    layout = next((known for known in LAYOUTS if (folder / known.test[0]).is_file()), None)
    if layout is None:
        raise InputError(
            f"{folder}: neither {LAYOUTS[0].test[0]} (CIFAR-10) nor {LAYOUTS[1].test[0]} (CIFAR-100) was found. Unpack "
            "the binary version and pass its folder."
        )
    try:
        classes = tuple((folder / layout.names).read_text().split())
        parts = [_read_part(folder, names, layout.label_bytes, len(classes)) for names in (layout.train, layout.test)]
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror}). Unpack the archive again.") from None
    return Cifar(*parts, classes)


def _read_part(folder: Path, names: tuple[str, ...], label_bytes: int, n_classes: int) -> Part:
    blocks = [_read_records(folder / name, label_bytes, n_classes) for name in names]
    records = np.concatenate(blocks)
    images = np.ascontiguousarray(records[:, label_bytes:]).reshape(-1, 3, 32, 32)
    return Part(images, records[:, label_bytes - 1].astype(np.int64))


def _read_records(path: Path, label_bytes: int, n_classes: int) -> NDArray[np.uint8]:
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    length = label_bytes + PIXELS
    if len(content) == 0 or len(content) % length:
        raise InputError(
            f"{path}: {len(content):,} bytes; expected records of {length:,} bytes. Unpack the archive again."
        )
    records = content.reshape(-1, length)
    if records[:, label_bytes - 1].max() >= n_classes:
        raise InputError(
            f"{path}: label {records[:, label_bytes - 1].max()}; the names file has {n_classes} classes. "
            f"Do the files belong together?"
        )
    return records


def channel_statistics(images: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of bytes divided by 255; exact, from counts of the 256 values."""
    means, deviations = [], []
    values = np.arange(256) / 255
    for channel in range(images.shape[1]):
        shares = np.bincount(images[:, channel].ravel(), minlength=256) / images[:, channel].size
        means.append(float(shares @ values))
        deviations.append(float(np.sqrt(shares @ (values - means[-1]) ** 2)))
    return tuple(means), tuple(deviations)

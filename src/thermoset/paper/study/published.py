"""Numbers printed in the paper (Dabah and Tirer, on temperature scaling and conformal prediction).

`data/published.csv` has one line a cell: where it stands, what it is, and the digits as printed. Its notes say which
cells the published logits do not give, whatever choices are made.
"""

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["PAIRS", "Pair", "Printed", "find_printed", "printed_cells", "recognise"]

_SAME_ACCURACY = 0.005
_NOISE = ("data", "logits", "val", "test")  # words that file names carry after the pair


@dataclass(frozen=True)
class Pair:
    """A data set and a model of the paper."""

    dataset: str
    model: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}"


PAIRS = (
    Pair("ImageNet", "ResNet152"),
    Pair("ImageNet", "DenseNet121"),
    Pair("ImageNet", "ViT-B/16"),
    Pair("CIFAR-100", "ResNet50"),
    Pair("CIFAR-100", "DenseNet121"),
    Pair("CIFAR-10", "ResNet50"),
    Pair("CIFAR-10", "ResNet34"),
)
"""The pairs the paper examines."""


@dataclass(frozen=True)
class Printed:
    """A printed number: its place in the paper, what it measures, and half a unit of its last digit.

    `at` says where in the comparison it stands: "before" or "after" temperature scaling, "mondrian" or "t_hat" in the
    table of appendix D, a temperature in appendix B.6. Percent are fractions here.
    """

    source: str
    pair: Pair
    metric: str
    method: str
    at: str
    alpha: float | None
    cp_percent: int | None
    value: float
    rounding: float
    note: str

    @property
    def reproducible(self) -> bool:
        """False for cells that the published logits do not give."""
        return not self.note.startswith("not reproducible")


@cache
def printed_cells() -> tuple[Printed, ...]:
    """Every printed number.

    >>> one = printed_cells()[3]
    >>> one.source, str(one.pair), one.metric, one.method, one.at, one.value
    ('Table 1', 'ImageNet, ResNet152', 'avg_size', 'lac', 'before', 1.95)
    """
    text = files("thermoset.paper.study").joinpath("data/published.csv").read_text(encoding="utf-8")
    return tuple(_read(line) for line in csv.DictReader(text.splitlines()))


def _read(line: dict[str, str]) -> Printed:
    unit = 0.01 if line["unit"] == "percent" else 1.0
    return Printed(
        source=line["source"],
        pair=Pair(line["dataset"], line["model"]),
        metric=line["metric"],
        method=line["method"],
        at=line["at"],
        alpha=float(line["alpha"]) if line["alpha"] else None,
        cp_percent=int(line["cp_percent"]) if line["cp_percent"] else None,
        value=float(line["printed"]) * unit,
        # a gap of "0" stands among numbers with one decimal
        rounding=unit * (0.05 if line["printed"] == "0" else _half_unit(line["printed"])),
        note=line["note"],
    )


def _half_unit(printed: str) -> float:
    """Half a unit of the last printed digit."""
    digits, _, exponent = printed.partition("e")
    decimals = len(digits.partition(".")[2])
    return float(f"5e{int(exponent or 0) - decimals - 1}")


def find_printed(
    pair: Pair | None, metric: str, method: str = "", at: str = "", alpha: float | None = None, cp: int | None = None
) -> Printed | None:
    """The printed number of a cell, if the paper has one.

    >>> find_printed(Pair("CIFAR-100", "ResNet50"), "avg_size", "aps", "after", 0.1, 10).value
    9.14
    """
    wanted = (pair, metric, method, at, alpha, cp)
    return _by_cell().get(wanted) if pair is not None else None


@cache
def _by_cell() -> dict[tuple[object, ...], Printed]:
    return {(c.pair, c.metric, c.method, c.at, c.alpha, c.cp_percent): c for c in printed_cells()}


def recognise(name: str, top1: float | None = None) -> Pair | None:
    """The paper's pair that a file's name stands for, or None; with its accuracy, if that is the printed one too.

    Names are common. A file of another network has another accuracy: half a percentage point is allowed.

    >>> str(recognise("Cifar100-ResNet50_data.npz")), str(recognise("imagenet_vit_b_16.npz", 0.8391))
    ('CIFAR-100, ResNet50', 'ImageNet, ViT-B/16')
    >>> recognise("cifar100_densenet_bc100.npz")  # another network
    >>> recognise("cifar100_resnet50.npz", 0.772)  # of the same name, but the paper's is right for 80.9%
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower().partition(".")[0]) if word not in _NOISE]
    pair = _names().get("".join(words))
    printed = find_printed(pair, "top1")
    if printed is None or top1 is None:
        return pair
    return pair if abs(top1 - printed.value) <= _SAME_ACCURACY else None


@cache
def _names() -> dict[str, Pair]:
    names = {_plain(f"{pair.dataset}{pair.model}"): pair for pair in PAIRS}
    return {**names, "imagenetvit": Pair("ImageNet", "ViT-B/16"), "imagenetvitb": Pair("ImageNet", "ViT-B/16")}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())

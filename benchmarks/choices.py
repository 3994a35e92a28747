"""Is what a choice says true? A population is the truth, rows are drawn from it: `python -m benchmarks.choices --help`.

Every line is one population with so many rows, half of them for the temperatures (for "small" as many as it takes),
drawn with replacement. Sets are then made as a predictor makes them, and judged on the whole population, with u
averaged over eight places. THERMOSET_DATA names the folder of published logits.

claims: made and true of so many draws, mean size over that of the level that is best in hindsight (LAC, five
temperatures), and over the smallest claim that a single kind of the menu reaches in the same draw.
intervals: how often the intervals of size, class gap (95%) and worst tenth (90%) of the choice hold the truth.
even: draws in which a rival with the same promise has sets smaller by more than 3% and classes no less even.
small: mean size over that of LAC at T = 1 with all rows for the threshold.
offers: what the screen after "small" says of `--prefer protect`, against what that then gives.
seeds: largest over smallest mean size of "even" over 8 seeds on the same 2,000 rows.
excess: mean TopCovGap at T-hat of "even" above that of the best fixed T (RAPS; a tenth of the rows for each part).
"""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import thermoset as ts
from thermoset.arrays import Floats
from thermoset.tuning import Choice, choose, menu, read_preference
from thermoset.tuning.worst_classes import tenth_of

ALPHA, POOL = 0.1, 20_000
FILES = {
    "cifar10": "cifar10_resnet50",
    "cifar100": "cifar100_resnet50",
    "densenet": "cifar100_densenet_bc100_overconfident",
    "banking77": "banking77_bert",
    "imagenet": "imagenet5k_efficientnet_lite0",
}
# classes, hard ones, signal of easy and hard classes, shares (equal, or falling to so small a part of the largest)
GENERATED: dict[str, tuple[int, int, float, float, Any]] = {
    "two": (2, 1, 2.4, 0.8, 1),
    "imbalanced": (5, 1, 2.4, 1.2, [60, 20, 10, 7, 3]),
    "ten": (10, 2, 3.6, 1.2, 1),
    "language": (96, 8, 4.2, 2.2, 1),
    "extreme": (96, 8, 5.2, 1.2, 1),
    "sparse": (300, 20, 5.2, 2.4, 0.2),
    "thousand": (1000, 80, 6.0, 2.0, 1),
}
RIVALS = {
    "LAC": ts.Recipe("lac", ALPHA),
    "RAPS": ts.Recipe("raps", ALPHA),
    "Mondrian": ts.Recipe("lac", ALPHA, grouping="class"),
    "interpolated": ts.Recipe("lac", ALPHA, grouping=ts.Interpolated(0.25)),
}


@cache
def population(name: str) -> ts.Logits:
    """A file's rows, the glyphs, or generated logits in which some classes are often mistaken for others."""
    if name == "glyphs":
        return ts.datasets.load_glyphs().logits
    if name in FILES:
        return ts.load(Path(os.environ["THERMOSET_DATA"]) / f"{FILES[name]}.npz")
    n_classes, n_hard, easy, weak, shares = GENERATED[name]
    rng = np.random.default_rng(n_classes + n_hard)
    each = np.geomspace(1, shares, n_classes) if isinstance(shares, float | int) else np.array(shares, dtype=float)
    labels = rng.choice(n_classes, size=POOL, p=each / each.sum())
    strength = np.where(np.arange(n_classes) < n_hard, weak, easy) + 0.4 * rng.normal(size=n_classes)
    if name == "sparse":
        strength = rng.permutation(strength)
    logits = rng.normal(size=(POOL, n_classes)).astype(np.float32)
    logits[np.arange(POOL), labels] += strength[labels]
    return ts.Logits(1.3 * logits, labels)


class Truth(NamedTuple):
    """What sets show on a population: mean size, coverage of all rows, of each class with rows, of the worst tenth."""

    size: float
    coverage: float
    classes: Floats
    worst: float

    @property
    def unevenness(self) -> float:
        """Root mean square over classes of class coverage minus 1 - alpha."""
        return float(np.sqrt(np.mean((self.classes - (1 - ALPHA)) ** 2)))


def truth(everyone: ts.Logits, sets: ts.ConformalClassifier) -> Truth:
    """Judge sets on everyone, u averaged."""
    y, n = everyone.require_labels("truth"), len(everyone)
    places: list[Any] = [(k + 0.5) / 8 for k in range(8)] if sets.recipe.uses_u else [None]
    hit, size = np.zeros(n), 0.0
    for u in places:
        included = sets.predict_set(everyone, u=None if u is None else np.full(n, u))
        hit += included[np.arange(n), y] / len(places)
        size += included.sum() / n / len(places)
    counts = np.bincount(y, minlength=everyone.n_classes)
    classes = np.bincount(y, hit, minlength=everyone.n_classes)[counts > 0] / counts[counts > 0]
    return Truth(size, float(hit.mean()), classes, float(np.sort(classes)[: tenth_of(len(classes))].mean()))


class Draw(NamedTuple):
    """One draw of rows, and what is chosen on them."""

    everyone: ts.Logits
    rows: ts.Logits
    seed: int

    @classmethod
    def of(cls, name: str, n_rows: int, seed: int) -> "Draw":
        """Rows drawn with replacement."""
        everyone = population(name)
        some = np.random.default_rng([n_rows, seed]).integers(0, len(everyone), n_rows)
        return cls(everyone, everyone.take(some), seed)

    def split(self, prefer: str) -> tuple[ts.Logits, ts.Logits]:
        """Calibration and conformal rows, as many as the preference takes."""
        n = len(self.rows)
        k = round(n * float(read_preference(prefer).calibration_share(n)))
        return self.rows.take(slice(0, k)), self.rows.take(slice(k, n))

    def choice(self, prefer: str, method: str = "auto") -> Choice:
        """What is chosen."""
        calibration, conformal = self.split(prefer)
        kinds = menu(ALPHA, random_state=self.seed) if method == "auto" else [ts.Recipe(method, ALPHA)]
        star = ts.TemperatureScaler().fit(calibration).temperature_
        return choose(
            calibration, kinds, prefer=prefer, calibrated=star, n_conformal=len(conformal), conformal=conformal
        )

    def sets(self, choice: Choice) -> ts.ConformalClassifier:
        """The sets of a choice, made as a predictor makes them."""
        calibration, conformal = self.split(choice.prefer)
        sets = ts.ConformalClassifier.of(choice.setting.change(alpha=choice.alpha)).fit(conformal)
        return sets if choice.setting.alpha == choice.alpha else sets.tighten(choice.setting.alpha, calibration)

    def judged(self, prefer: str, method: str = "auto") -> tuple[Choice, Truth]:
        """A choice and its truth."""
        choice = self.choice(prefer, method)
        return choice, truth(self.everyone, self.sets(choice))


@cache
def hindsight(name: str, target: float) -> float:
    """The smallest LAC sets that cover the worst tenth of a population so often: five temperatures, every level."""
    everyone, sizes = population(name), []
    star = ts.TemperatureScaler().fit(everyone).temperature_
    for temperature in star * np.array([0.7, 1.0, 1.3, 1.8, 2.5]):
        low, high = 0.0, 1 - target + 0.3  # levels: the strictest reaches the target, the laxest does not
        for _ in range(10):
            level = (low + high) / 2
            actual = truth(everyone, ts.ConformalClassifier("lac", f"{level:.6f}", temperature).fit(everyone))
            low, high = (level, high) if actual.worst >= target else (low, level)
        sizes.append(truth(everyone, ts.ConformalClassifier("lac", f"{low:.6f}", temperature).fit(everyone)).size)
    return min(sizes)


def claims(name: str, n_rows: int, draws: int, prefer: str = "protect", method: str = "auto") -> str:
    """Claims made and true, and their price."""
    claimed = true = short = 0
    sizes, price, singles = [], [], []
    for t in range(draws):
        draw = Draw.of(name, n_rows, t)
        choice, actual = draw.judged(prefer, method)
        short += choice.claim is not None and not choice.claim.enough_rows
        if not choice.met:
            continue
        claimed, true = claimed + 1, true + (actual.worst >= (choice.target or 0))
        sizes.append(actual.size)
        price.append(actual.size / hindsight(name, choice.target or 0))
        if method == "auto" and t < 6:
            single = [draw.judged(prefer, one) for one in ("lac", "raps", "aps", "saps")]
            singles.append(actual.size / min(of.size for one, of in single if one.met))
    means = [np.mean(values) if values else np.nan for values in (sizes, price, singles)]
    return (
        f"{method}, {prefer}: claimed in {claimed} of {draws} ({short} short of rows), true {true}; "
        f"{means[0]:.2f} labels, {means[1]:.2f} of hindsight (largest {max(price, default=np.nan):.2f}), "
        f"{means[2]:.2f} of the smallest kind"
    )


def intervals(name: str, n_rows: int, draws: int) -> str:
    """How often intervals of the choice hold the truth."""
    said = []
    for prefer, method in (("small", "auto"), ("even", "auto"), ("even", "raps"), ("protect", "auto")):
        held: dict[str, list[bool]] = {"size": [], "class gap": [], "worst tenth": [], "tenth not below": []}
        for t in range(draws):
            draw = Draw.of(name, n_rows, t)
            choice, actual = draw.judged(prefer, method)
            at = choice.outlook
            held["size"].append(at.size_ends[0] <= actual.size <= at.size_ends[1])
            if at.worst_tenth_ends is not None:
                held["worst tenth"].append(at.worst_tenth_ends[0] <= actual.worst <= at.worst_tenth_ends[1])
                held["tenth not below"].append(at.worst_tenth_ends[0] <= actual.worst)
            if at.class_gap_ends is not None:
                exact = truth(draw.everyone, ts.ConformalClassifier.of(at.setting).fit(draw.everyone))
                gap = float(np.sqrt(np.mean((exact.classes - exact.coverage) ** 2)))
                held["class gap"].append(at.class_gap_ends[0] <= gap <= at.class_gap_ends[1])
        said.append(f"{method} {prefer}: " + ", ".join(f"{one} {sum(of)}/{len(of)}" for one, of in held.items()))
    return "; ".join(said)


def even(name: str, n_rows: int, draws: int) -> str:
    """Which rivals have smaller sets at no worse evenness."""
    beaten = dict.fromkeys([*RIVALS, "RAPS even"], 0)
    anything, kinds = 0, dict[str, int]()
    for t in range(draws):
        draw = Draw.of(name, n_rows, t)
        choice, actual = draw.judged("even")
        conformal = draw.split("even")[1]
        rivals = {key: truth(draw.everyone, ts.ConformalClassifier.of(of).fit(conformal)) for key, of in RIVALS.items()}
        rivals["RAPS even"] = draw.judged("even", "raps")[1]
        better = [
            key for key, of in rivals.items() if of.size < 0.97 * actual.size and of.unevenness <= actual.unevenness
        ]
        anything += bool(better)
        kinds[choice.setting.kind] = kinds.get(choice.setting.kind, 0) + 1
        for key in better:
            beaten[key] += 1
    return f"even beaten in {anything} of {draws} ({beaten}); chosen {kinds}"


def small(name: str, n_rows: int, draws: int) -> str:
    """Against LAC at T = 1 on all rows."""
    ours, plain = [], []
    for t in range(draws):
        draw = Draw.of(name, n_rows, t)
        ours.append(draw.judged("small")[1].size)
        plain.append(truth(draw.everyone, ts.ConformalClassifier("lac", ALPHA).fit(draw.rows)).size)
    return f"small: {np.mean(ours) / np.mean(plain):.3f} of LAC, its spread {np.std(ours) / np.std(plain):.2f} times"


def offers(name: str, n_rows: int, draws: int) -> str:
    """What the screen says that protection costs, over what it then costs."""
    pairs, unsaid = [], 0
    for t in range(draws):
        draw = Draw.of(name, n_rows, t)
        offer = next((at for at in draw.choice("small").frontier if at.name == "prefer protect"), None)
        choice, actual = draw.judged("protect")
        unsaid += (offer is not None) != choice.met
        if offer is not None and choice.met:
            pairs.append((offer.size / actual.size, (offer.worst_tenth or 0) - actual.worst))
    if not pairs:
        return f"offers: none, {unsaid} of {draws} that disagree"
    ratio, apart = np.array(pairs).T
    return (
        f"offers: size said / given {ratio.mean():.2f} ({ratio.min():.2f} to {ratio.max():.2f}), worst tenth said - "
        f"given {apart.mean():+.3f} ({apart.min():+.3f} to {apart.max():+.3f}); {unsaid} of {draws} disagree"
    )


def seeds(name: str, n_rows: int, draws: int) -> str:
    """The same rows, split and chosen with other seeds."""
    ratios = []
    for t in range(max(draws // 5, 1)):
        draw, sizes = Draw.of(name, n_rows, t), dict[str, list[float]](auto=[], raps=[])
        for method, values in sizes.items():
            for seed in range(8):
                predictor = ts.TwoTemperaturePredictor(
                    method, prefer="even", calibration="temperature", random_state=seed
                )
                values.append(float(predictor.fit(draw.rows).set_sizes(draw.everyone).mean()))
        ratios.append([max(values) / min(values) for values in sizes.values()])
    auto, raps = np.mean(ratios, axis=0)
    worst = np.max(ratios, axis=0)
    return f"seeds: auto {auto:.2f} (at most {worst[0]:.2f}), RAPS {raps:.2f} (at most {worst[1]:.2f})"


def excess(name: str, _n_rows: int, draws: int) -> str:
    """TopCovGap at T-hat above that of the best fixed temperature, splits without replacement."""
    everyone, grid = population(name), np.array([0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 5])
    at_hat, fixed = [], []
    for t in range(draws):
        order, n = np.random.default_rng(t).permutation(len(everyone)), len(everyone) // 10
        calibration, conformal, rest = (everyone.take(some) for some in np.split(order, [n, 2 * n]))
        star = ts.TemperatureScaler().fit(calibration).temperature_
        recipe = ts.Recipe("raps", ALPHA, random_state=t)
        hat = choose(calibration, recipe, prefer="even", calibrated=star, n_conformal=n).temperature

        def gap(temperature: float, recipe: ts.Recipe = recipe, conformal: Any = conformal, rest: Any = rest) -> float:
            sets = ts.ConformalClassifier.of(recipe.change(temperature=float(temperature))).fit(conformal)
            return float(ts.metrics.top_coverage_gap(sets.predict_set(rest), rest.labels, alpha=ALPHA))

        at_hat.append(gap(hat))
        fixed.append([gap(temperature) for temperature in grid])
    best = np.mean(fixed, axis=0).min()
    return f"TopCovGap at T-hat {np.mean(at_hat):.4f}, best fixed T {best:.4f}, excess {np.mean(at_hat) - best:+.4f}"


KINDS = {
    "claims": claims, "intervals": intervals, "even": even, "small": small, "offers": offers, "seeds": seeds,
    "excess": excess,
}  # fmt: skip


def lines(kind: str, cells: list[tuple[str, int]], draws: int, prefer: str, method: str) -> Iterator[str]:
    """One line for each population and number of rows."""
    for name, n_rows in cells:
        options = {"prefer": prefer, "method": method} if kind == "claims" else {}
        yield f"{name}, {n_rows:,} rows: {KINDS[kind](name, n_rows, draws, **options)}"


def _run() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.choices", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("cells", nargs="+", help=f"NAME:ROWS; names: {', '.join([*FILES, 'glyphs', *GENERATED])}")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--prefer", default="protect", help="for claims")
    parser.add_argument("--method", default="auto", help="for claims")
    arguments = parser.parse_args()
    cells = [(name, int(rows)) for name, rows in (cell.split(":") for cell in arguments.cells)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows drawn with replacement repeat, and unmet claims are counted
        for line in lines(arguments.kind, cells, arguments.draws, arguments.prefer, arguments.method):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    _run()

"""What the sets of a predictor look like: sizes, labels that share sets, examples, movements."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Bools, Floats, Ints
from thermoset.conformal import ConformalClassifier
from thermoset.data import Groups, Logits
from thermoset.levels import exact_level
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.report.record import Examples, LabelPair, Movement, SetFacts

__all__ = ["label_pairs", "movements", "pick_examples", "set_facts", "sets_of_examples"]

_PAIRS = 30
_BLOCK = 4096  # rows of a product: its counts are whole numbers far below 2^24, exact in single precision


def set_facts(sets: Bools, labels: Ints, groups: Groups | None = None) -> SetFacts:
    """Sizes, mean size by class, and the most frequent pairs.

    >>> sets = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)
    >>> facts = set_facts(sets, labels=np.array([0, 2, 2]))
    >>> facts.sizes.tolist(), facts.class_sizes.tolist(), facts.pairs[0]
    ([0, 1, 1, 1], [2.0, nan, 2.0], LabelPair(first=0, second=1, count=2))
    """
    sizes = np.count_nonzero(sets, axis=1)
    n_classes = sets.shape[1]
    return SetFacts(
        sizes=np.bincount(sizes),
        class_sizes=_mean_sizes(sizes, labels, n_classes),
        group_sizes=None if groups is None else _mean_sizes(sizes, groups.codes, len(groups.names)),
        pairs=label_pairs(sets),
    )


def _mean_sizes(sizes: Ints, codes: Ints, count: int) -> Floats:
    """Mean size by class or group; NaN where there are no rows."""
    rows, total = np.bincount(codes, minlength=count), np.bincount(codes, weights=sizes, minlength=count)
    return np.asarray(np.divide(total, rows, out=np.full(count, np.nan), where=rows > 0))


def label_pairs(sets: Bools, most: int = _PAIRS) -> tuple[LabelPair, ...]:
    """The pairs of labels that most sets hold together, the most frequent first.

    >>> label_pairs(np.array([[True, False, True], [True, True, True]]), most=2)
    (LabelPair(first=0, second=2, count=2), LabelPair(first=0, second=1, count=1))
    """
    n_classes = sets.shape[1]
    together = np.zeros((n_classes, n_classes), dtype=np.int64)
    for start in range(0, len(sets), _BLOCK):
        block = sets[start : start + _BLOCK].astype(np.float32)
        together += (block.T @ block).astype(np.int64)
    first, second = np.triu_indices(n_classes, 1)
    counts = together[first, second]
    best = np.argsort(-counts, kind="stable")[:most]
    return tuple(LabelPair(int(first[i]), int(second[i]), int(counts[i])) for i in best if counts[i])


def movements(
    predictor: TwoTemperaturePredictor, models: Mapping[float, ConformalClassifier], compared: Logits
) -> tuple[Movement, ...]:
    """How many sets grow, stay and shrink from T = 1 to T*, and to T-hat; `models` by temperature.

    At T-hat the sets are the predictor's own, also where T = 1 or T* is the same temperature.
    """
    made, known = predictor.document_, predictor._inference
    rows, u = known.correct(compared), known.drawn_before(compared, None)

    def sizes_at(temperature: float) -> Ints:
        own = temperature == made.temperature_sets
        return predictor.set_sizes(compared) if own else models[temperature].set_sizes(rows, u=u)

    before = sizes_at(1.0)
    after = {name: (t, sizes_at(t)) for name, t in (("T*", made.temperature), ("T-hat", made.temperature_sets))}
    return tuple(
        Movement(
            name,
            temperature,
            grown=int(np.count_nonzero(sizes > before)),
            same=int(np.count_nonzero(sizes == before)),
            shrunk=int(np.count_nonzero(sizes < before)),
        )
        for name, (temperature, sizes) in after.items()
    )


def pick_examples(sizes: Ints, allowed: Ints, count: int) -> Ints:
    """Places of rows with small, middling and large sets, from `allowed` ones.

    >>> pick_examples(np.array([5, 1, 3, 2, 9]), np.array([0, 1, 2, 3]), count=3).tolist()
    [1, 3, 0]
    """
    order = allowed[np.argsort(sizes[allowed], kind="stable")]
    if len(order) <= count:
        return order
    return order[np.linspace(0, len(order) - 1, count).astype(np.int64)]


def sets_of_examples(
    predictor: TwoTemperaturePredictor,
    models: Mapping[float, ConformalClassifier],
    shown: Logits,
    rows: Ints,
    alphas: Sequence[float],
    images: Mapping[int, NDArray[np.generic]],
) -> Examples:
    """Sets of some rows under each model, by temperature, at each level; those of the predictor where it has them."""
    made, known = predictor.document_, predictor._inference
    answers, corrected, u = predictor.predict_arrays(shown), known.correct(shown), known.drawn_before(shown, None)
    swept = np.stack([model.predict_sets(corrected, alphas, u=u) for model in models.values()])
    own = list(alphas).index(float(exact_level(made.recipe.alpha)))
    place = {t: i for i, t in enumerate(models)}
    swept[place[made.temperature_sets], own] = answers.sets
    named = {"T = 1": 1.0, "T*": made.temperature, "T-hat": made.temperature_sets}
    return Examples(
        rows=rows,
        labels=shown.require_labels("a report"),
        predicted=answers.labels,
        confidence=answers.confidence,
        order=np.argsort(-corrected.logits, axis=1, kind="stable"),
        named={name: swept[place[t], own] for name, t in named.items()},
        swept=swept,
        images=tuple(images.get(int(row)) for row in rows),
    )

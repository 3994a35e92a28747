"""The recipe for sets: everything that decides how they are made, but for the rows.

Some scores and groupings learn shares or last ranks of the classes from labelled rows, which then set no threshold: so
the others keep the exact law.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Ints, pairs
from thermoset.bounds import checked_seed, checked_temperature
from thermoset.conformal.groupings import GroupingLike, group_thresholds, resolve_grouping, set_aside, text_of
from thermoset.data import Logits
from thermoset.data.top_k import tops_of
from thermoset.errors import CoverageWarning, FileFormatError, InputError
from thermoset.levels import Alpha, exact_level
from thermoset.quoting import listing, quoted
from thermoset.scores import SCORES, NeverEmpty, RankLimited, Score, ScoreLike, resolve

FALLBACKS = ("pooled", "strictest")
"""Fallbacks for a group without its own threshold: that of all rows together, or the largest of any group."""


_OWN = "own:"  # begins the name of a score that a user wrote
_KINDS = {type(score).name: type(score) for score in SCORES.values()}


class Method(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, dict=True):
    """A score: its name and parameters, and the last ranks of the labels of each class, where there are such.

    That of a custom score holds the score, and has a name that no file can hold.
    """

    name: str
    parameters: dict[str, bool | int | float | tuple[float, ...] | None]
    limits: tuple[int, ...] | None = None

    @classmethod
    def of(cls, score: Score) -> "Method":
        """Describe a score."""
        own, limits = (score.of, score.limits) if isinstance(score, RankLimited) else (score, None)
        named = _KINDS.get(own.name) is type(own)
        method = cls(
            name=own.name if named else f"{_OWN}{own.name}", parameters=asdict(own) if named else {}, limits=limits
        )
        method.__dict__["score"] = score
        return method

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.parameters.items()), self.limits))

    def __reduce__(self) -> tuple[Callable[[Score], "Method"], tuple[Score]]:
        return Method.of, (self.score,)

    @cached_property
    def score(self) -> Score:
        """The score itself."""
        if self.is_own:
            raise InputError(f"a custom score ({quoted(self.title)}) cannot be found by name. Use one of SCORES.")
        if self.name not in _KINDS:
            raise FileFormatError(f"unknown method {quoted(self.name)}; known: {', '.join(_KINDS)}.")
        try:
            own = _KINDS[self.name](**self.parameters)
        except TypeError:
            raise FileFormatError(f"method {quoted(self.name)} does not take {quoted(self.parameters)}.") from None
        return own if self.limits is None else RankLimited(own, self.limits)

    @property
    def uses_u(self) -> bool:
        """Whether the score has a u; unknown, and so taken for granted, of a custom score that is only named."""
        return ("score" not in self.__dict__ and self.is_own) or self.score.uses_u

    @property
    def is_own(self) -> bool:
        """Whether a user wrote the score: no file can name it then."""
        return self.name.startswith(_OWN)

    @property
    def title(self) -> str:
        """Its name for tables, with those numbers among its parameters that are not the usual ones."""
        if self.is_own:
            return self.name.removeprefix(_OWN)
        usual = asdict(_KINDS[self.name]()) if self.name in _KINDS else {}
        numbers = {key: value for key, value in self.parameters.items() if isinstance(value, int | float)}
        arguments = [f"{key}={value:g}" for key, value in numbers.items() if usual.get(key) != value]
        return self.name.upper() + (f"({', '.join(arguments)})" if arguments else "")


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How sets are made, as a document stores it; checked when it is written down or read.

    The fields are the parameters of `ConformalClassifier`, whatever their types were: the score as a `Method`, the
    level and the grouping as text. A score without u counts as randomised.

    >>> recipe = Recipe("lac", alpha=0.05, random_state=7)
    >>> recipe.title, recipe.seed  # LAC has no u to draw
    ('LAC, T = 1.00, alpha 0.05', None)
    >>> Recipe("aps", random_state=7).seed
    7
    """

    # What equals its default is left out of a file: never method, alpha and temperature, stored as other types.
    method: Method = "raps"  # type: ignore[assignment]
    alpha: str = 0.1  # type: ignore[assignment]
    randomized: bool = True
    allow_empty: bool = True
    grouping: str | None = None
    random_state: int = 0
    fallback: str | None = None
    temperature: float = 1

    if TYPE_CHECKING:

        def __init__(
            self,
            method: ScoreLike | Method = "raps",
            alpha: Alpha = 0.1,
            randomized: bool = True,
            allow_empty: bool = True,
            grouping: GroupingLike | None = None,
            random_state: int = 0,
            fallback: str | None = None,
            temperature: float = 1.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Refuse what makes no sets, before the work."""
        exact_level(self.alpha)
        grouping = text_of(self.grouping)
        fallback: Any = self.fallback
        if fallback is not None and (not isinstance(fallback, str) or fallback not in FALLBACKS):
            names = " or ".join(map(repr, FALLBACKS))
            raise InputError(f"fallback must be None, {names}; got {quoted(fallback)}. None rejects unknown groups.")
        if fallback is not None and grouping != "group":
            raise InputError(f"fallback is only for grouping='group'; got grouping={quoted(grouping)}. Omit fallback.")
        if self.allow_empty not in (True, False):
            raise InputError(f"allow_empty must be True or False; got {quoted(self.allow_empty)}.")
        method: Any = self.method
        if not isinstance(method, Method):
            method = Method.of(resolve(method))
        read = {
            "method": method,
            "alpha": str(self.alpha),
            "randomized": bool(self.randomized) or not method.uses_u,
            "allow_empty": bool(self.allow_empty),
            "grouping": grouping,
            "random_state": checked_seed(self.random_state),
            "temperature": checked_temperature(self.temperature),
        }
        for name, value in read.items():
            msgspec.structs.force_setattr(self, name, value)

    @classmethod
    def of(cls, estimator: Any, **other: Any) -> "Recipe":
        """The recipe in the parameters of an estimator that makes sets, with `other` fields in their place."""
        own = {name: getattr(estimator, name) for name in cls.__struct_fields__ if hasattr(estimator, name)}
        return cls(**own | other)

    @property
    def parameters(self) -> dict[str, Any]:
        """The same as arguments of `ConformalClassifier`."""
        return msgspec.structs.asdict(self) | {"method": self.score}

    def change(self, **fields: Any) -> "Recipe":
        """The recipe with other fields."""
        return msgspec.structs.replace(self, **fields)

    @property
    def title(self) -> str:
        """As tables name it."""
        return f"{self.kind}, T = {self.temperature:.2f}, alpha {self.alpha}"

    @property
    def kind(self) -> str:
        """The score and its unusual options, without temperature and level."""
        parts = [self.method.title]
        if not self.randomized:
            parts.append("deterministic")
        if (grouping := resolve_grouping(self.grouping)) is not None:
            parts.append(grouping.title)
        return ", ".join(parts)

    @property
    def score(self) -> Score:
        """The score that `method` names."""
        return self.method.score

    @property
    def needs_limits(self) -> bool:
        """Whether labels are to have a last rank for each class, and have none yet."""
        grouping = resolve_grouping(self.grouping)
        return grouping is not None and grouping.limits_ranks and not isinstance(self.score, RankLimited)

    @property
    def learns(self) -> bool:
        """Whether there is something to learn from rows that set no threshold; see `learn_from`."""
        return self.score.learns or self.needs_limits

    @property
    def set_score(self) -> Score:
        """The score that labels are compared by: where no set may be empty, top labels are below all."""
        if self.allow_empty:
            return self.score
        score = self.score
        return replace(score, of=NeverEmpty(score.of)) if isinstance(score, RankLimited) else NeverEmpty(score)

    @property
    def uses_u(self) -> bool:
        """Whether u matters."""
        return self.randomized and self.score.uses_u

    @property
    def seed(self) -> int | None:
        """The seed of u; None where u does not matter."""
        return self.random_state if self.uses_u else None

    @property
    def by_row(self) -> bool:
        """Whether each row has the threshold of its group."""
        grouping = resolve_grouping(self.grouping)
        return grouping is not None and grouping.of_rows

    @property
    def closed_form(self) -> bool:
        """Whether u can be integrated out of sets: one threshold for all, and sets that are prefixes."""
        return self.grouping is None and self.score.prefixes

    @property
    def exact(self) -> bool:
        """Whether coverage follows its law exactly; if not, it is at least that.

        Deterministic scores tie, and so do top labels that are below everything: with `allow_empty=False` the law is
        exact only where the threshold is a score and not -inf.
        """
        grouping = resolve_grouping(self.grouping)
        by_law = grouping is None or grouping.exact
        return by_law and self.allow_empty and self.randomized


_LEARNING = 1 / 5  # of the rows, where no others are at hand


class Learned(NamedTuple):
    """A recipe whose score is complete, and the rows that are left to set thresholds: all if None.

    `absent` are the classes without any of the `seen` rows that a prior was estimated from.
    """

    recipe: Recipe
    rows: Ints | None = None
    absent: Ints = np.empty(0, dtype=np.int64)
    seen: int = 0

    def announce(self, data: Logits, stacklevel: int = 3) -> tuple[Recipe, Ints | None]:
        """The recipe and the rows, with a warning that names the absent classes."""
        if self.absent.size:
            warnings.warn(
                f"{len(self.absent)} of {data.n_classes} classes have none of the {self.seen} rows that estimate the "
                f"prior, and each counts as half a row: {name_some(self.absent, data.classes)}. Pass PAS a prior, "
                "such as the class counts of the training rows.",
                CoverageWarning,
                stacklevel=stacklevel,
            )
        return self.recipe, self.rows


def learn_from_some(recipe: Recipe, data: Logits) -> Learned:
    """Learn from a seeded fifth of the rows; the others are left."""
    if not recipe.learns:
        return Learned(recipe)
    some, rest = set_aside(len(data), _LEARNING, recipe.random_state)
    if not len(some):
        raise InputError(
            f"{recipe.score.name!r} with grouping={recipe.grouping!r} sets a fifth of the rows aside to learn from, "
            f"which {len(data)} row(s) do not have. Add rows."
        )
    return learn_from(recipe, data.take(np.sort(some)))._replace(rows=rest)


def learn_from(recipe: Recipe, data: Logits) -> Learned:
    """Learn from rows that set no threshold."""
    labels, score = data.require_labels("fit"), recipe.score
    learned = Learned(recipe)
    if score.learns:
        absent = np.flatnonzero(np.bincount(labels, minlength=data.n_classes) == 0)
        score, learned = score.learn(labels, data.n_classes), learned._replace(absent=absent, seen=len(labels))
    if recipe.needs_limits:
        if tops_of(data) is not None:
            raise InputError(
                f"grouping={recipe.grouping!r} needs the ranks of all labels, but these rows hold only their largest "
                "logits. Use whole rows."
            )
        from thermoset.conformal.scoring import label_ranks  # noqa: PLC0415 - which knows recipes

        limits = rank_limits(label_ranks(data, labels), labels, data.n_classes, recipe.alpha)
        score = RankLimited(score, tuple(limits.tolist()))
    return learned._replace(recipe=recipe.change(method=score))


def rank_limits(ranks: Ints, labels: Ints, n_classes: int, alpha: Alpha) -> Ints:
    """The last rank of each class, (C,), from the ranks of its labels: the smallest k with m + 1 <= alpha (n + 1).

    Of the n rows of the class m are beyond k; the one row more is a margin, so that the top-k error is at most alpha on
    average. A class with too few rows for that has no limit.
    """
    limits = group_thresholds(pairs(ranks, 0.0), labels, n_classes, [alpha])
    return np.asarray(np.minimum(limits.real[0], n_classes).astype(np.int64))


def name_some(classes: Ints, names: Sequence[str] | None, counts: Ints | None = None) -> str:
    """The first few classes by name or number, with the rows they have, if those are given."""
    named = [repr(names[c]) if names else str(c) for c in classes.tolist()]
    if counts is not None:
        rows = counts[classes].tolist()
        named = [f"{name} ({n} row{'' if n == 1 else 's'})" for name, n in zip(named, rows, strict=True)]
    return listing(named)


def user_labels(classes: tuple[str, ...] | None, n_classes: int) -> NDArray[Any]:
    """The names of the classes for users, in the order of the columns."""
    return np.arange(n_classes) if classes is None else np.array(classes)


def labels_in(sets: NDArray[np.bool_], labels: NDArray[Any]) -> list[NDArray[Any]]:
    """The labels in each row's set, in the order of the columns."""
    rows, columns = np.divmod(np.flatnonzero(sets), sets.shape[1])  # in two dimensions NumPy takes longer
    return np.split(labels[columns], np.searchsorted(rows, np.arange(1, len(sets)))) if len(sets) else []

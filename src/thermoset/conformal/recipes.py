"""The recipe for sets: everything that decides how they are made, but for the temperature and the rows."""

from dataclasses import dataclass, fields, replace
from typing import Any

from thermoset.bounds import checked_seed
from thermoset.conformal.groupings import GroupingLike, resolve_grouping, text_of
from thermoset.conformal.row_groups import check_fallback
from thermoset.core.formulas import Law
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.rank_limits import RankLimited
from thermoset.core.scores import NeverEmpty, Score, ScoreLike, resolve
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """How sets are made; checked when it is written down. The fields are parameters of `ConformalClassifier`.

    >>> recipe = Recipe("lac", alpha=0.05, random_state=7)
    >>> recipe.drawn, recipe.seed  # LAC has no u to draw
    (False, None)
    >>> Recipe("aps", random_state=7).seed
    7
    """

    method: ScoreLike = "raps"
    alpha: Alpha = 0.1
    randomized: bool = True
    allow_empty: bool = True
    grouping: GroupingLike | None = None
    random_state: int = 0
    fallback: str | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sets, before the work; what is kept is what was read, and groupings as text."""
        exact_level(self.alpha)
        check_fallback(self.fallback, text_of(self.grouping))
        if self.allow_empty not in (True, False):
            raise InputError(f"allow_empty must be True or False; got {quoted(self.allow_empty)}.")
        read = {
            "method": resolve(self.method),
            "randomized": bool(self.randomized),
            "allow_empty": bool(self.allow_empty),
            "grouping": text_of(self.grouping),
            "random_state": checked_seed(self.random_state),
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, estimator: Any) -> "Recipe":
        """The recipe in the parameters of an estimator that makes sets."""
        return cls(**{field.name: getattr(estimator, field.name) for field in fields(cls)})

    @property
    def parameters(self) -> dict[str, Any]:
        """The same as arguments of an estimator."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def score(self) -> Score:
        """The score that `method` names."""
        return resolve(self.method)

    @property
    def needs_limits(self) -> bool:
        """Whether labels are to have a last rank for each class, and have none yet."""
        grouping = resolve_grouping(self.grouping)
        return grouping is not None and grouping.limits_ranks and not isinstance(self.score, RankLimited)

    @property
    def learns(self) -> bool:
        """Whether there is something to learn from rows that set no threshold; see `learning`.

        >>> Recipe("pas").learns, Recipe("raps", grouping="rc3p").learns, Recipe("raps").learns
        (True, True, False)
        """
        return self.score.learns or self.needs_limits

    @property
    def set_score(self) -> Score:
        """What labels are compared by, in fit as in prediction: where no set may be empty, top labels are below all.

        >>> Recipe("aps").set_score, Recipe("aps", allow_empty=False).set_score
        (APS(), NeverEmpty(of=APS()))
        """
        if self.allow_empty:
            return self.score
        score = self.score
        return replace(score, of=NeverEmpty(score.of)) if isinstance(score, RankLimited) else NeverEmpty(score)

    @property
    def drawn(self) -> bool:
        """Whether u matters."""
        return self.randomized and self.score.uses_u

    @property
    def seed(self) -> int | None:
        """The seed of u; None where u does not matter."""
        return self.random_state if self.drawn else None

    @property
    def law(self) -> Law:
        """The score as kernels take it where u is integrated out; see `closed_form`."""
        return Law(self.set_score.formula, self.drawn)

    @property
    def by_row(self) -> bool:
        """Whether each row has the threshold of its group.

        >>> Recipe(grouping="group").by_row, Recipe(grouping="class").by_row
        (True, False)
        """
        grouping = resolve_grouping(self.grouping)
        return grouping is not None and grouping.of_rows

    @property
    def closed_form(self) -> bool:
        """Whether u can be integrated out of what sets hold: one threshold for all, and sets that are prefixes.

        >>> Recipe("aps").closed_form, Recipe("aps", grouping="class").closed_form, Recipe("pas").closed_form
        (True, False, False)
        """
        return self.grouping is None and self.score.prefixes

    @property
    def exact(self) -> bool:
        """Whether coverage follows its law exactly; if not, it is at least that.

        Deterministic scores tie, and so do top labels that are below everything: with `allow_empty=False` the law is
        exact only where the threshold is a score and not -inf, which depends on the accuracy. Interpolated thresholds
        promise less than any law.

        >>> Recipe("lac").exact, Recipe("aps", randomized=False).exact, Recipe("lac", allow_empty=False).exact
        (True, False, False)
        """
        grouping = resolve_grouping(self.grouping)
        by_law = grouping is None or grouping.exact
        return by_law and self.allow_empty and (self.randomized or not self.score.uses_u)

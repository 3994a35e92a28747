"""A score as a file names it: in a predictor's document, and in the record of a choice."""

from collections.abc import Callable
from dataclasses import asdict
from functools import cached_property

import msgspec

from thermoset.errors import FileFormatError, InputError
from thermoset.quoting import quoted
from thermoset.scores import SCORES, RankLimited, Score

_OWN = "own:"  # begins the name of a score that a user wrote
_KINDS = {type(score).name: type(score) for score in SCORES.values()}


class Method(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, dict=True):
    """A score: its name, what it was made with, and the last ranks of the labels of each class, where there are such.

    That of a score of one's own holds the score, and has a name that no file can hold.
    """

    name: str
    parameters: dict[str, bool | int | float | tuple[float, ...] | None]
    limits: tuple[int, ...] | None = None

    @classmethod
    def of(cls, score: Score) -> "Method":
        """Describe a score.

        >>> from thermoset.scores import SAPS
        >>> Method.of(SAPS(weight=0.1))
        Method(name='saps', parameters={'weight': 0.1}, limits=None)
        """
        own, limits = (score.of, score.limits) if isinstance(score, RankLimited) else (score, None)
        named = _KINDS.get(own.name) is type(own)
        found = cls(
            name=own.name if named else f"{_OWN}{own.name}", parameters=asdict(own) if named else {}, limits=limits
        )
        found.__dict__["score"] = score
        return found

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.parameters.items()), self.limits))

    def __reduce__(self) -> tuple[Callable[[Score], "Method"], tuple[Score]]:
        return Method.of, (self.score,)

    @cached_property
    def score(self) -> Score:
        """The score itself.

        >>> Method(name="raps", parameters={"penalty": 0.01, "k_reg": 5}).score
        RAPS(penalty=0.01, k_reg=5)
        """
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
        """What tables call it: its name, and the numbers among its parameters that are not the usual ones.

        >>> from thermoset.scores import RAPS
        >>> Method.of(RAPS()).title, Method.of(RAPS(penalty=0.1, k_reg=2)).title
        ('RAPS', 'RAPS(penalty=0.1, k_reg=2)')
        """
        if self.is_own:
            return self.name.removeprefix(_OWN)
        usual = asdict(_KINDS[self.name]()) if self.name in _KINDS else {}
        numbers = {key: value for key, value in self.parameters.items() if isinstance(value, int | float)}
        given = [f"{key}={value:g}" for key, value in numbers.items() if usual.get(key) != value]
        return self.name.upper() + (f"({', '.join(given)})" if given else "")

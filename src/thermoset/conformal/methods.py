"""A score as a file names it: in a predictor's document, and in the record of a choice."""

from dataclasses import asdict

import msgspec

from thermoset.errors import FileFormatError, InputError
from thermoset.quoting import quoted
from thermoset.scores import SCORES, RankLimited, Score

__all__ = ["Method"]

_OWN = "own:"  # begins the name of a score that a user wrote
_KINDS = {type(score).name: type(score) for score in SCORES.values()}


class Method(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A score: its name and what it was made with."""

    name: str
    parameters: dict[str, bool | int | float | tuple[float, ...] | None]

    @classmethod
    def of(cls, score: Score) -> "Method":
        """Describe a score; one that is not thermoset's own gets a name that no file can hold.

        Rank limits are no part of it: they belong to the thresholds.

        >>> from thermoset.scores import SAPS
        >>> Method.of(SAPS(weight=0.1))
        Method(name='saps', parameters={'weight': 0.1})
        """
        own = score.of if isinstance(score, RankLimited) else score
        if _KINDS.get(own.name) is not type(own):
            return cls(name=f"{_OWN}{own.name}", parameters={})
        return cls(name=own.name, parameters=asdict(own))

    def score(self) -> Score:
        """The score itself.

        >>> Method(name="raps", parameters={"penalty": 0.01, "k_reg": 5}).score()
        RAPS(penalty=0.01, k_reg=5)
        """
        if self.is_own:
            raise InputError(f"a custom score ({quoted(self.title)}) cannot be found by name. Use one of SCORES.")
        if self.name not in _KINDS:
            raise FileFormatError(f"unknown method {quoted(self.name)}; known: {', '.join(_KINDS)}.")
        try:
            return _KINDS[self.name](**self.parameters)
        except TypeError:
            raise FileFormatError(f"method {quoted(self.name)} does not take {quoted(self.parameters)}.") from None

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

"""Errors and warnings about a user's input.

Every message is one line: what was expected, what was found, what to do.
"""

from typing import Self


class InputError(ValueError):
    """Data or a parameter that cannot be used as it is.

    Attributes
    ----------
    row : int, or None
        The row that the error is about, counted from 0, if it is about one.
    name : str, or None
        What holds that row: "logits", "labels", "groups". The message then begins with both: `labels[3]`.

    >>> error = InputError("is 7; must be in 0..2.", row=3, name="labels")
    >>> print(error, "|", error.at(103), "|", error.about("val.npz"))
    labels[3] is 7; must be in 0..2. | labels[103] is 7; must be in 0..2. | val.npz: labels[3] is 7; must be in 0..2.
    """

    def __init__(
        self,
        message: str = "",
        *,
        row: int | None = None,
        name: str | None = None,
        column: int | None = None,
        before: str = "",
    ) -> None:
        place = "" if row is None else f"{name}[{row}] " if column is None else f"{name}[{row}, {column}] "
        super().__init__(f"{before}{place}{message}")
        self.message, self.row, self.name, self.column, self.before = message, row, name, column, before

    def at(self, row: int, more: str = "") -> Self:
        """The same about another row: one of a file, where `row` counted those of a block."""
        return self._again(self.message + more, row, self.before)

    def about(self, what: str) -> Self:
        """The same with what it is about before it."""
        return self._again(self.message, self.row, f"{what}: {self.before}")

    def _again(self, message: str, row: int | None, before: str) -> Self:
        return type(self)(message, row=row, name=self.name, column=self.column, before=before)


class FileFormatError(InputError):
    """A file that is truncated, damaged, of an unknown kind, or lacks the required arrays."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says which extra installs it."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> "MissingExtraError":
        """Say that `purpose` needs `package`, which `extra` installs."""
        return cls(f"{purpose} needs {package}, which is not installed. Run: {install_command(extra)}")


def install_command(extra: str) -> str:
    """What installs the packages of an extra, wherever thermoset itself came from: a clone, a wheel, an index.

    >>> install_command("hdf5")
    "pip install 'h5py>=3.11'"
    """
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - rarely needed

    try:
        declared = [line.partition(";") for line in requires("thermoset") or ()]
    except PackageNotFoundError:
        declared = []
    packages = [name.strip() for name, _, when in declared if f"'{extra}'" in when.replace('"', "'")]
    wanted = packages or [f".[{extra}]"]
    return " ".join(["pip install", *(f"'{name}'" for name in wanted)])


class CoverageWarning(UserWarning):
    """Coverage may not be what you meant: too few rows, a class that is hardly covered, or alpha above a half."""


class CalibrationWarning(UserWarning):
    """A class correction was learned from rows that hardly say how often classes occur."""


class BoundWarning(UserWarning):
    """A fitted temperature stopped at a bound of its search interval."""


class BudgetWarning(UserWarning):
    """No temperature meets the requested budget; the closest was chosen."""


class ZeroProbabilityWarning(UserWarning):
    """Some rows have a true label of probability zero (a logit of -inf): misses that no temperature can change."""


class ProbabilitiesAsLogitsWarning(UserWarning):
    """Rows that were given as logits look like probabilities."""


class SuspiciousRowsWarning(UserWarning):
    """Rows that do not look like held-out rows of a working classifier: classes in another order, training rows."""


class RepeatedRowsWarning(UserWarning):
    """Some rows, with their labels, occur several times among rows that set a threshold; the law counts them once."""


class DataLeakageWarning(UserWarning):
    """A few supposedly fresh rows have the same logits as rows that a predictor was made from."""


class CacheWarning(UserWarning):
    """Compiled code is damaged or cannot be cached; it is compiled again, which only costs time."""

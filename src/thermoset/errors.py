"""What can go wrong with what a user gives us.

Every message is one line: what was wanted, what came, what to do.
"""


class InputError(ValueError):
    """Data or a parameter that cannot be used as it is."""


class FileFormatError(InputError):
    """A file that is truncated, hostile, of an unknown kind, or without the arrays we need."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> "MissingExtraError":
        """Say that `purpose` needs `package`, which `extra` installs."""
        return cls(f"{purpose} needs {package}, which is not installed. Run: pip install 'thermoset[{extra}]'")


class CoverageWarning(UserWarning):
    """Coverage that may not be what was meant: too few rows decide it, or alpha asks for less than a half."""


class BoundWarning(UserWarning):
    """A fitted temperature stopped at a bound of its search interval."""


class BudgetWarning(UserWarning):
    """No temperature keeps the budget that was asked for; the closest was taken."""


class ZeroProbabilityWarning(UserWarning):
    """A classifier gives probability zero to the true label of so many rows that sets must hold such labels."""


class ReusedRowsWarning(UserWarning):
    """A few rows that were thought to be fresh have the logits of rows that a predictor was made from."""


class CacheWarning(UserWarning):
    """Compiled code was damaged or cannot be kept; it is compiled again, which costs time and nothing else."""

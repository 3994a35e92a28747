"""Errors and warnings about a user's input.

Every message is one line: what was expected, what was found, what to do.
"""


class InputError(ValueError):
    """Data or a parameter that cannot be used as it is."""


class FileFormatError(InputError):
    """A file that is truncated, malicious, of an unknown kind, or lacks the required arrays."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says which extra installs it."""

    @classmethod
    def of(cls, package: str, extra: str, purpose: str) -> "MissingExtraError":
        """Say that `purpose` needs `package`, which `extra` installs."""
        return cls(f"{purpose} needs {package}, which is not installed. Run: pip install 'thermoset[{extra}]'")


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


class DataLeakageWarning(UserWarning):
    """A few supposedly fresh rows have the same logits as rows that a predictor was made from."""


class CacheWarning(UserWarning):
    """Compiled code is damaged or cannot be cached; it is compiled again, which only costs time."""

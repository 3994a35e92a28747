"""Rows of logits with what belongs to them: `Logits` in memory, `StoredLogits` in files, `TopLogits` cut short.

What is learned or predicted takes any of the three. They are validated on creation, and nowhere else.
"""

from thermoset.data.groups import Groups
from thermoset.data.logits import Logits, as_logits, checked_logits, with_columns
from thermoset.data.splits import split_indices

__all__ = ["Groups", "Logits", "as_logits", "checked_logits", "split_indices", "with_columns"]

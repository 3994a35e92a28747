"""What an engine must be able to do to run a predictor.

Arrays are float64 (n, C), (n, K) or (n, 1), booleans of the same shapes, and 64-bit keys (n, 1), with the operators
+ - * / == < <= > >= & | ~ of Python. The axis is always the second one. Keys are held as int64, because few engines do
arithmetic on uint64; the bits are the same.
"""

from typing import Any, NamedTuple, Protocol

__all__ = ["Array", "Operations", "Ranking"]

Array = Any
"""An array of the engine, or a symbol that stands for one."""


class Ranking(NamedTuple):
    """Logits of each row from the largest down, (n, K), and their labels; of equal logits the lower label comes first.

    whole : whether all C are there.
    """

    logits: Array
    labels: Array
    whole: bool


class Operations(Protocol):
    """The operations beside Python's operators."""

    def float64(self, array: Array) -> Array:
        """The same numbers as float64: exact from any narrower type."""

    def rank(self, logits: Array, *, whole: bool) -> Ranking:
        """The labels of each row from the largest logit down; not all of them need be there unless `whole`."""

    def largest(self, logits: Array, k: int) -> Array:
        """The k largest logits of each row from the largest down, (n, k)."""

    def columns(self, array: Array, first: int, stop: int) -> Array:
        """Some columns."""

    def top_label(self, logits: Array) -> Array:
        """The label of the largest logit, (n,); the lowest such label where several are equal."""

    def softmax(self, log_weights: Array) -> Array:
        """Exponentials of each row, divided by their sum."""

    def exp(self, array: Array) -> Array:
        """e**x."""

    def log(self, array: Array) -> Array:
        """The natural logarithm."""

    def floor(self, array: Array) -> Array:
        """The largest whole number that is not larger."""

    def at_most(self, array: Array, bound: float) -> Array:
        """The smaller of each number and the bound."""

    def at_least(self, array: Array, bound: float) -> Array:
        """The larger of each number and the bound."""

    def where(self, condition: Array, yes: Array, no: Array) -> Array:
        """Numbers from one array or the other; a plain number stands for an array of it."""

    def maximum(self, array: Array) -> Array:
        """The largest of each row, (n, 1)."""

    def total(self, array: Array) -> Array:
        """The sum of each row, (n, 1)."""

    def total_beyond(self, array: Array, ranking: Ranking) -> Array:
        """The sum (n, 1) over the labels of an array (n, C) that a ranking left out."""

    def sums_before(self, array: Array) -> Array:
        """The sum of what stands before each place of its row."""

    def sums_after(self, array: Array) -> Array:
        """The sum of what stands behind each place of its row, added up from the end."""

    def by_rank(self, array: Array, ranking: Ranking) -> Array:
        """An array (1, C) by rank, cut to the K ranks of a ranking."""

    def pick(self, by_class: Array, labels: Array) -> Array:
        """Entries of an array (C,) for labels (n, K), or of an array by group for groups (n, 1)."""

    def in_label_order(self, inside: Array, ranking: Ranking, logits: Array) -> Array:
        """Booleans (n, K) in the order of a ranking as booleans (n, C) in that of labels; False for those left out."""

    def count(self, inside: Array) -> Array:
        """How many are true in each row, (n,), as int64."""

    def is_label(self, labels: Array, n_classes: int) -> Array:
        """Booleans (n, C): whether the column is the label (n,) of its row."""

    def as_row(self, column: Array) -> Array:
        """An array (n, 1) as (n,)."""

    def key_constant(self, number: int) -> Array:
        """One key, from 0 to 2**64 - 1."""

    def key(self, whole: Array) -> Array:
        """Whole numbers from 0 to 2**53 as 64-bit keys."""

    def xor(self, one: Array, other: Array) -> Array:
        """Bitwise exclusive or of keys."""

    def shift(self, key: Array, bits: int) -> Array:
        """A key shifted right; zeros come in."""

    def number(self, key: Array) -> Array:
        """A key below 2**53 as float64."""

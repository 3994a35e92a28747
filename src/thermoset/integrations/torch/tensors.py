"""The operations of a predictor's program on PyTorch tensors.

Sums and products of keys wrap around as those of uint64 do; shifts to the right bring in the sign, which is masked.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from thermoset.integrations.program.draws import signed
from thermoset.integrations.program.operations import Ranking

__all__ = ["DEPTH", "TensorOperations"]

DEPTH = 64
"""Ranks that are looked at first: most sets are smaller, and to sort a row of 1,000 takes five times as long."""


class TensorOperations:
    """Operations on tensors; see `program.operations.Operations`.

    `depth` is how many ranks of a row are looked at, None for all; `open_rows` (n,) then says which sets may reach
    further down.
    """

    def __init__(self, depth: int | None = None) -> None:
        self._depth = depth
        self.open_rows: Tensor | None = None

    def float64(self, array: Tensor) -> Tensor:
        return array.to(torch.float64)

    def rank(self, logits: Tensor, *, whole: bool) -> Ranking:
        if whole or self._depth is None:
            values, labels = torch.sort(logits, dim=1, descending=True, stable=True)
            return Ranking(values, labels, whole=True)
        values, labels = torch.topk(logits, self._depth, dim=1)
        if bool((values[:, 1:] == values[:, :-1]).any()):  # of equal logits any may come first
            labels = labels.sort(dim=1).values
            values, order = torch.sort(logits.gather(1, labels), dim=1, descending=True, stable=True)
            labels = labels.gather(1, order)
        return Ranking(values, labels, whole=False)

    def by_rank(self, array: Tensor, ranking: Ranking) -> Tensor:
        return array if ranking.whole else array[:, : ranking.labels.shape[1]]

    def largest(self, logits: Tensor, k: int) -> Tensor:
        return torch.topk(logits, k, dim=1).values

    def columns(self, array: Tensor, first: int, stop: int) -> Tensor:
        return array[:, first:stop]

    def top_label(self, logits: Tensor) -> Tensor:
        return torch.argmax(logits, dim=1)

    def softmax(self, log_weights: Tensor) -> Tensor:
        return torch.softmax(log_weights, dim=1)

    def exp(self, array: Tensor) -> Tensor:
        return torch.exp(array)

    def log(self, array: Tensor) -> Tensor:
        return torch.log(array)

    def floor(self, array: Tensor) -> Tensor:
        return torch.floor(array)

    def at_most(self, array: Tensor, bound: float) -> Tensor:
        return torch.clamp(array, max=bound)

    def at_least(self, array: Tensor, bound: float) -> Tensor:
        return torch.clamp(array, min=bound)

    def where(self, condition: Tensor, yes: Tensor | float, no: Tensor | float) -> Tensor:
        return torch.where(condition, yes, no)

    def maximum(self, array: Tensor) -> Tensor:
        return torch.amax(array, dim=1, keepdim=True)

    def total(self, array: Tensor) -> Tensor:
        return torch.sum(array, dim=1, keepdim=True)

    def total_beyond(self, array: Tensor, ranking: Ranking) -> Tensor:
        return self.total(array.scatter(1, ranking.labels, 0.0))

    def sums_before(self, array: Tensor) -> Tensor:
        return pad(torch.cumsum(array[:, :-1], dim=1), (1, 0))

    def sums_after(self, array: Tensor) -> Tensor:
        return pad(torch.cumsum(array[:, 1:].flip(1), dim=1).flip(1), (0, 1))

    def pick(self, by_class: Tensor, labels: Tensor) -> Tensor:
        return by_class[labels]

    def in_label_order(self, inside: Tensor, ranking: Ranking, logits: Tensor) -> Tensor:
        if not ranking.whole:
            # A set that holds the last logit looked at, or one like it, may hold others further down.
            reaching = (inside & (ranking.logits == ranking.logits[:, -1:])).any(dim=1)
            self.open_rows = reaching if self.open_rows is None else self.open_rows | reaching
        return torch.zeros_like(logits, dtype=torch.bool).scatter(1, ranking.labels, inside)

    def count(self, inside: Tensor) -> Tensor:
        return torch.sum(inside, dim=1, dtype=torch.int64)

    def is_label(self, labels: Tensor, n_classes: int) -> Tensor:
        return torch.arange(n_classes, device=labels.device) == labels[:, None]

    def as_row(self, column: Tensor) -> Tensor:
        return column[:, 0]

    def key_constant(self, number: int) -> int:
        return signed(number)

    def key(self, whole: Tensor) -> Tensor:
        return whole.to(torch.int64)

    def xor(self, one: Tensor | int, other: Tensor | int) -> Tensor:
        return one ^ other  # one of the two is a tensor

    def shift(self, key: Tensor, bits: int) -> Tensor:
        return (key >> bits) & ((1 << (64 - bits)) - 1)

    def number(self, key: Tensor) -> Tensor:
        return key.to(torch.float64)

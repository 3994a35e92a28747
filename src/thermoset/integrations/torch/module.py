"""A fitted predictor as a PyTorch module: the last layer of a model that returns sets."""

import io
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils import _pytree

from thermoset.errors import InputError
from thermoset.integrations.program import Program, group_codes
from thermoset.integrations.program.operations import Ranking, as_int64, rank_rows
from thermoset.integrations.program.predictor import DecidedOutputs, Outputs, in_blocks
from thermoset.io.files import FilePath, as_path, errors_about, write_whole
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.quoting import quoted

__all__ = ["Answers", "DecidedAnswers", "SetModule", "group_codes", "save_torch", "to_torch"]

Answers = Outputs
DecidedAnswers = DecidedOutputs
"""What the module returns, as tensors."""

# `torch.export.save` writes the structure of what a module returns by this name.
for _kind in (Outputs, DecidedOutputs):
    _pytree._register_namedtuple(_kind, serialized_type_name=f"thermoset.integrations.torch.{_kind.__name__}")


class SetModule(nn.Module):  # type: ignore[misc]
    """Label, confidence, probabilities and sets from logits; `to_torch` makes one.

    Everything that was learned is in buffers. `to(device)` moves them; they stay float64 when the model around the
    module is cast to half precision, because thresholds need every digit. Logits of any floating type are widened to
    float64, which is exact. A row with NaN or +inf, or with all classes masked, gets the label -1, NaN probabilities
    and an empty set. A predictor that was fitted on probabilities takes their logarithms.

    A predictor with grouping="group" needs the group of each row: `groups`, int64 (n,), indices into `group_names`, as
    `group_codes` returns them. Any other number, such as -1, means a group without its own threshold: its rows get the
    fallback's, or all labels if the predictor has no fallback.
    """

    def __init__(self, predictor: TwoTemperaturePredictor) -> None:
        super().__init__()
        self._program = Program(predictor)
        self.classes = predictor.document_.classes
        self.group_names = predictor.document_.group_names
        self._title = predictor.document_.recipe.title
        for name, array in self._program.constants.items():
            self.register_buffer(name, torch.from_numpy(np.array(array)))

    def forward(
        self, logits: Tensor, u: Tensor | None = None, groups: Tensor | None = None
    ) -> Outputs | DecidedOutputs:
        """Answer for logits (n, C); `u` (n,), numbers in [0, 1], replaces what the seed and the row give.

        `groups` (n,): which of `group_names` each row belongs to, where thresholds are by group.
        """
        if logits.ndim != 2 or logits.shape[1] != self._program.n_classes:
            raise InputError(
                f"logits must have shape (n, {self._program.n_classes}): one column per class that the predictor was "
                f"fitted on, in the same order; got {tuple(logits.shape)}."
            )
        draws, of_rows = None if u is None else u.to(torch.float64).reshape(-1, 1), self._places(logits, groups)
        # What depends on the numbers, or on where they are, a trace cannot follow.
        traced = torch.compiler.is_compiling() or torch.compiler.is_exporting() or torch.jit.is_tracing()
        if traced or logits.device.type != "cpu":
            return self._run(TensorOperations(), logits, draws, of_rows)
        return in_blocks(partial(self._run, TensorOperations(eager=True)), torch.cat, logits, draws, of_rows)

    def _places(self, logits: Tensor, groups: Tensor | None) -> Tensor | None:
        """The groups of rows as the program takes them, (n, 1)."""
        if self.group_names is None:
            return None
        if groups is None or groups.ndim != 1 or groups.shape[0] != logits.shape[0]:  # len() would fix n in a trace
            got = "none" if groups is None else f"shape {tuple(groups.shape)}"
            raise InputError(
                f"groups must have shape ({len(logits)},), the index of each row's group in group_names; got {got}. "
                "Use group_codes to make them."
            )
        return groups.to(torch.int64).reshape(-1, 1)

    def _run(
        self, ops: "TensorOperations", logits: Tensor, u: Tensor | None, groups: Tensor | None
    ) -> Outputs | DecidedOutputs:
        return self._program.run(ops, dict(self.named_buffers()), logits, u, groups)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SetModule":
        """Move the buffers as asked, and leave their type alone."""

        def move(held: Tensor) -> Tensor:
            changed = fn(held)
            return changed if changed.dtype == held.dtype else held.to(changed.device)

        super()._apply(move, recurse)
        return self

    def extra_repr(self) -> str:
        """What it does, in short."""
        return f"n_classes={self._program.n_classes}, {self._title}"


def to_torch(predictor: TwoTemperaturePredictor) -> SetModule:
    """The predictor as a PyTorch module that gives the same sets.

    It can follow a model, `nn.Sequential(model, to_torch(predictor))`, and works with `torch.compile` and
    `torch.export`. A row's result does not depend on its batch.

    Examples
    --------
    >>> import numpy as np, thermoset as ts, torch
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=2000)
    >>> logits = rng.normal(size=(2000, 5)) + 2 * np.eye(5)[labels]
    >>> predictor = ts.TwoTemperaturePredictor("aps", alpha=0.1).fit(logits, labels)
    >>> answers = to_torch(predictor)(torch.from_numpy(logits[:100]))
    >>> bool((answers.sets.numpy() == predictor.predict_set(logits[:100])).all())
    True
    """
    return SetModule(predictor)


class _Named(nn.Module):  # type: ignore[misc]
    """A module whose answers are a dict: what a file can hold without a class of ours."""

    def __init__(self, module: SetModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, logits: Tensor, groups: Tensor | None = None) -> dict[str, Tensor]:
        """Answer for logits (n, C), of rows of groups (n,) where thresholds are by group."""
        outputs: dict[str, Tensor] = self.module(logits, groups=groups)._asdict()
        return outputs


def save_torch(predictor: TwoTemperaturePredictor, path: FilePath, *, dtype: str = "float32") -> None:
    """Write the predictor as a program of `torch.export`, which runs without thermoset.

    `torch.export.load(path).module()(logits)` gives a dict of tensors by the names of `Answers`, for logits of the one
    type that `dtype` names; with grouping="group" it is called as module(logits, groups), see `SetModule`. The file is
    written completely or not at all.
    """
    target, answering = as_path(path), to_torch(predictor)
    by_group = answering.group_names is not None
    module = _Named(answering).eval()
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
        raise InputError(f"dtype must be a floating type of torch such as 'float32'; got {quoted(dtype)}.")
    example = torch.zeros(2, predictor.document_.n_classes, dtype=kind)
    rows = {0: torch.export.Dim("n")}
    arguments = (example, torch.zeros(2, dtype=torch.int64)) if by_group else (example,)
    shapes = {"logits": rows, "groups": rows} if by_group else {"logits": rows}
    exported = torch.export.export(module, arguments, dynamic_shapes=shapes)
    content = io.BytesIO()
    torch.export.save(exported, content)
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(content.getbuffer())


class TensorOperations:
    """Operations on tensors; see `program.operations.Operations`. `eager`: on the CPU, and nobody traces them."""

    def __init__(self, *, eager: bool = False) -> None:
        self._eager = eager

    float64 = staticmethod(lambda array: array.to(torch.float64))

    def rank(self, logits: Tensor) -> Ranking:
        if self._eager:
            return Ranking(*map(torch.from_numpy, rank_rows(logits.detach().numpy())))
        return Ranking(*torch.sort(logits, dim=1, descending=True, stable=True))

    largest = staticmethod(lambda logits, k: torch.topk(logits, k, dim=1).values)
    columns = staticmethod(lambda array, first, stop: array[:, first:stop])
    top_label = staticmethod(lambda logits: torch.argmax(logits, dim=1))
    softmax = staticmethod(lambda log_weights: torch.softmax(log_weights, dim=1))
    exp, log, floor, where = map(staticmethod, (torch.exp, torch.log, torch.floor, torch.where))
    at_most = staticmethod(lambda array, bound: torch.clamp(array, max=bound))
    at_least = staticmethod(lambda array, bound: torch.clamp(array, min=bound))
    maximum = staticmethod(lambda array: torch.amax(array, dim=1, keepdim=True))
    total = staticmethod(lambda array: torch.sum(array, dim=1, keepdim=True))
    sums_before = staticmethod(lambda array: pad(torch.cumsum(array[:, :-1], dim=1), (1, 0)))
    sums_after = staticmethod(lambda array: pad(torch.cumsum(array[:, 1:].flip(1), dim=1).flip(1), (0, 1)))
    pick = staticmethod(lambda by_class, labels: by_class[labels])

    in_label_order = staticmethod(lambda inside, ranking: torch.empty_like(inside).scatter(1, ranking.labels, inside))
    count = staticmethod(lambda inside: torch.sum(inside, dim=1, dtype=torch.int64))
    is_label = staticmethod(lambda labels, n: torch.arange(n, device=labels.device) == labels[:, None])
    as_row = staticmethod(lambda column: column[:, 0])
    key_constant = staticmethod(as_int64)
    key = staticmethod(lambda whole: whole.to(torch.int64))
    xor = staticmethod(lambda one, other: one ^ other)  # one of the two is a tensor
    shift = staticmethod(lambda key, bits: (key >> bits) & ((1 << (64 - bits)) - 1))
    number = staticmethod(lambda key: key.to(torch.float64))

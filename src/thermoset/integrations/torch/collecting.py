"""Logits from a PyTorch model: any module, any iterable of batches."""

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits, checked_logits
from thermoset.data.guards import warn_of_probabilities
from thermoset.data.labels import column_indices
from thermoset.data.reading import LABELS
from thermoset.errors import InputError
from thermoset.io import SUFFIXES, save
from thermoset.io.files import FilePath, as_path, errors_about, known_suffix, need
from thermoset.io.formats import format_of
from thermoset.io.loading import table_of
from thermoset.io.roles import first_of
from thermoset.quoting import quoted, reason

if TYPE_CHECKING:
    import torch

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Collected:
    """What `collect_to_file` wrote."""

    n_rows: int
    n_classes: int
    accuracy: float | None
    """Share of rows whose largest logit is the label's; None without labels."""


def collect_logits(
    model: "torch.nn.Module",
    loader: Iterable[Any],
    *,
    classes: Sequence[str] | None = None,
    device: "str | torch.device | None" = None,
    progress: Progress | None = None,
) -> Logits:
    """Run a model over batches and collect its logits.

    The model runs in evaluation mode without gradients; afterwards it is back on its device and in its mode.

    Parameters
    ----------
    model : torch.nn.Module
        Gives a tensor (n, C) for a batch of n rows; or a dict or an object with one called `logits`; or a tuple in
        which one tensor has two axes. float16, float32 and float64 stay as they are; bfloat16 becomes float32.
    loader : iterable of batches
        A `DataLoader`, a list, a generator. A batch is a pair (inputs, labels), or inputs alone (a tensor, or a tuple
        of one), or a dict of keyword arguments, whose entry `labels` (or `label`) is not given to the model. Do not
        shuffle where the order of rows matters later.
    classes : sequence of C strings, optional
        Class names. With them labels may be names too; whole numbers are column numbers, whatever classes are called.
    device : str or torch.device, optional
        Where to run; by default where the model is.
    progress : callable, optional
        Called with (done, total) batches; total is None for a loader without a length.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 3)
    >>> rows = torch.utils.data.TensorDataset(torch.zeros(10, 4), torch.arange(10) % 3)
    >>> collect_logits(model, torch.utils.data.DataLoader(rows, batch_size=4))
    Logits(10 rows x 3 classes, float32, labelled)
    """
    blocks: list[Logits] = []
    _run(model, loader, blocks.append, classes=classes, device=device, progress=progress)
    labels = [block.labels for block in blocks if block.labels is not None]
    return _concatenate(np.concatenate([block.logits for block in blocks]), labels, classes)


def collect_to_file(
    model: "torch.nn.Module",
    loader: Iterable[Any],
    path: FilePath,
    *,
    classes: Sequence[str] | None = None,
    device: "str | torch.device | None" = None,
    progress: Progress | None = None,
) -> Collected:
    """Run a model over batches and write its logits to a file, without holding them all in memory.

    Batches go to an unnamed temporary file in the folder of `path`; at the end `path` is written from it, completely or
    not at all. Arguments are those of `collect_logits`; `path` has a suffix that `thermoset.load` reads. npz, npy and
    csv are written piece by piece; the libraries behind the other formats build the file in memory.

    Examples
    --------
    >>> import tempfile, torch, thermoset as ts
    >>> rows = torch.utils.data.TensorDataset(torch.eye(3), torch.arange(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(collect_to_file(torch.nn.Identity(), torch.utils.data.DataLoader(rows), f"{folder}/val.npz"))
    ...     ts.load(f"{folder}/val.npz")
    Collected(n_rows=3, n_classes=3, accuracy=1.0)
    Logits(3 rows x 3 classes, float32, labelled)
    """
    target = as_path(path)
    suffix = known_suffix(target, SUFFIXES)
    with errors_about(target, "written"):
        stream = tempfile.TemporaryFile(dir=target.parent)  # noqa: SIM115  # closed below
    with stream:
        spool = Spool(stream, target, suffix)
        _run(model, loader, spool.add, classes=classes, device=device, progress=progress)
        save(target, spool.logits(classes))
    return spool.summary()


class Spool:
    """Blocks of rows on their way to a file; only their labels stay in memory."""

    def __init__(self, stream: IO[bytes], target: Path, suffix: str) -> None:
        self._stream = stream
        self._target = target
        self._suffix = suffix
        self._labels: list[NDArray[np.int64]] = []
        self._shape = (0, 0)
        self._dtype = np.dtype(np.float32)
        self._correct = 0

    def add(self, block: Logits) -> None:
        """Append rows to the stream."""
        with errors_about(self._target, "written"):
            if self._shape[0] == 0:
                self._dtype = block.logits.dtype
                if (write := format_of(self._suffix).write) is not None:
                    write(io.BytesIO(), table_of(block))  # what this format cannot hold is said before the work
            self._stream.write(block.logits.data)
        self._shape = self._shape[0] + block.n_rows, block.n_classes
        if block.labels is not None:
            self._labels.append(block.labels)
            self._correct += int(np.count_nonzero(block.logits.argmax(axis=1) == block.labels))

    def logits(self, classes: Sequence[str] | None) -> Logits:
        """All rows, on disk still: the array is a map of the file."""
        self._stream.flush()
        rows = np.memmap(self._stream, dtype=self._dtype, mode="r", shape=self._shape)
        return _concatenate(rows, self._labels, classes)

    def summary(self) -> Collected:
        """Say what was collected."""
        n_rows, n_classes = self._shape
        return Collected(n_rows, n_classes, self._correct / n_rows if self._labels else None)


def _run(
    model: "torch.nn.Module",
    loader: Iterable[Any],
    keep: Callable[[Logits], None],
    *,
    classes: Sequence[str] | None,
    device: "str | torch.device | None",
    progress: Progress | None,
) -> None:
    """Hand the logits of each batch to `keep`, checked."""
    torch = need("torch", "torch", "collecting logits")
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"model must be a torch.nn.Module; got {type(model).__name__}.")
    try:
        total = len(loader)  # type: ignore[arg-type]  # a DataLoader has a length, unless its data set streams
    except TypeError:
        total = None
    first: Logits | None = None
    with _evaluating(model, device) as place:
        for number, item in enumerate(loader):
            try:
                inputs, labels = _read_batch(item)
                block = labelled_block(_output(model, inputs, place), labels, classes)
                check_alike(block, first or block)
            except InputError as error:
                raise InputError(f"batch {number}: {error}") from None
            if len(block):
                first = first or block
                keep(block)
            if progress is not None:
                progress(number + 1, total)
    if first is None:
        raise InputError("the loader gave no rows. An iterator can be used once only: pass a DataLoader or a list.")


@contextmanager
def _evaluating(model: "torch.nn.Module", device: "str | torch.device | None") -> Iterator["torch.device"]:
    """Give the device to run on, with the model there and in evaluation mode; put both back at the end."""
    torch = need("torch", "torch", "collecting logits")
    places = list(dict.fromkeys(tensor.device for tensor in (*model.parameters(), *model.buffers())))
    home = places[0] if places else torch.device("cpu")
    modes = [(module, module.training) for module in model.modules()]  # parts of a model may be frozen on their own
    target = home
    if device is not None:
        try:
            target = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise InputError(f"device must be a torch device, such as 'cpu' or 'cuda'; got {device!r}.") from error
        if target.type == "meta":
            raise InputError("device 'meta' holds no numbers. Use 'cpu', 'cuda' or another real one.")
        if len(places) > 1:
            raise InputError(f"the model is spread over {', '.join(map(str, places))} and stays there. Omit device.")
    try:
        if device is not None:
            try:
                model.to(target)
            except (RuntimeError, AssertionError) as error:  # torch asserts that it was compiled for a device
                raise InputError(f"device '{target}' cannot be used ({reason(error)}).") from None
        model.eval()
        yield target
    finally:
        for module, training in modes:
            module.training = training
        if device is not None:
            model.to(home)


def _read_batch(item: Any) -> tuple[Any, Any]:
    """Tell inputs, one argument or a dict of keyword arguments, from labels."""
    if isinstance(item, Mapping):
        name = first_of(LABELS, item)
        return {key: value for key, value in item.items() if key != name}, None if name is None else item[name]
    if not isinstance(item, (tuple, list)):
        return item, None
    if len(item) not in (1, 2):
        raise InputError(
            f"a {type(item).__name__} of {len(item)} parts; expected (inputs, labels), inputs alone or a dict. Select "
            "them: ((batch[0], batch[1]) for batch in loader)."
        )
    return item[0], item[1] if len(item) == 2 else None


def _output(model: "torch.nn.Module", inputs: Any, place: "torch.device") -> "torch.Tensor":
    """Call the model and find the tensor (n, C) in what it returns."""
    torch = need("torch", "torch", "collecting logits")
    moved = _move_to(inputs, place)
    with torch.inference_mode():
        returned = model(**moved) if isinstance(moved, dict) else model(moved)
    kind, remedy = type(returned).__name__, "Wrap the model in a Module whose forward picks the logits."
    if isinstance(returned, Mapping):
        if "logits" not in returned:
            keys = ", ".join(map(quoted, islice(returned, 5))) or "none"
            raise InputError(f"the model returned a {kind} with these keys: {keys}; expected 'logits'. {remedy}")
        output = returned["logits"]
    elif isinstance(returned, (tuple, list)) and not hasattr(returned, "logits"):
        matrices = [part for part in returned if isinstance(part, torch.Tensor) and part.ndim == 2]
        if len(matrices) != 1:
            shapes = ", ".join(str(tuple(getattr(part, "shape", ()))) for part in returned)
            wanted = "expected exactly one (rows, classes) among them"
            raise InputError(f"the model returned a {kind} of shapes {shapes}; {wanted}. {remedy}")
        output = matrices[0]
    else:
        output = getattr(returned, "logits", returned)
    if not isinstance(output, torch.Tensor):
        wanted = "expected a tensor (rows, classes) or an object with one called logits"
        raise InputError(f"the model returned {kind}; {wanted}. {remedy}")
    if output.ndim in (1, 2) and output.numel() == len(output) > 0:
        raise InputError(
            f"the model returned one number for each row, shape {tuple(output.shape)}; expected (rows, classes). For a "
            f"binary model, wrap it in a Module whose forward takes z = model(x).flatten() and returns "
            f"torch.stack([0 * z, z], dim=1)."
        )
    if output.ndim != 2:
        shape = tuple(output.shape)
        raise InputError(f"the model returned a tensor of shape {shape}; expected (rows, classes). {remedy}")
    return output


def labelled_block(logits: object, labels: object, classes: Sequence[str] | None) -> Logits:
    """Rows with their labels as training loops have them: a whole number is a column number."""
    rows = checked_logits(logits, None, classes)
    if labels is None:
        return rows
    return rows.labelled(column_indices(labels, (rows.n_rows, rows.n_classes), rows.classes))


def _concatenate(logits: NDArray[Any], labels: list[NDArray[np.int64]], classes: Sequence[str] | None) -> Logits:
    """All rows, with a warning if they look like probabilities."""
    rows = labelled_block(logits, np.concatenate(labels) if labels else None, classes)
    warn_of_probabilities(rows)
    return rows


def _move_to(value: Any, place: "torch.device") -> Any:
    """Move the tensors of a batch; a model may take lists or dicts of them."""
    if isinstance(value, Mapping):
        return {key: _move_to(part, place) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_move_to(part, place) for part in value]
    if isinstance(value, np.ndarray):
        value = need("torch", "torch", "collecting logits").as_tensor(value)
    return value.to(place) if hasattr(value, "to") else value


def check_alike(block: Logits, first: Logits) -> None:
    """Rows of one file have the same columns, and all have labels or none has."""
    if block.n_classes != first.n_classes:
        raise InputError(f"the model returned {block.n_classes} columns, but {first.n_classes} for the first batch.")
    if block.logits.dtype != first.logits.dtype:
        raise InputError(f"the model returned {block.logits.dtype}, but {first.logits.dtype} for the first batch.")
    if (block.labels is None) != (first.labels is None):
        words = ("has labels", "has none") if first.labels is None else ("has no labels", "has them")
        raise InputError(f"{words[0]}, but the first batch {words[1]}. Pass labels with every batch or with none.")

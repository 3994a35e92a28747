"""Logits from a Lightning trainer: a callback that writes what `predict_step` returns to a file of logits."""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thermoset.data import Logits, checked_logits
from thermoset.data.reading import unpack_output
from thermoset.errors import InputError
from thermoset.integrations.torch import Spool, check_alike, labelled_block
from thermoset.io import SUFFIXES, save
from thermoset.io.files import FilePath, as_path, check_targets, errors_about, known_suffix, need

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer


def _base() -> Any:
    """The callback of the package in use, else of the one installed: one code by two names, each with its classes."""
    names = ("lightning.pytorch", "pytorch_lightning")
    loaded = [name for name in names if sys.modules.get(name)]
    installed = [name for name in names if find_spec(name.partition(".")[0])]
    package = (*loaded, *installed, *names)[0]
    return need(f"{package}.callbacks", "lightning", "LogitsWriter").BasePredictionWriter


class LogitsWriter(_base()):  # type: ignore[misc]
    """Collects the batches of `Trainer.predict` and writes them to one file for `thermoset.load`.

    Batches go to an unnamed temporary file next to the target, so memory does not grow with the rows. The target
    appears when prediction ends, completely or not at all; a run that fails or is interrupted leaves nothing.

    Parameters
    ----------
    path : path
        The file to write, with a suffix that `thermoset.save` supports. With several processes each writes its own
        rows, to `val.rank0.npz`, `val.rank1.npz` and so on for `val.npz`; with several dataloaders each has a file,
        `val.loader0.npz` and so on.
    classes : sequence of str, optional
        Class names. With them labels may be names.

    Notes
    -----
    `predict_step` returns logits (n, C), a pair (logits, labels), a dict with `logits` and optionally `labels`, or a
    Hugging Face output. Pass `return_predictions=False` to `Trainer.predict`, or the trainer keeps all of them too. A
    distributed sampler repeats some rows to give all processes the same number: drop these before you rely on coverage.

    Examples
    --------
    >>> import tempfile, torch, thermoset as ts
    >>> from lightning.pytorch import LightningModule, Trainer
    >>> class Model(LightningModule):
    ...     def predict_step(self, batch):
    ...         pixels, labels = batch
    ...         return pixels * 2, labels
    >>> rows = torch.utils.data.TensorDataset(torch.eye(3), torch.arange(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = LogitsWriter(f"{folder}/val.npz")
    ...     quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    ...     trainer = Trainer(accelerator="cpu", callbacks=[writer], **quiet)
    ...     trainer.predict(Model(), torch.utils.data.DataLoader(rows), return_predictions=False)
    ...     ts.load(f"{folder}/val.npz")
    Logits(3 rows x 3 classes, float32, labelled)
    """

    def __init__(self, path: FilePath, classes: Sequence[str] | None = None) -> None:
        super().__init__(write_interval="batch")
        self._target = as_path(path)
        self._suffix = known_suffix(self._target, SUFFIXES)
        self._classes = None if classes is None else list(classes)
        self._spools: list[Spool] = []
        self._first: Logits | None = None
        self._open = ExitStack()
        self.files: tuple[Path, ...] = ()
        """What was written by the last prediction of this process."""

    def on_predict_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Forget an earlier run; refuse, before the work, a target that cannot be written."""
        self._forget()
        self.files = ()
        targets = [self._file(trainer, loader) for loader in range(len(trainer.num_predict_batches))]
        check_targets(targets, ())
        for target in targets:
            with errors_about(target, "written"):
                stream = self._open.enter_context(tempfile.TemporaryFile(dir=target.parent))  # noqa: SIM115
            self._spools.append(Spool(stream, target, self._suffix))

    def write_on_batch_end(
        self,
        trainer: "Trainer",
        pl_module: "LightningModule",
        prediction: Any,
        batch_indices: Sequence[int] | None,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Keep the rows of one batch."""
        try:
            block = _read(prediction, self._classes)
            check_alike(block, self._first or block)
        except InputError as error:
            raise InputError(f"predict_step, batch {batch_idx}: {error}") from None
        self._first = self._first or block
        self._spools[dataloader_idx].add(block)

    def on_predict_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Write the files."""
        written = [(self._file(trainer, i), spool) for i, spool in enumerate(self._spools) if spool.summary().n_rows]
        for target, spool in written:
            save(target, spool.logits(self._classes))
        self.files = tuple(target for target, _ in written)
        self._forget()

    def on_exception(self, trainer: "Trainer", pl_module: "LightningModule", exception: BaseException) -> None:
        """Leave nothing of a run that failed."""
        self._forget()

    def _forget(self) -> None:
        self._open.close()
        self._spools, self._first = [], None

    def _file(self, trainer: "Trainer", loader: int) -> Path:
        """The file of this process and dataloader."""
        parts = [f".loader{loader}"] if len(trainer.num_predict_batches) > 1 else []
        parts += [f".rank{trainer.global_rank}"] if trainer.world_size > 1 else []
        return self._target.with_name(f"{self._target.stem}{''.join(parts)}{self._target.suffix}")


def _read(prediction: Any, classes: Sequence[str] | None) -> Logits:
    """Tell logits from labels in what `predict_step` returned."""
    if isinstance(prediction, (tuple, list)) and not hasattr(prediction, "_fields"):
        if len(prediction) != 2:
            raise InputError(
                f"a {type(prediction).__name__} of {len(prediction)} parts; expected logits, (logits, labels) or a "
                "dict with 'logits' and 'labels'."
            )
        return labelled_block(prediction[0], prediction[1], classes)
    output = unpack_output(prediction)
    if output is None:
        return checked_logits(prediction, None, classes)
    return labelled_block(output.logits, output.labels, output.classes if classes is None else classes)

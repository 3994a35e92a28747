"""The kinds of batches, and how a batch is recognised without importing its library."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from thermoset.data.arrays import is_instance
from thermoset.errors import InputError
from thermoset.integrations.batches.arrow import ArrowTables
from thermoset.integrations.batches.frames import PandasFrames, PolarsFrames
from thermoset.integrations.batches.mappings import Mappings
from thermoset.integrations.batches.outputs import Found, Outputs

__all__ = ["Kind", "kind_of"]


class Kind(Protocol):
    """How batches of one kind are read and answered."""

    def names(self, batch: Any) -> list[Any]:
        """Names of the columns."""

    def n_rows(self, batch: Any) -> int:
        """Number of rows."""

    def classes(self, batch: Any) -> Sequence[str] | None:
        """Names of the classes that a list column is for, where the batch carries them."""

    def lists(self, batch: Any, name: str, width: int) -> Any:
        """A list column as an array (n, width)."""

    def stack(self, batch: Any, names: Sequence[str]) -> Any:
        """The columns of the classes as an array (n, C)."""

    def cells(self, batch: Any, name: str) -> list[Any]:
        """A column as Python objects."""

    def answered(self, batch: Any, kept: list[int], outputs: Outputs, found: Found) -> Any:
        """A batch of the same kind: the columns that are kept, and the predictions."""


def kind_of(batch: object) -> Kind:
    """How a batch is to be read.

    >>> type(kind_of({"logits": [[1.0, 2.0]]})).__name__
    'Mappings'
    """
    if is_instance(batch, "pyarrow", "RecordBatch", "Table"):
        return ArrowTables()
    if is_instance(batch, "pandas", "DataFrame"):
        return PandasFrames()
    if is_instance(batch, "polars", "DataFrame"):
        return PolarsFrames()
    if isinstance(batch, Mapping):
        return Mappings()
    raise InputError(
        f"a batch must be an Arrow record batch or table, a pandas or polars frame, or a dict of arrays; "
        f"got {type(batch).__name__}."
    )

"""The operations of a predictor's program as nodes of an ONNX graph.

Only standard operators, in the forms they have had since opset 18, and of them only what ONNX Runtime has for float64,
booleans and uint64.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partialmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from thermoset.integrations.program.operations import Ranking

TYPES = {
    "float64": TensorProto.DOUBLE,
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}
"""How ONNX calls NumPy's types."""


class Value:
    """A value in a graph; Python's operators add nodes."""

    def __init__(self, graph: "Graph", name: str, dtype: str) -> None:
        self._graph, self.name, self.dtype = graph, name, dtype

    def _with(self, kind: str, other: object, dtype: str | None = None, *, swapped: bool = False) -> "Value":
        second = self._graph.value_of(other, self.dtype)
        pair = (second, self) if swapped else (self, second)
        return self._graph.node(kind, *pair, dtype=dtype or self.dtype)

    __add__ = __radd__ = partialmethod(_with, "Add")
    __mul__ = __rmul__ = partialmethod(_with, "Mul")
    __sub__, __rsub__ = partialmethod(_with, "Sub"), partialmethod(_with, "Sub", swapped=True)
    __truediv__, __rtruediv__ = partialmethod(_with, "Div"), partialmethod(_with, "Div", swapped=True)
    __and__, __or__ = partialmethod(_with, "And"), partialmethod(_with, "Or")
    __lt__, __le__ = partialmethod(_with, "Less", dtype="bool"), partialmethod(_with, "LessOrEqual", dtype="bool")
    __gt__, __ge__ = partialmethod(_with, "Greater", dtype="bool"), partialmethod(_with, "GreaterOrEqual", dtype="bool")
    __eq__ = partialmethod(_with, "Equal", dtype="bool")  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]  # equality makes a node

    def __invert__(self) -> "Value":
        return self._graph.node("Not", self, dtype="bool")


class Graph(Mapping[str, Value]):
    """Nodes and constants as they come; a mapping of the program's constants, which enter when they are looked up.

    `prefix` begins every name, so that the graph can be joined to another.
    """

    def __init__(self, constants: Mapping[str, NDArray[Any]], prefix: str) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        self._arrays, self._prefix = constants, prefix
        self._numbers: dict[tuple[str, bytes, tuple[int, ...]], Value] = {}

    def __getitem__(self, name: str) -> Value:
        return self._constant(self._arrays[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def value_of(self, number: object, dtype: str) -> Value:
        """A value as it is, and a number as a constant of a type."""
        return number if isinstance(number, Value) else self.constant(np.array(number, dtype=dtype))

    def constant(self, array: NDArray[Any]) -> Value:
        """A constant without a name of its own."""
        return self._constant(array, f"constant{len(self._numbers)}")

    def _constant(self, array: NDArray[Any], name: str) -> Value:
        key = (array.dtype.name, array.tobytes(), array.shape)
        if key not in self._numbers:
            full = self._prefix + name
            self.initializers[full] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), full)
            self._numbers[key] = Value(self, full, array.dtype.name)
        return self._numbers[key]

    def node(self, kind: str, *inputs: Value, dtype: str, **attributes: Any) -> Value:
        """Add a node with one output."""
        (value,) = self.node_with(kind, *inputs, dtypes=(dtype,), **attributes)
        return value

    def node_with(self, kind: str, *inputs: Value, dtypes: tuple[str, ...], **attributes: Any) -> list[Value]:
        """Add a node with several outputs."""
        number = len(self.nodes)
        values = [Value(self, f"{self._prefix}{kind}{number}_{i}", dtype) for i, dtype in enumerate(dtypes)]
        name = f"{self._prefix}{kind}{number}"
        names = [value.name for value in inputs]
        self.nodes.append(helper.make_node(kind, names, [value.name for value in values], name=name, **attributes))
        return values

    def name(self, value: Value, name: str) -> None:
        """Give a value a name that the world knows."""
        self.nodes.append(helper.make_node("Identity", [value.name], [name], name=f"{self._prefix}{name}"))

    def dependencies(self, outputs: Collection[str]) -> tuple[list[NodeProto], list[TensorProto]]:
        """The nodes and constants that outputs depend on: runtimes warn of others."""
        wanted, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                nodes.append(node)
        return nodes[::-1], [tensor for name, tensor in self.initializers.items() if name in wanted]


class GraphOperations:
    """Operations that add nodes; see `program.operations.Operations`."""

    def __init__(self, graph: Graph, n_classes: int) -> None:
        self._graph, self._n_classes = graph, n_classes

    def _cast(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else self._graph.node("Cast", value, dtype=dtype, to=TYPES[dtype])

    def _whole(self, *numbers: int) -> Value:
        return self._graph.constant(np.array(numbers, dtype=np.int64))

    def _same(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        """A node whose output has the type of its first input."""
        return self._graph.node(kind, *inputs, dtype=inputs[0].dtype, **attributes)

    def _number(self, number: Value | float) -> Value:
        return self._graph.value_of(number, "float64")

    def float64(self, array: Value) -> Value:
        return self._cast(array, "float64")

    def rank(self, logits: Value) -> Ranking:
        # Of two equal logits TopK puts the lower label first; its specification says so.
        k = self._whole(self._n_classes)
        return Ranking(*self._graph.node_with("TopK", logits, k, dtypes=("float64", "int64"), axis=1))

    def largest(self, logits: Value, k: int) -> Value:
        return self._graph.node_with("TopK", logits, self._whole(k), dtypes=("float64", "int64"), axis=1)[0]

    def columns(self, array: Value, first: int, stop: int) -> Value:
        return self._same("Slice", array, self._whole(first), self._whole(stop), self._whole(1))

    def top_label(self, logits: Value) -> Value:
        return self._graph.node("ArgMax", logits, dtype="int64", axis=1, keepdims=0)

    softmax = partialmethod(_same, "Softmax", axis=1)
    exp, log, floor = partialmethod(_same, "Exp"), partialmethod(_same, "Log"), partialmethod(_same, "Floor")
    xor = partialmethod(_same, "BitwiseXor")

    def at_most(self, array: Value, bound: float) -> Value:
        return self._same("Min", array, self._number(bound))

    def at_least(self, array: Value, bound: float) -> Value:
        return self._same("Max", array, self._number(bound))

    def where(self, condition: Value, yes: Value | float, no: Value | float) -> Value:
        dtype = next((operand.dtype for operand in (yes, no) if isinstance(operand, Value)), "float64")
        first, second = (self._graph.value_of(operand, dtype) for operand in (yes, no))
        if dtype == "bool":  # ONNX Runtime has no Where of booleans
            return (condition & first) | (~condition & second)
        return self._graph.node("Where", condition, first, second, dtype=dtype)

    def maximum(self, array: Value) -> Value:
        return self._same("ReduceMax", array, self._whole(1), keepdims=1)

    def total(self, array: Value) -> Value:
        return self._same("ReduceSum", array, self._whole(1), keepdims=1)

    def sums_before(self, array: Value) -> Value:
        return self._same("CumSum", array, self._whole(1), exclusive=1)

    def sums_after(self, array: Value) -> Value:
        return self._same("CumSum", array, self._whole(1), exclusive=1, reverse=1)

    pick = partialmethod(_same, "Gather", axis=0)

    def in_label_order(self, inside: Value, ranking: Ranking) -> Value:
        # Every place is written to, so it does not matter what was there.
        return self._same("ScatterElements", inside, ranking.labels, inside, axis=1)

    def count(self, inside: Value) -> Value:
        return self._same("ReduceSum", self._cast(inside, "int64"), self._whole(1), keepdims=0)

    def is_label(self, labels: Value, n_classes: int) -> Value:
        return self._whole(*range(n_classes)) == self.as_column(labels)

    def as_row(self, column: Value) -> Value:
        return self._same("Squeeze", column, self._whole(1))

    def as_column(self, row: Value) -> Value:
        return self._same("Unsqueeze", row, self._whole(1))

    # Keys are int64, which every runtime adds and multiplies; sums and products wrap around to the bits of uint64.

    def key_constant(self, number: int) -> Value:
        return self._graph.constant(np.array([[number]], dtype=np.uint64).view(np.int64))

    def key(self, whole: Value) -> Value:
        return self._cast(whole, "int64")

    def shift(self, key: Value, bits: int) -> Value:
        by = self._graph.constant(np.array([[bits]], dtype=np.uint64))
        return self.key(self._same("BitShift", self._cast(key, "uint64"), by, direction="RIGHT"))

    def number(self, key: Value) -> Value:
        return self._cast(key, "float64")

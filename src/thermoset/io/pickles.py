"""The pickle inside a torch file, read as data: nothing in it is imported or called.

`pickletools.genops` takes a pickle apart without running it. A small machine then puts numbers, text, lists and dicts
together and notes where tensors lie; whatever else a pickle can ask for is refused, or stays a mark without content.
"""

import math
import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from thermoset.errors import FileFormatError, InputError
from thermoset.quoting import quoted, reason

__all__ = ["StoredTensor", "read_pickle"]

TENSORS = {
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "collections.OrderedDict",
}
STORAGES = {
    "torch.DoubleStorage": "float64",
    "torch.FloatStorage": "float32",
    "torch.HalfStorage": "float16",
    "torch.BFloat16Storage": "bfloat16",
    "torch.LongStorage": "int64",
    "torch.IntStorage": "int32",
    "torch.ShortStorage": "int16",
    "torch.CharStorage": "int8",
    "torch.ByteStorage": "uint8",
    "torch.BoolStorage": "bool",
}
UNTYPED = "torch.storage.UntypedStorage"  # the type stands with the tensor
LATER_TYPES = {
    f"torch.{name}" for name in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", *STORAGES.values())
}
KNOWN = {*TENSORS, *STORAGES, UNTYPED, *LATER_TYPES}
"""The names that a pickle may use."""


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or function, and no more than its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that was not made."""

    of: str


@dataclass(frozen=True, slots=True)
class Storage:
    """A member of the archive that holds numbers."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where the numbers of a tensor lie: offset, shape and strides count numbers."""

    key: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether rows stand one after the other."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != step:
                return False
            step *= size
        return True

    @property
    def end(self) -> int:
        """One more than the place of its last number."""
        if 0 in self.shape:
            return self.offset
        return self.offset + 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


def read_pickle(data: bytes, remedy: str) -> Any:
    """Read a pickle of tensors, numbers, text, and lists and dicts of them.

    >>> import pickle
    >>> read_pickle(pickle.dumps({"epoch": 3, "names": ["cat"]}, protocol=2), "")
    {'epoch': 3, 'names': ['cat']}
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            machine.step(opcode.name, argument)
        return machine.result()
    except InputError as error:
        raise type(error)(f"{error} {remedy}".rstrip()) from None
    except (ValueError, TypeError, KeyError, IndexError, struct.error) as error:
        raise FileFormatError(f"its pickle cannot be read ({reason(error)}): damaged. {remedy}") from None


class _Machine:
    """The machine of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        if name in PUSHED:
            self.stack.append(PUSHED[name]())
        elif name in ARGUMENTS:
            self.stack.append(argument)
        elif name in STEPS:
            STEPS[name](self, argument)
        elif name not in {"PROTO", "STOP"}:
            raise FileFormatError(f"its pickle uses {name}, which torch does not write.")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def result(self) -> Any:
        return self.stack.pop()

    def above_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.marked.pop()
        return items

    def mark(self, _: Any) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def put(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def get(self, place: int) -> None:
        self.stack.append(self.memo[place])

    def tuple_of(self, n: int) -> None:
        items = [self.stack.pop() for _ in range(n)]
        self.stack.append(tuple(reversed(items)))

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise TypeError("items are added to what is no list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, (dict, Mark)) or len(items) % 2:
            raise TypeError("keys are set in what is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, int)):
                raise FileFormatError(f"its pickle has {quoted(key)} for a key; expected text.")
            if isinstance(target, dict):
                target[key] = value

    def name(self, argument: str) -> None:
        name = argument.replace(" ", ".", 1)
        if name not in KNOWN:
            raise FileFormatError(
                f"holds {quoted(name)}; only plain tensors, numbers, text, and lists and dicts of them are read."
            )
        self.stack.append(Global(name))

    def call(self, _: Any) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise TypeError("something is called that is no function")
        self.stack.append(_made(function.name, arguments))

    def change(self, _: Any) -> None:
        """A state that is set on an object; the metadata of a state dict, say. No content of ours comes from there."""
        self.stack.pop()

    def stored(self, _: Any) -> None:
        match self.stack.pop():
            case ("storage", Global(kind), str(key), str(), int()):
                self.stack.append(Storage(kind, key))
            case _:
                raise ValueError("a storage is not described as torch does")


PUSHED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": lambda: Mark("set"),
}
ARGUMENTS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINSTRING"}
STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "GLOBAL": _Machine.name,
    "BINPERSID": _Machine.stored,
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "APPEND": lambda machine, _: machine.extend([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.above_mark()),
    "SETITEM": lambda machine, _: machine.update([machine.stack.pop(-2), machine.stack.pop()]),
    "SETITEMS": lambda machine, _: machine.update(machine.above_mark()),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.above_mark())),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.call,
    "BUILD": _Machine.change,
}


def _made(name: str, arguments: tuple[Any, ...]) -> Any:
    """What a call would give: tensors as notes of where they lie, everything else as a mark."""
    match name.removeprefix("torch._utils."), arguments:
        case "collections.OrderedDict", ():
            return {}
        case "_rebuild_parameter", (StoredTensor() as tensor, *_):
            return tensor
        case "_rebuild_tensor_v3", (Storage(_, key), *place, _, _, Global(dtype)) | (
            Storage(_, key),
            *place,
            _,
            _,
            Global(dtype),
            _,
        ):
            return _tensor(key, dtype.removeprefix("torch."), place)
        case (("_rebuild_tensor_v2" | "_rebuild_tensor"), (Storage(kind, key), *place)):
            return _tensor(key, STORAGES.get(kind, kind), place[:3])
    return Mark(name)


def _tensor(key: str, dtype: str, place: list[Any]) -> StoredTensor:
    match place:
        case int(offset), tuple(shape), tuple(strides) if len(shape) == len(strides):
            if all(type(n) is int and 0 <= n < 1 << 63 for n in (offset, *shape, *strides)):
                return StoredTensor(key, dtype, offset, shape, strides)
    raise ValueError("a tensor's shape is not described as torch does")

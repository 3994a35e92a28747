"""A user's own classifier in front of the predictor: finding its logits, and joining the two graphs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, ValueInfoProto, compose, shape_inference, version_converter

from thermoset.errors import FileFormatError, InputError
from thermoset.integrations.onnx.graphs import TYPES
from thermoset.integrations.program import OUTPUTS
from thermoset.io.files import FilePath, as_path, errors_about
from thermoset.quoting import quoted, reason

__all__ = ["Before", "read_before"]

_FLOATS: dict[int, str] = {number: name for name, number in TYPES.items() if "float" in name}
_PROBABILITIES = ("Softmax", "Sigmoid", "HardSigmoid")
_PASSING = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")  # numbers stay what they are
_PREFIX = "classifier/"
_OPTION = "logits='NAME' in Python, --logits NAME on the command line"


@dataclass(frozen=True, eq=False)
class Before:
    """A classifier, and which of its values holds the logits."""

    model: ModelProto
    logits: str
    dtype: str
    opset: int

    def joined(self, after: ModelProto, opset: int) -> ModelProto:
        """The classifier with the predictor behind it; its own outputs stay."""
        first, logits = self._renamed(_converted(self.model, self.opset, opset))
        first.ir_version = after.ir_version = max(first.ir_version, after.ir_version)
        kept = [value.name for value in first.graph.output]
        try:
            return compose.merge_models(
                first, after, io_map=[(logits, "logits")], outputs=[*kept, *(one.name for one in after.graph.output)]
            )
        except (ValueError, onnx.checker.ValidationError) as error:
            raise InputError(f"the model cannot be joined to the predictor ({reason(error)}).") from None

    def _renamed(self, model: ModelProto) -> tuple[ModelProto, str]:
        """The model with names that do not get in the way of ours."""
        names = {name for node in model.graph.node for name in node.output}
        if not names.intersection((*OUTPUTS, "action")):
            return model, self.logits
        return compose.add_prefix(model, _PREFIX, rename_inputs=False), _PREFIX + self.logits


def read_before(given: FilePath | ModelProto, named: str | None, n_classes: int) -> Before:
    """Read a classifier and find its logits: the output that is named, or called so, or the only one that can be."""
    model = ModelProto()
    model.CopyFrom(given if isinstance(given, ModelProto) else _loaded(as_path(given)))
    opsets = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not opsets:
        raise InputError("the model in after= uses no standard operators, so nothing can be joined to it.")
    value = _named_output(model, named) if named is not None else _found(model, n_classes)
    _check(model, value, n_classes)
    return Before(model, value.name, _FLOATS[value.type.tensor_type.elem_type], opsets[0])


def _loaded(path: Path) -> ModelProto:
    with errors_about(path):
        try:
            model = onnx.load(path, format="protobuf")  # whatever its name ends in
            onnx.checker.check_model(model)
        except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
            raise FileFormatError(f"is not an ONNX model, or is damaged ({reason(error)}).") from None
    return model


def _found(model: ModelProto, n_classes: int) -> ValueInfoProto:
    fitting: list[ValueInfoProto] = [value for value in model.graph.output if _could_be(value, n_classes)]
    called = [value for value in fitting if value.name == "logits"] or fitting
    if len(called) == 1 and "prob" not in called[0].name.lower():
        return called[0]
    shown = ", ".join(f"{quoted(value.name)} {_shape_text(value)}" for value in model.graph.output)
    which = "it is not clear which output" if fitting else "no output"
    raise InputError(
        f"{which} of the model holds the logits of {n_classes} classes: it has {shown}. Name the output, or the inner "
        f"value, that does: {_OPTION}."
    )


def _named_output(model: ModelProto, name: str) -> ValueInfoProto:
    """An output by name; an inner value becomes an output."""
    known: dict[str, ValueInfoProto] = {value.name: value for value in model.graph.output}
    if name in known:
        return known[name]
    inner: dict[str, ValueInfoProto] = {
        value.name: value for value in shape_inference.infer_shapes(model).graph.value_info
    }
    if name in inner:
        model.graph.output.append(inner[name])
        return inner[name]
    shown = ", ".join(map(quoted, known))
    raise InputError(f"the model has no output {quoted(name)}; it has {shown}.")


def _check(model: ModelProto, value: ValueInfoProto, n_classes: int) -> None:
    """Refuse what cannot be logits of the predictor's classes."""
    if not _could_be(value, n_classes):
        raise InputError(
            f"output {quoted(value.name)} of the model is {_shape_text(value)}; the predictor needs floating-point "
            f"logits of shape (n, {n_classes})."
        )
    made_by = _maker(model, value.name)
    if made_by in _PROBABILITIES:
        raise InputError(
            f"output {quoted(value.name)} of the model comes out of a {made_by}: those are probabilities, but the "
            f"predictor takes the logits before it. Name the value that holds them: {_OPTION}."
        )


def _maker(model: ModelProto, name: str) -> str:
    """The operator that a value comes from, seen through those that change nothing."""
    made_by = {output: node for node in model.graph.node for output in node.output}
    while name in made_by and made_by[name].op_type in _PASSING:
        name = made_by[name].input[0]
    return made_by[name].op_type if name in made_by else ""


def _could_be(value: ValueInfoProto, n_classes: int) -> bool:
    """Whether a value may be (n, C) numbers; what a model leaves open is not held against it."""
    tensor = value.type.tensor_type
    if tensor.elem_type not in _FLOATS:
        return False
    if not tensor.HasField("shape"):
        return True
    dims = tensor.shape.dim
    return len(dims) == 2 and (not dims[1].HasField("dim_value") or dims[1].dim_value == n_classes)


def _shape_text(value: ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower() if tensor.elem_type else "no tensor"
    dims = ", ".join(_dim_text(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else "?"
    return f"({kind}, shape ({dims}))"


def _dim_text(dim: Any) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"


def _converted(model: ModelProto, given: int, wanted: int) -> ModelProto:
    """The model in another opset."""
    if given == wanted:
        return model
    try:
        return version_converter.convert_version(model, wanted)
    except (RuntimeError, ValueError) as error:
        raise InputError(
            f"the model uses opset {given} and cannot be converted to {wanted} ({reason(error)}). "
            f"Export it again with opset {wanted}, or choose another with opset=."
        ) from None

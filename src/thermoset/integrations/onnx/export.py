"""A fitted predictor as an ONNX model."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, ValueInfoProto, checker, compose, defs, helper, shape_inference, version_converter

from thermoset._version import __version__
from thermoset.bounds import whole_number
from thermoset.errors import FileFormatError, InputError
from thermoset.integrations.onnx.graphs import TYPES, Graph, GraphOperations, Value
from thermoset.integrations.program import OUTPUTS, Program, group_codes
from thermoset.integrations.program.operations import u_of_ids
from thermoset.io.files import FilePath, as_path, errors_about, write_whole
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.document import Document, checksum_of
from thermoset.quoting import quoted, reason
from thermoset.uniforms import id_keys

__all__ = ["OPSETS", "group_codes", "id_keys", "to_onnx"]

OPSETS = range(18, 27)
"""Supported opsets: runtimes since 2023 read 18, and no runtime that was tried reads 27."""

_DTYPES = ("float32", "float64", "float16")
_SOURCES = ("row", "input", "ids")
_PREFIX = "thermoset/"
_LARGEST = 2**31 - 1  # bytes of a model in one file: a limit of Protocol Buffers
_FLOATS: dict[int, str] = {number: name for name, number in TYPES.items() if "float" in name}
_PROBABILITIES = ("Softmax", "Sigmoid", "HardSigmoid")
_PASSING = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Dropout")  # numbers stay what they are
_BEFORE = "classifier/"
_OPTION = "logits='NAME' in Python, --logits NAME on the command line"
Source = Literal["row", "input", "ids"]
Shape = list[str | int | None]


def to_onnx(
    predictor: TwoTemperaturePredictor,
    path: FilePath | None = None,
    *,
    after: FilePath | ModelProto | None = None,
    opset: int | None = None,
    logits: str | None = None,
    dtype: str | None = None,
    u: Source = "row",
) -> ModelProto:
    """The predictor as an ONNX model of standard operators, which gives the same sets in any runtime.

    Input: `logits` (n, C), for any number of rows n. Outputs: `label` int64 (n,), `confidence` float64 (n,),
    `probabilities` float64 (n, C) at T*, `sets` bool (n, C) at T-hat, `sizes` int64 (n,). All arithmetic is float64,
    and u comes from the seed and the row inside the graph, as in the library. A row that the library would refuse (NaN,
    +inf, all classes masked) gets the label -1, NaN probabilities and an empty set.

    With an answer rule there is one more output, `action`, int64 (n,): 0 answer, 1 choose, 2 review.

    With grouping="group" there is one more input, `groups`, int64 (n,): indices into the metadata entry
    thermoset.group_names, as `group_codes` returns them. Any other number, such as -1, means a group without its own
    threshold: its rows get the fallback's, or all labels if the predictor has no fallback.

    A predictor that was fitted on probabilities takes their logarithms, -inf for zero: a model cannot tell, and refuse,
    the probabilities themselves. The metadata entry thermoset.input_kind says what it was fitted on.

    Parameters
    ----------
    predictor : TwoTemperaturePredictor
        A fitted predictor with a built-in score.
    path : path, optional
        A file for the model, written completely or not at all.
    after : path or onnx.ModelProto, optional
        A classifier. Its logits go straight into the predictor: inputs are the classifier's, outputs are its own and
        the five.
    opset : int, optional
        From 18 to 26; by default that of `after`, else 18, which older runtimes read too.
    logits : str, optional
        Which output (or inner value) of `after` holds the logits, if that is ambiguous.
    dtype : "float32", "float64" or "float16", optional
        The type of the input; float32 by default. With `after` it is the classifier's type.
    u : "row", "input" or "ids"
        Where u comes from: the row itself; a further input `u`, float64 (n,); or ids, by a further input `id_keys`,
        uint64 (n,), computed with `thermoset.integrations.onnx.id_keys`. A predictor that draws no u has no such input.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=2000)
    >>> predictor = ts.TwoTemperaturePredictor("aps").fit(rng.normal(size=(2000, 5)) + 2 * np.eye(5)[labels], labels)
    >>> model = to_onnx(predictor)  # to_onnx(predictor, "predictor.onnx") also writes a file
    >>> [one.name for one in model.graph.output]
    ['label', 'confidence', 'probabilities', 'sets', 'sizes']
    """
    program = Program(predictor)
    _check_choice("u", u, _SOURCES)
    target = None if path is None else as_path(path)
    before = None if after is None else read_before(after, logits, program.n_classes)
    if before is None and logits is not None:
        raise InputError(f"logits={quoted(logits)} names an output of the model in after=, but no model was given.")
    newest = min(OPSETS[-1], defs.onnx_opset_version())
    if opset is None:
        version = OPSETS[0] if before is None else min(max(before.opset, OPSETS[0]), newest)
    else:
        version = whole_number(opset, "opset", OPSETS[0], newest, "Omit it.")
    if before is None:
        _check_choice("dtype", dtype or _DTYPES[0], _DTYPES)
    elif dtype not in (None, before.dtype):
        raise InputError(f"dtype is {quoted(dtype)}, but the model gives logits of type {before.dtype}. Omit it.")
    result = _model(program, dtype or (_DTYPES[0] if before is None else before.dtype), u, version)
    if before is not None:
        result = before.join(result, version)
    _describe(result, predictor.document_)
    checker.check_model(result, full_check=before is None)  # of the classifier it is not ours to complain about shapes
    if target is not None:
        if (size := result.ByteSize()) > _LARGEST:
            raise InputError(
                f"{target}: the joined model has {size:,} bytes, but an ONNX file holds at most {_LARGEST:,}. Export "
                "the predictor alone, and let the server run one after the other."
            )
        with errors_about(target, "written"), write_whole(target) as stream:
            stream.write(result.SerializeToString())
    return result


def _model(program: Program, dtype: str, source: str, opset: int) -> ModelProto:
    """The graph by itself."""
    graph = Graph(program.constants, _PREFIX)
    ops = GraphOperations(graph, program.n_classes)
    inputs: dict[str, tuple[Value, Shape]] = {"logits": (Value(graph, "logits", dtype), ["n", program.n_classes])}
    u = None
    if program.draws and source == "input":
        inputs["u"] = Value(graph, "u", "float64"), ["n"]
        u = ops.as_column(inputs["u"][0])
    elif program.draws and source == "ids":
        inputs["id_keys"] = Value(graph, "id_keys", "uint64"), ["n"]
        u = u_of_ids(ops, ops.key(ops.as_column(inputs["id_keys"][0])), graph["seed"])
    groups = None
    if program.group_names is not None:
        inputs["groups"] = Value(graph, "groups", "int64"), ["n"]
        groups = ops.as_column(inputs["groups"][0])
    values = program.run(ops, graph, inputs["logits"][0], u, groups)
    for name, value in zip(program.outputs, values, strict=True):
        graph.name(value, name)
    shapes: dict[str, Shape] = {name: ["n"] for name in program.outputs}
    shapes["probabilities"] = shapes["sets"] = ["n", program.n_classes]
    outputs = [
        helper.make_tensor_value_info(name, TYPES[value.dtype], shapes[name])
        for name, value in zip(program.outputs, values, strict=True)
    ]
    infos = [helper.make_tensor_value_info(name, TYPES[value.dtype], shape) for name, (value, shape) in inputs.items()]
    nodes, constants = graph.dependencies(program.outputs)
    body = helper.make_graph(nodes, "thermoset", infos, outputs, constants)
    domain = helper.make_opsetid("", opset)
    ir_version = helper.find_min_ir_version_for([domain])
    return helper.make_model(body, opset_imports=[domain], ir_version=ir_version)


def _describe(model: ModelProto, document: Document) -> None:
    """Say in the model what it is, so that a deployed file can be traced to its predictor."""
    facts = {
        "version": __version__,
        "alpha": document.alpha,
        "method": document.recipe.title,
        "temperature": repr(document.temperature),
        "temperature_sets": repr(document.temperature_sets),
        "checksum": checksum_of(document),
        "classes": json.dumps(document.classes, ensure_ascii=False),
        "input_kind": document.input_kind,
    }
    if document.group_names is not None:
        facts["group_names"] = json.dumps(document.group_names, ensure_ascii=False)
    kept = {entry.key: entry.value for entry in model.metadata_props if not entry.key.startswith("thermoset.")}
    helper.set_model_props(model, kept | {f"thermoset.{key}": value for key, value in facts.items()})
    if not model.producer_name:
        model.producer_name, model.producer_version = "thermoset", __version__


def _check_choice(name: str, choice: object, known: tuple[str, ...]) -> None:
    if choice not in known:
        raise InputError(f"{name} must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}; got {quoted(choice)}.")


# ---- a classifier in front of the predictor: finding its logits, and joining the two graphs --------------------------


@dataclass(frozen=True, eq=False)
class Before:
    """A classifier, and which of its values holds the logits."""

    model: ModelProto
    logits: str
    dtype: str
    opset: int

    def join(self, after: ModelProto, opset: int) -> ModelProto:
        """The classifier with the predictor behind it; its own outputs stay."""
        first, logits = self.model, self.logits
        if opset != self.opset:
            try:
                first = version_converter.convert_version(first, opset)
            except (RuntimeError, ValueError) as error:
                raise InputError(
                    f"the model uses opset {self.opset} and cannot be converted to {opset} ({reason(error)}). "
                    f"Export it again with opset {opset}, or choose another with opset=."
                ) from None
        if {name for node in first.graph.node for name in node.output} & {*OUTPUTS, "action"}:  # names of ours
            first, logits = compose.add_prefix(first, _BEFORE, rename_inputs=False), _BEFORE + logits
        first.ir_version = after.ir_version = max(first.ir_version, after.ir_version)
        kept = [value.name for value in first.graph.output]
        try:
            return compose.merge_models(
                first, after, io_map=[(logits, "logits")], outputs=[*kept, *(one.name for one in after.graph.output)]
            )
        except (ValueError, onnx.checker.ValidationError) as error:
            raise InputError(f"the model cannot be joined to the predictor ({reason(error)}).") from None


def read_before(classifier: FilePath | ModelProto, named: str | None, n_classes: int) -> Before:
    """Read a classifier and find its logits: the output that is named, or called so, or the only one that can be."""
    model = ModelProto()
    model.CopyFrom(classifier if isinstance(classifier, ModelProto) else _load(as_path(classifier)))
    opsets = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not opsets:
        raise InputError("the model in after= uses no standard operators, so nothing can be joined to it.")
    value = _named_output(model, named) if named is not None else _find_logits(model, n_classes)
    _check_logits(model, value, n_classes)
    return Before(model, value.name, _FLOATS[value.type.tensor_type.elem_type], opsets[0])


def _load(path: Path) -> ModelProto:
    with errors_about(path):
        try:
            model = onnx.load(path, format="protobuf")  # whatever its name ends in
            onnx.checker.check_model(model)
        except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
            raise FileFormatError(f"is not an ONNX model, or is damaged ({reason(error)}).") from None
    return model


def _find_logits(model: ModelProto, n_classes: int) -> ValueInfoProto:
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


def _check_logits(model: ModelProto, value: ValueInfoProto, n_classes: int) -> None:
    """Refuse what cannot be logits of the predictor's classes."""
    if not _could_be(value, n_classes):
        raise InputError(
            f"output {quoted(value.name)} of the model is {_shape_text(value)}; the predictor needs floating-point "
            f"logits of shape (n, {n_classes})."
        )
    made_by, name = {output: node for node in model.graph.node for output in node.output}, value.name
    while name in made_by and made_by[name].op_type in _PASSING:
        name = made_by[name].input[0]
    if name in made_by and (kind := made_by[name].op_type) in _PROBABILITIES:
        raise InputError(
            f"output {quoted(value.name)} of the model comes out of a {kind}: those are probabilities, but the "
            f"predictor takes the logits before it. Name the value that holds them: {_OPTION}."
        )


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
    sizes = (str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim)
    return f"({kind}, shape ({', '.join(sizes) if tensor.HasField('shape') else '?'}))"

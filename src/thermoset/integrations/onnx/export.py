"""A fitted predictor as an ONNX model."""

import json
from pathlib import Path
from typing import Literal

from onnx import ModelProto, checker, defs, helper

from thermoset._version import __version__
from thermoset.bounds import whole_number
from thermoset.errors import InputError
from thermoset.integrations.onnx.graphs import TYPES, Graph, GraphOperations, Value
from thermoset.integrations.onnx.joining import Before, read_before
from thermoset.integrations.program import Program, group_codes
from thermoset.integrations.program.draws import u_of_ids
from thermoset.io.files import FilePath, as_path, errors_about, write_whole
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.document import Document, checksum_of
from thermoset.quoting import quoted
from thermoset.uniforms import id_keys

__all__ = ["OPSETS", "group_codes", "id_keys", "to_onnx"]

OPSETS = range(18, 27)
"""Supported opsets: runtimes since 2023 read 18, and no runtime that was tried reads 27."""

_DTYPES = ("float32", "float64", "float16")
_SOURCES = ("row", "input", "ids")
_PREFIX = "thermoset/"
_LARGEST = 2**31 - 1  # bytes of a model in one file: a limit of Protocol Buffers
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
        uint64 (n,), made with `thermoset.integrations.onnx.id_keys`. A predictor that draws no u has no such input.

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
    version = _opset(opset, before)
    made = _model(program, _dtype(dtype, before), u, version)
    if before is not None:
        made = before.joined(made, version)
    _describe(made, predictor.document_)
    checker.check_model(made, full_check=before is None)  # of the classifier it is not ours to complain about shapes
    if target is not None:
        _write(target, made)
    return made


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
    found = program.run(ops, graph, inputs["logits"][0], u, groups)
    for name, value in zip(program.outputs, found, strict=True):
        graph.name(value, name)
    shapes: dict[str, Shape] = {name: ["n"] for name in program.outputs}
    shapes["probabilities"] = shapes["sets"] = ["n", program.n_classes]
    outputs = [
        helper.make_tensor_value_info(name, TYPES[value.dtype], shapes[name])
        for name, value in zip(program.outputs, found, strict=True)
    ]
    given = [helper.make_tensor_value_info(name, TYPES[value.dtype], shape) for name, (value, shape) in inputs.items()]
    nodes, constants = graph.needed(program.outputs)
    body = helper.make_graph(nodes, "thermoset", given, outputs, constants)
    domain = helper.make_opsetid("", opset)
    ir_version = helper.find_min_ir_version_for([domain])
    return helper.make_model(body, opset_imports=[domain], ir_version=ir_version)


def _describe(model: ModelProto, made: Document) -> None:
    """Say in the model what it is, so that a deployed file can be traced to its predictor."""
    facts = {
        "version": __version__,
        "alpha": made.alpha,
        "method": made.recipe.title,
        "temperature": repr(made.temperature),
        "temperature_sets": repr(made.temperature_sets),
        "checksum": checksum_of(made),
        "classes": json.dumps(made.classes, ensure_ascii=False),
        "input_kind": made.input_kind,
    }
    if made.group_names is not None:
        facts["group_names"] = json.dumps(made.group_names, ensure_ascii=False)
    kept = {entry.key: entry.value for entry in model.metadata_props if not entry.key.startswith("thermoset.")}
    helper.set_model_props(model, kept | {f"thermoset.{key}": value for key, value in facts.items()})
    if not model.producer_name:
        model.producer_name, model.producer_version = "thermoset", __version__


def _check_choice(name: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise InputError(f"{name} must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}; got {quoted(given)}.")


def _opset(asked: int | None, before: Before | None) -> int:
    newest = min(OPSETS[-1], defs.onnx_opset_version())
    if asked is None:
        return OPSETS[0] if before is None else min(max(before.opset, OPSETS[0]), newest)
    return whole_number(asked, "opset", OPSETS[0], newest, "Omit it.")


def _dtype(asked: str | None, before: Before | None) -> str:
    if before is None:
        _check_choice("dtype", asked or _DTYPES[0], _DTYPES)
        return asked or _DTYPES[0]
    if asked is not None and asked != before.dtype:
        raise InputError(f"dtype is {quoted(asked)}, but the model gives logits of type {before.dtype}. Omit it.")
    return before.dtype


def _write(target: Path, model: ModelProto) -> None:
    size = model.ByteSize()
    if size > _LARGEST:
        raise InputError(
            f"{target}: the joined model has {size:,} bytes, but an ONNX file holds at most {_LARGEST:,}. Export the "
            "predictor alone, and let the server run one after the other."
        )
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(model.SerializeToString())

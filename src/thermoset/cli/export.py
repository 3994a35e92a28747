"""`thermoset export`: the predictor for engines outside Python."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from thermoset.cli.options import Predictor
from thermoset.cli.output import check_file
from thermoset.errors import InputError
from thermoset.quoting import printable

if TYPE_CHECKING:
    from thermoset.predictor import TwoTemperaturePredictor

__all__ = ["export"]


@dataclass(frozen=True)
class _Request:
    """What was asked for beside the kind of file."""

    out: Path
    after: Path | None
    logits: str | None
    opset: int | None
    dtype: str | None
    u: Literal["row", "input", "ids"]


def export(
    predictor: Predictor,
    out: Annotated[Path, typer.Option(help="The file to write, such as predictor.onnx or predictor.pt2.")],
    to: Annotated[Literal["onnx", "torch"], typer.Option(help="An ONNX model, or a program of torch.export.")] = "onnx",
    after: Annotated[
        Path | None, typer.Option(metavar="MODEL.onnx", help="Join the predictor to this classifier.")
    ] = None,
    logits: Annotated[
        str | None, typer.Option(metavar="NAME", help="The value of MODEL.onnx that holds the logits, if ambiguous.")
    ] = None,
    opset: Annotated[int | None, typer.Option(help="Opset of the ONNX model, 18 to 26; by default 18.")] = None,
    dtype: Annotated[
        Literal["float32", "float64", "float16"] | None, typer.Option(help="Type of the logits; float32 by default.")
    ] = None,
    u: Annotated[
        Literal["row", "input", "ids"],
        typer.Option(help="Where the ONNX model gets u from: the row itself, an input u, or an input id_keys."),
    ] = "row",
) -> None:
    """Write the predictor as a model that gives the same sets without Python: ONNX, or a torch.export program."""
    from thermoset.data.input_kinds import PROBABILITIES
    from thermoset.predictor import TwoTemperaturePredictor

    check_file(out, [predictor] if after is None else [predictor, after])
    request = _Request(out, after, logits, opset, dtype, u)
    model = TwoTemperaturePredictor.load(predictor)
    said = _WRITERS[to](model, request)
    sys.stdout.write(f"Wrote {printable(str(out))} ({out.stat().st_size / 1024:,.1f} KiB): {said}\n")
    if model.document_.input_kind == PROBABILITIES:
        sys.stdout.write("The predictor was fitted on probabilities: give the file their logarithms as logits.\n")


def _onnx(predictor: "TwoTemperaturePredictor", request: _Request) -> str:
    from thermoset.integrations.onnx import to_onnx

    model = to_onnx(
        predictor,
        request.out,
        after=request.after,
        opset=request.opset,
        logits=request.logits,
        dtype=request.dtype,
        u=request.u,
    )
    opset = next(entry.version for entry in model.opset_import if not entry.domain)
    inputs, outputs = (", ".join(value.name for value in side) for side in (model.graph.input, model.graph.output))
    return f"ONNX, opset {opset}; in: {printable(inputs)}; out: {printable(outputs)}"


def _torch(predictor: "TwoTemperaturePredictor", request: _Request) -> str:
    given = [name for name in ("after", "logits", "opset") if getattr(request, name) is not None]
    given += ["u"] if request.u != "row" else []
    if given:
        raise InputError(f"--{given[0]} is for ONNX models. Omit it, or use --to onnx.")
    from thermoset.integrations.torch import save_torch  # after the options: what is wrong with them needs no PyTorch

    save_torch(predictor, request.out, dtype=request.dtype or "float32")
    inputs = "logits" if predictor.group_names_ is None else "logits, groups"
    return f"torch.export program; in: {inputs}; out: a dict of label, confidence, probabilities, sets, sizes"


_WRITERS: dict[str, Callable[["TwoTemperaturePredictor", _Request], str]] = {"onnx": _onnx, "torch": _torch}

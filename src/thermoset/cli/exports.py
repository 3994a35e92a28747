"""`thermoset export` and `thermoset answer`: what one takes elsewhere: models and rules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from thermoset.cli.options import Json, Predictor, Seed, advanced, option
from thermoset.cli.output import Screen, check_file, check_files, print_json
from thermoset.errors import InputError
from thermoset.quoting import quoted

if TYPE_CHECKING:
    from thermoset.arrays import Bools, Floats

# ---- models for other engines ----------------------------------------------------------------------------------------


def export(
    predictor: Predictor,
    out: Annotated[
        Path, option("The file to write, such as predictor.onnx or predictor.pt2; a folder for web.", "FILE|FOLDER")
    ],
    to: Annotated[
        Literal["onnx", "torch", "web"],
        option("An ONNX model, a program of torch.export, or a page that predicts in the browser."),
    ] = "onnx",
    after: Annotated[
        Path | None, option("Join the predictor to this classifier, into one ONNX model.", "MODEL.onnx")
    ] = None,
    as_json: Json = False,
    logits: Annotated[
        str | None, advanced("With --after: the value of MODEL.onnx that holds the logits, if several could.", "NAME")
    ] = None,
    opset: Annotated[int | None, advanced("Opset of the ONNX model, 18 to 26; by default 18.")] = None,
    dtype: Annotated[
        Literal["float32", "float64", "float16"] | None, advanced("Type of the logits; float32 by default.")
    ] = None,
    u: Annotated[
        Literal["row", "input", "ids"],
        advanced(
            "Where an ONNX model gets the random part of a set from: the row itself, an input u, or an input id_keys."
        ),
    ] = "row",
    runtime: Annotated[
        Path | None,
        advanced("With --to web: the unpacked npm package onnxruntime-web; by default npm fetches it, once.", "FOLDER"),
    ] = None,
) -> None:
    """Write the predictor as something that makes the same sets without Python: ONNX, torch.export, or a web page."""
    from thermoset.data.guards import PROBABILITIES
    from thermoset.predictor import TwoTemperaturePredictor

    for_onnx: dict[str, Any] = {"after": after, "logits": logits, "opset": opset, "u": None if u == "row" else u}
    excluded = {
        "onnx": {"runtime": runtime},
        "torch": for_onnx | {"runtime": runtime},
        "web": for_onnx | {"dtype": dtype},
    }
    for name, value in excluded[to].items():
        if value is not None:
            raise InputError(f"--{name} does not go with --to {to}. Omit it.")
    check_files(out, []) if to == "web" else check_file(out, [predictor] if after is None else [predictor, after])
    model = TwoTemperaturePredictor.load(predictor)
    facts: dict[str, Any] = {"out": str(out), "to": to}
    written = [out]
    if to == "onnx":
        from thermoset.integrations.onnx import to_onnx

        written_model = to_onnx(model, out, after=after, opset=opset, logits=logits, dtype=dtype, u=u)
        facts["opset"] = next(entry.version for entry in written_model.opset_import if not entry.domain)
        facts["inputs"] = [value.name for value in written_model.graph.input]
        facts["outputs"] = [value.name for value in written_model.graph.output]
        kind = f"ONNX, opset {facts['opset']}"
    elif to == "torch":
        from thermoset.integrations.torch import save_torch  # after the options: mistakes in them need no PyTorch

        save_torch(model, out, dtype=dtype or "float32")
        facts["inputs"] = ["logits"] if model.group_names_ is None else ["logits", "groups"]
        facts["outputs"] = ["label", "confidence", "probabilities", "sets", "sizes"]
        facts["outputs"] += [] if model.document_.answers is None else ["action"]
        kind = "torch.export program"
    else:
        from thermoset.integrations.web import to_web

        written = to_web(model, out, runtime=runtime)
        facts["files"] = [path.name for path in written]
        kind = "a web page"
    facts["bytes"] = sum(path.stat().st_size for path in written)
    if as_json:
        print_json(facts)
        return
    screen = Screen()
    wrote = f"Wrote {out} ({facts['bytes'] / 1024:,.1f} KiB): {kind}"
    if to == "web":
        screen.say(f"{wrote}. To open it: python -m http.server --directory {out}", wrap=False)
        return
    screen.say(f"{wrote}; in: {', '.join(facts['inputs'])}; out: {', '.join(facts['outputs'])}", wrap=False)
    if model.document_.input_kind == PROBABILITIES:
        screen.say("The predictor was fitted on probabilities: give the model their logarithms as logits.", wrap=False)


# ---- a rule for any score --------------------------------------------------------------------------------------------

_RIGHT = {"1": True, "true": True, "yes": True, "right": True, "0": False, "false": False, "no": False, "wrong": False}


def answer(
    scores: Annotated[
        Path, typer.Argument(metavar="FILE", help="Judged rows: csv, tsv, parquet, arrow or jsonl, one row each.")
    ],
    score: Annotated[str, option("The score of each row: the higher, the surer.", "COLUMN")],
    right: Annotated[str, option("Whether each answer is right: true or false, 1 or 0.", "COLUMN")],
    error: Annotated[str, option("The largest share of wrong answers among those that go out alone.")],
    out: Annotated[Path, option("File for the rule.", "FILE")] = Path("rule.json"),
    confidence: Annotated[str, option("How sure the claim is.")] = "0.95",
    groups: Annotated[str | None, option("The group of each row: each gets a threshold of its own.", "COLUMN")] = None,
    joint: Annotated[
        bool, option("With --groups: all claims hold together, not just each by itself.", name="--joint")
    ] = False,
    as_json: Json = False,
    seed: Seed = 0,
) -> None:
    """Find the score from which on answers of any model may go out alone, with a certified error."""
    import msgspec

    from thermoset.decisions import AnswerRule

    check_file(out, [scores])
    rule = AnswerRule(f"error<={error}", confidence, joint, seed)
    table = _read_columns(scores, [score, right, *([] if groups is None else [groups])])
    rule.fit(
        _numbers(table[score], score), _as_booleans(table[right], right), None if groups is None else table[groups]
    )
    rule.save(out)
    names = rule.group_names_
    if as_json:
        claims = [msgspec.to_builtins(claim) for claim in rule.claims_]
        print_json({"groups": None if names is None else list(names), "claims": claims, "out": str(out)})
        return
    screen = Screen()
    if names is None:
        claim = rule.claims_[0]
        screen.say(claim.sentence)
        if claim.met:
            screen.say(f"Answer rows with a score of {claim.threshold:.6g} or more.")
    else:
        lines = []
        for name, claim in zip(names, rule.claims_, strict=True):
            start, needed = f"{claim.threshold:.6g}", ""
            if not claim.met:
                start, needed = "none", "a better model" if claim.needed is None else f"about {claim.needed:,}"
            wrong = f"{claim.errors:,} of {claim.answered:,}"
            lines.append([name, start, f"{claim.share:.1%}", wrong, f"{claim.rows:,}", needed])
        screen.table(["group", "answer from", "answered", "wrong", "rows", "rows needed"], lines)
        each = "all hold together" if joint else "each holds by itself"
        screen.say(f"Confidence {confidence}: {each}. Groups that are not listed are not answered.")
    screen.wrote(out)


def _read_columns(path: Path, names: list[str]) -> dict[str, list[Any]]:
    """Columns of a table by name."""
    from thermoset.io.files import byte_limit, errors_about
    from thermoset.io.roles import all_values, named_column, request
    from thermoset.io.source import open_table

    requested = request(False, None, ignore=names, labels=False, groups=False, doubt=False)
    table = open_table(path, requested)[1]
    with errors_about(path):
        return {name: all_values(named_column(table, name), byte_limit(None)).tolist() for name in names}


def _numbers(cells: list[Any], name: str) -> "Floats":
    import numpy as np

    try:
        return np.asarray(cells).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"column {quoted(name)} must hold numbers, the score of each row.") from None


def _as_booleans(cells: list[Any], name: str) -> "Bools":
    """Right or wrong as booleans, from booleans, numbers or words."""
    import numpy as np

    texts = [str(one).strip().lower().removesuffix(".0") for one in cells]
    if unknown := [text for text in texts if text not in _RIGHT]:
        raise InputError(f"column {quoted(name)} must say true or false, or 1 or 0; got {quoted(unknown[0])}.")
    return np.array([_RIGHT[text] for text in texts], dtype=np.bool_)

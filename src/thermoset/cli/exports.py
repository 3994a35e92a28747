"""`thermoset export`, `thermoset report` and `thermoset answer`: what one takes elsewhere: models, pages and rules."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from thermoset.cli.options import (
    ADVANCED,
    ClusterWork,
    Json,
    Labelled,
    Predictor,
    Seed,
    SplitColumns,
    files_in,
    opened_logits,
    title_of,
)
from thermoset.cli.output import (
    PAGE_MODULES,
    Screen,
    check_file,
    check_files,
    print_json,
    telling_warnings,
    write_file,
)
from thermoset.cli.tune import page_of
from thermoset.errors import FileFormatError, InputError
from thermoset.quoting import quoted, reason

if TYPE_CHECKING:
    from thermoset.arrays import Bools, Floats

# ---- models for other engines ----------------------------------------------------------------------------------------


def export(
    predictor: Predictor,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE|DIR", help="The file to write, such as predictor.onnx or predictor.pt2; a folder for web."
        ),
    ],
    to: Annotated[
        Literal["onnx", "torch", "web"],
        typer.Option(help="An ONNX model, a program of torch.export, or a page that predicts in the browser."),
    ] = "onnx",
    after: Annotated[
        Path | None,
        typer.Option(metavar="MODEL.onnx", help="Join the predictor to this classifier, into one ONNX model."),
    ] = None,
    as_json: Json = False,
    logits: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --after: the value of MODEL.onnx that holds the logits, if several could.",
            rich_help_panel=ADVANCED,
        ),
    ] = None,
    opset: Annotated[
        int | None, typer.Option(help="Opset of the ONNX model, 18 to 26; by default 18.", rich_help_panel=ADVANCED)
    ] = None,
    dtype: Annotated[
        Literal["float32", "float64", "float16"] | None,
        typer.Option(help="Type of the logits; float32 by default.", rich_help_panel=ADVANCED),
    ] = None,
    u: Annotated[
        Literal["row", "input", "ids"],
        typer.Option(
            help="Where an ONNX model gets the random part of a set from: the row itself, an input u, or an input "
            "id_keys.",
            rich_help_panel=ADVANCED,
        ),
    ] = "row",
    runtime: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --to web: the unpacked npm package onnxruntime-web; by default npm fetches it, once.",
            rich_help_panel=ADVANCED,
        ),
    ] = None,
) -> None:
    """Write the predictor as something that makes the same sets without Python: ONNX, torch.export, or a web page."""
    from thermoset.data.guards import PROBABILITIES
    from thermoset.predictor import TwoTemperaturePredictor

    for_onnx: dict[str, Any] = {"after": after, "logits": logits, "opset": opset, "u": None if u == "row" else u}
    given = {"onnx": {"runtime": runtime}, "torch": for_onnx | {"runtime": runtime}, "web": for_onnx | {"dtype": dtype}}
    for option, value in given[to].items():
        if value is not None:
            raise InputError(f"--{option} does not go with --to {to}. Omit it.")
    check_files(out, []) if to == "web" else check_file(out, [predictor] if after is None else [predictor, after])
    model = TwoTemperaturePredictor.load(predictor)
    facts: dict[str, Any] = {"out": str(out), "to": to}
    written = [out]
    if to == "onnx":
        from thermoset.integrations.onnx import to_onnx

        made = to_onnx(model, out, after=after, opset=opset, logits=logits, dtype=dtype, u=u)
        facts["opset"] = next(entry.version for entry in made.opset_import if not entry.domain)
        facts["inputs"] = [value.name for value in made.graph.input]
        facts["outputs"] = [value.name for value in made.graph.output]
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


# ---- the page --------------------------------------------------------------------------------------------------------


def report(
    predictor: Predictor,
    logits: Labelled,
    columns: SplitColumns,
    work: ClusterWork,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write (html).")] = Path("report.html"),
    name: Annotated[str, typer.Option(help="Name of the data on the page; by default that of the file.")] = "",
    trials: Annotated[int, typer.Option(help="Random splits behind the curves.")] = 100,
) -> None:
    """Write the page that explains a predictor, on fresh labelled rows or on those it was fitted on."""
    from thermoset.io.files import need
    from thermoset.predictor import TwoTemperaturePredictor

    for module in PAGE_MODULES:
        need(module, "report", "an HTML report")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out {out} must be an HTML file. Name one that ends in .html.")
    check_files(out.parent, [out.name], [predictor, *files_in(logits), *columns.files])
    model = TwoTemperaturePredictor.load(predictor)
    with telling_warnings(), opened_logits(logits, columns, work, document=model.document_) as data:
        together = columns.read_row_values(logits, "--split-by", len(data))
        page = page_of(model, data, name or title_of(logits), work.quiet, trials=trials, split_by=together)
    Screen().wrote(write_file(out, page))


# ---- a rule for any score --------------------------------------------------------------------------------------------

_MOST_BYTES = 2**32
_RIGHT = {"1": True, "true": True, "yes": True, "right": True, "0": False, "false": False, "no": False, "wrong": False}


def answer(
    scores: Annotated[
        Path, typer.Argument(metavar="FILE", help="Judged rows: csv, tsv, parquet, arrow or jsonl, one row each.")
    ],
    score: Annotated[str, typer.Option(metavar="COLUMN", help="The score of each row: the higher, the surer.")],
    right: Annotated[str, typer.Option(metavar="COLUMN", help="Whether each answer is right: true or false, 1 or 0.")],
    error: Annotated[str, typer.Option(help="The largest share of wrong answers among those that go out alone.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the rule.")] = Path("rule.json"),
    confidence: Annotated[str, typer.Option(help="How sure the claim is.")] = "0.95",
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The group of each row: each gets a threshold of its own.")
    ] = None,
    joint: Annotated[
        bool, typer.Option("--joint", help="With --groups: all claims hold together, not just each by itself.")
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
    rule.fit(_numbers(table[score], score), _judged(table[right], right), None if groups is None else table[groups])
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
    from thermoset.io.files import errors_about, need, read_at_most

    kind = path.suffix.lower()
    if kind in (".parquet", ".arrow", ".feather"):
        need("pyarrow", "io", f"reading {kind}")
        from pyarrow import feather, parquet

        with errors_about(path):
            table = parquet.read_table(path) if kind == ".parquet" else feather.read_table(path)
        known = list(table.column_names)
        columns = {name: table[name].to_pylist() for name in known if name in names}
    elif kind in (".csv", ".tsv", ".jsonl"):
        try:
            lines = read_at_most(path, _MOST_BYTES).decode("utf-8-sig").splitlines()
            if kind == ".jsonl":
                rows = [json.loads(line) for line in lines if line.strip()]
            else:
                rows = list(csv.DictReader(lines, delimiter="\t" if kind == ".tsv" else ","))
            known = list(dict(rows[0])) if rows else []
            columns = {name: [row.get(name) for row in rows] for name in names if name in known}
        except (ValueError, TypeError, AttributeError, csv.Error, RecursionError) as error:
            raise FileFormatError(f"{path}: is not a readable {kind} file ({reason(error)}).") from None
    else:
        raise InputError(f"{path}: judged rows are read from csv, tsv, jsonl, parquet or arrow; got {quoted(kind)}.")
    for name in names:
        if name not in columns:
            raise InputError(f"{path}: has no column {quoted(name)}; it has {', '.join(map(quoted, known))}.")
    return columns


def _numbers(cells: list[Any], name: str) -> "Floats":
    import numpy as np

    try:
        return np.asarray(cells).astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"column {quoted(name)} must hold numbers, the score of each row.") from None


def _judged(cells: list[Any], name: str) -> "Bools":
    """Right or wrong as booleans, from booleans, numbers or words."""
    import numpy as np

    texts = [str(one).strip().lower().removesuffix(".0") for one in cells]
    if unknown := [text for text in texts if text not in _RIGHT]:
        raise InputError(f"column {quoted(name)} must say true or false, or 1 or 0; got {quoted(unknown[0])}.")
    return np.array([_RIGHT[text] for text in texts], dtype=np.bool_)

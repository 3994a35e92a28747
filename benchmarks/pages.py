"""What is written into pages: parts between two comments, and the table of docs/speed.md.

`make bench` keeps what it measured in measured.json, and the table is made from it.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["MEASURED", "NEEDED", "between", "keep", "table", "write", "write_between"]

MEASURED = Path(__file__).with_name("measured.json")
_PAGE = Path(__file__).parents[1] / "docs" / "speed.md"


def between(text: str, name: str) -> str:
    """What stands between the comments of that name."""
    match = _pattern(name).search(text)
    if match is None:
        raise ValueError(f"the page has no part between <!-- {name}: written by ... --> and <!-- end of {name} -->")
    return match[2]


def write_between(path: Path, name: str, text: str) -> None:
    """Replace it, and leave the rest alone."""
    page = path.read_text(encoding="utf-8")
    between(page, name)
    path.write_text(_pattern(name).sub(lambda match: match[1] + text + match[3], page), encoding="utf-8")


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: written by [^>]+ -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)


class Row(NamedTuple):
    """What is measured, compared with what, where both stand, and how their values are shown."""

    job: str
    compared: str
    benchmark: str
    line: str
    base: str | None
    shown: str


_SWEEP = "`sweep`: 46 temperatures, 3 scores, 100 trials, all metrics"
_ROWS = (
    Row("T\\* by NLL, to machine precision", "scikit-learn", "temperature", "thermoset", "scikit-learn", "{faster}"),
    Row("T\\* by NLL", "`numpy.exp(logits)`", "temperature", "thermoset", "numpy.exp(logits)", "{times}"),
    Row(
        "`predict_set`, randomised RAPS", "`numpy.sort(logits, axis=1)`", "raps", "predict_set", "numpy.sort", "{times}"
    ),
    Row(_SWEEP, "46 calls of SciPy's softmax", "sweep", "100 trials", "46 softmaxes", "{times} ({value})"),
    Row(
        "the same sweep", "NumPy loops, everything in each trial", "plain", "the sweep", "loop, everything", "{faster}"
    ),
    Row("the same sweep", "NumPy loops, sorted once", "plain", "the sweep", "loop, sorted once", "{faster}"),
    Row("100 trials of the sweep", "one trial", "sweep", "100 trials", "1 trial", "{times}"),
    Row("10 alphas in the sweep, 0.05 to 0.5", "one alpha", "sweep", "10 alphas", "100 trials", "{times}"),
    Row(
        "`TwoTemperaturePredictor.fit`, half of the rows for the temperatures",
        "the sweep of those rows at five levels, RAPS",
        "tune",
        "TwoTemperaturePredictor.fit",
        "sweep,",
        "{times} ({value})",
    ),
    Row(
        "`thermoset study`, 10,000 × 100",
        "one sweep of it",
        "study",
        "study, 10,000",
        "one sweep, 10,000",
        "{times} ({value})",
    ),
    Row(
        "`thermoset study`, 50,000 × 1,000",
        "one sweep of it",
        "study",
        "study, 50,000",
        "one sweep, 50,000",
        "{times} ({value}, {note})",
    ),
    Row(
        "the report's page, all but its sweep",
        "its sweep, 3 scores and 3 levels",
        "page",
        "everything else",
        "its sweep",
        "{times} ({value})",
    ),
    Row(
        "a sweep with a threshold for each class, 10,000 × 100",
        "with one threshold",
        "small",
        "thresholds by class",
        "the sweep",
        "{times}",
    ),
    Row("memory of a sweep of 1,000,000 × 10, beyond the input", "–", "memory", "the same", None, "{value}"),
    Row("memory of the sweep", "the input", "memory", "sweep,", None, "{note}"),
    Row("memory of `predict_set`, beyond the input", "its boolean result", "memory", "predict_set", None, "{note}"),
    Row("`import thermoset`", "a Python that does nothing", "startup", "import thermoset", "python -c pass", "{more}"),
    Row(
        "a new process: `load` and the first answer",
        "`import numpy, numba`",
        "startup",
        "load",
        "import numpy",
        "{times}",
    ),
    Row("label, confidence and set of 1 row, warm", "–", "latency", "1 row, thermoset", None, "{value}"),
    Row("of 32 rows", "–", "latency", "32 rows, thermoset", None, "{value}"),
    Row(
        "the torch module, 1,024 rows, all five answers",
        "the library",
        "latency",
        "1,024 rows, torch",
        "1,024 rows, thermoset, with",
        "{times}",
    ),
    Row(
        "the ONNX model in ONNX Runtime, 1 row",
        "the library",
        "latency",
        "1 row, ONNX",
        "1 row, thermoset",
        "{times} ({value})",
    ),
)

NEEDED = tuple(dict.fromkeys(row.benchmark for row in _ROWS))
"""The benchmarks whose results the page shows."""


def keep(machine: Mapping[str, Any], tables: list[dict[str, Any]]) -> None:
    """Put tables into measured.json in place of older ones of the same name."""
    kept = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    kept |= {table["name"]: {**table, "machine": dict(machine)} for table in tables}
    MEASURED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def write() -> None:
    """Write the table into the page."""
    write_between(_PAGE, "table", table(json.loads(MEASURED.read_text(encoding="utf-8"))))


def table(measured: Mapping[str, Any]) -> str:
    """The table, in Markdown; what has not been measured is left out."""
    lines = [
        f"| {row.job} | {row.compared} | {_shown_value(row, measured[row.benchmark])} |"
        for row in _ROWS
        if row.benchmark in measured
    ]
    return "\n".join(["| job | compared with | measured |", "|---|---|---|", *lines, "", _where(measured)]) + "\n"


def _shown_value(row: Row, benchmark: Mapping[str, Any]) -> str:
    line = _line(benchmark, row.line)
    value, base = line["value"], _line(benchmark, row.base)["value"] if row.base else None
    ratio = value / base if base else float("nan")
    return row.shown.format(
        value=_amount(value, benchmark["unit"]),
        times=f"{_digits(ratio)} times",
        faster=f"{_digits(1 / ratio)} times as fast" if base else "",
        more=f"{_amount(value - (base or 0), benchmark['unit'])} more",
        note=line["note"],
    )


def _line(benchmark: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The line of that name, or the first that begins with it."""
    lines: list[dict[str, Any]] = benchmark["lines"]
    named = [line for line in lines if line["what"] == name] or [
        line for line in lines if line["what"].startswith(name)
    ]
    if not named:
        raise ValueError(f"{benchmark['title']!r} has no line that begins with {name!r}; name another one in pages.py")
    return named[0]


def _amount(value: float, unit: str) -> str:
    return f"{_digits(value / 1e3)} ms" if unit == "µs" else f"{_digits(value)} {unit}"


def _digits(value: float) -> str:
    """Two digits, or three before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def _where(measured: Mapping[str, Any]) -> str:
    """The machines; more than one where benchmarks were run at different times."""
    said = dict.fromkeys(
        f"{machine['cores']} cores, {machine['threads']} threads, Python {machine['python']}, "
        f"NumPy {machine['versions']['numpy']}"
        + (f", load average {machine['load']:g} at the start" if machine.get("load") else "")
        for machine in (benchmark["machine"] for benchmark in measured.values())
    )
    return "Measured on: " + "; ".join(said) + "."

"""What a benchmark gives: a table of measured lines, some with a target."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.measure import Timing

__all__ = ["Line", "Settings", "Table", "Target", "timed", "timed_lines"]


@dataclass(frozen=True)
class Settings:
    """The size of a run."""

    rows: int = 50_000
    classes: int = 1_000
    repeats: int = 3
    threads: int = 2


@dataclass(frozen=True)
class Target:
    """A limit on a line's own value, or on its ratio to the yardstick or to thermoset's line."""

    sign: Literal["<=", ">="]
    limit: float
    of: Literal["value", "yardstick", "thermoset"]


@dataclass(frozen=True)
class Line:
    """One measured contender; a value of None was not measured, and the note says why."""

    what: str
    value: float | None
    runs: int = 1
    target: Target | None = None
    note: str = ""


@dataclass(frozen=True)
class Table:
    """The lines of one benchmark; the first is the yardstick and `thermoset` names ours, if there are peers."""

    title: str
    lines: list[Line]
    unit: str = "s"
    thermoset: str | None = None

    def ratio(self, line: Line, to: str) -> float | None:
        """How many times the yardstick's value, or ours, this line's is; None where that says nothing."""
        base = self.lines[0] if to == "yardstick" else next((x for x in self.lines if x.what == self.thermoset), None)
        return line.value / base.value if base is not None and line.value is not None and base.value else None

    def met(self, line: Line) -> bool | None:
        """Whether the line's target is met; None without a target or a measurement."""
        if line.target is None:
            return None
        value = line.value if line.target.of == "value" else self.ratio(line, line.target.of)
        if value is None:
            return None
        return value <= line.target.limit if line.target.sign == "<=" else value >= line.target.limit

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        lines = [
            {
                "what": line.what,
                "value": line.value,
                "runs": line.runs,
                "ratio_to_yardstick": self.ratio(line, "yardstick"),
                "ratio_to_thermoset": self.ratio(line, "thermoset"),
                "target": self._target(line),
                "met": self.met(line),
                "note": line.note,
            }
            for line in self.lines
        ]
        return {"title": self.title, "unit": self.unit, "yardstick": self.lines[0].what, "lines": lines}

    def show(self, console: Console) -> None:
        """Print the table."""
        out = RichTable(title=self.title, title_justify="left", title_style="bold")
        out.add_column("what", overflow="fold")
        bases = ["yardstick", *(["thermoset"] if self.thermoset else [])]
        for header in ("best, s" if self.unit == "s" else self.unit, "runs", *(f"× {base}" for base in bases)):
            out.add_column(header, justify="right")
        for header in ("target", "met", "note"):
            out.add_column(header, overflow="fold")
        for line in self.lines:
            value = "-" if line.value is None else f"{line.value:.3g}" if line.value < 10 else f"{line.value:.1f}"
            ratios = [self.ratio(line, base) for base in bases]
            shown = ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
            met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[self.met(line)]
            out.add_row(line.what, value, str(line.runs or ""), *shown, self._target(line), met, line.note)
        console.print(out)

    def _target(self, line: Line) -> str:
        if line.target is None:
            return ""
        suffix = f" {self.unit}" if line.target.of == "value" else f" × {line.target.of}"
        return f"{line.target.sign} {line.target.limit:g}{suffix}"


def timed(what: str, timing: Timing, target: Target | None = None, note: str = "") -> Line:
    """A line of a timing; a contender that could not be called says so instead of `note`."""
    return Line(what, timing.seconds, timing.runs, target, timing.missing or note)


def timed_lines(
    timings: Mapping[str, Timing], targets: Mapping[str, Target] | None = None, notes: Mapping[str, str] | None = None
) -> list[Line]:
    """A line of each timing, under its own name."""
    return [timed(name, one, (targets or {}).get(name), (notes or {}).get(name, "")) for name, one in timings.items()]

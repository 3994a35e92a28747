"""`thermoset study`: the paper's tables and figures from a folder of logits, beside what it prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thermoset.cli.options import Quiet, Seed, parts, told_warnings
from thermoset.cli.progress import ProgressBar
from thermoset.quoting import printable

if TYPE_CHECKING:
    from thermoset.paper.study import PairStudy, Settings, Study

__all__ = ["study"]


def study(
    folder: Annotated[Path, typer.Argument(help="Folder with files of labelled logits.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the page.")] = Path("study-output"),
    alpha: Annotated[str, typer.Option(help="Miscoverage levels, comma-separated.")] = "0.1,0.05",
    cp: Annotated[str, typer.Option(help="Rows that set thresholds, in percent, comma-separated.")] = "5,10,20",
    temperatures: Annotated[
        str | None, typer.Option(help="start:stop:step, or comma-separated numbers; 0.3:5:0.1 by default.")
    ] = None,
    trials: Annotated[int, typer.Option(min=2, help="Random splits.")] = 100,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Reproduce every table and figure of the paper from a folder of logits, and compare with the printed numbers."""
    from thermoset.io.files import need
    from thermoset.paper.study import study as run

    need("matplotlib", "plot", "the figures")
    asked = _settings(alpha, cp, temperatures, trials, seed)
    with ProgressBar(quiet, "Studying") as bar, told_warnings():
        found = run(folder, out, asked, progress=bar.tell)
    _show(found, out)


def _settings(alpha: str, cp: str, temperatures: str | None, trials: int, seed: int) -> "Settings":
    """What was asked for, refused in one line before the work if it makes no sense."""
    from thermoset.errors import InputError
    from thermoset.levels import exact_level
    from thermoset.paper.study import Settings
    from thermoset.quoting import quoted
    from thermoset.sweeping import DEFAULT_GRID

    percents = parts(cp)
    if not percents or not all(text.isascii() and text.isdigit() and len(text) < 3 for text in percents):
        raise InputError(f"--cp must be comma-separated whole percentages; got {quoted(cp)}. Try 5,10,20.")
    return Settings(
        trials=trials,
        random_state=seed,
        alphas=tuple(float(exact_level(level)) for level in parts(alpha)),
        cp_percents=tuple(map(int, percents)),
        temperatures=DEFAULT_GRID if temperatures is None else temperatures,
    )


def _show(found: "Study", out: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from thermoset.metrics import METRICS

    size, gap = (METRICS[name].title for name in ("avg_size", "top_coverage_gap"))
    console = Console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("file", overflow="fold", min_width=10)  # a long name wraps, numbers do not
    for column in (
        "T* by ECE,\nmedian\nof means",
        f"{size}\nof APS,\nT = 1, T*",
        f"{gap}\nof APS,\nT = 1, T*",
        f"printed\n{size}\nagrees",
        f"printed\n{gap}\nagrees",
        "claims:\nhold, open,\nfail",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for pair in found.pairs:
        table.add_row(Text(pair.title), *_line(pair))
    console.print(table)
    for claim in found.claims:
        verdict = {True: "holds", False: "does not hold", None: "is open"}[claim.holds]
        console.print(Text(f"Claim {verdict}: {claim.text}. {claim.found}."), soft_wrap=True)
    for pair in found.pairs:
        if pair.remark:
            console.print(Text(pair.remark), soft_wrap=True)
    for name, reason in found.skipped.items():
        console.print(Text(f"Skipped {name}: {reason}"), soft_wrap=True)
    written, begin = printable(str(out)), printable(str(out / "index.html"))
    console.print(Text(f"Wrote {len(found.files)} files to {written}. Start with {begin}"), soft_wrap=True)


def _line(pair: "PairStudy") -> list[str]:
    """A file in a line of the table."""
    from thermoset.sweeping import median_of_means

    alpha, cp = pair.settings.main
    at = {
        (cell.metric, cell.at): cell.value
        for cell in pair.cells
        if (cell.mode, cell.method, cell.alpha, cell.cp_percent) == ("exact", "aps", alpha, cp)
    }
    agree = {one.metric: f"{one.agree} of {one.printed}" for one in pair.agreement}
    claims = [claim.holds for claim in pair.claims]
    return [
        f"{median_of_means(pair.measured.trial_ece):.3f}",  # as in the overview of the page
        f"{at['avg_size', 'before']:.2f}, {at['avg_size', 'after']:.2f}",
        f"{at['top_coverage_gap', 'before']:.3f}, {at['top_coverage_gap', 'after']:.3f}",
        agree.get("avg_size", "-"),
        agree.get("top_coverage_gap", "-"),
        f"{claims.count(True)}, {claims.count(None)}, {claims.count(False)}",
    ]

"""`thermoset study`: the paper's tables and figures from a folder of logits, beside what it prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thermoset.cli.options import Quiet, Seed, told_warnings
from thermoset.cli.progress import ProgressBar
from thermoset.quoting import printable

if TYPE_CHECKING:
    from thermoset.paper.study import Study

__all__ = ["study"]


def study(
    folder: Annotated[Path, typer.Argument(help="Folder with files of labelled logits.")],
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and the page.")] = Path("study-output"),
    trials: Annotated[int, typer.Option(min=2, help="Random splits.")] = 100,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Study a folder of logits: every table and figure of the paper, with the printed numbers beside."""
    from thermoset.io.files import need
    from thermoset.paper.study import Settings
    from thermoset.paper.study import study as run

    need("matplotlib", "plot", "the figures")
    with ProgressBar(quiet, "Studying") as bar, told_warnings():
        found = run(folder, out, Settings(trials=trials, random_state=seed), progress=bar.tell)
    _show(found, out)


def _show(found: "Study", out: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from thermoset.metrics import METRICS

    console = Console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("file", overflow="fold")  # a long name wraps, numbers do not
    for column in (
        "T* (ECE)",
        f"{METRICS['avg_size'].title} APS\nT = 1, T*",
        f"{METRICS['top_coverage_gap'].title}\nT = 1, T*",
        "printed cells\nthat agree",
        "claims\nthat hold",
    ):
        table.add_column(column, justify="right", no_wrap=True)
    for pair in found.pairs:
        at = {
            (cell.metric, cell.at): cell.value
            for cell in pair.cells
            if (cell.mode, cell.method, cell.alpha, cell.cp_percent) == ("exact", "aps", 0.1, 10)
        }
        agree, printed = pair.agreement
        claims = [claim.holds for claim in pair.claims]
        table.add_row(
            Text(pair.title),
            f"{pair.measured.ece:.3f}",
            f"{at['avg_size', 'before']:.2f}, {at['avg_size', 'after']:.2f}",
            f"{at['top_coverage_gap', 'before']:.3f}, {at['top_coverage_gap', 'after']:.3f}",
            f"{agree} of {printed}" if printed else "-",
            f"{claims.count(True)} of {len(claims)}",
        )
    console.print(table)
    for name, reason in found.skipped.items():
        console.print(Text(f"Not studied: {name} ({reason})"), soft_wrap=True)
    written, begin = printable(str(out)), printable(str(out / "index.html"))
    console.print(Text(f"Wrote {len(found.files)} files to {written}; begin with {begin}"), soft_wrap=True)

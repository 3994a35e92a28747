"""`thermoset plan`: how many rows a promise needs."""

from typing import Annotated

import typer

__all__ = ["plan"]


def plan(
    alpha: Annotated[
        str, typer.Option(help="Miscoverage level: sets contain the true label with probability 1 - alpha.")
    ],
    width: Annotated[
        str | None, typer.Option(help="How far the coverage of one fitted predictor may lie from 1 - alpha.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that coverage lies within that width.")] = 0.95,
) -> None:
    """Compute how many labelled rows an alpha and a coverage half-width need."""
    from rich.console import Console
    from rich.table import Table

    from thermoset.core.levels import exact_level
    from thermoset.metrics import coverage_half_width
    from thermoset.metrics import plan as plan_rows

    answer = plan_rows(alpha, width, confidence)
    target = 1 - float(exact_level(alpha))
    rows = sorted({answer.rows_minimum, answer.rows, 100, 1_000, 10_000})
    table = Table()
    table.add_column("conformal rows", justify="right")
    table.add_column(f"half-width ({confidence:.0%} of the time)", justify="right")
    for n in rows:
        if n >= answer.rows_minimum:
            table.add_row(f"{n:,}", f"{coverage_half_width(n, alpha, confidence):.4f}")
    console = Console()
    console.print(f"How far the coverage of one fitted predictor may lie from {target:g}:")
    console.print(table)
    console.print(f"alpha {alpha} needs at least [bold]{answer.rows_minimum:,}[/] rows for any finite threshold.")
    if width is not None:
        console.print(
            f"For {target:g} ± {width} in {confidence:.0%} of fits, use [bold]{answer.rows:,}[/] rows or more. "
            "Class-conditional sets need that many of each class."
        )

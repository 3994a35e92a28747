"""`thermoset theory`: what the theory says of a number of classes, or of a file of logits, beside what is measured."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from thermoset.cli.options import (
    KINDS,
    Classes,
    Columns,
    IdColumn,
    Ignore,
    Labels,
    Memory,
    Probabilities,
    Quiet,
    Scheduler,
    Seed,
    files_in,
    opened_logits,
    title_of,
    told_warnings,
)
from thermoset.cli.output import check_files, missing_of, name_files, png, tell_skipped, write_files
from thermoset.cli.progress import ProgressBar
from thermoset.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.table import Table

    from thermoset.data import Logits
    from thermoset.paper.theory import BoundIntervals, ClassPeaks, Explanation, Peak, Routes

__all__ = ["theory"]

_FIGURES = ("bound", "margins", "last-index", "share", "slopes", "critical")  # that may be drawn
_MARGIN = 8.0  # of the paper's typical row, in section 4


def theory(
    logits: Annotated[
        list[Path] | None,
        typer.Argument(
            help=f"Logits ({KINDS}): a file, several, a folder, or a glob in quotes. Without it, show the bound."
        ),
    ] = None,
    n_classes: Annotated[int | None, typer.Option(help="Number of classes, when there is no file.")] = None,
    alpha: Annotated[str, typer.Option(help="Miscoverage level.")] = "0.1",
    temperature: Annotated[float | None, typer.Option(help="Compare T = 1 with this T instead of T*.")] = None,
    objective: Annotated[Literal["nll", "ece"], typer.Option(help="What T* minimises.")] = "nll",
    temperatures: Annotated[
        str | None, typer.Option(help="Of the measured curves: start:stop:step; 0.3:5:0.1 by default.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Random splits of the measured curves.")] = 100,
    calibration_fraction: Annotated[str, typer.Option(help="Fraction of the rows that T* is fitted on.")] = "0.1",
    cp_fraction: Annotated[str, typer.Option(help="Fraction of the rows that sets thresholds.")] = "0.1",
    seed: Seed = 0,
    labels: Labels = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    ignore: Ignore = None,
    probabilities: Probabilities = False,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("theory-output"),
    memory: Memory = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
) -> None:
    """Compare the theory with logits: critical temperature, how many rows it explains, where it is silent."""
    from rich.console import Console

    from thermoset.paper.theory import explain, peaks_by_classes
    from thermoset.sweeping import DEFAULT_GRID, temperature_grid

    # Bad input is rejected before any computation, and nothing is written until all of it is done.
    grid = temperature_grid(DEFAULT_GRID if temperatures is None else temperatures)
    columns = Columns(labels, classes, id_column, ignore=ignore, probabilities=probabilities)
    check_files(out, [f"{name}.png" for name in _FIGURES], [*(files_in(logits) if logits else []), *columns.files])
    console = Console()
    if not logits:
        _bound_alone(console, n_classes, out)
        return
    rows = opened_logits(logits, columns, memory=memory, scheduler=scheduler)
    with told_warnings(), rows as data:
        if n_classes not in (None, data.n_classes):
            raise InputError(
                f"--n-classes {n_classes} does not match {title_of(logits)}, which has {data.n_classes}. Omit it."
            )
        ends = float(grid[0]), float(grid[-1])
        if data.labels is None:
            _unlabelled(console, data, ends, temperature, out)
            return
        with ProgressBar(quiet, "Sweeping") as bar:
            found = explain(
                data,
                alpha=alpha,
                temperature=temperature,
                objective=objective,
                temperatures=grid,
                trials=trials,
                calibration_fraction=calibration_fraction,
                cp_fraction=cp_fraction,
                random_state=seed,
                progress=bar.tell,
            )
            subsets = peaks_by_classes(data, temperatures=grid, alpha=alpha, repeats=3, trials=10, random_state=seed)
        files = _drawn(partial(_figures, data, ends, found, subsets), out)
        _show(console, found, subsets)
        _name_figures(console, files)


def _drawn(figures: "Callable[[], Mapping[str, Figure]]", out: Path) -> list[Path]:
    """Draw all figures, then write them; none without Matplotlib."""
    if missing_of(("matplotlib",)):
        return []
    return write_files(out, {f"{name}.png": png(figure) for name, figure in figures().items()})


def _name_figures(console: "Console", files: list[Path]) -> None:
    name_files(console, files)
    tell_skipped("the figures", ("matplotlib",), "plot")


def _figures(
    data: "Logits", ends: tuple[float, float], found: "Explanation", subsets: "ClassPeaks"
) -> "Mapping[str, Figure]":
    from thermoset import plots

    return {
        "bound": plots.bound_figure(data.n_classes),
        "margins": plots.margins_figure(data, found.temperature, found.alpha),
        "last-index": plots.last_index_figure(data, found.alpha),
        "share": plots.share_figure(data, ends, found),
        "slopes": plots.slopes_figure(found),
        "critical": plots.critical_figure(subsets, found),
    }


def _table(*columns: str) -> "Table":
    """A table whose first column is text and whose others are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption_justify="left")
    for i, column in enumerate(columns):
        made.add_column(column, justify="right" if i else "left", no_wrap=True)
    return made


def _bound_alone(console: "Console", classes: int | None, out: Path) -> None:
    """Without a file: both bounds, the minimum of the paper's and the temperatures of a typical margin."""
    from thermoset.paper.theory import bound, critical_temperature, sharp_bound, temperature_intervals

    wanted = sorted({10, 100, 1000, *([] if classes is None else [classes])})
    table = _table(
        "classes", "critical T", "b there", "b* there", "b* at T = 1", f"a margin of {_MARGIN:g} is above b(T) for"
    )
    for c in wanted:
        best = critical_temperature(c)
        numbers = [f"{x:.3f}" for x in (bound(best, c), sharp_bound(best, c), sharp_bound(1.0, c))]
        table.add_row(f"{c:,}", f"{best:.4f}", *numbers, _spoken(temperature_intervals(_MARGIN, c)))

    def figures() -> "Mapping[str, Figure]":
        from thermoset.plots import bound_figure

        return {"bound": bound_figure(classes)}

    files = _drawn(figures, out)
    console.print(
        "The paper's bound b(T) on the margin, the temperature above 1 where it is smallest, and the sharp b*(T)"
    )
    console.print(table)
    console.print("b* rises with T and has no minimum: the critical temperature belongs to the proof of b.")
    _name_figures(console, files)


def _unlabelled(
    console: "Console", data: "Logits", ends: tuple[float, float], temperature: float | None, out: Path
) -> None:
    """Logits without labels have margins, and no thresholds."""
    from statistics import median

    from thermoset.paper.theory import bound, bound_share, critical_temperature, margins, sharp_bound, sharp_share

    best = critical_temperature(data.n_classes)
    table = _table("T", "b(T)", "rows above", "b*(T), sharp", "rows above")
    for t in sorted({0.5, best, 2.0, *([] if temperature is None else [temperature])}):
        cells = []
        for limit, share in ((bound, bound_share), (sharp_bound, sharp_share)):
            cells += [f"{limit(t, data.n_classes):.3f}", f"{float(share(data, [t])[0]):.1%}"]
        table.add_row(f"{t:.3f}", *cells)
    middle = median(margins(data).tolist())

    def figures() -> "Mapping[str, Figure]":
        from thermoset.plots import bound_figure, share_figure

        return {"bound": bound_figure(data.n_classes), "share": share_figure(data, ends)}

    files = _drawn(figures, out)
    console.print(f"{len(data):,} rows, {data.n_classes:,} classes, no labels; median margin {middle:.3f}")
    console.print(f"Critical temperature by theory: [bold]{best:.3f}[/]")
    console.print(table)
    console.print("T*, thresholds, set sizes and the order of rows by score need labels.")
    _name_figures(console, files)


def _show(console: "Console", found: "Explanation", subsets: "ClassPeaks") -> None:
    fitted, conformal, judged = found.n_rows
    console.print(
        f"{sum(found.n_rows):,} rows, {found.n_classes:,} classes; T* from {fitted:,} rows, thresholds from "
        f"{conformal:,}, {judged:,} judged; alpha {found.alpha:g}"
    )
    _show_critical(console, found, subsets)
    _show_routes(console, found)
    _show_typical(console, found)
    _show_slopes(console, found)
    _show_silence(console, found)
    _show_samples(console, found)


def _show_critical(console: "Console", found: "Explanation", subsets: "ClassPeaks") -> None:
    from thermoset.metrics import METRICS

    names = {"aps": "measured, APS", "raps": "measured, RAPS", "aps, u = 1": "measured, APS with u = 1"}
    at_edge = any(peak.at_edge for peak in found.peaks.values())
    table = _table("critical temperature", "T", "T / T*", f"{METRICS['avg_size'].title} there")
    table.caption = "≤ or ≥: at an edge of the grid" if at_edge else None
    table.add_row("theory: minimum of b(T)", f"{found.critical:.3f}", "", "")
    for name, peak in found.peaks.items():
        ratio = peak.temperature / found.temperature
        table.add_row(names[name], _place(peak), f"{ratio:.2f}", f"{peak.size:.2f}")
    console.print(table)
    if len(subsets.n_classes):
        table = _table("subsets of the classes", *(f"{c:,}" for c in subsets.n_classes))
        table.add_row("theory", *(f"{t:.2f}" for t in subsets.predicted))
        table.add_row("measured, APS", *(f"{t:.2f}" for t in subsets.measured.mean(axis=1)))
        console.print(table)


def _show_routes(console: "Console", found: "Explanation") -> None:
    """How many rows each route speaks for, and for how many of those the claim is true."""
    from thermoset.metrics import METRICS

    t = found.temperature
    claim, moved = ("not shrink", "grow") if t > 1 else ("not grow", "shrink")
    console.print(f"From T = 1 to T* = {t:.4g}: rows whose sets do {claim}, by which route")
    table = _table("", "u = 1", "u drawn")
    table.caption = "u = 1: the score of the theory; u drawn: the sets in use"
    routes = (found.fixed, found.drawn)
    for name, rows in (
        (f"bound: margin above b(T*) = {found.fixed.bound:.3f}", [one.by_bound for one in routes]),
        (f"sharp bound: margin above b*(T*) = {found.fixed.sharp:.3f}", [one.by_sharp for one in routes]),
        ("proposition 4.3", [one.by_proposition for one in routes]),
        ("L = 1, trivially" if t > 1 else "L_T = 1, trivially", [one.trivial for one in routes]),
    ):
        cells = (_share_and_truth(picked, one) for picked, one in zip(rows, routes, strict=True))
        table.add_row(name, *cells)
    table.add_row(f"counted: do {claim}", *(f"{one.claimed.mean():.1%}" for one in routes))
    table.add_row(f"counted: {moved}", *(f"{(one.moved > 0).mean():.1%}" for one in routes))
    table.add_row(
        METRICS["avg_size"].title, *(f"{one.sizes_before.mean():.2f} → {one.sizes_after.mean():.2f}" for one in routes)
    )
    console.print(table)


def _share_and_truth(rows: "NDArray[np.bool_]", routes: "Routes") -> str:
    return f"{rows.mean():.1%}, {routes.claimed[rows].mean():.0%} true" if rows.any() else "no row"


def _show_typical(console: "Console", found: "Explanation") -> None:
    """Whether the step of the paper's typical rows is explained, and what their sets do."""
    rows = found.typical
    low, middle, high = rows.margin
    claim = "do not shrink" if found.temperature > 1 else "do not grow"
    console.print(
        f"{len(rows.rows):,} rows around the median score: margins {middle:.2f} (quartiles {low:.2f} and {high:.2f}); "
        f"{rows.by_bound:.0%} above b(T*), {rows.by_sharp:.0%} above b*(T*). "
        f"Proposition 4.3 decides {rows.by_proposition:.0%}; with u = 1 the sets of {rows.claimed:.0%} {claim}. "
        f"The median of their margins is above b(T) for {_spoken(rows.intervals)}."
    )


def _show_slopes(console: "Console", found: "Explanation") -> None:
    """What moves sizes with u integrated out, and where class coverage goes."""
    from thermoset.metrics import METRICS

    size = METRICS["avg_size"].title
    slopes, classes = found.slopes, found.classes
    n = len(slopes.temperature)
    if not n:
        return
    picked = sorted({round(k * (n - 1) / 7) for k in range(8)})
    table = _table("T", size, "scores fall", "threshold falls", "together", "class gap")
    table.caption = (
        f"change of {size} per unit of T, u integrated out, all rows; class gap: root mean square over classes"
    )
    for i in picked:
        both = (slopes.direct[i], slopes.through_threshold[i], slopes.slope[i])
        cells = [f"{slopes.size[i]:.2f}", *(f"{x:+.2f}" for x in both), f"{classes.gap[i]:.4f}"]
        table.add_row(f"{slopes.temperature[i]:g}", *cells)
    table.add_row("infinity", f"{found.limit.size:.2f}", "", "", "", f"{found.limit.gap:.4f}")
    console.print("What moves the sizes of APS sets: scores fall as T grows, and so does the threshold")
    console.print(table)
    if len(slopes.peaks):
        console.print(f"The two cancel at T = {', '.join(f'{peak:.2f}' for peak in slopes.peaks)}: there {size} peaks.")


def _show_silence(console: "Console", found: "Explanation") -> None:
    from rich.padding import Padding

    silent = 1 - found.fixed.by_bound.mean()
    lines = [f"{silent:.1%} of the rows have a margin of at most b(T*): the bound says nothing about them."]
    wrong = (found.fixed.by_bound & ~found.fixed.claimed).mean()
    if wrong:
        lines.append(
            f"{wrong:.1%} have a larger margin but do the opposite with u = 1: going from the bound to sizes takes two "
            "assumptions, that one row sets both thresholds and that rows differ by their largest logit."
        )
    against = ~found.drawn.claimed
    if against.any():
        lines.append(
            "Its premise, that scores grow with margins, is about u = 1. With u drawn, "
            f"{found.drawn.claimed.mean():.1%} of the rows do as it says; of the rest, "
            f"{found.drawn.only_label.sum() / against.sum():.0%} have one label at one of the temperatures and none at "
            "the other."
        )
    if found.peaks["aps"].at_edge:
        lines.append("APS sets are largest at an edge of the grid: there is no critical temperature to compare with.")
    lines.append(
        "The critical temperature is the minimum of b(T) and belongs to its proof: the sharp b*(T) has no minimum, and "
        "the share of rows above it only falls as T grows. The measured peak also moves with the scale of the logits."
    )
    lines.append("It says nothing about LAC, or about how much sets grow.")
    console.print("\n[bold]Where the theory is silent[/]")
    for line in lines:
        console.print(Padding(f"- {line}", (0, 0, 0, 2), expand=False))


def _show_samples(console: "Console", found: "Explanation") -> None:
    samples = found.samples
    table = _table("quantile\nsample at T", "threshold", "margin", "s_T", "five largest probabilities\nat T = 1")
    for i, t in enumerate(samples.temperature):
        first, *others = (p for p in samples.top_probs[i] if not math.isnan(p))
        top = " ".join([f"{first:.4f}", *(f"{p:.1e}" for p in others)])
        last = str(samples.last_index[i]) if t != 1 else ""
        table.add_row(f"{t:.4g}", f"{samples.threshold[i]:.6f}", f"{samples.margin[i]:.3f}", last, top)
    console.print(table)


def _spoken(found: "BoundIntervals") -> str:
    """Intervals of temperatures in words."""
    cool, low, high = float(found.cool_to), float(found.hot_from), float(found.hot_to)
    parts = [] if math.isnan(cool) else [f"T ≤ {cool:.4f}"]
    if not math.isnan(low):
        parts.append(f"T ≥ {low:.4f}" if math.isinf(high) else f"{low:.4f} ≤ T ≤ {high:.4f}")
    return " and ".join(parts) or "no T"


def _place(peak: "Peak") -> str:
    if not peak.at_edge:
        return f"{peak.temperature:g}"
    return f"{'≤' if peak.temperature < 1 else '≥'}{peak.temperature:g}"

"""`thermoset sweep` and `thermoset study`: sets at every temperature, and the paper's own tables and figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from thermoset.cli.options import (
    Grouping,
    Json,
    Labelled,
    Quiet,
    Seed,
    SplitRows,
    advanced,
    files_in,
    option,
    split_names,
)
from thermoset.cli.output import (
    Screen,
    can_draw,
    check_files,
    make_folder,
    print_json,
    print_warnings,
    progress,
    write_file,
)
from thermoset.errors import InputError
from thermoset.quoting import quoted

if TYPE_CHECKING:
    from thermoset.paper.study import Study
    from thermoset.sweeping import Sweep

Alphas = Annotated[str, option("Miscoverage levels, with commas.")]
Temperatures = Annotated[str | None, option("start:stop:step, or numbers with commas; 0.3:5:0.1 by default.")]


def sweep(
    logits: Labelled,
    rows: SplitRows,
    alpha: Alphas = "0.1",
    methods: Annotated[str, option("Scores, with commas: lac, aps, raps, saps ...")] = "lac,aps,raps",
    temperatures: Temperatures = None,
    trials: Annotated[int, option("Random splits.")] = 100,
    grouping: Grouping = None,
    out: Annotated[Path, option("Folder for the table and the figure.", "FOLDER")] = Path("sweep-output"),
    table_format: Annotated[Literal["csv", "parquet"], option("Format of the table.", name="--format")] = "csv",
    per_trial: Annotated[bool, option("One row for each trial instead of means.", name="--per-trial")] = False,
    as_json: Json = False,
    metrics: Annotated[str, advanced("More metrics, with commas: sscv, confidence_coverage_gap.")] = "",
    calibration_fraction: Annotated[str, advanced("Share of the rows set aside for calibration; 0 for none.")] = "0.1",
    cp_fraction: Annotated[str, advanced("Share of the rows that sets thresholds.")] = "0.1",
    evaluation: Annotated[
        Literal["drawn", "integrated"], advanced("Draw u on evaluation rows, or average sizes over it.")
    ] = "drawn",
    jobs: Annotated[int | None, advanced("Threads; all cores by default.")] = None,
    seed: Seed = 0,
) -> None:
    """Sizes, coverage, class gaps and thresholds of sets at every temperature, over random splits."""
    from thermoset.io.files import need
    from thermoset.sweeping import sweep as run
    from thermoset.sweeping import temperature_grid

    # Bad input is refused before any computation, and nothing is written until all of it is done.
    if table_format == "parquet":
        need("pyarrow", "io", "--format parquet")
    grid = None if temperatures is None else temperature_grid(temperatures)
    table = out / f"sweep.{table_format}"
    check_files(out, [table.name, "sweep.png"], [*files_in(logits), *rows.files])
    with print_warnings(), rows.open(logits) as data, progress(rows.quiet, "Sweeping") as show:
        result = run(
            data,
            temperatures=grid,
            methods=split_names(methods),
            alphas=split_names(alpha),
            trials=trials,
            calibration_fraction=calibration_fraction,
            cp_fraction=cp_fraction,
            random_state=seed,
            evaluation=evaluation,
            grouping=grouping,
            metrics=split_names(metrics),
            split_by=rows.values(logits, len(data)),
            n_jobs=jobs,
            progress=show,
        )
        n_rows, n_classes = len(data), data.n_classes
    with make_folder(out):
        result.save(table, per_trial=per_trial)
    files = [table]
    if can_draw("the figure", ("matplotlib",), "plot"):
        from thermoset.plots import sweep_figure

        files.append(write_file(out / "sweep.png", sweep_figure(result)))
    ends = {(method, alpha): _extremes(result, method, alpha) for method in result.methods for alpha in result.alphas}
    if as_json:
        curves = [{"method": method, "alpha": alpha, **extremes} for (method, alpha), extremes in ends.items()]
        facts = {"rows": n_rows, "classes": n_classes, "trials": result.trials, "curves": curves}
        print_json({**facts, "files": list(map(str, files))})
        return
    screen = Screen()
    low, high = result.temperatures[0], result.temperatures[-1]
    screen.say(
        f"{n_rows:,} rows, {n_classes:,} classes; {len(result.temperatures)} temperatures {low:g} to {high:g}; mean of "
        f"{result.trials} random splits"
    )
    _show_extremes(screen, result, ends)
    screen.wrote(*files)


def _extremes(result: "Sweep", method: str, alpha: float) -> dict[str, Any]:
    """Where sets are smallest, largest and most even, and what they are at T = 1."""
    t, size, gap = result.temperatures, *(result.curve(of, method, alpha) for of in ("avg_size", "top_coverage_gap"))
    places = {"smallest": size.argmin(), "largest": size.argmax(), "most_even": gap.argmin()}
    if 1.0 in t:
        places["at_one"] = t.tolist().index(1.0)
    keys = ("temperature", "avg_size", "top_coverage_gap")
    return {
        name: dict(zip(keys, (float(t[j]), float(size[j]), float(gap[j])), strict=True)) for name, j in places.items()
    }


def _show_extremes(screen: Screen, result: "Sweep", ends: dict[tuple[str, float], dict[str, Any]]) -> None:
    from thermoset.metrics import METRICS

    size, gap = (METRICS[name].title for name in ("avg_size", "top_coverage_gap"))
    low, high = float(result.temperatures[0]), float(result.temperatures[-1])
    edges = {} if low == high else {low: "≤", high: "≥"}

    def at(point: dict[str, float], metric: str, spec: str) -> str:
        t = point["temperature"]
        return f"{point[metric]:{spec}} ({edges.get(t, '')}{t:g})"

    lines = []
    for (method, alpha), extremes in ends.items():
        cells = [at(extremes[which], "avg_size", ".2f") for which in ("smallest", "largest")]
        cells.append(at(extremes["most_even"], "top_coverage_gap", ".3f"))
        if one := extremes.get("at_one"):
            cells.append(f"{one['avg_size']:.2f}, {one['top_coverage_gap']:.3f}")
        lines.append([method, f"{alpha:g}", *cells])
    head = ["score", "alpha", f"least {size}", f"largest {size}", f"least {gap}"]
    head += ["at T = 1"] if 1.0 in result.temperatures else []
    screen.say()
    screen.table(
        head, lines, {"score": "(T): where; ≤ or ≥ at an edge of the grid.", "at T = 1": "At T = 1: size, gap."}
    )


# ---- the paper -------------------------------------------------------------------------------------------------------


def study(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder with files of labelled logits.")],
    out: Annotated[Path, option("Folder for the page, tables and figures.", "FOLDER")] = Path("study-output"),
    alpha: Alphas = "0.1,0.05",
    cp: Annotated[str, option("Rows that set thresholds, in percent, with commas.")] = "5,10,20",
    temperatures: Temperatures = None,
    trials: Annotated[int, option("Random splits.", min=2)] = 100,
    as_json: Json = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Make every table and figure of the paper from a folder of logits, and compare with the printed numbers."""
    from thermoset.io.files import need
    from thermoset.levels import exact_level
    from thermoset.paper.study import Settings
    from thermoset.paper.study import study as run
    from thermoset.sweeping import DEFAULT_GRID

    need("matplotlib", "plot", "the figures")
    percents = split_names(cp)
    if not percents or not all(text.isascii() and text.isdigit() and len(text) < 3 for text in percents):
        raise InputError(f"--cp must be whole percentages with commas; got {quoted(cp)}. Try 5,10,20.")
    settings = Settings(
        trials=trials,
        random_state=seed,
        alphas=tuple(float(exact_level(level)) for level in split_names(alpha)),
        cp_percents=tuple(map(int, percents)),
        temperatures=DEFAULT_GRID if temperatures is None else temperatures,
    )
    with progress(quiet, "Studying") as show, print_warnings():
        result = run(folder, out, settings, progress=show)
    if as_json:
        claims = [{"text": one.text, "holds": one.holds, "found": one.found} for one in result.claims]
        pairs = [pair.title for pair in result.pairs]
        print_json(
            {"pairs": pairs, "claims": claims, "skipped": dict(result.skipped), "files": list(map(str, result.files))}
        )
    else:
        _show_study(Screen(), result, out)


def _show_study(screen: Screen, result: "Study", out: Path) -> None:
    from thermoset.metrics import METRICS

    size, gap = (METRICS[name].title for name in ("avg_size", "top_coverage_gap"))
    head = ["file", "T* by ECE", f"{size} T = 1 to T*", f"{gap} T = 1 to T*", "size agrees", "gap agrees", "claims"]
    note = (
        "T* is the median of means over trials; sizes and gaps are those of APS. Agrees: printed cells that ours agree "
        "with. Claims: hold, open, fail."
    )
    lines = []
    for pair, (title, _, *cells, _) in zip(result.pairs, result.tables["overview"].lines, strict=True):
        holds = [claim.holds for claim in pair.claims]
        lines.append([title, *cells, f"{holds.count(True)}, {holds.count(None)}, {holds.count(False)}"])
    screen.table(head, lines, {"file": note})
    for claim in result.claims:
        verdict = {True: "holds", False: "does not hold", None: "is open"}[claim.holds]
        screen.say(f"Claim {verdict}: {claim.text}. {claim.found}.", wrap=False)
    for pair in result.pairs:
        if pair.remark:
            screen.say(pair.remark, wrap=False)
    for name, why in result.skipped.items():
        screen.say(f"Skipped {name}: {why}", wrap=False)
    screen.say(f"Wrote {len(result.files)} files to {out}. Start with {out / 'index.html'}", wrap=False)

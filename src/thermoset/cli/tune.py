"""`thermoset tune`: from a file of logits to a predictor one can deploy."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from thermoset.cli.options import (
    Classes,
    Columns,
    Grouping,
    Groups,
    IdColumn,
    Ignore,
    Labelled,
    Labels,
    Memory,
    Probabilities,
    Quiet,
    Scheduler,
    Scores,
    Seed,
    SplitBy,
    files_in,
    kept_together,
    opened_logits,
    title_of,
    told_warnings,
)
from thermoset.cli.output import (
    check_files,
    made_folder,
    missing_of,
    name_files,
    png,
    tell_skipped,
    undecided_line,
    write_files,
)
from thermoset.cli.progress import ProgressBar
from thermoset.cli.report import page_files

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.document import Document, Measure
    from thermoset.tuning import Choice, Outlook

__all__ = ["PREDICTOR_FILES", "promised_coverage", "show_predictor", "tune", "write_predictor"]

PREDICTOR_FILES = ("predictor.json", "temperature.png", "frontier.png", "report.html")
"""What may be written."""

_ENDLESS = 10_000  # characters: wider than any table


def tune(
    logits: Labelled,
    alpha: Annotated[
        str, typer.Option(help="Miscoverage: sets contain the true label with probability 1 - alpha.")
    ] = "0.1",
    method: Annotated[str, typer.Option(help="auto, to choose the score too; or lac, aps, raps or saps.")] = "auto",
    prefer: Annotated[
        str, typer.Option(help="small, even, protect, classes>=C, groups>=C, size<=S or gap<=G.")
    ] = "small",
    answer: Annotated[
        str | None,
        typer.Option(help="Answer rows alone as long as this share of them is wrong, at most: error<=0.02."),
    ] = None,
    review: Annotated[
        str | None, typer.Option(help="With --answer, send rows with larger sets to review: size>5.")
    ] = None,
    temperature_sets: Annotated[
        float | None, typer.Option(help="T-hat by hand, in place of the search: read the curves of sweep, and choose.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the predictor and the figures.")] = Path("tune-output"),
    calibration: Annotated[
        Literal["auto", "temperature"],
        typer.Option(help="temperature: T* alone; auto: correct classes and map the confidence too, where that helps."),
    ] = "auto",
    objective: Annotated[Literal["nll", "ece"], typer.Option(help="What T* minimises.")] = "nll",
    grouping: Grouping = None,
    fallback: Annotated[
        Literal["pooled", "strictest"] | None,
        typer.Option(
            help="With --grouping group, the threshold for groups that are new at prediction: that of all rows "
            "together, or the largest of any group; without it such rows are rejected."
        ),
    ] = None,
    even: Annotated[
        Literal["class", "group"],
        typer.Option(help="What --prefer evens out or protects: classes or groups of rows."),
    ] = "class",
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Make sets without randomisation (larger).")
    ] = False,
    no_empty: Annotated[
        bool, typer.Option("--no-empty", help="No empty sets: the top label is always included.")
    ] = False,
    claims: Annotated[
        Literal["model", "distribution-free"],
        typer.Option(help="What a claim about hard classes rests on (--prefer protect, classes>=C)."),
    ] = "model",
    calibration_fraction: Annotated[
        str | None,
        typer.Option(
            help="Fraction of the rows for the temperatures; the others set the threshold. Default: half; for small "
            "and with --answer, a fifth, but at least 1,000 rows."
        ),
    ] = None,
    scores: Scores = None,
    seed: Seed = 0,
    no_report: Annotated[bool, typer.Option("--no-report", help="No report.html.")] = False,
    labels: Labels = None,
    classes: Classes = None,
    id_column: IdColumn = None,
    groups: Groups = None,
    ignore: Ignore = None,
    split_by: SplitBy = None,
    probabilities: Probabilities = False,
    memory: Memory = None,
    scheduler: Scheduler = None,
    quiet: Quiet = False,
) -> None:
    """Choose both temperatures and the threshold, and write predictor.json and report.html."""
    from rich.console import Console

    from thermoset.predictor import TwoTemperaturePredictor

    # Bad input is rejected before any computation, and nothing is written until all of it is done.
    columns = Columns(labels, classes, id_column, groups, ignore, probabilities, split_by)
    check_files(out, PREDICTOR_FILES, [*files_in(logits), *columns.files])
    predictor = TwoTemperaturePredictor(
        method,
        alpha,
        prefer,
        calibration=calibration,
        answer=answer,
        review=review,
        objective=objective,
        randomized=not deterministic,
        allow_empty=not no_empty,
        grouping=grouping,
        random_state=seed,
        claims=claims,
        calibration_fraction=calibration_fraction,
        even=even,
        fallback=fallback,
        temperature_sets=temperature_sets,
    )
    rows = opened_logits(logits, columns, memory=memory, scheduler=scheduler)
    with told_warnings(), rows as data:
        together = kept_together(logits, columns, len(data))
        with ProgressBar(quiet, "Tuning") as bar:
            predictor.fit(data, split_by=together, progress=bar.tell)
        page = {}
        if not no_report:
            page = page_files(predictor, data, title_of(logits), quiet, split_by=together)
    files = write_predictor(predictor, out, page, scores)
    console = Console(emoji=False)
    show_predictor(console, predictor, title_of(logits))
    console.print()
    name_files(console, files)
    tell_skipped("the figures", ("matplotlib",), "plot")


def write_predictor(
    predictor: "TwoTemperaturePredictor", out: Path, more: Mapping[str, bytes], scores: bool | None = None
) -> list[Path]:
    """Write the predictor, its figure where matplotlib is installed, and `more` files; each whole or not at all."""
    pictures = _pictures(predictor) | dict(more)
    file = out / "predictor.json"
    with made_folder(out):
        predictor.save(file, scores=scores)
    return [file, *write_files(out, pictures)]


def _pictures(predictor: "TwoTemperaturePredictor") -> dict[str, bytes]:
    """The curves behind the choice, and what one could have instead; nothing without matplotlib."""
    if missing_of(("matplotlib",)):
        return {}
    from thermoset.plots import choice_figure, frontier_figure

    choice = predictor.choice_
    drawn = {"temperature.png": png(choice_figure(choice, predictor.temperature_))}
    # Sets without a closed form have sizes alone: there is nothing to draw them against.
    if any(at.worst_tenth is not None or at.class_gap is not None for at in choice.frontier):
        drawn["frontier.png"] = png(frontier_figure(choice))
    return drawn


def show_predictor(console: "Console", predictor: "TwoTemperaturePredictor", name: str) -> None:
    """One screen: the data, both temperatures, what they do, and the recommendation."""
    from rich.markup import escape

    from thermoset.quoting import printable

    made, choice = predictor.document_, predictor.choice_
    came = made.provenance
    rows = f"{came.calibration_rows:,} rows for the temperatures, {came.conformal_rows:,} for the threshold"
    console.print(f"[bold]Data[/] {escape(printable(name))}: {made.n_classes:,} classes; {rows}", highlight=False)
    _show_confidence(console, made)
    _show_sets(console, predictor)
    first, *others = choice.sentences
    console.print(f"[bold]Recommendation[/] {first}", highlight=False)
    for sentence in others:
        console.print(f"  {sentence}", highlight=False)
    instead = _instead_table(choice)
    if instead is not None:
        console.print(instead)
    words = ". ".join(f"{term}: {meaning}" for term, meaning in choice.legend)
    console.print(f"[dim]{escape(words)}.[/]", highlight=False)


def _show_confidence(console: "Console", made: "Document") -> None:
    """T*, what it does to the confidence, and the steps around it."""
    from rich.markup import escape

    from thermoset.quoting import printable

    came, measures = made.provenance, {m.name: m for m in made.measures}
    of_what = " of corrected logits" if made.correction is not None else ""
    what = f"T* = {made.temperature:.3f}{of_what} ({came.objective.upper()})"
    console.print(f"\n[bold]Confidence[/] {what}", highlight=False)
    table = _table("softmax at", "ECE", "NLL")
    several = "nll_temperature" in measures
    stages = {"T = 1": "before", "T* alone": "temperature", "all steps": "after"}
    for label, when in (stages if several else {"T = 1": "before", "T*": "after"}).items():
        table.add_row(label, *(_within(measures.get(f"{metric}_{when}")) for metric in ("ece", "nll")))
    console.print(table)
    for line in made.confidence_lines:
        console.print(f"  {escape(printable(line))}", highlight=False)
    if made.confidence_lines:
        console.print()
    if came.calibration_zero_labels:
        left_out = f"{came.calibration_zero_labels:,} of {came.calibration_rows:,} rows"
        console.print(f"  NLL leaves out {left_out}, whose label has probability zero.", highlight=False)


def _show_sets(console: "Console", predictor: "TwoTemperaturePredictor") -> None:
    """What was chosen, what it promises, what is answered alone, and the sets at each temperature."""
    from rich.markup import escape

    made, choice = predictor.document_, predictor.choice_
    came, measures = made.provenance, {m.name: m for m in made.measures}
    console.print(f"[bold]Sets[/] {escape(_sets_line(made, choice))}", highlight=False)
    _show_promise(console, predictor)
    if (undecided := measures.get("undecided_share")) is not None:
        open_rows = round(undecided.value * came.conformal_rows)
        console.print(f"  {undecided_line(came.conformal_rows, open_rows)}", highlight=False)
    console.print(_sets_table(choice, console))


def _show_promise(console: "Console", predictor: "TwoTemperaturePredictor") -> None:
    """The coverage of sets; with an answer rule, which rows are answered, and what people see of the others."""
    from rich.markup import escape

    from thermoset.levels import exact_level
    from thermoset.tuning.choice import is_stricter

    choice = predictor.choice_
    promised = f"; promised: at least {float(1 - exact_level(choice.alpha)):.4g}" if is_stricter(choice) else ""
    if predictor.answer_ is None:
        console.print(f"  coverage {promised_coverage(predictor)}{promised}", highlight=False)
        return
    for line in predictor.document_.answer_lines:
        console.print(f"  {escape(line)}", highlight=False)
    console.print("  Sets of all rows, by which the temperature was chosen:", highlight=False)


def _within(found: "Measure | None") -> str:
    """A measure with its 95% interval; NLL is infinite where no label has a probability."""
    if found is None or found.low is None or found.high is None:
        return "∞"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _sets_line(made: "Document", choice: "Choice") -> str:
    """What was chosen: a temperature, or a whole setting where other scores and levels were open as well."""
    from thermoset.tuning.choice import tells_setting

    hat = f"T-hat = {made.temperature_sets:.3f}"
    prefer = f"prefer {choice.prefer}" + ("" if choice.even == "class" else f" for {choice.words.many}")
    if tells_setting(choice):
        among = f", chosen among {len(choice.methods)} kinds of sets" if len(choice.methods) > 1 else ""
        return f"{choice.setting.kind}, alpha = {choice.setting.alpha}{among}, {prefer}: {hat}"
    conditional = f", {made.grouping.title}" if made.grouping else ""
    return f"{made.recipe.method.name.upper()}, alpha = {choice.alpha}{conditional}, {prefer}: {hat}"


def _sets_table(choice: "Choice", console: "Console") -> "Table":
    """What sets will look like: first what the choice rests on, then sizes; TopCovGap where rows can carry it.

    In a narrow terminal the last columns are left out, rather than cut.
    """
    from thermoset.metrics import METRICS

    top = choice.words.title(METRICS["top_coverage_gap"].title)
    columns: dict[str, Callable[[Outlook], str]] = {choice.words.gap: _gap, "worst tenth": _tenth, "labels": _size}
    columns |= {"empty": lambda at: f"{at.empty_share:.1%}", top: lambda at: _known(at.top_gap)}
    kept = {name: cells for name, of in columns.items() if any(cells := [of(at) for at in choice.outlooks])}
    while True:
        table = _table("sets at", "T", *kept)
        for i, at in enumerate(choice.outlooks):
            table.add_row(at.name, f"{at.temperature:.2f}", *(cells[i] for cells in kept.values()))
        room = console.options.update(width=_ENDLESS)  # how wide it would be if it could
        if console.measure(table, options=room).maximum <= console.width or len(kept) == 1:
            break
        kept.popitem()
    table.caption = "± and ranges: 95%" + ("." if "worst tenth" not in kept else "; of the worst tenth: 90%.")
    if top in kept:
        table.caption += f" {top} by chance alone on these rows: {choice.noise_floor:.3f}."
    return table


def _instead_table(choice: "Choice") -> "Table | None":
    """The recommended setting and the named ones that are not in the table of sets; None if there are none."""
    from rich.markup import escape

    from thermoset.tuning.choice import alternatives

    shown = [at.setting for at in choice.outlooks]
    named = [one for one in alternatives(choice) if one.chosen or one.outlook.setting not in shown]
    if len(named) < 2:
        return None
    table = _table("What you could have instead", "labels", "worst tenth", "left out")
    table.columns[0].no_wrap = False  # settings may have long names
    for one in named:
        at = one.outlook
        level = "" if at.setting.alpha == choice.alpha else f", alpha {at.setting.alpha}"
        paid = "" if at.misses is None else f"{at.misses.left_out:.1%}"
        name = f"{one.name}: {at.setting.kind}, T = {at.temperature:.2f}{level}"
        table.add_row(escape(name), _size(at), _tenth(at), paid)
    table.caption = "Left out: share of rows whose top label is correct but not in the set."
    return table


def _size(at: "Outlook") -> str:
    return f"{at.size:.2f} ± {at.reach * at.size_error:.2f}"


def _gap(at: "Outlook") -> str:
    return _known(at.class_gap, at.class_gap_ends)


def _tenth(at: "Outlook") -> str:
    return _known(at.worst_tenth, at.worst_tenth_ends)


def _known(value: float | None, ends: tuple[float, float] | None = None) -> str:
    """A share and its interval; nothing where it is unknown."""
    if value is None:
        return ""
    return f"{value:.3f}" + ("" if ends is None else f" ({ends[0]:.3f} to {ends[1]:.3f})")


def promised_coverage(predictor: "TwoTemperaturePredictor") -> str:
    """What is promised: by class, exactly and between which ends, at least, or about (a stricter level)."""
    made, promise = predictor.document_, predictor._promise
    law = next((measured for measured in made.measures if measured.name == "coverage"), None)
    if made.is_weighted:
        return f"at least {promise.promised:.3g} on average, if the weights are right"
    if law is None:
        exact = promise.kind is None or promise.kind.exact
        return "by class" if exact else f"at least {max(2 * promise.promised - 1, 0):.3g} (interpolated)"
    if not made.is_plain:
        return f"about {law.value:.3f}"
    if not promise.exact:
        return f"at least {law.value:.3f}"
    return f"{law.value:.3f} on average; this predictor: {law.low:.3f} to {law.high:.3f} (95%)"


def _table(*columns: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if table.columns else "left", no_wrap=True)
    return table

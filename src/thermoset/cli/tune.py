"""`thermoset tune`: from labelled logits to a predictor one can deploy; its page again; and `thermoset demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from thermoset.cli.options import (
    Grouping,
    Json,
    Labelled,
    Predictor,
    Quiet,
    Scores,
    Seed,
    SplitRows,
    advanced,
    files_in,
    option,
    title_of,
)
from thermoset.cli.output import (
    PAGE_MODULES,
    Screen,
    can_draw,
    check_files,
    make_folder,
    need_page,
    print_json,
    print_warnings,
    progress,
    write_file,
)
from thermoset.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from thermoset.data import Logits
    from thermoset.datasets import Glyphs
    from thermoset.predictor import TwoTemperaturePredictor
    from thermoset.predictor.document import Document
    from thermoset.predictor.stored import Measure
    from thermoset.tuning import Choice

FIGURES = ("temperature.png", "frontier.png")
Figures = Annotated[bool, option("Also write the figures of the choice as PNG files.", name="--figures")]


def tune(
    logits: Labelled,
    rows: SplitRows,
    alpha: Annotated[str, option("Miscoverage: sets hold the true label with probability 1 - alpha.")] = "0.1",
    method: Annotated[str, option("The score behind the sets: lac, aps, raps, saps ...; auto compares them.")] = "auto",
    prefer: Annotated[
        str,
        option(
            "What matters besides coverage. small: as few labels as possible. even: every class covered about equally "
            "often. protect: the classes covered least are not left behind. classes>=0.85 (or groups>=0.85): the worst "
            "tenth of them is covered so often. size<=3: so many labels at most on average, and as even as that "
            "allows. gap<=0.03: so even, and as small as that allows.",
            "PREFERENCE",
        ),
    ] = "small",
    answer: Annotated[
        str | None, option("Answer sure rows alone, with at most this share of wrong answers: error<=0.02.", "error<=E")
    ] = None,
    review: Annotated[
        str | None, option("With --answer: rows whose set is larger go to review: size>5.", "size>K")
    ] = None,
    grouping: Grouping = None,
    out: Annotated[Path, option("Folder for predictor.json and report.html.", "FOLDER")] = Path("tune-output"),
    figures: Figures = False,
    no_report: Annotated[bool, option("No report.html.", name="--no-report")] = False,
    as_json: Json = False,
    temperature_sets: Annotated[
        float | None, advanced("T-hat by hand: read the curves of `thermoset sweep`, and choose.")
    ] = None,
    calibration: Annotated[
        Literal["auto", "temperature"],
        advanced("temperature: T* alone. auto: also correct biased classes and map the confidence, where that helps."),
    ] = "auto",
    objective: Annotated[Literal["nll", "ece"], advanced("What T* minimises.")] = "nll",
    fallback: Annotated[
        Literal["pooled", "strictest"] | None,
        advanced(
            "With --grouping group: the threshold of groups that are new at prediction, that of all rows together or "
            "the largest of any group. Without it such rows are refused."
        ),
    ] = None,
    even: Annotated[
        Literal["class", "group"], advanced("Whether --prefer is about classes or groups of rows.")
    ] = "class",
    claims: Annotated[
        Literal["model", "distribution-free"],
        advanced("What a claim about hard classes rests on (--prefer protect, classes>=C)."),
    ] = "model",
    deterministic: Annotated[
        bool, advanced("Sets without randomisation; they are larger.", name="--deterministic")
    ] = False,
    no_empty: Annotated[bool, advanced("The top label is in every set.", name="--no-empty")] = False,
    calibration_fraction: Annotated[
        str | None,
        advanced(
            "Share of the rows for the temperatures; the others set the threshold. By default half; for small sets a "
            "fifth, but at least 1,000 rows; with --answer a fifth, but at least 100."
        ),
    ] = None,
    scores: Scores = None,
    seed: Seed = 0,
) -> None:
    """Choose both temperatures and the threshold from labelled logits."""
    from thermoset.predictor import TwoTemperaturePredictor

    # Bad input is refused before the work.
    check_files(out, ["predictor.json", "report.html", *FIGURES], [*files_in(logits), *rows.files])
    _check_figures(figures)
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
    with print_warnings(), rows.open(logits) as data:
        together = rows.values(logits, len(data))
        with progress(rows.quiet, "Tuning") as show:
            predictor.fit(data, split_by=together, progress=show)
        with make_folder(out):
            predictor.save(out / "predictor.json", scores=scores)
        files = [out / "predictor.json"]
        screen = Screen()
        if not as_json:
            show_predictor(screen, predictor, title_of(logits))
            screen.say()
            screen.wrote(*files)
        if figures:
            files += [write_file(out / name, figure) for name, figure in _figures(predictor).items()]
        if not no_report and can_draw("report.html", PAGE_MODULES, "report"):
            page = page_of(predictor, data, title_of(logits), rows.quiet, split_by=together)
            files.append(write_file(out / "report.html", page))
    if as_json:
        print_json({**predictor_facts(predictor), "files": list(map(str, files))})
    else:
        screen.wrote(*files[1:])


def report(
    predictor: Predictor,
    logits: Labelled,
    rows: SplitRows,
    out: Annotated[Path, option("The page to write (html).", "FILE")] = Path("report.html"),
    name: Annotated[str, option("Name of the data on the page; by default that of the file.")] = "",
    trials: Annotated[int, option("Random splits behind the curves.")] = 100,
) -> None:
    """Write the page that explains a predictor, on fresh labelled rows or on those it was fitted on."""
    from thermoset.predictor import TwoTemperaturePredictor

    need_page("an HTML report")
    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out {out} must be an HTML file. Name one that ends in .html.")
    check_files(out.parent, [out.name], [predictor, *files_in(logits), *rows.files])
    model = TwoTemperaturePredictor.load(predictor)
    with print_warnings(), rows.open(logits, document=model.document_) as data:
        options = {"trials": trials, "split_by": rows.values(logits, len(data))}
        page = page_of(model, data, name or title_of(logits), rows.quiet, **options)
    Screen().wrote(write_file(out, page))


def page_of(predictor: "TwoTemperaturePredictor", data: "Logits", name: str, quiet: bool, **options: Any) -> str:
    """The page that explains a predictor."""
    from thermoset.report import build_report, render_page

    with progress(quiet, "Report") as show:
        page: str = render_page(build_report(predictor, data, name=name, progress=show, **options))
    return page


def _check_figures(wanted: bool) -> None:
    """Refuse figures, before the work, where they cannot be drawn."""
    if wanted:
        from thermoset.io.files import need

        need("matplotlib", "plot", "--figures")


def _figures(predictor: "TwoTemperaturePredictor") -> dict[str, "Figure"]:
    """The curves behind the choice, and what one could have instead where there is something to weigh sizes against."""
    from thermoset.plots import choice_figure, frontier_figure

    choice = predictor.choice_
    drawn = {FIGURES[0]: choice_figure(choice, predictor.temperature_)}
    if any(at.worst_tenth is not None or at.class_gap is not None for at in choice.frontier):
        drawn[FIGURES[1]] = frontier_figure(choice)
    return drawn


# ---- the screen ------------------------------------------------------------------------------------------------------


def predictor_facts(predictor: "TwoTemperaturePredictor") -> dict[str, Any]:
    """What a predictor is and promises, for machines."""
    import msgspec

    document, choice = predictor.document_, predictor.choice_
    return {
        "temperature": predictor.temperature_,
        "temperature_sets": predictor.temperature_sets_,
        "method": choice.setting.kind,
        "alpha": choice.alpha,
        "alpha_sets": choice.setting.alpha,
        "prefer": choice.prefer,
        "met": choice.met,
        "coverage": promised_coverage(predictor),
        "recommendation": list(choice.sentences),
        "outlooks": msgspec.to_builtins(choice.outlooks),
        "measures": msgspec.to_builtins(document.measures),
        "answers": list(document.answer_lines) if predictor.answer_ is not None else None,
        "classes": document.n_classes,
        "calibration_rows": document.provenance.calibration_rows,
        "conformal_rows": document.provenance.conformal_rows,
    }


def show_predictor(screen: Screen, predictor: "TwoTemperaturePredictor", name: str) -> None:
    """One screen: the data, both temperatures, what they do, and the recommendation."""
    document, choice = predictor.document_, predictor.choice_
    came = document.provenance
    rows = f"{came.calibration_rows:,} rows for the temperatures, {came.conformal_rows:,} for the threshold"
    screen.say(f"{name}: {document.n_classes:,} classes; {rows}", lead="Data")
    _show_confidence(screen, document)
    _show_sets(screen, predictor)
    first, *others = choice.sentences
    screen.say(first, lead="Recommendation")
    for sentence in others:
        screen.say(f"  {sentence}")
    _show_alternatives(screen, choice)
    screen.note(". ".join(f"{term}: {meaning}" for term, meaning in choice.legend) + ".")


def _show_confidence(screen: Screen, document: "Document") -> None:
    """T*, what it does to the confidence, and the steps around it."""
    came, measures = document.provenance, {measure.name: measure for measure in document.measures}
    of_what = " of corrected logits" if document.correction is not None else ""
    screen.say()
    screen.say(f"T* = {document.temperature:.3f}{of_what} ({came.objective.upper()})", lead="Confidence")
    stages = {"T = 1": "before", "T*": "after"}
    if "nll_temperature" in measures:
        stages = {"T = 1": "before", "T* alone": "temperature", "all steps": "after"}
    rows = [
        [name, *(_with_interval(measures.get(f"{metric}_{when}")) for metric in ("ece", "nll"))]
        for name, when in stages.items()
    ]
    screen.say()
    screen.table(["softmax at", "ECE", "NLL"], rows)
    for line in document.confidence_lines:
        screen.say(f"  {line}")
    if came.calibration_zero_labels:
        left_out = f"{came.calibration_zero_labels:,} of {came.calibration_rows:,} rows"
        screen.say(f"  NLL leaves out {left_out}, whose label has probability zero.")
    screen.say()


def _with_interval(measure: "Measure | None") -> str:
    """A measure with its 95% interval; NLL is infinite where no label has a probability."""
    if measure is None or measure.low is None or measure.high is None:
        return "∞"
    return f"{measure.value:.3f} ({measure.low:.3f} to {measure.high:.3f})"


def _show_sets(screen: Screen, predictor: "TwoTemperaturePredictor") -> None:
    """What was chosen, what it promises, what is answered alone, and the sets at each temperature."""
    from thermoset.levels import exact_level
    from thermoset.metrics import METRICS
    from thermoset.text_tables import number
    from thermoset.tuning.choice import is_stricter, tells_setting

    document, choice = predictor.document_, predictor.choice_
    hat = f"T-hat = {document.temperature_sets:.3f}"
    prefer = f"prefer {choice.prefer}" + ("" if choice.even == "class" else f" for {choice.words.many}")
    if tells_setting(choice):
        among = f", chosen among {len(choice.methods)} kinds of sets" if len(choice.methods) > 1 else ""
        screen.say(f"{choice.setting.kind}, alpha = {choice.setting.alpha}{among}, {prefer}: {hat}", lead="Sets")
    else:
        by = f", {document.grouping.title}" if document.grouping else ""
        kind = document.recipe.method.name.upper()
        screen.say(f"{kind}, alpha = {choice.alpha}{by}, {prefer}: {hat}", lead="Sets")
    if signs := document.training_signs:
        screen.say(lead=f"  {signs}")
    elif predictor.answer_ is None:
        level = f"; promised: at least {float(1 - exact_level(choice.alpha)):.4g}" if is_stricter(choice) else ""
        screen.say(f"  coverage {promised_coverage(predictor)}{level}")
    else:
        for line in document.answer_lines:
            screen.say(f"  {line}")
        screen.say("  Sets of all rows, by which the temperature was chosen:")
    screen.say_document(document, indent="  ")

    top = choice.words.title(METRICS["top_coverage_gap"].title)
    table = choice.to_table()
    head = (*table.head, top)
    rows = [(*line, number(at.top_gap)) for line, at in zip(table.lines, choice.outlooks, strict=True)]
    known = [i for i, cells in enumerate(zip(*rows, strict=True)) if set(cells) != {"-"}]
    notes = {
        "T": "± and ranges: 95%" + ("; of the worst tenth: 90%." if head.index("worst tenth") in known else "."),
        top: f"{top} by chance alone on these rows: {choice.noise_floor:.3f}.",
    }
    screen.say()
    screen.table([head[i] for i in known], [[row[i] for i in known] for row in rows], notes)


def _show_alternatives(screen: Screen, choice: "Choice") -> None:
    """The recommended setting and the named ones that are not in the table of sets."""
    from thermoset.text_tables import interval, number, plus_minus
    from thermoset.tuning.choice import alternatives

    shown = [at.setting for at in choice.outlooks]
    named = [one for one in alternatives(choice) if one.chosen or one.outlook.setting not in shown]
    if len(named) < 2:
        return
    rows = []
    for one in named:
        at = one.outlook
        level = "" if at.setting.alpha == choice.alpha else f", alpha {at.setting.alpha}"
        name = f"{one.name}: {at.setting.kind}, T = {at.temperature:.2f}{level}"
        cells = plus_minus(at.size, at.reach * at.size_error, ".2f"), interval(at.worst_tenth, at.worst_tenth_ends)
        rows.append([name, *cells, number(None if at.misses is None else at.misses.left_out, ".1%")])
    notes = {"left out": "Left out: share of rows whose top label is correct but not in the set."}
    screen.say()
    screen.table(["What you could have instead", "labels", "worst tenth", "left out"], rows, notes)


def promised_coverage(predictor: "TwoTemperaturePredictor") -> str:
    """What is promised: by class, exactly and between which ends, at least, or about (a stricter level)."""
    document, promise = predictor.document_, predictor._promise
    law = next((measure for measure in document.measures if measure.name == "coverage"), None)
    if document.is_weighted:
        return f"at least {promise.promised:.3g} on average, if the weights are right"
    if law is None:
        exact = promise.kind is None or promise.kind.exact
        return "by class" if exact else f"at least {max(2 * promise.promised - 1, 0):.3g} (interpolated)"
    if not document.is_plain:
        return f"about {law.value:.3f}"
    if not promise.exact:
        return f"at least {law.value:.3f}"
    return f"{law.value:.3f} on average; this predictor: {law.low:.3f} to {law.high:.3f} (95%)"


# ---- the demo --------------------------------------------------------------------------------------------------------

_SHOWN = 6  # characters whose sets are shown
_SPLITS = 100  # by row, and by font family


def demo(
    out: Annotated[Path, option("Folder for predictor.json and report.html.", "FOLDER")] = Path("demo-output"),
    figures: Figures = False,
    quiet: Quiet = False,
) -> None:
    """Which character is this? The main job on bundled data: glyphs of fonts that a network has not seen."""
    from thermoset.data.splits import split_indices
    from thermoset.datasets import load_glyphs
    from thermoset.predictor import TwoTemperaturePredictor

    check_files(out, ["predictor.json", "report.html", "reliability.png", *FIGURES])
    _check_figures(figures)
    glyphs = load_glyphs()
    rows = split_indices(len(glyphs.logits), 0.7)
    known, fresh = (glyphs.logits.take(part) for part in rows)
    screen = Screen()
    with print_warnings():
        with progress(quiet, "Tuning") as show:
            predictor = TwoTemperaturePredictor("auto", 0.1, "protect").fit(known, progress=show)
        with make_folder(out):
            predictor.save(out / "predictor.json")
        show_predictor(screen, predictor, "glyphs, a network that reads characters of fonts it was not trained on")
        _show_fresh(screen, predictor, fresh)
        _show_families(screen, predictor, glyphs)
        screen.say()
        screen.wrote(out / "predictor.json")
        if figures:
            drawn = {"reliability.png": _reliability(predictor, fresh), **_figures(predictor)}
            screen.wrote(*(write_file(out / name, figure) for name, figure in drawn.items()))
        if can_draw("report.html", PAGE_MODULES, "report"):
            place = {row: i for i, row in enumerate(rows[1].tolist())}
            pictures = zip(glyphs.thumbnail_rows.tolist(), glyphs.thumbnails, strict=True)
            images = {place[row]: picture for row, picture in pictures if row in place}
            page = page_of(predictor, fresh, "glyphs of fonts that the network has not seen", quiet, images=images)
            screen.wrote(write_file(out / "report.html", page))
    screen.say()
    screen.say("On your own logits: thermoset tune val.npz, with arrays 'logits' and 'labels'.")


def _reliability(predictor: "TwoTemperaturePredictor", fresh: "Logits") -> "Figure":
    """Reliability diagrams of the softmax as it is and of the predictor, on rows that it has not seen."""
    from thermoset.calibration import probabilities
    from thermoset.metrics import reliability_table
    from thermoset.plots import figure, plot_reliability

    drawn, panels = figure(2)
    probs = {"T = 1": probabilities(fresh), "calibrated": predictor.predict_proba(fresh)}
    for ax, (name, of_rows) in zip(panels, probs.items(), strict=True):
        table = reliability_table(of_rows, fresh.require_labels("the demo"), n_bins=10)
        plot_reliability(table, ax=ax, title=name)
    return drawn


def _show_fresh(screen: Screen, predictor: "TwoTemperaturePredictor", fresh: "Logits") -> None:
    """What sets look like for characters that the predictor has not seen."""
    import numpy as np

    from thermoset.metrics import avg_size, marginal_coverage

    sets, labels, names = predictor.predict_set(fresh), fresh.require_labels("the demo"), fresh.classes or ()
    screen.say()
    screen.say(
        f"the set contains the right one in {marginal_coverage(sets, labels):.1%} of cases, with "
        f"{avg_size(sets):.2f} labels on average. Examples:",
        lead=f"On {len(fresh):,} fresh characters",
    )
    sizes = sets.sum(axis=1)
    doubtful = np.flatnonzero((sizes > 1) & (sizes < 5))
    few = doubtful[:: max(len(doubtful) // _SHOWN, 1)][:_SHOWN]
    for i, record in zip(few, predictor.predict_records(fresh.take(few)), strict=True):
        members = ", ".join(map(str, record.set))
        screen.say(f"  {names[labels[i]]}: {{{members}}}, most likely {record.label} ({record.confidence:.0%})")


def _show_families(screen: Screen, predictor: "TwoTemperaturePredictor", glyphs: "Glyphs") -> None:
    """What it does to the promise that rows of one font family are not independent."""
    from thermoset.metrics import coverage_law
    from thermoset.sweeping import sweep

    recipe, n_rows = predictor.document_.recipe, len(glyphs.logits)
    half = n_rows // 2
    coverage = []
    for together in (None, glyphs.family):
        splits = sweep(
            glyphs.logits,
            temperatures=[predictor.temperature_sets_],
            methods=[recipe.score],
            alphas=[recipe.alpha],
            trials=_SPLITS,
            calibration_fraction=0,
            cp_fraction=0.5,
            randomized=recipe.randomized,
            allow_empty=recipe.allow_empty,
            grouping=recipe.grouping,
            split_by=together,
        )
        coverage.append(splits.trial_values[0, 0, 0, splits.metrics.index("marginal_coverage")])
    by_row, by_family = coverage
    law = coverage_law(half, n_rows - half, recipe.alpha).std() / (n_rows - half)
    screen.say()
    screen.say(
        "is a harder question: rows of one font family are not independent, and a random split puts them on both "
        f"sides. Over {_SPLITS} splits that hold out whole families (`split_by`), coverage is {by_family.mean():.3f} "
        f"on average, with a standard deviation of {by_family.std(ddof=1):.3f}; over random splits it is "
        f"{by_row.mean():.3f} and {by_row.std(ddof=1):.4f}; the law for independent rows says {law:.4f}.",
        lead="A new font",
    )

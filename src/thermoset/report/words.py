"""What the terms of the pages mean, for readers who have not read the paper, and the glossary that shows it.

The glossary is plain HTML, so that it opens offline and without scripts. A term is a button that shows its meaning;
another button shows all of them. Both use the `popover` attribute, which browsers operate by mouse, touch and keyboard.
Browsers that do not know it show the glossary at the end of the page, as on paper.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from thermoset.metrics import METRICS

if TYPE_CHECKING:
    from thermoset.monitor.status import MonitorStatus
    from thermoset.report.record import Report


SCORE_WORDS = {
    "lac": "a score: one minus the probability of the label. It gives small sets, but hard classes are covered less "
    "than easy ones",
    "aps": "a score: the probability of the label and of all likelier labels, added up. Hard rows get larger sets",
    "raps": "a score: APS plus a penalty for each label beyond the first few, which keeps sets from growing long",
    "saps": "a score: the highest probability plus a fixed step for each rank below the first",
    "topk": "a score: the rank of the label. All sets have about the same size",
    "margin": "a score: how far the probability of the label is below the highest other probability",
    "pas": "a score: the probability of the label divided by the share of its class, so that rare classes enter sets "
    "more easily",
}
"""Scores in plain words, by name."""

_TOP, _AVG, _MAR = (METRICS[f"{name}_coverage_gap"].title for name in ("top", "avg", "marginal"))
_SIZE = METRICS["avg_size"].title
_SHARED = {
    "set": "the labels that a row may have, as far as the predictor can tell. It holds the true label with the "
    "promised probability",
    "coverage": "the share of rows whose set holds the true label. The target is 1 \u2212 \u03b1",
    "T*": "the temperature whose probabilities fit the labels best",
    "T-hat": "the temperature chosen for the prediction sets",
    "T_c": "the temperature at which sets are largest on average",
    "temperature": "the number that logits are divided by before the softmax. High temperatures spread probability "
    "over more labels. The order of the labels stays the same",
    "score": "how badly a label fits a row. A set holds the labels whose score is at most the threshold",
    "threshold": "the largest score a label may have to be in the set. It is set so that sets have the promised "
    "coverage; each temperature has its own",
    "empty set": "a set without a label. No label has a score at or below the threshold. It counts as a miss",
    "calibration rows": "the labelled rows that the temperatures were chosen on",
    "conformal rows": "the labelled rows that set the threshold. Nothing was chosen on them",
    "Mondrian": "a threshold for each class, in place of one for all rows",
    "clustered": "a threshold for each cluster of classes with similar scores",
    _SIZE: "the mean number of labels in a set",
    _TOP: "how far coverage is from 1 \u2212 \u03b1, averaged over the worst twentieth of classes. With few rows for "
    "each class, chance alone makes it large",
    _AVG: "how far coverage is from 1 \u2212 \u03b1, averaged over all classes",
    _MAR: "how far the coverage of all rows is from 1 \u2212 \u03b1. It is near 0 for every valid method",
    "by chance": "what the same number of rows would show if every class were covered with probability 1 \u2212 \u03b1",
    "ECE": "expected calibration error: how far confidence is from accuracy, averaged over bins of confidence",
    "classwise ECE": "the ECE of the probability of each class, averaged over the classes",
    "NLL": "negative log-likelihood: lower is better. It is high where the true label got little probability",
    "Brier": "the squared distance between the probabilities and the truth. Lower is better",
    "confidence": "the probability of the most likely label, from the softmax at T*",
    "reliability diagram": "accuracy against confidence. For calibrated confidence the bars end on the diagonal",
    "95% interval": "an exact interval (Clopper and Pearson) for the coverage of one class, group or batch",
    "p (Holm)": "the probability of coverage this low by chance, adjusted for the number of classes, groups or parts "
    "that were tested",
    "standard error": "how far a mean over random splits typically is from the mean over all splits",
    "theory": "the temperature at which the paper's bound is smallest. It depends on the number of classes alone, not "
    "on these data",
    "exchangeable": "in an order that says nothing, like independent draws from one source. The promise is about such "
    "rows",
    "left out": "a row whose most likely label is correct but not in the set",
    "u": "a random number between 0 and 1 for each row. It decides whether the label at the edge of a set is in, so "
    "that coverage is exact",
}
"""Terms that several pages use."""


def _some(terms: Iterable[str]) -> dict[str, str]:
    return {term: _SHARED[term] for term in terms}


def words(report: "Report") -> dict[str, str]:
    """Terms of the report with their meanings: those of the choice, of the sets, and of the probabilities."""
    scores = dict.fromkeys(name.partition("(")[0] for name in report.curves.methods)
    return {
        **dict(report.document.choice.legend),
        "\u03b1": "alpha: the share of rows whose set may miss the true label",
        **_some(("set", "coverage", "temperature", "T_c", "score", "threshold")),
        **{name.upper(): SCORE_WORDS[name] for name in scores if name in SCORE_WORDS},
        **_some(("Mondrian", "clustered", "empty set", "left out", "calibration rows", "conformal rows", _SIZE)),
        **_some((_TOP, _AVG, "by chance", "confidence", "ECE", "classwise ECE", "NLL", "Brier", "reliability diagram")),
        **_some(("95% interval", "p (Holm)", "standard error", "theory", "exchangeable", "u")),
    }


def study_words() -> dict[str, str]:
    """Terms of the study with their meanings."""
    return {
        "TS": "temperature scaling: dividing the logits by T* before the softmax",
        "CP set": "the conformal rows: those that set the threshold. Its size is given in percent of all rows",
        "exact": "rows of a table that follow thermoset's own conventions, for which the promise holds",
        "published": "rows of a table that follow the choices that come nearest to the tables of the paper",
        "median of means": "the trials are divided into ten groups; the value shown is the median of the ten means",
        "\u03b1": "alpha: the share of rows whose set may miss the true label",
        **_some(("set", "coverage", "temperature", "T*", "T-hat", "T_c", "score", "threshold")),
        **{name.upper(): SCORE_WORDS[name] for name in ("lac", "aps", "raps")},
        **_some(("Mondrian", "clustered")),
        "ConfTS": "a published rule that chooses a temperature from the scores of the labels (Xi and others, 2024)",
        "worst tenth": "the mean coverage of the tenth of classes that are covered least",
        **_some(("left out", _SIZE, _TOP, _AVG, _MAR, "ECE", "NLL", "reliability diagram", "standard error")),
        "margin": "the difference between the two largest logits of a row",
        "s_T": "the last index: as T rises, labels up to this rank lose probability and the others gain it",
        "b(T)": "the paper's bound: for rows whose margin is above it, the theory says which way sets change with T",
        "sharp bound": "b*(T), the smallest number that can stand for b(T) in the paper's theorem",
        **_some(("empty set", "u")),
    }


def monitor_words(status: "MonitorStatus") -> dict[str, str]:
    """Terms of the page over time with their meanings."""
    return {
        **_some(("set", "empty set")),
        "\u03b1": f"alpha: the share of rows whose set may miss the true label, here {status.alpha}",
        **_some(("coverage", "conformal rows", "exchangeable")),
        "e-value": "evidence against the promise, as the winnings of a bet against it. Whoever starts with 1 and bets "
        "while the promise holds has 1 on average, and ever reaches 100 with a chance of at most 1 in 100",
        "confidence sequence": "an interval that may be looked at after every row: with the stated probability it is "
        "right at all times at once. It is wider than an interval for a single look",
        **_some(("95% interval",)),
        "change detector": "a test that starts again with every row, and after each alarm. A long good period does not "
        "hide a change that comes after it",
        "average run length": "how many rows pass, on average, before a detector raises a false alarm while nothing "
        "has changed",
        **_some(("T*", "confidence")),
        "drift": "rows no longer look like the conformal rows. Set sizes and confidence show it without labels",
    }


# ---- the glossary ----------------------------------------------------------------------------------------------------

GLOSSARY_BUTTON = "<button type='button' class='glossary' popovertarget='words'>Glossary</button>"
"""Shows all terms."""

_SPELT = {"T*": "t-star", "\u03b1": "alpha", "u": "u"}


def term_button(terms: Sequence[str], term: str, text: str | None = None) -> str:
    """A term, or other words for it, that shows its meaning; an error if the page does not explain it."""
    if term not in terms:
        raise KeyError(f"the glossary does not explain {term!r}")
    shown = with_symbols(term if text is None else text)
    return f"<button type='button' class='term' popovertarget='{_place(term)}'>{shown}</button>"


def glossary_html(words: Mapping[str, str]) -> str:
    """All terms with their meanings, and each of them alone."""
    entries = "".join(f"<dt>{with_symbols(term)}</dt><dd>{_sentence(text)}</dd>" for term, text in words.items())
    more = "<button type='button' popovertarget='words'>All terms</button>"
    single = "".join(
        f"<div popover id='{_place(term)}' class='word'><b>{with_symbols(term)}</b> {_sentence(text)} {more}</div>"
        for term, text in words.items()
    )
    close = "<button type='button' class='close' popovertarget='words' popovertargetaction='hide'>Close</button>"
    return f"<section popover id='words'><h2>Glossary</h2>{close}<dl class='kv'>{entries}</dl></section>{single}"


def with_symbols(text: str) -> str:
    """Text as HTML, with the names of temperatures as pages write them."""
    return escape(text).replace("T-hat", "T\u0302").replace("T_c", "T<sub>c</sub>")


def _sentence(text: str) -> str:
    return with_symbols(text[0].upper() + text[1:] + ("" if text.endswith(".") else "."))


def _place(term: str) -> str:
    """Where the meaning of a term stands."""
    return "word-" + (_SPELT.get(term) or re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-"))

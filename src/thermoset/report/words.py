"""What the words of the pages mean, for readers who have not read the paper."""

from thermoset.metrics import METRICS
from thermoset.monitor.watching import Standing
from thermoset.report.record import Report

__all__ = ["SCORE_WORDS", "monitor_words", "words"]

SCORE_WORDS = {
    "lac": "a score: one minus the probability of the label. Its sets are small, but less even over the classes",
    "aps": "a score: the probabilities of the label and of all likelier ones, added up. Hard rows get larger sets",
    "raps": "a score: APS with a penalty for each label after the first few, which keeps sets from growing long",
    "saps": "a score: the highest probability, and a fixed step for each rank below the first",
    "topk": "a score: the rank of the label. All sets have about the same size",
    "margin": "a score: how far the probability of the label is below the highest other one",
    "pas": "a score: the probability of the label over the share of its class, so that rare classes get in more easily",
}
"""Scores in plain words, by name."""

_COVERAGE = ("coverage", "the share of rows whose set holds the true label; the aim is 1 \u2212 \u03b1")

_E_VALUE = (
    "evidence against the promise, as the winnings of a bet against it: whoever starts with 1 and bets while the "
    "promise holds has 1 on average, and ever reaches 100 with a chance of at most 1 in 100"
)
_SEQUENCE = (
    "an interval that may be looked at after every row: with the stated probability it is right at all times at once. "
    "It is wider than an interval for a single look"
)
_DETECTOR = (
    "a test that starts anew with every row, and again after each alarm. A long good time does not outweigh a change "
    "that comes after it"
)


def words(report: Report) -> list[tuple[str, str]]:
    """Terms of the page with their meanings: those of the choice, of the sets, and of the probabilities."""
    scores = dict.fromkeys(name.partition("(")[0] for name in report.curves.methods)
    top, avg = METRICS["top_coverage_gap"].title, METRICS["avg_coverage_gap"].title
    return [
        *report.artifact.choice.legend,
        ("\u03b1", "alpha: the share of rows whose set may miss the true label"),
        _COVERAGE,
        ("score", "how badly a label fits a row; a set holds the labels whose score is at most the threshold"),
        ("threshold", "set so that sets have the promised coverage; every temperature has its own"),
        *((name.upper(), SCORE_WORDS[name]) for name in scores if name in SCORE_WORDS),
        (
            top,
            "how far coverage is from 1 \u2212 \u03b1 in the worst twentieth of classes; few rows alone make it large",
        ),
        (avg, "the same for all classes: the mean distance of their coverage from 1 \u2212 \u03b1"),
        ("ECE", "expected calibration error: how far confidence is from accuracy, averaged over bins of confidence"),
        ("classwise ECE", "the same for the probability of every class in turn, averaged over the classes"),
        ("slab", "the rows between two parallel planes in the space of the logits"),
        ("NLL", "negative log-likelihood: how little probability the true labels get; lower is better"),
        ("Brier", "the squared distance of the probabilities from the truth; lower is better"),
        ("theory", "the temperature at which the paper's bound is least: it belongs to the proof, not to these data"),
    ]


def monitor_words(standing: Standing) -> list[tuple[str, str]]:
    """Terms of the page over time with their meanings."""
    return [
        ("set", "the labels that a row may have, as far as the predictor can tell; it may be empty"),
        ("\u03b1", f"alpha: the share of rows whose set may miss the true label, here {standing.alpha}"),
        _COVERAGE,
        ("conformal rows", "the labelled rows that set the threshold: what came later is compared with them"),
        (
            "exchangeable",
            "in an order that says nothing, as independent draws from one source are. The promise is about such rows",
        ),
        ("e-value", _E_VALUE),
        ("confidence sequence", _SEQUENCE),
        ("95% interval", "exact (Clopper and Pearson), for one batch, class or group looked at alone, once"),
        ("change detector", _DETECTOR),
        (
            "average run length",
            "how many rows pass, on average, until a detector raises a false alarm while nothing has changed",
        ),
        ("T*", "the temperature at which confidence is calibrated; sets are made at a temperature of their own"),
        ("confidence", "the probability of the likeliest label, by the softmax at T*"),
        ("drift", "rows no longer look like the conformal rows. Sets and confidence show it without labels"),
    ]

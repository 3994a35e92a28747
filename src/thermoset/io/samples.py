"""Samples of lm-eval (`--log_samples`): log-likelihoods of the options of multiple-choice questions.

A record has `filtered_resps`, a pair (log-likelihood, is greedy) for each option, as numbers or, in newer versions, as
text; `target`, the position of the right option or its text; `arguments`, what the model was given; and metrics.
"""

import ast
from typing import Any

import numpy as np

from thermoset.errors import FileFormatError
from thermoset.io.csv_text import is_whole
from thermoset.quoting import quoted

__all__ = ["RESPONSES", "gold_option", "option_scores"]

RESPONSES = "filtered_resps"


def option_scores(record: dict[str, Any]) -> list[float]:
    """The log-likelihood of each option.

    >>> option_scores({"filtered_resps": [["-4.5", "False"], ["-2.25", "True"]]})
    [-4.5, -2.25]
    """
    responses = record[RESPONSES]
    if not isinstance(responses, list) or not responses or not all(map(_is_pair, responses)):
        raise FileFormatError(
            f"filtered_resps is {quoted(responses)}; expected a pair of log-likelihood and is_greedy for each option. "
            f"Only samples of multiple-choice tasks can be read."
        )
    scores = [_number(pair[0]) for pair in responses]
    # With this metric the options come a second time, without their question.
    twice = "acc_mutual_info" in record or "acc_mutual_info" in (record.get("metrics") or ())
    return scores[: len(scores) // 2] if twice else scores


def _is_pair(response: Any) -> bool:
    return isinstance(response, list) and len(response) == 2 and str(response[1]) in ("True", "False")


def _number(value: Any) -> float:
    try:
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise FileFormatError(f"a log-likelihood is {quoted(value)}; expected a number.") from None


def gold_option(record: dict[str, Any], scores: list[float]) -> int:
    """The position of the right option.

    >>> gold_option({"target": "1", "acc": 1.0}, [-4.5, -2.25])
    1
    """
    target = record.get("target")
    gold = _position(target, record, len(scores))
    if not 0 <= gold < len(scores):
        raise FileFormatError(f"target is {quoted(target)} and there are {len(scores)} options, counted from 0.")
    right = record.get("acc")  # whether the likeliest option is the right one: a target that was misread shows here
    if right in (0, 1) and (int(np.argmax(scores)) == gold) != bool(right):
        raise FileFormatError(
            f"target {quoted(target)} was read as option {gold}, which contradicts acc = {right}. "
            f"Pass the positions of the right options: load(path, labels='gold.npy')."
        )
    return gold


def _position(target: Any, record: dict[str, Any], n_options: int) -> int:
    if isinstance(target, bool) or not isinstance(target, (int, str)):
        raise FileFormatError(f"target is {quoted(target)}; expected the position of the right option, or its text.")
    if isinstance(target, int) or is_whole(target):
        return int(float(target))
    if target.startswith("[") and _is_list(target):
        raise FileFormatError(f"target is {quoted(target)}: several right options; expected one for each question.")
    texts = _continuations(record.get("arguments"))[:n_options]
    if texts.count(target.strip()) != 1:
        raise FileFormatError(
            f"target {quoted(target)} is the text of {texts.count(target.strip())} options; expected exactly one. "
            f"Pass the positions of the right options: load(path, labels='gold.npy')."
        )
    return texts.index(target.strip())


def _is_list(text: str) -> bool:
    try:
        return isinstance(ast.literal_eval(text), list)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False


def _continuations(arguments: Any) -> list[str]:
    """The texts of the options: the second argument of each request, in either form of the file."""
    requests = list(arguments.values()) if isinstance(arguments, dict) else arguments
    if not isinstance(requests, list):
        return []
    pairs = [list(one.values()) if isinstance(one, dict) else one for one in requests]
    return [str(pair[1]).strip() for pair in pairs if isinstance(pair, list) and len(pair) > 1]

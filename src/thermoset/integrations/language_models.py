"""Answers of language-model servers and Hugging Face pipelines, and multiple choice, as `Logits`.

A server that is asked for `logprobs` returns the k likeliest tokens at each place of its answer. The place that counts
is the first token that is not blank. Tokens that mean the same option (another case, a leading space, the beginning of
the option's text) are added up. An option that is not among the k tokens has no zero probability: its token is at most
as likely as the k-th one, and at most what the k tokens leave. It gets this bound.

The bound is a fixed function of the response, so rows completed in this way are exchangeable where the responses are,
and sets keep their promise, however loose the bound is. It costs only sharpness: an option may be in a set because of
its bound. `OptionLogprobs.undecided` says in which rows.
"""

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from thermoset.arrays import Bools, Floats
from thermoset.data import Logits
from thermoset.data.labels import option_names
from thermoset.data.reading import checked_options, first_repeated, one_column
from thermoset.data.top_k import LEAST_KEPT, TopLogits
from thermoset.errors import FileFormatError, InputError, SuspiciousRowsWarning
from thermoset.quoting import quoted, reason

T = TypeVar("T")
Token = tuple[str, Any]  # its text and log-probability
# a JSON or JSONL file, or objects of a client library, or their JSON
Responses = str | os.PathLike[str] | Iterable[Any]

_ROUNDING = 2.0**-22  # by how much probabilities in float32 may fall short of their sum
_BLANK = " \t\r\n\u2581\u0120\u010a"  # the last three stand for blanks in vocabularies
_AROUND = _BLANK + ".,:;!?()[]{}<>\"'`*_"  # what may surround an answer


@dataclass(frozen=True)
class OptionLogprobs:
    """What responses say of each option; `read_logprobs` makes one.

    Attributes
    ----------
    options : tuple of str
    logprobs : array (n, C)
        Log-probabilities of the options; those that were not returned have their bound.
    returned : boolean array (n, C)
        Whether the response holds the option.
    answered : boolean array (n,)
        Whether the answer begins with one of the options.
    """

    options: tuple[str, ...]
    logprobs: Floats
    returned: Bools
    answered: Bools

    def logits(self, labels: object = None, groups: object = None) -> Logits:
        """The rows as `Logits`; their softmax is the probability of each option given that it is one of them."""
        return Logits(self.logprobs, labels, list(self.options), groups)

    def undecided(self, sets: Bools) -> Bools:
        """Rows whose set (n, C) holds an option that the response does not: only its bound is known."""
        if np.shape(sets) != self.returned.shape:
            raise InputError(f"must have shape {self.returned.shape}; got {np.shape(sets)}.", name="sets")
        rows: Bools = np.any(np.logical_and(sets, ~self.returned), axis=1)
        return rows


def read_logprobs(responses: Responses, options: Sequence[str]) -> OptionLogprobs:
    """Log-probabilities of the options in each response's first answer token.

    Parameters
    ----------
    responses : path, or iterable
        A `.json` or `.jsonl` file, or one response for each row: of OpenAI's chat or completions API, of servers that
        speak it (vLLM, llama.cpp, litellm and others), of llama.cpp's own `/completion`, of vLLM in Python, or lines of
        OpenAI's batch files. Objects and their JSON are read alike.
    options : sequence of str
        The texts of the answers, such as ["A", "B", "C", "D"] or ["yes", "no"]. A token belongs to an option if it is
        its text or begins it, apart from case, blanks and punctuation around it, and begins no other option.

    Examples
    --------
    >>> tokens = [{"token": t, "logprob": p} for t, p in ((" yes", -0.7), ("Yes", -1.4), ("maybe", -3.0))]
    >>> place = {"token": " yes", "logprob": -0.7, "top_logprobs": tokens}
    >>> response = {"choices": [{"logprobs": {"content": [place]}}]}
    >>> answers = read_logprobs([response], ["yes", "no"])
    >>> np.exp(answers.logprobs).round(3), answers.returned.tolist()  # e**-.7 + e**-1.4; "no" is at most e**-3
    (array([[0.743, 0.05 ]]), [[True, False]])
    """
    names: tuple[Any, ...] = () if isinstance(options, str) or not np.iterable(options) else tuple(options)
    if len(names) < 2 or not all(isinstance(name, str) and name.strip(_AROUND) for name in names):
        raise InputError(f"must be two or more texts, the possible answers; got {quoted(options)}.", name="options")
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"holds {quoted(twice)} twice.", name="options")
    option_of = _matcher(names)

    def read(response: Any) -> tuple[Floats, Bools, bool] | None:
        if (place := _first_place(response)) is None:
            return None
        chosen, tokens = place
        values, returned = np.full(len(names), -np.inf), np.zeros(len(names), dtype=np.bool_)
        for text, logprob in tokens:
            if (option := option_of(text)) is not None:
                values[option] = np.logaddexp(values[option], logprob)
                returned[option] = True
        left = max(1.0 - sum(np.exp(logprob) for _, logprob in tokens), 0.0) + _ROUNDING
        # A sampled token may be listed in addition to the k likeliest ones, so its probability bounds nothing.
        values[~returned] = min([np.log(left), *(logprob for text, logprob in tokens if text != chosen)])
        return values, returned, option_of(chosen) is not None

    rows = _read_all(responses, read, "no log-probabilities of an answer: ask for top_logprobs (chat) or logprobs")
    logprobs, returned, answered = map(np.array, zip(*rows, strict=True))
    if not answered.all():
        warnings.warn(
            f"{np.count_nonzero(~answered):,} of {len(answered):,} responses begin with none of the options; the first "
            f"is response {answered.argmin()}. Check the prompt and the texts of the options.",
            SuspiciousRowsWarning,
            stacklevel=3,
        )
    return OptionLogprobs(names, logprobs, returned, answered)


def _read_all(responses: Responses, read: Callable[[Any], T | None], missing: str) -> list[T]:
    """What `read` finds in each response; one error counts those that are bad, because labels belong to all."""
    results: list[T] = []
    models, bad = Counter[str](), dict[str, list[int]]()
    for number, response in enumerate(_responses(responses)):
        problem = _problem(response)
        if problem is None:
            try:
                one = read(response)
            except (TypeError, ValueError, LookupError, AttributeError):
                one, problem = None, "entries of unknown types"
            if one is not None:
                results.append(one)
                models[str(_get(response, "model"))] += 1
                continue
        bad.setdefault(problem or missing, []).append(number)
    if bad:
        n_bad = sum(map(len, bad.values()))
        parts = "; ".join(f"{len(some):,} with {problem} (first: response {some[0]})" for problem, some in bad.items())
        raise InputError(
            f"{n_bad:,} of {n_bad + len(results):,} responses cannot be used: {parts}. Drop them and their labels, or "
            "ask again.",
            row=min(some[0] for some in bad.values()),
            name="responses",
        )
    if not results:
        raise InputError("holds no response.", name="responses")
    if len(models) > 1:
        shown = ", ".join(f"{quoted(model)} ({count:,})" for model, count in models.most_common(4))
        raise InputError(
            f"come from {len(models)} models: {shown}. One calibration is for one model: keep the responses of one.",
            name="responses",
        )
    return results


def _matcher(options: tuple[str, ...]) -> Callable[[str], int | None]:
    """Which option a token stands for: the one whose text it is, or of which alone it is the beginning."""
    # Cases and signs count only where options differ by nothing else.
    ways = (lambda text: text.strip(_AROUND).casefold(), lambda text: text.strip(_AROUND), str.strip)
    read = next((way for way in ways if len({*map(way, options)}) == len(options)), str)
    known = [read(option) for option in options]

    @cache
    def option_of(token: str) -> int | None:
        text = read(token)
        begun = [i for i, option in enumerate(known) if option.startswith(text)] if text else []
        matches = [i for i in begun if known[i] == text] or begun
        return matches[0] if len(matches) == 1 else None

    return option_of


# ---- the shapes of responses -----------------------------------------------------------------------------------------


def _get(holder: Any, name: str) -> Any:
    """An entry of a dict or attribute of an object, None where there is none."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _responses(responses: Responses) -> Iterator[Any]:
    """The responses one by one, out of a batch file's lines."""
    if isinstance(responses, str | os.PathLike):
        try:
            content = Path(responses).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FileFormatError(f"{responses}: cannot be read ({reason(error)}).") from None
        whole = _json(content)
        lines = [line for line in content.split("\n") if line.strip()] if whole is None else [whole]
        responses = whole if isinstance(whole, list) else lines
    elif isinstance(responses, Mapping) or not isinstance(responses, Iterable):
        raise InputError(
            f"must be a file or a list of responses; got {quoted(type(responses).__name__)}.", name="responses"
        )
    for one in responses:
        response = _json(one) if isinstance(one, str | bytes) else one
        batch = _get(response, "response")  # {"custom_id": ..., "response": {"status_code": 200, "body": {...}}}
        yield response if batch is None else _get(batch, "body")


def _json(text: str | bytes) -> Any:
    """What a text holds; None for one that ends in the middle, which is counted with the other bad ones."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _problem(response: Any) -> str | None:
    """What makes a response unusable, before its log-probabilities are looked for."""
    if response is None:
        return "JSON that is cut off or no JSON"
    if isinstance(response, str | int | float | list):
        return "JSON that is no response"
    if _get(response, "error") or _get(response, "object") == "error":
        return "an error in place of an answer"
    return "no choices" if _get(response, "choices") == [] else None


def _first_place(response: Any) -> tuple[str, list[Token]] | None:
    """The first token of the answer that is not blank, and the likeliest tokens at its place; None without these."""
    for chosen, tokens in _places(response):
        if chosen.strip(_BLANK):
            usable = [(text, float(value)) for text, value in tokens if value is not None and value == value]  # noqa: PLR0124 - not NaN
            if any(value > _ROUNDING for _, value in usable):
                raise ValueError("a log-probability above 0")
            return (chosen, usable) if usable else None
    return None


def _places(response: Any) -> Iterator[tuple[str, list[Token]]]:
    """Each place of the answer: the token that was chosen there, and the likeliest ones."""
    choices = _get(response, "choices")
    if choices is not None:  # OpenAI, vLLM's server, llama.cpp's /v1, litellm
        logprobs = _get(choices[0], "logprobs")
        content = _get(logprobs, "content")
        if content:  # chat
            for entry in content:
                top = _get(entry, "top_logprobs") or []
                yield str(_get(entry, "token")), [(str(_get(one, "token")), _get(one, "logprob")) for one in top]
            return
        for token, top in zip(_get(logprobs, "tokens") or [], _get(logprobs, "top_logprobs") or [], strict=False):
            yield str(token), [*(top or {}).items()]  # completions
        return
    for entry in _get(response, "completion_probabilities") or []:  # llama.cpp's /completion
        top = _get(entry, "top_logprobs") or _get(entry, "top_probs") or _get(entry, "probs") or []
        chosen = _get(entry, "token")
        yield str(_get(entry, "content") if chosen is None else chosen), [*map(_llama_token, top)]
    outputs = _get(response, "outputs")
    for place in (_get(outputs[0], "logprobs") or []) if outputs else []:  # vLLM in Python: token id -> Logprob
        ranked = [(str(_get(one, "decoded_token")), _get(one, "logprob")) for one in place.values()]
        yield ranked[0][0] if ranked else "", ranked  # the first is the sampled one


def _llama_token(one: Any) -> Token:
    """A token of llama.cpp: newer servers write logarithms, older ones and those after sampling write probabilities."""
    text, logprob, prob = _get(one, "token"), _get(one, "logprob"), _get(one, "prob")
    if logprob is None and prob is not None:
        logprob = np.log(prob) if prob > 0 else -np.inf
    return str(_get(one, "tok_str") if text is None else text), logprob


# ---- classifiers behind servers --------------------------------------------------------------------------------------


def from_pipeline(
    outputs: Iterable[Any], labels: object = None, classes: Sequence[str] | None = None, groups: object = None
) -> Logits:
    """Take what a Hugging Face classification pipeline returns: a list of {"label", "score"} for each row.

    With `top_k=None` rows have a score for every class. Rows cut to at least four, `top_k=4` and more, become
    `TopLogits`: probabilities sum to 1, so it is known what the others share. Rows from `function_to_apply="none"` hold
    logits, and are read as such where a score is negative or above 1.

    Parameters
    ----------
    outputs : iterable
        One list for each row.
    labels, groups
        As for `Logits`.
    classes : sequence of str, optional
        All class names in the order wanted, such as `list(model.config.id2label.values())`; by default the labels that
        occur, sorted. Needed for rows that are cut.

    Examples
    --------
    >>> rows = [[{"label": "cat", "score": 0.75}, {"label": "dog", "score": 0.25}]]
    >>> logits = from_pipeline(rows, labels=["cat"])
    >>> logits, logits.classes
    (Logits(1 rows x 2 classes, float64, labelled, named), ('cat', 'dog'))
    """
    rows: list[list[tuple[str, float]]] = []
    for i, row in enumerate(outputs):
        try:
            entries = [row] if isinstance(row, Mapping) else row
            rows.append([(str(one["label"]), float(one["score"])) for one in entries])
        except (TypeError, ValueError, LookupError):
            raise InputError(
                f"is {quoted(row)}; expected a list of {{'label', 'score'}}.", row=i, name="outputs"
            ) from None
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths:
        raise InputError(f"must hold equally many scores for each row; got {sorted(widths)}.", name="outputs")
    width = widths.pop()
    names = [*classes] if classes is not None else sorted({label for row in rows for label, _ in row})
    column = {name: i for i, name in enumerate(names)}
    if unknown := Counter(label for row in rows for label, _ in row if label not in column):
        label, count = unknown.most_common(1)[0]
        raise InputError(f"name the label {quoted(label)} {count:,} times, which is not in classes.", name="outputs")
    indices = np.array([[column[label] for label, _ in row] for row in rows])
    scores = np.array([[score for _, score in row] for row in rows])
    if width < len(names) and (width < LEAST_KEPT or classes is None):
        raise InputError(
            f"hold {width} of {len(names)} classes for each row. Call the pipeline with top_k=None, or with top_k of "
            f"at least {LEAST_KEPT} and pass all classes=.",
            name="outputs",
        )
    raw = bool((scores < 0).any() or (scores > 1).any())
    if width == len(names):
        whole = np.full((len(rows), len(names)), np.nan)
        np.put_along_axis(whole, indices, scores, axis=1)
        if np.isnan(whole).any():
            row = int(np.isnan(whole).any(axis=1).argmax())
            raise InputError("names a label twice or has a score that is NaN.", row=row, name="outputs")
        return (Logits if raw else Logits.from_probabilities)(whole, labels, names, groups)
    with np.errstate(divide="ignore"):
        values, sums = (scores, None) if raw else (np.log(scores), np.zeros(len(rows)))
    return TopLogits(values, indices, len(names), log_sum_exp=sums, labels=labels, classes=names, groups=groups)


def from_classify(
    responses: Responses, labels: object = None, classes: Sequence[str] | None = None, groups: object = None
) -> Logits:
    """Take responses of vLLM's `/classify`: each has the probabilities of one or more texts, in their order.

    >>> rows = from_classify([{"data": [{"index": 0, "label": "ok", "probs": [0.75, 0.25], "num_classes": 2}]}])
    >>> rows, np.exp(rows.logits)
    (Logits(1 rows x 2 classes, float64), array([[0.75, 0.25]]))
    """

    def read(response: Any) -> list[Floats] | None:
        data = sorted(_get(response, "data") or [], key=lambda one: _get(one, "index") or 0)
        return [np.asarray(_get(one, "probs"), dtype=np.float64).reshape(-1) for one in data] or None

    rows = [row for some in _read_all(responses, read, "no probabilities") for row in some]
    if len(widths := {len(row) for row in rows}) > 1:
        raise InputError(f"have different numbers of classes: {sorted(widths)}.", name="responses")
    return Logits.from_probabilities(np.stack(rows), labels, classes, groups)


# ---- multiple choice -------------------------------------------------------------------------------------------------


def read_choices(
    loglikelihoods: object, labels: object, lengths: object, n_options: int | None, classes: Any, groups: object
) -> Logits:
    """Do what `Logits.from_choices` says: options that a question does not have are -inf, masked classes."""
    rows = _ragged(loglikelihoods, "loglikelihoods")
    sizes = [np.ones(len(row)) for row in rows] if lengths is None else _ragged(lengths, "lengths")
    counts = [len(row) for row in rows]
    if counts != [len(row) for row in sizes]:
        raise InputError("lengths must hold one number for each log-likelihood, row by row.")
    width = checked_options(n_options) or max(counts)
    table = np.full((len(rows), width), -np.inf)
    for row, (values, size) in enumerate(zip(rows, sizes, strict=True)):
        if not (good := (size > 0) & np.isfinite(size)).all():
            raise InputError(f"lengths[{row}] holds {size[~good][0]}; lengths must be positive numbers.")
        if len(values) > width:
            raise InputError(f"row {row} has {len(values)} options and n_options is {width}. Pass a larger n_options.")
        table[row, : len(values)] = values / size
    quiz = Logits(table, labels, option_names(width) if classes is None else classes, groups)
    if quiz.labels is not None and len(bad := np.flatnonzero(quiz.labels >= counts)):
        row = int(bad[0])
        raise InputError(
            f"is {quiz.labels[row]}, and its row has {counts[row]} option(s), counted from 0; "
            f"{len(bad)} such row(s). Check that labels and rows belong together.",
            row=row,
            name="labels",
        )
    return quiz


def _ragged(rows: Any, name: str) -> list[Floats]:
    """One list of numbers for each row; their lengths may differ."""
    try:
        items = list(rows)
    except TypeError:
        raise InputError(f"{name} must hold a list of numbers for each row; got {quoted(rows)}.") from None
    if not items:
        raise InputError(f"{name} is empty; expected a list of numbers for each row.")
    arrays = []
    for row, item in enumerate(items):
        plain = isinstance(item, (str, bytes)) or not hasattr(item, "__len__")
        values = np.empty(()) if plain else one_column(item, f"{name}[{row}]")
        if values.ndim != 1 or (values.dtype.kind not in "fiu" and values.size):
            raise InputError(f"{name}[{row}] is {quoted(item)}; expected a list of numbers, one for each option.")
        if values.size == 0:
            raise InputError(f"{name}[{row}] is empty; a row needs at least one option. Drop it.")
        arrays.append(np.asarray(values, dtype=np.float64))
    return arrays

"""JSON: an object for each row, with a list of logits; or lm-eval's samples of multiple-choice tasks.

A file has an object in each line, and is read line by line; or it is an array of objects, and is read whole.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data.labels import option_names
from thermoset.errors import FileFormatError
from thermoset.io.files import check_size
from thermoset.io.roles import WHOLE_ROWS, Request, is_whole, list_name
from thermoset.io.table import TEXT, Column, Columns, Forward, Table
from thermoset.quoting import quoted, reason

_BLOCK_ROWS = 512
_IS_GREEDY = ("True", "False")

Fields = dict[str, Any]


def read_json(path: Path, request: Request) -> Table:
    """Look at the first record, and count the others."""
    is_array = _is_array(path)
    check_size(path.stat().st_size if is_array else 0, request.max_bytes, "the file")
    first = next(_records(path), None)
    if first is None:
        raise FileFormatError("the file has no rows.")
    if "filtered_resps" in first:
        return _samples(path, first, request)
    if is_array:
        n_rows = sum(1 for _ in _records(path))
    else:
        with path.open("rb") as stream:
            n_rows = sum(1 for line in stream if line.strip(b"\xef\xbb\xbf \t\r\n"))
    single = list_name(first, request.probabilities)
    if single is not None and not isinstance(first[single], list):
        _numbers(first[single], single, 0)

    def open_column(name: str) -> Column:
        value = first[name]
        if not isinstance(value, list):
            return _Records(path, (n_rows,), TEXT, partial(_field, name))
        if name != single and not _is_numbers(value):
            return _Records(path, (n_rows, 0), TEXT, partial(_field, name))
        width = len(_numbers(value, name, 0))
        return _Records(path, (n_rows, width), np.dtype(np.float64), partial(_list, name, width))

    return Table(Columns(first, open_column), cells=True)


def _is_array(path: Path) -> bool:
    with path.open("rb") as stream:
        begin = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    return begin.startswith(b"[")


def _records(path: Path) -> Iterator[Fields]:
    """The objects of a file: of its lines, or of the array that it is."""
    with path.open(encoding="utf-8-sig", newline="\n") as stream:
        if _is_array(path):
            values = _value(stream.read(), 0)
            yield from (_as_object(value, row) for row, value in enumerate(values))
            return
        row = 0
        for line in stream:
            if line.strip():
                if row == 0 and not line.lstrip().startswith("{"):
                    begin = quoted(line.strip()[:1])
                    raise FileFormatError(f"not a JSON file: it begins with {begin}; expected an object or array.")
                yield _as_object(_value(line, row), row)
                row += 1


def _value(text: str, row: int) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise FileFormatError("JSON that is nested too deeply. Write one object for each row.") from None
    except ValueError as error:  # also of whole numbers of thousands of digits
        raise FileFormatError(
            f"record {row}: not readable JSON, or truncated ({reason(error)}). "
            "Write an object in each line, or an array of them."
        ) from None


def _as_object(value: Any, row: int) -> Fields:
    if not isinstance(value, dict):
        raise FileFormatError(
            f"record {row} is {quoted(value)}; expected an object, such as {{'logits': [1.5, 0.25]}}."
        )
    return value


@dataclass(frozen=True)
class _Records(Forward):
    """One value of each record: a list of numbers, or anything else."""

    value: Callable[[Fields, int], Any]  # of a record and its number

    def blocks(self, _: int) -> Iterator[NDArray[Any]]:
        """Rows from the first record on."""
        records = enumerate(_records(self.path))
        while some := list(islice(records, _BLOCK_ROWS)):
            values = [self.value(fields, row) for row, fields in some]
            if self.dtype == TEXT:
                block = np.empty(len(values), dtype=object)
                block[:] = values
            else:
                block = np.array(values, dtype=self.dtype)
            yield block


def _field(name: str, fields: Fields, _: int) -> Any:
    return fields.get(name)


def _list(name: str, width: int, fields: Fields, row: int) -> list[float]:
    if name not in fields:
        held = ", ".join(map(quoted, list(fields)[:5])) or "nothing"
        raise FileFormatError(f"record {row}: no list of numbers called {quoted(name)}; it has {held}.")
    values = _numbers(fields[name], name, row)
    if len(values) != width:
        raise FileFormatError(f"row {row} has {len(values)} values, but row 0 has {width}.")
    return values


def _is_numbers(value: list[Any]) -> bool:
    return set(map(type, value)) <= {float, int}


def _numbers(value: Any, name: str, row: int) -> list[float]:
    """Check that a value is a list of numbers."""
    what = f"record {row}: {quoted(name)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise FileFormatError(f"{what} is one number, {quoted(value)}; expected one for each class. {WHOLE_ROWS}.")
    if not isinstance(value, list) or not _is_numbers(value):
        bad = next((x for x in value if type(x) not in (float, int)), None) if isinstance(value, list) else value
        inside = " holds" if isinstance(value, list) else " is"
        raise FileFormatError(f"{what}{inside} {quoted(bad)}; expected a list of numbers, one for each class.")
    try:
        return list(map(float, value))
    except OverflowError:
        raise FileFormatError(f"{what} holds a number that is too large.") from None


def _samples(path: Path, first: Fields, request: Request) -> Table:
    """Log-likelihoods of options as `logits`, right options as `labels`, and what else the records have."""
    n_rows, longest, filters = 0, 0, set[str]()
    for n_rows, fields in enumerate(_records(path), start=1):
        longest = max(longest, len(_option_scores(fields, n_rows - 1)))
        filters.add(str(fields.get("filter")))
    if len(filters) > 1:
        both = " and ".join(map(quoted, sorted(filters)))
        raise FileFormatError(f"samples of two filters, {both}; keep the records of one.")
    width = request.n_options or longest
    columns: dict[str, Column] = {name: _Records(path, (n_rows,), TEXT, partial(_field, name)) for name in first}
    columns["logits"] = _Records(path, (n_rows, width), np.dtype(np.float64), partial(_option_scores, width=width))
    columns["labels"] = _Records(path, (n_rows,), np.dtype(np.int64), _gold_option)
    names = option_names(width)
    return Table(columns, {} if names is None else {"classes": list(names)}, cells=True)


def _option_scores(sample: Fields, row: int, width: int | None = None) -> list[float]:
    """The log-likelihoods of a question's options in a sample that lm-eval logs, and -inf up to `width`.

    `filtered_resps` has a pair (log-likelihood, is greedy) for each option, as numbers or, in newer versions, as text;
    `target` is the position of the right option or its text, `arguments` what the model was given.
    """
    responses: Any = sample.get("filtered_resps")
    pairs: list[Any] = responses if isinstance(responses, list) else []
    if not pairs or not all(isinstance(one, list) and len(one) == 2 and str(one[1]) in _IS_GREEDY for one in pairs):
        raise FileFormatError(
            f"record {row}: filtered_resps is {quoted(responses)}; expected a pair of log-likelihood and is_greedy for "
            "each option. Only samples of multiple-choice tasks can be read."
        )
    scores = []
    for value, _ in pairs:
        try:
            scores.append(float(value))
        except (TypeError, ValueError, OverflowError):
            raise FileFormatError(f"record {row}: a log-likelihood is {quoted(value)}; expected a number.") from None
    # With this metric the options come a second time, without their question.
    if "acc_mutual_info" in sample or "acc_mutual_info" in (sample.get("metrics") or ()):
        scores = scores[: len(scores) // 2]
    if width is not None and len(scores) > width:
        raise FileFormatError(
            f"row {row} has {len(scores)} options; expected at most {width}. Pass a larger n_options."
        )
    return scores + [-np.inf] * ((width or 0) - len(scores))


def _gold_option(sample: Fields, row: int) -> int:
    """The position of the right option, which is given as a number or by its text."""
    target, scores, what = sample.get("target"), _option_scores(sample, row), f"record {row}: target"
    by_hand = "Pass the positions of the right options: load(path, labels='gold.npy')."
    if isinstance(target, bool) or not isinstance(target, (int, str)):
        raise FileFormatError(f"{what} is {quoted(target)}; expected the position of the right option, or its text.")
    if isinstance(target, int) or is_whole(target):
        gold: float = target if isinstance(target, int) else float(target)
    elif target.startswith("[") and target.endswith("]"):
        raise FileFormatError(f"{what} is {quoted(target)}: several right options; expected one for each question.")
    else:
        prompts = sample.get("arguments")  # pairs of a question and an option, in older versions and newer ones
        requests = list(prompts.values()) if isinstance(prompts, dict) else prompts if isinstance(prompts, list) else []
        pairs = [list(one.values()) if isinstance(one, dict) else one for one in requests]
        texts = [str(pair[1]).strip() for pair in pairs if isinstance(pair, list) and len(pair) > 1][: len(scores)]
        if (matches := texts.count(target.strip())) != 1:
            raise FileFormatError(f"{what} {quoted(target)} is the text of {matches} options; expected one. {by_hand}")
        gold = texts.index(target.strip())
    if not 0 <= gold < len(scores):
        raise FileFormatError(f"{what} is {quoted(target)} and there are {len(scores)} options, counted from 0.")
    gold = int(gold)
    right = sample.get("acc")  # whether the likeliest option is the right one: a target that was misread shows here
    if right in (0, 1) and (int(np.argmax(scores)) == gold) != bool(right):
        raise FileFormatError(
            f"{what} {quoted(target)} was read as option {gold}, which contradicts acc = {right}. {by_hand}"
        )
    return gold

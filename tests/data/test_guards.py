"""Mistakes of new users that rows and labels show: each as somebody would meet it."""

import gzip
import tracemalloc
import warnings

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require
from thermoset.data.guards import AS_LOGITS, input_kind_of, judge_rows
from thermoset.predictor.fit import withdraw_promise
from thermoset.report import build_report, render_page
from thermoset.rows import memory_budget

LOGITS, LABELS = generated(4000, 10)


def said(fit):
    """The messages of suspicious rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in caught if one.category is ts.SuspiciousRowsWarning]


def working(n_rows=2000, n_classes=10, seed=0):
    """Rows of a classifier that is right in about nine of ten rows."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, n_classes, n_rows)
    return draw.normal(size=(n_rows, n_classes)) + 4 * np.eye(n_classes)[labels], labels


def test_class_names_in_another_order_than_columns():
    logits, labels = working()
    names = [f"class {i}" for i in range(10)]
    wrong = names[3:] + names[:3]
    text = [names[label] for label in labels]
    assert not said(lambda: ts.TemperatureScaler().fit(ts.Logits(logits, text, names)))
    (message,) = said(lambda: ts.TemperatureScaler().fit(ts.Logits(logits, text, wrong)))
    assert "order" in message


def test_a_check_of_labels_in_another_order():
    logits, labels = working()
    made = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(logits, labels)
    fresh, known = working(seed=1)
    assert not said(lambda: made.check(fresh, known))
    for given, wrong in ((9 - known, "order"), (np.where(known < 9, known + 1, 9), "start at 1")):
        with pytest.warns(ts.SuspiciousRowsWarning, match=wrong) as caught:
            assert not made.check(fresh, given).ok
        assert caught[0].filename == __file__
        assert not said(lambda given=given: made.check(fresh[:99], given[:99])), "too few to tell"


def test_labels_that_start_at_one_without_the_top_class():
    logits, labels = working()
    few = labels < 9
    (message,) = said(lambda: ts.TemperatureScaler().fit(logits[few], labels[few] + 1))
    assert "start at 1" in message


def test_rows_of_which_none_is_wrong():
    logits, labels = working()
    logits = logits + 20 * np.eye(10)[labels]
    (message,) = said(lambda: ts.TemperatureScaler().fit(logits, labels))
    assert "trained on" in message


def test_labels_by_chance_are_not_called_another_order():
    draw = np.random.default_rng(1)
    for n_classes in (2, 10, 300):
        logits, labels = draw.normal(size=(600, n_classes)), draw.integers(0, n_classes, 600)
        assert not said(lambda logits=logits, labels=labels: ts.TemperatureScaler().fit(logits, labels))


def test_one_array_is_of_one_kind():
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    rounded = probs.round(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(rounded, LABELS)
        for rows in (rounded, rounded[:5], rounded[::-1]):  # whichever rows come first
            assert made.predict_set(rows).shape == rows.shape


def test_rounded_probabilities_are_recognised_without_copies():
    rows = np.random.default_rng(0).dirichlet(np.full(1000, 0.01), 1000).astype(np.float32).round(2)
    with pytest.warns(ts.ProbabilitiesAsLogitsWarning, match="few digits"):
        data = ts.Logits(rows)
    tracemalloc.start()
    assert input_kind_of(data) == AS_LOGITS
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes, "no copy of all rows, in whatever type"


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_rows_that_fit_the_budget_are_read_into_memory(tmp_path, suffix):
    ts.save(tmp_path / f"val{suffix}", ts.Logits(LOGITS, LABELS))
    rows = ts.open(tmp_path / f"val{suffix}")
    assert type(rows.within_budget()) is ts.Logits
    assert rows.within_budget() == ts.load(tmp_path / f"val{suffix}")
    with memory_budget("1MiB"):
        assert rows.within_budget() is rows
    whole = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(LOGITS, LABELS)
    for memory in (None, "1MiB"):
        made = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(rows, memory=memory)
        assert made.threshold_ == whole.threshold_


@pytest.mark.parametrize("form", ["array", "file", "largest"])
def test_named_columns_in_another_order_are_put_in_order(form, tmp_path):
    logits, labels = working(600)
    names = [f"class {i}" for i in range(10)]
    made = ts.ConformalClassifier("lac").fit(ts.Logits(logits, labels, names))
    turned = ts.Logits(logits[:, ::-1].copy(), 9 - labels, classes=names[::-1])
    if form == "file":
        ts.save(tmp_path / "val.npz", turned)
        turned = ts.open(tmp_path / "val.npz")
    plain = logits if form != "largest" else ts.compact(logits, 6)
    turned = ts.compact(turned, 6) if form == "largest" else turned
    assert np.array_equal(made.predict_set(turned), made.predict_set(plain))
    assert turned.in_order(tuple(names)).labels.tolist() == labels.tolist()
    with pytest.raises(ts.InputError):
        made.predict_set(ts.Logits(logits, classes=[*names[:-1], "other"]))


def test_a_transposed_array_is_recognised():
    logits, labels = working(600)
    with pytest.raises(ts.InputError, match="transposed"):
        ts.Logits(logits.T, labels)
    fitted = ts.ConformalClassifier("lac").fit(logits, labels)
    with pytest.raises(ts.InputError, match="transposed"):
        fitted.predict_set(logits.T)


@pytest.mark.parametrize("name", ["LAC", "THR", "thr"])
def test_names_of_other_libraries_are_understood(name):
    logits, labels = working(600)
    found = ts.ConformalClassifier(name).fit(logits, labels)
    assert found.threshold_ == ts.ConformalClassifier("lac").fit(logits, labels).threshold_


@pytest.mark.parametrize("text", ["outcome,cat,dog\ncat,1.5,0.5\ndog,0.5,2.5\n"])
def test_a_column_of_text_may_be_the_labels(tmp_path, text):
    (tmp_path / "val.csv").write_text(text)
    with pytest.raises(ts.InputError, match="--labels outcome or --ignore outcome"):
        ts.load(tmp_path / "val.csv")
    assert ts.load(tmp_path / "val.csv", labels="outcome").labels.tolist() == [0, 1]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_the_header_line_tells_what_separates_columns(tmp_path, suffix, between):
    text = "\ufeff" + "label,cat,dog\r\ncat,1.5,0.5\r\ndog,0.5,2.5\r\n".replace(",", between)
    packed = gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode()
    (tmp_path / f"val{suffix}").write_bytes(packed)
    found = ts.load(tmp_path / f"val{suffix}")
    assert found == ts.Logits([[1.5, 0.5], [0.5, 2.5]], [0, 1], ["cat", "dog"])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("label;cat;dog\ncat;1,5;0,5\n", "'cat' is '1,5'; expected a decimal point"),
        ("label|cat|dog\ncat|1.5|0.5\n", "commas, semicolons or tabs"),
    ],
)
def test_tables_for_other_readers(tmp_path, text, wrong):
    (tmp_path / "val.csv").write_text(text)
    with pytest.raises(ts.InputError, match=wrong):
        ts.load(tmp_path / "val.csv")


def test_a_table_without_a_header_line(tmp_path):
    (tmp_path / "val.csv").write_text("1.5,0.5\n0.5,2.5\n")
    with pytest.raises(ts.InputError, match="line 1"):
        ts.load(tmp_path / "val.csv")


# ---- rows that the model was trained on ------------------------------------------------------------------------------


def trained(n_rows=1500):
    """Rows of which none is wrong, so many that an easy problem would show an error."""
    logits, labels = working(n_rows)
    return logits + 20 * np.eye(10)[labels], labels


@pytest.mark.filterwarnings("ignore::thermoset.errors.BoundWarning")
def test_no_promise_from_rows_of_which_none_is_wrong(tmp_path):
    with pytest.warns(ts.SuspiciousRowsWarning):
        doubted = ts.TwoTemperaturePredictor("aps", prefer="small").fit(*trained())
    assert doubted.document_.training_signs
    assert not any(one.name == "coverage" for one in doubted.document_.measures)
    doubted.save(tmp_path / "predictor.json")
    again = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    assert again.document_.training_signs == doubted.document_.training_signs

    fresh, labels = working(seed=1)
    assert not again.check(fresh, labels[::-1]).ok
    assert again.document_.training_signs
    again.recalibrate(fresh, labels)
    assert not again.document_.training_signs
    assert any(one.name == "coverage" for one in again.document_.measures)


def test_a_check_that_passes_restores_the_promise():
    honest = ts.TwoTemperaturePredictor("aps", prefer="small").fit(*working())
    doubted = ts.TwoTemperaturePredictor("aps", prefer="small").fit(*working())
    doubted._adopt(withdraw_promise(honest.document_, "all labels are right"))
    assert doubted.document_.training_signs
    assert doubted.check(*working(seed=1)).ok
    assert doubted.document_.provenance == honest.document_.provenance
    assert set(doubted.document_.measures) == set(honest.document_.measures)


@pytest.mark.parametrize(
    ("n_rows", "n_wrong", "silent"),
    [
        (5000, 25, False),  # accuracy .995
        (1000, 5, False),
        (1000, 1, False),
        (900, 0, False),  # .995**900 = .011
        (930, 0, True),  # .995**930 = .0094
        (5000, 5, True),  # one in a thousand
    ],
)  # fmt: skip
def test_easy_problems_keep_their_promise(n_rows, n_wrong, silent):
    logits, labels = trained(n_rows)
    labels[:n_wrong] = (labels[:n_wrong] + 1) % 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SuspiciousRowsWarning)
        assert bool(judge_rows(ts.Logits(logits, labels))) is silent


def test_more_often_right_than_the_model_itself_says():
    # confidence e**2.2 / (e**2.2 + 9) = .5 in every row: 250 errors to be expected in 500, none seen
    labels = np.arange(500) % 10
    logits = np.log(9) * np.eye(10)[labels] + 1e-3 * np.random.default_rng(0).normal(size=(500, 10))
    with pytest.warns(ts.SuspiciousRowsWarning):
        assert not judge_rows(ts.Logits(logits, labels)), "a flat softmax says nothing"
    with pytest.warns(ts.SuspiciousRowsWarning):
        assert "25 errors" in judge_rows(ts.Logits(logits * np.log(171) / np.log(9), labels))  # 171 / (171 + 9) = .95


@pytest.mark.filterwarnings("ignore::thermoset.errors.BoundWarning")
def test_the_page_of_a_doubted_predictor_promises_nothing():
    require("vl_convert", "report")
    rows = ts.Logits(*trained())
    with pytest.warns(ts.SuspiciousRowsWarning):
        doubted = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(rows)
    page = render_page(build_report(doubted, rows, trials=2))
    assert "No coverage is promised" in page
    assert "holds the true label with probability" not in page


# ---- rows that occur several times -----------------------------------------------------------------------------------


def copies(logits, labels):
    """How many copies are warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        judge_rows(ts.Logits(logits, labels))
    found = [str(one.message) for one in caught if one.category is ts.RepeatedRowsWarning]
    return int(found[0].split()[0].replace(",", "")) if found else 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_copies_are_counted(dtype):
    logits, labels = working(1000)
    logits = logits.astype(dtype)
    assert copies(logits, labels) == 0
    again = np.r_[np.arange(1000), 5, 5, np.arange(40, 98)]
    assert copies(logits[again], labels[again]) == 60
    assert copies(logits[again[:1050]], labels[again[:1050]]) == 0, "one row in twenty changes little"
    other = labels[again]
    other[1000:] = (other[1000:] + np.arange(60) % 9 + 1) % 10
    assert copies(logits[again], other) == 0, "with another label a row is another row"


@pytest.mark.parametrize("kind", ["whole", "tenths", "two decimals", "votes", "float16"])
def test_coarse_rows_are_equal_by_chance(kind):
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 3, 4000)
    logits = draw.normal(size=(4000, 3)) + 2 * np.eye(3)[labels]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    two = np.c_[np.zeros(4000), logits[:, 0]]
    rows = {
        "whole": np.rint(3 * logits),
        "tenths": logits.round(1),
        "two decimals": np.log(np.maximum(probs.round(2), 1e-3)),
        "votes": np.log(np.maximum(np.rint(probs * 7) / 7, 1e-3)),
        "float16": two.astype(np.float16),
    }[kind]
    labels = labels % rows.shape[1]
    assert len(np.unique(np.c_[rows, labels], axis=0)) < 3950, "many rows are equal"
    assert copies(rows, labels) == 0
    assert copies(np.concatenate([rows, rows]), np.concatenate([labels, labels])) > 4000


# ---- numbers that are no logits --------------------------------------------------------------------------------------

PROBS = np.exp(LOGITS[:200]) / np.exp(LOGITS[:200]).sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (PROBS, "from_probabilities"),
        (PROBS.round(2), "probabilities"),
        (100 * PROBS, "percentages"),
        ((100 * PROBS).round(1), "percentages"),
        (1 / (1 + np.exp(-LOGITS[:200])), "sigmoid"),
    ],
)
def test_numbers_that_are_no_logits(rows, word):
    with pytest.warns(ts.ProbabilitiesAsLogitsWarning, match=word):
        ts.Logits(rows)


@pytest.mark.parametrize(("rows", "word"), [(100 * PROBS, "percent"), (1 / (1 + np.exp(-LOGITS[:200])), "sigmoid")])
def test_numbers_that_are_no_probabilities(rows, word):
    with pytest.raises(ts.InputError, match=word):
        ts.Logits.from_probabilities(rows)


def test_logits_are_logits():
    for rows in (LOGITS, np.zeros((50, 3)), np.abs(LOGITS), 100 + LOGITS, LOGITS.round()):
        ts.Logits(rows)  # warnings are errors here


def test_too_few_rows_are_counted_as_the_user_counts_them():
    with pytest.raises(ts.InputError, match="of the 20 rows"):
        ts.TwoTemperaturePredictor().fit(LOGITS[:20], LABELS[:20])


@pytest.mark.parametrize("row", range(0, 40, 3))
def test_a_row_in_a_message_of_fit_is_the_users(row):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    logits[row, labels[row]] = -1e200
    predictor = ts.TwoTemperaturePredictor("lac", 0.5, prefer="small", calibration_fraction=0.9)
    calibration, _ = ts.data.split_indices(40, 0.9, random_state=0)
    if row in calibration:
        with pytest.raises(ts.InputError, match=rf"^logits\[{row}\] has its label at -1e\+200"):
            predictor.fit(logits, labels)

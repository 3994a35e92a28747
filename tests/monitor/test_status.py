"""From batch to batch: what counts, what is recognised, and what the tests make of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betaln
from scipy.stats import kstest

import thermoset as ts
from monitored import after, cut, drawn, reference, started, unlabelled
from thermoset.monitor.evidence import lower_odds
from thermoset.monitor.promise import Promise
from thermoset.monitor.state import first_repeat, row_identities, size_bins, sketch_of, tie_breakers
from thermoset.monitor.status import summarize


def evidence(state):
    return {name: (test.log_e, test.crossed) for name, test in state.processes.items()}


def test_results_do_not_depend_on_how_rows_are_cut_into_batches():
    of, rows = reference(), drawn(900, 0, coverage=0.86)
    whole = after(started(of, run_length=500), of, rows)
    parts = started(of, run_length=500)
    for i, some in enumerate(np.split(np.arange(900), [1, 2, 100, 101, 640])):
        parts = after(parts, of, cut(rows, some), name=f"batch {i}")
    assert evidence(parts) == evidence(whole)
    assert parts.coverage == whole.coverage
    assert (parts.size, parts.confidence) == (whole.size, whole.confidence)
    assert (parts.parts.rows, parts.parts.hits) == (whole.parts.rows, whole.parts.hits)
    a, b = parts.batches[-1].record, whole.batches[-1].record
    assert (a.coverage_low, a.coverage_high) == (b.coverage_low, b.coverage_high)


def test_late_labels_count_as_if_they_had_come_at_once():
    of, rows = reference(), drawn(400, 1, coverage=0.8)
    at_once = after(started(of), of, rows)
    later = after(started(of), of, unlabelled(rows))
    assert later.coverage.rows == 0
    assert summarize(later, of).labelled == 0
    half = cut(rows, slice(None))
    half.label[200:], half.hit[200:], half.correct[200:], half.part[200:] = -1, False, False, -1
    later = after(later, of, half)
    assert summarize(later, of).labelled == int((rows.label[:200] >= 0).sum()) == 200
    later = after(later, of, drawn(400, 1, coverage=0.8))  # rows that have had their label do not count again
    assert (later.coverage, later.parts) == (at_once.coverage, at_once.parts)
    assert (later.size, later.confidence) == (at_once.size, at_once.confidence)
    assert later.batches == at_once.batches
    assert later.crossed == at_once.crossed != {}


def test_late_labels_belong_to_their_batch():
    of = reference()
    first, second = drawn(300, 2), drawn(300, 3)
    state = after(after(started(of), of, unlabelled(first), "first"), of, second, "second")
    state = after(state, of, first, "again, by another name")
    status = summarize(state, of)
    assert [batch.name for batch in status.batches] == ["first", "second"]
    assert [batch.labelled for batch in status.batches] == [300, 300]
    assert status.batches[0].hits == first.hit.sum()
    assert status.batches[0].log_under == 0.0
    assert status.batches[1].log_under == state.coverage.under.log_e


@pytest.mark.parametrize("labelled", [0.0, 0.5, 1.0])
def test_a_batch_that_adds_nothing_is_refused(labelled):
    of, rows = reference(), drawn(100, 4, labelled=labelled)
    state = after(started(of), of, rows, "monday")
    with pytest.raises(ts.InputError, match=r"'tuesday' .*'monday'"):
        after(state, of, rows, "tuesday")
    with pytest.raises(ts.InputError, match="has no new labels"):
        after(state, of, unlabelled(rows), "tuesday")


def test_rows_of_an_earlier_batch_among_others_are_refused():
    of, rows = reference(), drawn(300, 5)
    state = after(started(of), of, cut(rows, slice(0, 100)), "monday")
    with pytest.raises(ts.InputError, match=r"'both' .*'monday'"):
        after(state, of, rows, "both")
    with pytest.raises(ts.InputError, match=r"'other order' .*'monday'"):
        after(state, of, cut(rows, np.arange(100)[::-1]), "other order")
    after(state, of, cut(rows, slice(100, 300)), "tuesday")


def test_a_few_rows_that_are_alike_are_no_repeat():
    of, first, second = reference(), drawn(300, 6), drawn(300, 7)
    second.key[:10] = np.sort(first.key)[100:110]  # ten of 300, as empty images are
    second.key[10:13] = np.sort(first.key)[:3]
    after(after(started(of), of, first), of, second)


def test_repeats_are_found_as_often_as_a_sample_of_eight_finds():
    """Of a batch whose share f comes again, a sample of 8 has Binomial(8, f) rows: found from 4 on."""
    rng, found = np.random.default_rng(8), 0
    for _ in range(300):
        keys = rng.integers(0, 2**64, 260, dtype=np.uint64)
        new = np.concatenate([rng.permutation(keys[:200])[:140], keys[200:]])
        found += first_repeat([sketch_of(keys[:200])], new) == 0
    assert 0.89 < found / 300 < 0.99  # P(Binomial(8, 0.7) >= 4) = 0.942


def test_ids_tell_rows_apart_and_ties_are_broken_evenly():
    keys = np.repeat(np.arange(4, dtype=np.uint64), 1000)
    ids = np.random.default_rng(0).integers(0, 2**64, 4000, dtype=np.uint64)
    found = row_identities(keys, ids)
    assert len(set(found.tolist())) == 4000
    assert found.max() < 2**48
    assert kstest(tie_breakers(found), "uniform").pvalue > 0.001
    assert np.array_equal(row_identities(keys, None), keys)


@pytest.mark.parametrize("n_classes", [2, 47, 48, 1000, 10**7])
def test_bins_of_sizes_rise_and_are_few(n_classes):
    sizes = np.unique(np.geomspace(1, n_classes, 500).astype(np.int64))
    bins = size_bins(np.concatenate([[0], sizes]))
    assert np.all(np.diff(bins) >= 0)
    assert bins[-1] < 200


def test_a_broken_promise_alarms_and_dates_the_change():
    of = reference()
    state = started(of, run_length=100_000)
    for i in range(20):
        state = after(state, of, drawn(200, 100 + i), f"day {i}")
        assert not summarize(state, of).alarm
    for i in range(20, 25):
        state = after(state, of, drawn(200, 100 + i, coverage=0.75), f"day {i}")
    found = summarize(state, of)
    assert found.alarm
    assert found.since == 20
    assert found.before == sum(batch.hits for batch in found.batches[:20]) / 4000
    assert found.after == sum(batch.hits for batch in found.batches[20:]) / 1000
    assert found.after_low < found.after < found.after_high < 0.9
    said = str(found)
    assert "Coverage is lower than promised: alarm in day 2" in said
    assert "This most likely began with day 20" in said
    assert "thermoset adapt" in said
    under = next(test for test in found.tests if test.name == "under")
    assert under.crossed_batch in (20, 21, 22)
    assert under.crossed_row == state.coverage.under.crossed
    assert set(under.change_batches) <= set(range(20, 25))
    assert under.change_batches


def test_a_stream_bad_from_the_start_changed_at_its_first_batch():
    of, state = reference(), started(reference())
    for i in range(6):
        state = after(state, of, drawn(200, 200 + i, coverage=0.75), f"day {i}")
    found = summarize(state, of)
    assert (found.since, found.before) == (0, None)


def test_over_coverage_alarms_for_exact_promises_alone():
    rows = drawn(3000, 9, coverage=0.97)
    of = reference()
    found = summarize(after(started(of), of, rows), of)
    assert [test.name for test in found.tests if test.crossed_batch is not None] == ["over"]
    assert "Coverage is higher than promised" in str(found)
    loose = reference(Promise("0.1", [999], exact=False))
    found = summarize(after(started(loose), loose, rows), loose)
    assert not found.alarm
    assert [test.name for test in found.tests] == ["under", "size", "confidence"]


def test_larger_sets_and_other_confidence_need_no_labels():
    of, rows = reference(), unlabelled(drawn(2000, 10))
    larger = replace(rows, size=rows.size + (np.arange(2000) % 3 == 0))
    found = summarize(after(started(of), of, larger), of)
    assert [test.name for test in found.tests if test.crossed_batch is not None] == ["size"]
    assert found.since is None
    assert "label a sample" in found.advice[0]
    surer = replace(rows, bins=np.maximum(rows.bins, 1))
    found = summarize(after(started(of), of, surer), of)
    assert [test.name for test in found.tests if test.crossed_batch is not None] == ["confidence"]


@pytest.mark.parametrize(("labelled", "asks"), [(0.0, "label a sample"), (0.5, "Label more"), (1.0, "All of them")])
def test_rows_that_are_labelled_are_not_to_be_labelled(labelled, asks):
    of, state = reference(), after(started(reference()), reference(), unlabelled(drawn(100, 30)), "before")
    rows = drawn(2000, 31, labelled=labelled)
    state = after(state, of, replace(rows, size=rows.size + (np.arange(2000) % 3 == 0)), "larger")
    found = summarize(state, of)
    assert (found.since, found.changed_from) == (None, 1)
    (advice,) = found.advice
    assert asks in advice
    if labelled:
        assert "label a sample" not in advice
        known = rows.label >= 0
        assert f"{rows.hit[known].mean():.3f} on the {known.sum():,} labelled rows" in advice


def test_the_last_batch_is_shown_beside_all_rows():
    of = reference()
    state = after(after(started(of), of, drawn(300, 32)), of, drawn(100, 33, coverage=0.8))
    last = summarize(state, of).batches[-1]
    assert f"{last.hits / 100:.4f} on 100 labelled rows" in str(summarize(state, of))


def test_a_detector_alarms_in_the_call_in_which_it_sees_a_change():
    of = reference()
    state = started(of, delta=1e-9, run_length=300)
    state = after(after(state, of, drawn(400, 11)), of, drawn(20, 12, coverage=0.3), "bad")
    found = summarize(state, of)
    assert found.new_changes
    assert found.alarm
    assert not state.crossed
    assert "Change detector (coverage too low): alarm in bad" in str(found)
    found = summarize(after(state, of, unlabelled(drawn(10, 13))), of)
    assert not found.new_changes
    assert not found.alarm


CLASSES = Promise("0.1", [99, 199, 299, 399], "class")


def test_classes_with_thresholds_are_tested_by_their_own_laws():
    of, rows = reference(CLASSES), drawn(2000, 14)
    rows.hit[rows.label == 2] &= np.random.default_rng(0).random((rows.label == 2).sum()) < 0.7
    state = after(started(of), of, rows)
    found = summarize(state, of)
    assert [part.name for part in found.parts if part.alarm] == ["cat"]
    assert found.parts[0].name == "cat"
    assert all(part.promised for part in found.parts)
    assert [test.name for test in found.tests] == ["under", "parts", "size", "confidence"]
    assert "Coverage of classes is lower than promised: cat (" in str(found)
    assert "rows of each class" in found.advice[0]


def test_joint_evidence_is_a_product_averaged_over_odds():
    of, rows = reference(CLASSES), drawn(400, 15, coverage=0.8)
    state = after(started(of), of, rows)
    m = np.array(state.parts.rows, dtype=float)
    h = np.array(state.parts.hits, dtype=float)
    k, n = np.array([90, 180, 270, 360.0]), np.array([99, 199, 299, 399.0])
    odds = lower_odds(k / (n + 1))
    each = [
        sum(
            betaln(r[i] * k[i] + h[i], n[i] + 1 - k[i] + m[i] - h[i])
            - betaln(r[i] * k[i], n[i] + 1 - k[i])
            - betaln(k[i] + h[i], n[i] + 1 - k[i] + m[i] - h[i])
            + betaln(k[i], n[i] + 1 - k[i])
            for i in range(4)
        )
        for r in odds.T
    ]
    assert state.joint == pytest.approx(math.log(np.mean(np.exp(each))), abs=1e-8)


def test_a_small_loss_in_every_class_is_seen_in_all_together():
    of, state = reference(CLASSES), started(reference(CLASSES))
    for i in range(10):
        state = after(state, of, drawn(400, 300 + i, coverage=0.82), f"day {i}")
    found = summarize(state, of)
    assert "under" in state.crossed
    assert found.since == 0


def test_classes_without_a_promise_are_notes_and_never_alarm():
    of, rows = reference(), drawn(3000, 16, coverage=0.94)
    rows.hit[rows.label == 1] = False
    rows.hit[rows.label != 1] = True
    rows.hit[np.flatnonzero(rows.label == 1)[200:]] = True  # 200 misses, all in one class: coverage stays above 0.9
    found = summarize(after(started(of, delta=1e-9), of, rows), of)
    assert not any(part.alarm or part.promised for part in found.parts)
    assert found.parts[0].name == "bee"
    assert "Lowest classes: bee (" in str(found)
    assert "No coverage was promised for it alone." in str(found)


def test_clusters_and_the_null_cluster():
    promise = Promise("0.1", [300, 300, 500, 999], "cluster", group_of_class=[0, 0, 1, -1])
    of = reference(promise)
    groups = promise.class_parts(4)
    rows = drawn(1200, 17, coverage=0.6)
    rows = replace(rows, part=groups.of_class[rows.label])
    found = summarize(after(started(of), of, rows, kind="cluster"), of)
    assert found.part_kind == "cluster"
    names = {part.name: part for part in found.parts}
    assert set(names) == {"cluster 0", "cluster 1", "rare classes"}
    assert names["cluster 0"].alarm
    assert not names["rare classes"].promised
    assert not names["rare classes"].alarm


def test_groups_that_are_new_are_notes():
    promise = Promise("0.1", [300, 500], "group", group_names=("north", "south"))
    of = reference(promise)
    state, rows = started(of), drawn(600, 18, part=np.arange(600) % 2)
    state = after(state, of, rows, kind="group", groups=("north", "south"))
    rows = drawn(600, 19, coverage=0.3, part=np.full(600, 2))
    found = summarize(after(state, of, rows, kind="group", groups=("north", "south", "mars")), of)
    assert {part.name: part.promised for part in found.parts} == {"north": True, "south": True, "mars": False}
    assert not any(part.alarm for part in found.parts)


def test_untested_things_are_named():
    mixed = reference(Promise("0.1", [300, 300, 300, 300], "interpolated", exact=False, group_of_class=[0, 1, 2, 3]))
    found = summarize(after(started(mixed), mixed, drawn(500, 20, coverage=0.3)), mixed)
    assert not found.alarm
    assert "Coverage is shown but not tested" in str(found)
    assert [test.name for test in found.tests] == ["size", "confidence"]
    few = reference(n_rows=5)
    found = summarize(after(started(few), few, drawn(500, 21, coverage=1.0)), few)
    assert "the threshold is infinite" in str(found)
    bare = reference(sizes=(), confidence=())
    found = summarize(after(started(bare), bare, drawn(500, 22)), bare)
    assert "not tested for changes in set sizes and confidence" in str(found)
    assert [test.name for test in found.tests] == ["under", "over"]


def test_groups_come_with_every_batch_or_with_none():
    of, rows = reference(), drawn(50, 23)
    state = after(started(of), of, rows)
    with pytest.raises(ts.InputError, match="groups"):
        after(state, of, drawn(50, 24), kind="group", groups=("a",))


@pytest.mark.slow
def test_the_chance_of_any_false_alarm_stays_within_delta():
    """150 streams that keep the promise, whose tests look after each of 600 rows: at most delta of them alarm."""
    of, delta, rng = reference(), 0.2, np.random.default_rng(25)
    streams = [drawn(600, 10_000 + i, coverage=rng.beta(900, 100)) for i in range(150)]
    alarms = sum(bool(after(started(of, delta=delta), of, rows).crossed) for rows in streams)
    assert alarms <= 150 * delta + 3 * math.sqrt(150 * delta * (1 - delta))

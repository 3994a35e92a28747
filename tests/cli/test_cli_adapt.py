"""`thermoset recalibrate`: what it writes is what the library makes, and what it prints is true of that."""

import numpy as np
import pytest

import thermoset as ts
from sites import sites

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def new(tuned, tmp_path_factory):
    """New labelled rows that are harder than those of the predictor."""
    rows = ts.load(tuned.fresh).take(slice(0, 900))
    noise = np.random.default_rng(5).normal(scale=2, size=rows.logits.shape)
    path = tmp_path_factory.mktemp("new") / "new.npz"
    ts.save(path, ts.Logits(rows.logits + noise, rows.labels, rows.classes))
    return path


def test_the_predictor_is_the_librarys(tuned, call, new, tmp_path):
    done = call("adapt", tuned.path, new, "--out", tmp_path / "renewed.json")
    assert (done.returncode, done.stderr) == (0, "")
    expected = tuned.predictor.recalibrate(ts.load(new))
    expected.save(tmp_path / "api.json")
    assert (tmp_path / "renewed.json").read_bytes() == (tmp_path / "api.json").read_bytes()
    made = ts.TwoTemperaturePredictor.load(tmp_path / "renewed.json")
    assert (made.temperature_, made.temperature_sets_) == (
        tuned.predictor.temperature_,
        tuned.predictor.temperature_sets_,
    )


def test_it_prints_both_thresholds_and_the_interval_of_the_new_rows(tuned, call, new, tmp_path):
    before, after = tuned.predictor, tuned.predictor.recalibrate(ts.load(new))
    done = call("adapt", tuned.path, new, "--out", tmp_path / "renewed.json")
    assert f"threshold {before.threshold_:.5g} {after.threshold_:.5g}" in done.words
    assert "rows behind the threshold 1,000 900" in done.words
    sizes = [float(np.mean(one.set_sizes(ts.load(new)))) for one in (before, after)]
    assert f"labels in a set {sizes[0]:.2f} {sizes[1]:.2f}" in done.words
    rows = ts.load(new)
    coverage = [ts.metrics.marginal_coverage(one.predict_set(rows), rows.labels) for one in (before, after)]
    assert f"coverage of the new rows {coverage[0]:.4f} {coverage[1]:.4f}" in done.words, "both on the same rows"
    law = ts.metrics.conformal_coverage_distribution(900, 0.1)
    low, high = law.ppf([0.025, 0.975])
    assert f"coverage {law.mean():.3f} on average; this predictor: {low:.3f} to {high:.3f} (95%)" in done.words
    assert f"T* = {before.temperature_:.3f} and T-hat = {before.temperature_sets_:.3f} are unchanged" in done.words
    assert f"Wrote {tmp_path / 'renewed.json'}" in done.words


def conformal(tuned):
    return ts.load(tuned.val).split("0.5", random_state=tuned.seed)[1]


def test_the_promise_is_kept_on_rows_like_the_new_ones(tuned, call, new, tmp_path):
    rows = ts.load(tuned.fresh).take(slice(900, None))
    noise = np.random.default_rng(6).normal(scale=2, size=rows.logits.shape)
    ts.save(tmp_path / "later.npz", ts.Logits(rows.logits + noise, rows.labels, rows.classes))
    assert call("check", tuned.path, tmp_path / "later.npz").returncode == 1
    call("adapt", tuned.path, new, "--out", tmp_path / "renewed.json")
    assert call("check", tmp_path / "renewed.json", tmp_path / "later.npz").returncode == 0


def test_a_predictor_can_be_replaced_by_its_renewed_self(tuned, call, new, tmp_path):
    own = tmp_path / "p.json"
    own.write_bytes(tuned.path.read_bytes())
    done = call("adapt", own, new, "--out", own)
    assert done.returncode == 0, done
    assert ts.TwoTemperaturePredictor.load(own).document_.provenance.recalibrated
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]


def test_the_rows_and_their_labels_are_never_written_to(tuned, call, new, tmp_path):
    labels = tmp_path / "labels.npy"
    np.save(labels, ts.load(new).labels)
    for out in (new, labels):
        before = out.read_bytes()
        call("adapt", tuned.path, new, "--labels", labels, "--out", out).assert_refused("is the file to read from")
        assert out.read_bytes() == before


def test_several_files_and_little_memory_give_the_same_file(tuned, call, new, tmp_path):
    rows = ts.load(new)
    for i, part in enumerate((rows.take(slice(0, 400)), rows.take(slice(400, None)))):
        ts.save(tmp_path / f"part-{i}.npz", part)
    call("adapt", tuned.path, new, "--out", tmp_path / "one.json")
    done = call("adapt", tuned.path, tmp_path / "part-*.npz", "--memory", "64MB", "--out", tmp_path / "two.json")
    assert done.returncode == 0, done
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_few_rows_warn_in_one_line(tuned, call, new, tmp_path):
    ts.save(tmp_path / "few.npz", ts.load(new).take(slice(0, 5)))
    done = call("adapt", tuned.path, tmp_path / "few.npz", "--out", tmp_path / "renewed.json")
    assert done.returncode == 0
    assert "thermoset: warning: alpha=0.1 needs at least 9 rows for a finite threshold; got 5" in done.stderr
    assert "threshold" in done.words
    assert " inf " in done.words


def test_rows_without_labels_are_refused_and_nothing_is_written(tuned, call, new, tmp_path):
    ts.save(tmp_path / "bare.npz", ts.Logits(ts.load(new).logits))
    done = call("adapt", tuned.path, tmp_path / "bare.npz", "--out", tmp_path / "renewed.json")
    done.assert_refused("recalibrate needs labels")
    assert not (tmp_path / "renewed.json").exists()


def test_rows_that_chose_the_temperatures_are_refused_and_nothing_is_written(tuned, call, tmp_path):
    done = call("adapt", tuned.path, tuned.val, "--out", tmp_path / "renewed.json")
    done.assert_refused("a threshold from rows that also chose a temperature cannot keep its promise")
    assert list(tmp_path.iterdir()) == []


def test_rows_of_the_old_threshold_are_noted(tuned, call, new, tmp_path):
    ts.save(tmp_path / "more.npz", conformal(tuned).concatenate(ts.load(new)))
    done = call("adapt", tuned.path, tmp_path / "more.npz", "--out", tmp_path / "renewed.json")
    assert done.returncode == 0, done
    assert "Note 1,000 of the 1,900 rows also set the old threshold" in done.words
    assert "Note" not in call("adapt", tuned.path, new, "--out", tmp_path / "renewed.json").words


def test_thresholds_by_group_are_those_of_the_new_groups(call, tmp_path):
    known, rest = sites(1000, 1), sites(600, 2)
    ts.TwoTemperaturePredictor("lac", prefer="small", grouping="group").fit(known).save(tmp_path / "p.json")
    named = np.where(np.arange(600) % 3 == 0, "north", "south")
    ts.save(tmp_path / "new.npz", ts.Logits(rest.logits, rest.labels, rest.classes, groups=named))
    done = call("adapt", tmp_path / "p.json", tmp_path / "new.npz", "--out", tmp_path / "renewed.json")
    made = ts.TwoTemperaturePredictor.load(tmp_path / "renewed.json")
    assert made.group_names_ == ("north", "south")
    assert "thresholds, lowest to highest" in done.words
    assert f"{made.threshold_.min():.5g} to {made.threshold_.max():.5g}" in done.words

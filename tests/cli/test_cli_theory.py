"""`thermoset theory` as a user runs it."""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require
from thermoset import theory

require("matplotlib", "plot")
PICTURES = ["bound.png", "critical.png", "last-index.png", "margins.png", "share.png", "slopes.png"]


@pytest.fixture
def run(call, monkeypatch, tmp_path):
    """The command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments, **options: call("theory", *arguments, columns=200, **options)


@pytest.fixture(scope="module")
def val(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "val.npz"
    ts.save(path, ts.Logits(*generated(900, 12, signal=0.3)))
    return path


def line_of(done, start):
    (found,) = [line for line in done.stdout.splitlines() if line.strip().startswith(start)]
    return found


def test_without_a_file_it_tells_the_bound(run, tmp_path):
    done = run("--n-classes", 37)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "theory-output").iterdir()] == ["bound.png"]
    sharp = [f"{theory.sharp_bound(t, 100):.3f}" for t in (theory.critical_temperature(100), 1.0)]
    assert line_of(done, "100 ").split()[:5] == ["100", "1.3702", "6.296", *sharp]
    assert "belongs to the proof" in done.stdout
    assert line_of(done, "100 ").endswith("T ≤ 0.8364 and 1.2522 ≤ T ≤ 2.3358 ")
    assert f"{theory.critical_temperature(37):.4f}" in line_of(done, "37 ")
    assert line_of(done, "1,000 ").endswith("T ≤ 0.8364 ")


def test_on_labelled_logits_it_tells_what_the_library_finds_and_draws_it(run, val, tmp_path):
    asked = ["--temperatures", "0.5:5:0.5", "--trials", 4, "--seed", 3, "--out", tmp_path / "new" / "made", "--quiet"]
    done = run(val, *asked, drawn=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    made = tmp_path / "new" / "made"
    assert sorted(path.name for path in made.iterdir()) == PICTURES
    assert all((made / name).read_bytes().startswith(b"\x89PNG") for name in PICTURES)
    found = theory.explain(ts.load(val), temperatures=np.arange(1, 11) / 2, trials=4, random_state=3)
    assert done.stdout.startswith("900 rows, 12 classes; T* from 90 rows, thresholds from 90, 720 judged; alpha 0.1\n")
    assert f"{theory.critical_temperature(12):.3f}" in line_of(done, "theory: minimum of b(T)")
    assert f"{found.peaks['raps'].size:.2f}" in line_of(done, "measured, RAPS").split()
    assert f"{found.peaks['aps, u = 1'].size:.2f}" in line_of(done, "measured, APS with u = 1").split()
    assert f"From T = 1 to T* = {found.temperature:.4g}" in done.stdout
    bound = line_of(done, "bound: margin above")
    assert f"{found.fixed.by_bound.mean():.1%}, {found.fixed.claimed[found.fixed.by_bound].mean():.0%} true" in bound
    sharp = line_of(done, "sharp bound: margin above")
    assert f"{found.fixed.by_sharp.mean():.1%}, {found.fixed.claimed[found.fixed.by_sharp].mean():.0%} true" in sharp
    assert f"{found.drawn.by_proposition.mean():.1%}, 100% true" in line_of(done, "proposition 4.3")
    assert f"{found.fixed.claimed.mean():.1%}" in line_of(done, "counted: do not")
    typical = f"{len(found.typical.rows)} rows around the median score: margins {found.typical.margin[1]:.2f}"
    assert typical in done.stdout
    at = found.slopes.temperature.tolist().index(3.5)
    numbers = [found.slopes.direct[at], found.slopes.through_threshold[at], found.slopes.slope[at]]
    assert line_of(done, "3.5 ").split()[2:] == [*(f"{x:+.2f}" for x in numbers), f"{found.classes.gap[at]:.4f}"]
    assert line_of(done, "infinity").split() == ["infinity", f"{found.limit.size:.2f}", f"{found.limit.gap:.4f}"]
    silent = 1 - found.fixed.by_bound.mean()
    assert f"- {silent:.1%} of the rows have a margin of at most b(T*)" in done.stdout
    assert done.stdout.count("Wrote ") == 6


@pytest.mark.parametrize(("t", "says"), [(0.3, "rows whose sets do not grow"), (1.4, "rows whose sets do not shrink")])
def test_both_directions(run, val, t, says):
    done = run(val, "--temperature", t, "--temperatures", "1,2", "--trials", 2)
    assert done.returncode == 0, done.stderr
    assert f"From T = 1 to T* = {t}: {says}" in done.stdout
    assert "≤ or ≥: at an edge of the grid" in done.stdout


@pytest.mark.parametrize(("margin", "share"), [(20.0, "100%"), (0.5, "0%")])
def test_the_verdict_on_rows_around_the_median(run, tmp_path, margin, share):
    # all rows have one margin and their label on top: scores differ by what is behind the second class
    rng = np.random.default_rng(0)
    z = np.sort(rng.uniform(-8, 0, size=(400, 5)), axis=1)[:, ::-1] - 1.0
    z[:, 0], z[:, 1] = margin, 0.0
    np.savez(tmp_path / "made.npz", logits=z, labels=np.zeros(400, dtype=int))
    done = run(tmp_path / "made.npz", "--temperature", 1.5, "--temperatures", "1,2,3", "--trials", 2)
    assert done.returncode == 0, done.stderr
    found = line_of(done, "33 rows around the median score")
    assert (
        f"margins {margin:.2f} (quartiles {margin:.2f} and {margin:.2f}); {share} above b(T*), {share} above b*"
        in found
    )


def test_logits_without_labels_have_margins_alone(run, val, tmp_path):
    np.savez(tmp_path / "bare.npz", logits=ts.load(val).logits)
    done = run(tmp_path / "bare.npz", "--temperature", 1.3)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "theory-output").iterdir()) == ["bound.png", "share.png"]
    share = theory.bound_share(ts.load(val), [1.3])[0]
    sharp = theory.sharp_share(ts.load(val), [1.3])[0]
    numbers = [f"{theory.bound(1.3, 12):.3f}", f"{share:.1%}", f"{theory.sharp_bound(1.3, 12):.3f}", f"{sharp:.1%}"]
    assert line_of(done, "1.300").split() == ["1.300", *numbers]
    assert "need labels" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.npz"], "there is no such file"),
        (["--n-classes", 1], "n_classes must be a whole number >= 2"),
        (["VAL", "--n-classes", 11], "does not match"),
        (["VAL", "--temperature", 1.0], "T is 1 here"),
        (["VAL", "--temperature", -1], "temperature must be a finite number > 0"),
        (["VAL", "--alpha", 0.001], "needs at least 999 conformal rows; got 90"),
        (["VAL", "--alpha", 2], "alpha must be a number strictly between 0 and 1"),
        (["VAL", "--temperatures", "5:1:1"], "start <= stop"),
        (["VAL", "--trials", 0], "trials must be a whole number from 1 to 100,000"),
    ],
)
def test_bad_input_ends_in_one_line_and_leaves_no_file(run, val, tmp_path, arguments, says):
    done = run(*[val if argument == "VAL" else argument for argument in arguments])
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert says in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(run, val, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(val, "--out", tmp_path / "file" / "made", "--trials", 10**6)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be created" in done.stderr


def test_masked_classes_are_refused(run, tmp_path):
    z, labels = generated(200, 5)
    z[7, (labels[7] + 1) % 5] = -np.inf
    np.savez(tmp_path / "masked.npz", logits=z, labels=labels)
    done = run(tmp_path / "masked.npz")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the theory needs finite logits, but row 7" in done.stderr

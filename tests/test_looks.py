"""One registry says how scores look: every figure, page and notebook takes it from there."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.looks import COLOURS, DARK_COLOURS, SCORE_LOOKS, base_score, score_looks
from thermoset.scores import SCORES

NAMES = ("lac", "aps", "raps")
SOURCE = Path(ts.__file__).parent

# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as those see it who lack one kind of cone.
SEEN = {
    "all": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour, seen):
    """CIELAB (D65) of an sRGB colour as somebody sees it."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(np.array(seen) @ linear, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("colours", [COLOURS, DARK_COLOURS], ids=["light", "dark"])
def test_colours_are_told_apart_by_colour_blind_readers(colours, seen):
    """A difference of 2.3 is just noticed; 10 is seen at a glance."""
    for one, other in itertools.combinations(colours, 2):
        assert np.linalg.norm(lab(one, SEEN[seen]) - lab(other, SEEN[seen])) > 10, (one, other)


def test_every_score_has_a_look_of_its_own():
    assert {base_score(name) for name in SCORES} == set(SCORE_LOOKS)
    for part in ("colour", "dark", "marker", "dash"):
        assert len({getattr(look, part) for look in SCORE_LOOKS.values()}) == len(SCORE_LOOKS)


def test_variants_share_the_colour_and_have_marks_that_no_score_has():
    looks = score_looks(["raps", "raps(penalty=0.1)", "raps(penalty=0.2)", "saps", "mine", "other"])
    assert {look.colour for look in looks[:3]} == {SCORE_LOOKS["raps"].colour}
    assert looks[3] == SCORE_LOOKS["saps"]
    assert len({look.mark for look in looks}) == len({(look.colour, look.dash) for look in looks}) == 6
    assert looks[4].colour not in {look.colour for look in SCORE_LOOKS.values()}


def test_colours_of_scores_are_written_in_one_file_alone():
    """Accents of the pages are in their style sheets; what draws a score has no colour of its own."""
    held = {colour.lower() for look in SCORE_LOOKS.values() for colour in (look.colour, look.dark)}
    rooms = [SOURCE / room for room in ("plots", "report", "paper", "predictor", "sweeping")]
    for path in (path for room in rooms for kind in ("*.py", "*.js") for path in room.rglob(kind)):
        code = re.sub(r"""(?s)\"\"\".*?\"\"\"""", "", path.read_text())  # examples may show a colour
        assert not held & {found.lower() for found in re.findall(r"#[0-9a-fA-F]{6}\b", code)}, path


def swept():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    return ts.sweep(rng.normal(size=(300, 3)) + np.eye(3)[labels], labels, [0.5, 1, 2], NAMES, trials=2)


def test_figures_take_their_looks_from_the_registry():
    require("matplotlib", "plot")
    from thermoset import plots

    found = swept()
    for draw in (lambda ax: plots.plot_sweep(found, "avg_size", ax=ax), lambda ax: plots.plot_size_gap(found, ax=ax)):
        _, (ax,) = plots.figure(1)
        draw(ax)
        drawn = {line.get_label().lower(): (line.get_color(), line.get_marker()) for line in ax.get_lines()}
        assert {name: drawn[name] for name in NAMES} == {
            name: (SCORE_LOOKS[name].colour, SCORE_LOOKS[name].marker) for name in NAMES
        }


def test_charts_take_their_looks_from_the_registry():
    from thermoset.report.vega import score_palette

    names = ["RAPS", "LAC", "RAPS, Mondrian", "RAPS, clustered"]
    palette = score_palette(names)
    raps, lac = SCORE_LOOKS["raps"], SCORE_LOOKS["lac"]
    legend = {one["name"]: one for one in palette.legend(names)}
    for name, look in (("RAPS", raps), ("LAC", lac), ("RAPS, Mondrian", raps), ("RAPS, clustered", raps)):
        told = legend[name]
        assert (told["light"], told["dark"], told["path"]) == (look.colour, look.dark, look.mark.path)
        assert told["hollow"] is ("," in name)
    assert legend["RAPS, Mondrian"]["outline"] != legend["RAPS, clustered"]["outline"]
    scale = palette.colour["scale"]
    assert scale["domain"] == names
    assert [raps.colour in json.dumps(one) and raps.dark in json.dumps(one) for one in scale["range"]] == [
        True, False, True, True,
    ]  # fmt: skip

"""The recipe of the bundled data, on the fonts that Matplotlib ships: fonts, pictures, families, training, packing."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT
from parts import require

torch = require("torch", "torch")
require("fontTools", "plot")
require("PIL", "plot")
matplotlib = require("matplotlib", "plot")
sys.path.append(str(ROOT))  # `python -m` does it where the recipe is run by hand
require("thermoset.integrations.torch", "torch")

from examples.glyphs import fonts as glyph_fonts  # noqa: E402
from examples.glyphs.__main__ import main  # noqa: E402
from examples.glyphs.characters import CHARACTERS, CLASSES, class_name  # noqa: E402
from examples.glyphs.families import held_out_families, join_families  # noqa: E402
from examples.glyphs.fonts import excluded, find_fonts, wanted_packages  # noqa: E402
from examples.glyphs.licences import licence_of  # noqa: E402
from examples.glyphs.pack import halved  # noqa: E402
from examples.glyphs.render import SIDE, Pictures, draw_font, render  # noqa: E402
from examples.glyphs.sampling import balanced_rows, few_fonts  # noqa: E402
from examples.glyphs.train import GlyphNet  # noqa: E402
from thermoset.datasets import load_glyphs  # noqa: E402

pytestmark = pytest.mark.long

SHIPPED = Path(matplotlib.get_data_path(), "fonts", "ttf")
USED = [
    *sorted(SHIPPED.glob("DejaVuS*.ttf")),
    *(SHIPPED / f"{name}.ttf" for name in ("STIXGeneral", "cmr10", "cmtt10")),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tests run side by side: threads of torch that wait for each other make everything slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two packages: DejaVu, and the other fonts with one DejaVu file again and one under another name."""
    root = tmp_path_factory.mktemp("fonts")
    for path in USED:
        package = root / ("fonts-dejavu" if path.name.startswith("DejaVu") else "fonts-other")
        package.mkdir(exist_ok=True)
        shutil.copy(path, package)
    shutil.copy(SHIPPED / "DejaVuSans.ttf", root / "fonts-other" / "again.ttf")
    return root


def test_class_names_are_short_and_tell_characters_apart():
    assert len(set(CLASSES)) == len(set(CHARACTERS)) == len(CLASSES) == 209
    assert [class_name(c) for c in "A~ΩωςЁё"] == [
        "A",
        "~",
        "Omega",
        "omega",
        "final sigma",
        "Cyrillic Io",
        "Cyrillic io",
    ]
    with pytest.raises(ValueError, match="got 'é'"):
        class_name("é")


def test_packages_for_symbols_and_large_ones_are_left_out(monkeypatch):
    sizes = {"fonts-lato": 1_000_000, "fonts-huge": 9_000_000, "fonts-font-awesome": 1_000, "fonts-jsmath": 1_000}
    answers = {"pkgnames": "\n".join(sizes), "show": "\n\n".join(f"Package: {p}\nSize: {s}" for p, s in sizes.items())}
    monkeypatch.setattr(glyph_fonts, "_run", lambda *command, **_: answers[command[1]])
    assert wanted_packages() == ["fonts-lato"]
    assert excluded("fonts-dseg") == "digits of a display"


def test_a_file_counts_once_and_needs_the_basic_letters(folder):
    found = find_fonts(folder)
    names = {font.path.name for font in found}
    assert not {"DejaVuSansDisplay.ttf", "again.ttf"} & names  # no letters; the same bytes as DejaVuSans.ttf
    assert len(found) == len(USED) - 2  # the other one is DejaVuSerifDisplay
    assert {(font.package, font.name) for font in found if "Mono-Bold." in font.path.name} == {
        ("fonts-dejavu", "DejaVu Sans Mono")
    }


def test_licences_come_from_the_copyright_file(tmp_path):
    doc = tmp_path / "fonts-x" / "usr/share/doc/fonts-x"
    doc.mkdir(parents=True)
    form = "Files: debian/*\nLicense: GPL-2+\n\nFiles: *\nCopyright: someone\nLicense: OFL-1.1\n"
    doc.joinpath("copyright").write_text(form)
    assert licence_of(tmp_path / "fonts-x") == "SIL Open Font License"
    doc.joinpath("copyright").write_text("You may use it under the\nGNU General\nPublic License.")
    assert licence_of(tmp_path / "fonts-x") == "GPL"
    assert licence_of(tmp_path / "fonts-y") == "other"


def test_characters_that_are_drawn_alike_stay_under_their_own_labels():
    drawn = draw_font(SHIPPED / "DejaVuSans.ttf")
    assert len(drawn) == 209
    latin, greek, cyrillic = (drawn[CHARACTERS.index(letter)] for letter in "AΑА")
    assert np.array_equal(latin, greek)
    assert np.array_equal(latin, cyrillic)


def test_pictures_are_cropped_to_their_ink():
    for image in draw_font(SHIPPED / "DejaVuSerif.ttf").values():
        rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
        assert max(np.ptp(rows), np.ptp(columns)) + 1 == SIDE - 2
        for edge in (rows, columns):
            assert abs(edge[0] - (SIDE - 1 - edge[-1])) <= 1


def test_placeholders_and_missing_characters_are_no_glyphs():
    assert draw_font(SHIPPED / "LastResortHE-Regular.ttf") == {}  # one box for a whole block of characters
    assert max(draw_font(SHIPPED / "cmr10.ttf")) < 94  # ASCII alone
    assert [len(part.labels) for part in render([SHIPPED / "STIXSizOneSymReg.ttf"])] == [0]  # a few brackets


def test_families_are_joined_by_first_word_and_by_look():
    paths = [SHIPPED / f"{name}.ttf" for name in ("DejaVuSans", "DejaVuSerif", "DejaVuSans", "cmr10")]
    pictures = Pictures.join(list(render(paths)))
    joined = join_families(["DejaVu Sans", "DejaVu Serif", "Borrowed", "cmr10"], pictures)
    assert joined.tolist() == ["DejaVu", "DejaVu", "DejaVu", "cmr10"]


def test_held_out_families_are_drawn_by_seed():
    families = np.array([f"f{i}" for i in range(40)] * 3)
    assert len(held_out_families(families, 0.5, seed=0)) == 20
    assert held_out_families(families, 0.5, seed=0) == held_out_families(families, 0.5, seed=0)
    assert held_out_families(families, 0.5, seed=0) != held_out_families(families, 0.5, seed=1)


def test_no_family_and_no_class_outweighs_the_others():
    families = np.array(["big"] * 50 + ["small"] * 2 + ["other"] * 9)
    chosen = few_fonts(families, {"big", "small"}, most=4, seed=0)
    assert sorted(families[chosen].tolist()) == ["big"] * 4 + ["small"] * 2
    labels = np.repeat([0, 1], [300, 30])
    rows = balanced_rows(labels, most=80, seed=0)
    assert np.bincount(labels[rows]).tolist() == [80, 30]
    assert len(set(rows.tolist())) == len(rows)


def test_halved_logits_keep_their_order_and_differences():
    logits = np.random.default_rng(0).normal(scale=6, size=(200, 30)).astype(np.float32) + 100
    short = halved(logits)
    assert short.dtype == np.float16
    assert np.array_equal(short.argmax(axis=1), logits.argmax(axis=1))
    exact = logits - logits.max(axis=1, keepdims=True)
    assert np.all(np.abs(short - exact) <= 2.0**-11 * np.abs(exact))  # half a unit of 11 bits


def test_the_recipe_from_fonts_to_the_bundled_file(folder, tmp_path, monkeypatch, capsys):
    def run(name):
        out = tmp_path / name / "data" / "glyphs.npz"
        main([f"--folder={tmp_path / name}", f"--fonts={folder}", "--epochs=2", "--batch=64", f"--out={out}"])
        return out

    out = run("one")
    assert "epoch 2/2" in capsys.readouterr().out
    monkeypatch.setattr("thermoset.datasets.files", lambda _: out.parents[1])
    glyphs = load_glyphs()
    assert glyphs.logits.classes == CLASSES
    assert set(glyphs.family) < {"DejaVu Sans", "DejaVu", "STIXGeneral", "cmr10", "cmtt10"}
    assert np.isfinite(glyphs.logits.logits).all()

    run("one")  # stages are kept
    assert "epoch" not in capsys.readouterr().out
    assert run("two").read_bytes() == out.read_bytes()  # seeded


def test_the_network_gives_one_logit_a_class():
    images = torch.zeros((3, 1, SIDE, SIDE), dtype=torch.uint8)
    assert GlyphNet(209)(images).shape == (3, 209)

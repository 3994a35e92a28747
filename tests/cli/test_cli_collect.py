"""`thermoset collect` as a user runs it: a model in the current folder, pictures, a file of logits."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.cli import main

torch = require("torch", "torch")
Image = require("PIL.Image", "torch")

NETS = '''
import torch

class Pooled(torch.nn.Module):
    """The mean of each channel, times a weight of 1: logits one can work out by hand."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, x):
        return self.weight * x.mean((2, 3))

class Grey(torch.nn.Module):
    """Takes one channel; logits (mean, 0), in a dict."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(1, 1, 1, bias=False)
        torch.nn.init.ones_(self.layer.weight)

    def forward(self, x):
        mean = self.layer(x).mean((1, 2, 3))
        return {"logits": torch.stack([mean, 0 * mean], dim=1)}

class Fixed(torch.nn.Module):
    """Takes pictures of 4 x 4 only."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(48, 3)

    def forward(self, x):
        return self.layer(x.flatten(1))
'''
COLOURS = {"ant/1.png": (255, 0, 51), "bee/2.png": (0, 204, 0), "bee/3.jpg": (51, 51, 51), "cow/4.png": (0, 0, 255)}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model's code and pictures, each of one colour: the size of a picture does not matter."""
    root = tmp_path_factory.mktemp("collect")
    (root / "nets_to_collect.py").write_text(NETS)
    for number, (name, colour) in enumerate(COLOURS.items()):
        path = root / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8 + number, 8), colour).save(path, quality=100)
    images = np.array([np.full((4, 4, 3), colour) for colour in COLOURS.values()], dtype=np.uint8)
    np.savez(root / "pictures.npz", images=images, labels=[0, 1, 1, 2], classes=["ant", "bee", "cow"])
    np.savez(root / "floats.npz", images=images.transpose(0, 3, 1, 2) / np.float32(255))
    return root


@pytest.fixture
def run(monkeypatch, capsys, place):
    """The command in this process, which saves the seconds that importing torch costs."""

    def call(*arguments):
        monkeypatch.chdir(place)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(sys, "argv", ["thermoset", "collect", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(ended.value.code or 0, *capsys.readouterr())

    return call


def by_hand(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)):
    return (np.array(list(COLOURS.values())) / 255 - mean) / std


POOLED = ("--model", "nets_to_collect:Pooled")
NORMALISED = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")


def test_a_folder_of_pictures_becomes_named_labelled_logits(run, tmp_path):
    out = tmp_path / "val.npz"
    done = run(
        *POOLED, "--images", "pictures", "--resize", 6, "--crop", 4, *NORMALISED, "--batch-size", 3, "--out", out
    )
    assert (done.returncode, done.stderr) == (0, "")
    made = ts.load(out)
    assert made.classes == ("ant", "bee", "cow")
    assert made.labels.tolist() == [0, 1, 1, 2]
    want = by_hand((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert made.logits == pytest.approx(want, abs=1e-5)
    correct = np.mean(want.argmax(1) == made.labels)
    assert done.stdout.splitlines() == [
        f"4 rows, 3 classes, accuracy {correct:.4f}",
        f"Wrote {out}",
        f"Next: thermoset sweep {out}",
    ]


def test_an_archive_of_bytes_or_floats(run, tmp_path):
    done = run(*POOLED, "--images", "pictures.npz", "--out", tmp_path / "val.csv", "--quiet")
    assert done.returncode == 0, done.stderr
    made = ts.load(tmp_path / "val.csv")
    assert made.classes == ("ant", "bee", "cow")
    assert made.logits == pytest.approx(by_hand(), abs=1e-6)
    done = run(*POOLED, "--images", "floats.npz", "--out", tmp_path / "bare.npz")
    assert done.stdout.splitlines() == ["4 rows, 3 classes, no labels", f"Wrote {tmp_path / 'bare.npz'}"]
    assert ts.load(tmp_path / "bare.npz").logits == pytest.approx(by_hand(), abs=1e-6)


def test_grey_pictures_for_a_model_of_one_channel_that_returns_a_dict(run, tmp_path):
    for name, level in (("ant", 13107), ("bee", 65535)):
        (tmp_path / "grey" / name).mkdir(parents=True)
        Image.fromarray(np.full((4, 5), level, dtype=np.uint16)).save(tmp_path / "grey" / name / "1.png")
    asked = "--model", "nets_to_collect:Grey", "--images", tmp_path / "grey", "--out", tmp_path / "val.npz"
    done = run(*asked)
    assert (done.returncode, done.stdout) == (2, "")
    assert "to have 1 channels" in done.stderr
    assert "For a model of grey pictures give one number: --mean 0 --std 1." in done.stderr
    assert run(*asked, "--mean", 0, "--std", 1).returncode == 0
    assert ts.load(tmp_path / "val.npz").logits == pytest.approx(np.array([[0.2, 0.0], [1.0, 0.0]]), abs=1e-6)


def test_arguments_of_the_model_and_weights(run, tmp_path):
    asked = (*POOLED, "--images", "pictures.npz", "--out", tmp_path / "val.npz")
    assert run(*asked, "--model-args", '{"scale": 3.0}').returncode == 0
    assert ts.load(tmp_path / "val.npz").logits == pytest.approx(3 * by_hand(), abs=1e-5)
    torch.save({"state_dict": {"module.weight": torch.tensor(-2.0)}}, tmp_path / "w.pth")
    assert run(*asked, "--weights", tmp_path / "w.pth").returncode == 0
    assert ts.load(tmp_path / "val.npz").logits == pytest.approx(-2 * by_hand(), abs=1e-5)


BAD = [
    (("--model", "nets_to_collect"), "model must be package.module:callable"),
    (("--model", "no_such_nets:Pooled"), "no_such_nets cannot be imported"),
    (("--model", "nets_to_collect:Pool"), "has no 'Pool'"),
    (("--model", "nets_to_collect:Fixed", "--crop", "3"), "the model failed (mat1 and mat2 shapes"),
    (("--model-args", "scale=3"), "--model-args must be a JSON object"),
    (("--model-args", "[3]"), "--model-args must be a JSON object"),
    (("--model-args", '{"size": 3}'), "unexpected keyword argument 'size'"),
    (("--weights", "none.pth"), "there is no such file"),
    (("--images", "nothing"), "there is no such file"),
    (("--images", "pictures/ant"), "no pictures in class folders"),
    (("--images", "pictures"), "all pictures of a batch must have the same size"),
    (("--mean", "0.5,0.5,0.5"), "--mean and --std go together"),
    (("--mean", "a,b,c", "--std", "1,1,1"), "--mean must be comma-separated numbers"),
    (("--mean", "0.5", "--std", "1"), "images must have shape (n, H, W, 1)"),
    (("--crop", "0"), "crop must be a whole number from 1 to 16,384"),
    (("--crop", "5"), "is smaller than crop 5"),
    (("--batch-size", "0"), "batch_size must be a whole number from 1 to 1,000,000"),
    (("--device", "warp"), "device must be a torch device"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line_exit_code_2_and_no_file(run, tmp_path, arguments, message):
    done = run(*POOLED, "--images", "pictures.npz", "--out", tmp_path / "val.npz", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("thermoset: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"), [("val.xyz", "unknown kind of file"), ("no/val.npz", "cannot be written")]
)
def test_files_that_cannot_be_written(run, tmp_path, name, message):
    done = run(*POOLED, "--images", "pictures.npz", "--out", tmp_path / name)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_names_that_are_not_the_model_s(run, tmp_path, place):
    np.savez(tmp_path / "two.npz", images=np.zeros((1, 4, 4, 3)), classes=["ant", "bee"])
    done = run(*POOLED, "--images", tmp_path / "two.npz", "--out", tmp_path / "val.npz")
    assert done.stderr == "thermoset: batch 0: classes must hold 3 names, one per column of logits; got 2.\n"


def test_a_part_that_is_not_installed_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run(*POOLED, "--images", "pictures.npz", "--out", tmp_path / "val.npz")
    assert done.returncode == 2
    assert done.stderr.endswith("needs torch, which is not installed. Run: pip install 'thermoset[torch]'\n")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    done = run(*POOLED, "--images", "pictures", "--out", tmp_path / "val.npz")
    assert done.returncode == 2
    assert done.stderr.endswith("needs PIL, which is not installed. Run: pip install 'thermoset[torch]'\n")


def test_the_installed_command_finds_a_model_in_the_current_folder(place, tmp_path):
    command = Path(sys.executable).with_name("thermoset")
    asked = [command, "collect", *POOLED, "--images", "pictures", "--crop", "8", "--out", tmp_path / "val.npz"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert ts.load(tmp_path / "val.npz").logits == pytest.approx(by_hand(), abs=1e-6)

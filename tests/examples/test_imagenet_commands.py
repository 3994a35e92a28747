"""The commands for ImageNet, as its page prints them, on a small folder and with stand-ins for torchvision's models."""

import re
import shlex
import sys
from types import ModuleType

import numpy as np
import pytest

import thermoset as ts
from conftest import ROOT
from parts import require
from thermoset.cli import main

torch = require("torch", "torch")
Image = require("PIL.Image", "torch")

PAGE = (ROOT / "examples" / "imagenet" / "README.md").read_text()
COMMANDS = re.findall(r"^\$ (thermoset collect (?:.*\\\n)*.*)", PAGE, re.MULTILINE)
COLOURS = {"n01440764": (255, 0, 0), "n01443537": (0, 255, 0), "n01484850": (0, 0, 255)}


class StandIn(torch.nn.Module):
    """The mean of each channel, of pictures of the right size."""

    def __init__(self, *, weights):
        super().__init__()
        assert weights == "IMAGENET1K_V1"

    def forward(self, x):
        assert x.shape[1:] == (3, 224, 224)
        return x.mean((2, 3))


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, colour in COLOURS.items():
        (tmp_path / "val" / name).mkdir(parents=True)
        Image.new("RGB", (300, 260), colour).save(tmp_path / "val" / name / "ILSVRC2012_val_1.JPEG", quality=100)
    models = ModuleType("torchvision.models")
    models.resnet152 = models.densenet121 = models.vit_b_16 = StandIn
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_three_commands():
    assert [re.search(r"models:(\w+)", command)[1] for command in COMMANDS] == ["resnet152", "densenet121", "vit_b_16"]


@pytest.mark.parametrize("command", COMMANDS, ids=["resnet152", "densenet121", "vit_b_16"])
def test_commands_write_normalised_logits_in_the_order_of_the_folders(command, place, monkeypatch):
    words = shlex.split(command.replace("\\\n", " ").replace("--device cuda", "--device cpu"))
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    made = ts.load(place / words[-1])
    assert made.classes == tuple(COLOURS)
    assert made.labels.tolist() == [0, 1, 2]
    want = (np.eye(3) - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    assert made.logits == pytest.approx(want, abs=0.03)  # JPEG moves a colour by a step or two of 255

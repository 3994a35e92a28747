"""The script that collects the logits of the paper's models, with stand-ins for torchvision."""

import importlib
import re
import sys
from types import ModuleType

import numpy as np
import pytest

import thermoset as ts
from conftest import ROOT
from parts import require
from thermoset.paper.study import recognise

pytestmark = pytest.mark.long

torch = require("torch", "torch")

PAGE = (ROOT / "examples" / "paper" / "README.md").read_text()
COMMANDS = re.findall(r"^\$ python -m examples\.paper\.collect (\w+) val logits/(\S+)$", PAGE, re.MULTILINE)


class Weights:
    """One of torchvision's sets of weights: it knows how pictures were prepared for it."""

    def transforms(self):
        return lambda picture: 2 * picture


class Folder(torch.utils.data.Dataset):
    """Pictures in class folders, as torchvision reads them."""

    classes = ("ant", "bee", "cat")

    def __init__(self, root, transform):
        assert root == "val"
        self.transform = transform

    def __len__(self):
        return 100

    def __getitem__(self, row):
        return self.transform(torch.eye(3)[row % 3]), row % 3


@pytest.fixture
def collect(monkeypatch):
    """The script, with a model that returns its pictures."""
    torchvision, models, datasets = (ModuleType(name) for name in ("torchvision", "models", "datasets"))
    known = {"IMAGENET1K_V1": Weights()}
    models.get_model_weights = lambda name: known
    models.get_model = lambda name, weights: {known["IMAGENET1K_V1"]: torch.nn.Identity()}[weights]
    datasets.ImageFolder = Folder
    torchvision.models, torchvision.datasets = models, datasets
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.delitem(sys.modules, "examples.paper.collect", raising=False)
    yield importlib.import_module("examples.paper.collect")
    sys.modules.pop("examples.paper.collect", None)


def test_the_script_writes_the_logits_of_every_picture(collect, tmp_path, capsys):
    collect.main("resnet152", "val", str(tmp_path / "imagenet_resnet152.npz"))
    made = ts.load(tmp_path / "imagenet_resnet152.npz")
    assert made.classes == Folder.classes
    assert made.labels.tolist() == [row % 3 for row in range(100)]
    assert np.array_equal(made.logits, 2 * np.eye(3)[made.labels])
    assert "n_rows=100, n_classes=3, accuracy=1.0" in capsys.readouterr().out


def test_the_page_has_the_three_models_and_names_that_the_study_knows():
    assert [model for model, _ in COMMANDS] == ["resnet152", "densenet121", "vit_b_16"]
    assert {recognise(file).dataset for _, file in COMMANDS} == {"ImageNet"}

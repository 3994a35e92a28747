"""The Lightning callback, on the real package: every kind of prediction, several dataloaders, failures."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from parts import require
from thermoset.errors import InputError, MissingExtraError
from thermoset.io import SUFFIXES, load

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Lightning calls PyTorch in deprecated ways

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


@pytest.fixture(scope="module")
def pl():
    require("torch", "torch")
    return require("lightning.pytorch", "frameworks")


@pytest.fixture(scope="module")
def torch(pl):
    return require("torch", "torch")


@pytest.fixture
def predict(pl, torch, tmp_path):
    """`predict(step, ...)` runs a trainer whose model returns `step(pixels, labels)`; gives the callback."""
    from thermoset.integrations.lightning import LogitsWriter

    class Model(pl.LightningModule):
        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return self.step(*batch)

    def run(step, *, name="val.npz", classes=None, loaders=1, writer=None):
        data = torch.utils.data
        sets = [data.TensorDataset(pixels(torch) + i, torch.arange(10) % 3) for i in range(loaders)]
        batches = [data.DataLoader(one, batch_size=4) for one in sets]
        writer = writer or LogitsWriter(tmp_path / name, classes)
        model = Model()
        model.step = step
        trainer = pl.Trainer(callbacks=[writer], **QUIET)
        trainer.predict(model, batches if loaders > 1 else batches[0], return_predictions=False)
        return writer

    return run


def pixels(torch):
    return torch.linspace(-2, 2, 30).reshape(10, 3)


@pytest.mark.parametrize("kind", ["logits", "pair", "list", "dict", "output"])
def test_what_predict_step_may_return(predict, torch, tmp_path, kind):
    class Output(dict):  # as a Hugging Face output: attributes and keys
        __getattr__ = dict.__getitem__

    steps = {
        "logits": lambda x, y: x * 2,
        "pair": lambda x, y: (x * 2, y),
        "list": lambda x, y: [x * 2, y],
        "dict": lambda x, y: {"loss": 0.5, "logits": x * 2, "labels": y},
        "output": lambda x, y: Output(logits=x * 2, labels=y),
    }
    writer = predict(steps[kind], classes=["cat", "dog", "eel"])
    val = load(tmp_path / "val.npz")
    assert writer.files == (tmp_path / "val.npz",)
    assert np.array_equal(val.logits, pixels(torch).numpy() * 2)
    assert val.classes == ("cat", "dog", "eel")
    assert (val.labels is None) == (kind == "logits")
    assert kind == "logits" or val.labels.tolist() == [i % 3 for i in range(10)]
    assert [path.name for path in tmp_path.iterdir()] == ["val.npz"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_kind_of_file(predict, torch, tmp_path, suffix):
    predict(lambda x, y: (x, y), name=f"val{suffix}")
    val = load(tmp_path / f"val{suffix}")
    assert np.array_equal(val.logits, pixels(torch).numpy())
    assert val.labels.tolist() == [i % 3 for i in range(10)]


def test_bfloat16_becomes_float32(predict, torch, tmp_path):
    predict(lambda x, y: x.bfloat16())
    assert np.array_equal(load(tmp_path / "val.npz").logits, pixels(torch).bfloat16().float().numpy())


def test_several_dataloaders_have_a_file_each(predict, torch, tmp_path):
    writer = predict(lambda x, y: (x, y), loaders=2)
    assert [path.name for path in writer.files] == ["val.loader0.npz", "val.loader1.npz"]
    for i, path in enumerate(writer.files):
        assert np.array_equal(load(path).logits, pixels(torch).numpy() + i)


def test_a_callback_can_be_used_again(predict, torch, tmp_path):
    writer = predict(lambda x, y: x)
    predict(lambda x, y: -x, writer=writer)
    assert np.array_equal(load(tmp_path / "val.npz").logits, -pixels(torch).numpy())


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda x, y: (x, y, y), r"predict_step, batch 0: a tuple of 3 parts; expected logits, \(logits, labels\)"),
        (lambda x, y: {"scores": x}, "predict_step, batch 0: a mapping needs the key 'logits'"),
        (lambda x, y: x[:, :1], "batch 0: logits need a column for each of at least 2 classes"),
        (lambda x, y: x if y[0] == 0 else x[:, :2], "batch 1: the model returned 2 columns, but 3 for the first"),
        (lambda x, y: x if y[0] == 0 else (x, y), "batch 1: has labels, but the first batch has none"),
        (lambda x, y: x / 0, "batch 0: logits.* is "),
        (lambda x, y: (x, y + 5), r"batch 0: labels\[0\] is 5; must be in 0\.\.2"),
        (lambda x, y: None, "batch 0: logits of type NoneType cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_batch_and_leaves_nothing(predict, tmp_path, step, said):
    with pytest.raises(InputError, match=said):
        predict(step)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_leaves_what_was_there(predict, tmp_path):
    predict(lambda x, y: x)
    before = (tmp_path / "val.npz").read_bytes()

    def fails(x, y):
        if y[0] != 0:
            raise RuntimeError("out of memory")
        return -x

    with pytest.raises(RuntimeError, match="out of memory"):
        predict(fails)
    assert (tmp_path / "val.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["val.npz"]


def test_targets_are_refused_before_the_work(predict, tmp_path):
    def never(x, y):
        raise AssertionError("the model ran")

    with pytest.raises(InputError, match="unknown kind of file"):
        predict(never, name="val.html")
    with pytest.raises(InputError, match="unknown kind of file"):
        predict(never, name="val.json")
    (tmp_path / "val.npz").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        predict(never)
    with pytest.raises(InputError, match=r"val\.npz: cannot be written"):
        predict(never, name="none/val.npz")


def test_the_callback_for_the_other_name_of_the_package(pl, monkeypatch):
    """`pytorch_lightning` is the same code with other classes: the one in use is the one to derive from.

    A module of that name stands in for it, since importing the second package takes many seconds.
    """
    from thermoset.integrations import lightning

    assert issubclass(lightning.LogitsWriter, pl.callbacks.BasePredictionWriter)
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    callbacks = SimpleNamespace(BasePredictionWriter=object())
    monkeypatch.setitem(sys.modules, "pytorch_lightning", SimpleNamespace(callbacks=callbacks, __spec__=True))
    monkeypatch.setitem(sys.modules, "pytorch_lightning.callbacks", callbacks)
    assert lightning._base() is callbacks.BasePredictionWriter


def test_without_the_package_the_extra_is_named():
    require("torch", "torch")
    code = (
        "import sys\n"
        "sys.modules['lightning'] = None\n"
        "import importlib.util as u\n"
        "u.find_spec = lambda name, package=None: None\n"
        "from thermoset.errors import MissingExtraError\n"
        "try:\n"
        "    import thermoset.integrations.lightning\n"
        "except MissingExtraError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(MissingExtraError.of("lightning", "lightning", "LogitsWriter"))


@pytest.mark.parametrize("rank", [0, 1])
def test_each_process_writes_its_own_rows(pl, torch, tmp_path, rank):
    """The hooks as a trainer of two processes calls them; starting two real ones takes a minute."""
    from thermoset.integrations.lightning import LogitsWriter

    trainer = SimpleNamespace(global_rank=rank, world_size=2, num_predict_batches=[2, 1])
    writer = LogitsWriter(tmp_path / "val.npz")
    writer.on_predict_start(trainer, None)
    for batch in range(2):
        writer.write_on_batch_end(trainer, None, pixels(torch) + batch, None, None, batch, 0)
    writer.on_predict_end(trainer, None)  # the second dataloader had nothing for this process
    assert writer.files == (tmp_path / f"val.loader0.rank{rank}.npz",)
    assert np.array_equal(load(writer.files[0]).logits, np.concatenate([pixels(torch), pixels(torch) + 1]))
    assert [path.name for path in tmp_path.iterdir()] == [writer.files[0].name]

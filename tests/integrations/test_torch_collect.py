"""Logits of torch models: what comes out is what the model said, and the model is left as it was."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

import thermoset as ts
from parts import require

torch = require("torch", "torch")

from thermoset.integrations.torch import Collected, collect_logits, collect_to_file  # noqa: E402

IDENTITY = torch.nn.Identity()


class Doubled(torch.nn.Module):
    """Returns what `wrap` makes of twice its input."""

    def __init__(self, wrap=lambda tensor: tensor):
        super().__init__()
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(2 * x)


def rows_of(n=10, n_classes=3):
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, n_classes, generator=generator), torch.arange(n) % n_classes


def loader_of(*tensors, batch_size=4):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*tensors), batch_size=batch_size)


def test_a_data_loader_gives_the_rows_in_order_with_labels():
    x, y = rows_of()
    got = collect_logits(Doubled(), loader_of(x, y))
    assert got == ts.Logits(2 * x, y)
    assert collect_logits(Doubled(), loader_of(x, y), classes=["a", "b", "c"]).classes == ("a", "b", "c")


@pytest.mark.parametrize(
    "pack",
    [
        lambda x, y: loader_of(x),
        lambda x, y: list(x.split(3)),
        lambda x, y: iter(x.split(3)),
        lambda x, y: [x.numpy()],
        lambda x, y: [{"x": part} for part in x.split(4)],
    ],
)
def test_inputs_alone_give_logits_without_labels(pack):
    x, y = rows_of()
    assert collect_logits(Doubled(), pack(x, y)) == ts.Logits(2 * x)


@pytest.mark.parametrize("name", ["labels", "label"])
def test_dict_batches_become_keyword_arguments_without_the_labels(name):
    x, y = rows_of()
    batches = [{"x": x[:6], name: y[:6]}, {"x": x[6:], name: y[6:]}]
    assert collect_logits(Doubled(), batches) == ts.Logits(2 * x, y)


def test_names_are_labels_where_classes_are_named():
    x, y = rows_of(3)
    got = collect_logits(IDENTITY, [(x, ["a", "b", "c"])], classes=["a", "b", "c"])
    assert got == ts.Logits(x, y, ["a", "b", "c"])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tensor: SimpleNamespace(loss=None, logits=tensor),
        lambda tensor: {"loss": None, "logits": tensor},
        lambda tensor: (tensor,),
        lambda tensor: [tensor, tensor[:, None, :], None],  # hidden states beside the logits
    ],
)
def test_an_output_that_holds_the_logits(wrap, tmp_path):
    x, y = rows_of()
    want = ts.Logits(2 * x, y)
    assert collect_logits(Doubled(wrap), [(x, y)]) == want
    collect_to_file(Doubled(wrap), [(x, y)], tmp_path / "val.npz")
    assert ts.load(tmp_path / "val.npz") == want


def test_batches_without_rows_are_passed_over(tmp_path):
    x, y = rows_of()
    batches = [(x[:0], y[:0]), (x[:4], y[:4]), (x[:0], y[:0]), (x[4:], y[4:])]
    assert collect_logits(IDENTITY, batches) == ts.Logits(x, y)
    assert collect_to_file(IDENTITY, batches, tmp_path / "val.npz").n_rows == len(x)


def test_labels_of_loaders_are_column_numbers_whatever_classes_are_called(tmp_path):
    x, y = rows_of()
    names = ["2", "0", "1"]  # as ImageFolder sorts folders called by numbers
    assert collect_logits(IDENTITY, [(x, y)], classes=names).labels.tolist() == y.tolist()
    collect_to_file(IDENTITY, [(x, y)], tmp_path / "val.npz", classes=names)
    assert ts.load(tmp_path / "val.npz").labels.tolist() == y.tolist()


@pytest.mark.parametrize(
    ("given", "kept"),
    [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64")],
)
def test_types_of_numbers(given, kept, tmp_path):
    x, y = rows_of()
    x = x.to(getattr(torch, given))
    got = collect_logits(IDENTITY, loader_of(x, y))
    assert got.logits.dtype == kept
    assert torch.equal(torch.from_numpy(got.logits.copy()), x.to(getattr(torch, kept))), "widening is exact"
    collect_to_file(IDENTITY, loader_of(x, y), tmp_path / "val.npz")
    assert ts.load(tmp_path / "val.npz") == got


def mixed_modes():
    """A training model with a frozen part, whose dropout and batch statistics would show."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5), torch.nn.Linear(3, 3))
    model.train()
    model[0].eval()
    return model


def test_the_model_runs_in_evaluation_mode_without_gradients_and_its_modes_come_back():
    model, (x, y) = mixed_modes(), rows_of(20)
    seen = []
    model.register_forward_hook(
        lambda module, args, out: seen.append((module.training, torch.is_inference_mode_enabled()))
    )
    got = collect_logits(model, loader_of(x, y))
    assert seen == [(False, True)] * 5
    assert [module.training for module in model.modules()] == [True, False, True, True]
    want = x @ model[2].weight.T / np.sqrt(1 + model[0].eps) + model[2].bias  # running mean 0, variance 1; no dropout
    assert got.logits == pytest.approx(want.detach().numpy(), abs=1e-5)
    model(x).sum().backward()  # still trains


def test_the_modes_come_back_after_a_failure():
    model = mixed_modes()
    with pytest.raises(ts.InputError):
        collect_logits(model, [torch.full((2, 3), float("nan"))])
    assert [module.training for module in model.modules()] == [True, False, True, True]


def test_a_model_moves_to_the_device_and_back():
    moved = []

    class Travelling(torch.nn.Linear):
        def to(self, place):
            moved.append(str(place))
            return self

    x, y = rows_of()
    model = Travelling(3, 3)
    collect_logits(model, [(x, y)])
    assert moved == [], "it stays where it is"
    collect_logits(model, [(x, y)], device="cpu:0")
    assert moved == ["cpu:0", "cpu"]


BAD_DEVICES = [
    ("warp", "device must be a torch device"),
    (3.5, "device must be a torch device"),
    ("meta", "device 'meta' holds no numbers"),
    pytest.param(
        "cuda",
        "device 'cuda' cannot be used",
        marks=pytest.mark.skipif(torch.cuda.is_available(), reason="it can be used here"),
    ),
]


@pytest.mark.parametrize(("device", "message"), BAD_DEVICES)
def test_bad_devices(device, message):
    x, _ = rows_of()
    model = torch.nn.Linear(3, 3)
    with pytest.raises(ts.InputError, match=message):
        collect_logits(model, [x], device=device)
    assert model.training
    assert model.weight.device == torch.device("cpu")


def test_a_model_on_several_devices_stays_there():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3, device="meta"))
    with pytest.raises(ts.InputError, match="spread over cpu, meta"):
        collect_logits(model, [torch.zeros(1, 3)], device="cpu")


def test_progress_counts_batches():
    x, y = rows_of()
    told = []
    collect_logits(IDENTITY, loader_of(x, y), progress=lambda *args: told.append(args))
    assert told == [(1, 3), (2, 3), (3, 3)]
    told.clear()
    collect_logits(IDENTITY, iter(x.split(5)), progress=lambda *args: told.append(args))
    assert told == [(1, None), (2, None)]


X, Y = rows_of(4)
BAD = [
    (IDENTITY, [], "the loader gave no rows"),
    (IDENTITY, [(X, Y, Y)], "batch 0: a tuple of 3 parts"),
    (IDENTITY, [(X, Y), (X, Y + 7)], r"batch 1: labels\[0\] is 7; must be in 0..2"),
    (IDENTITY, [(X, Y), (X, Y[:2])], r"batch 1: labels must have shape \(4,\)"),
    (IDENTITY, [X, X + float("nan")], r"batch 1: logits\[0, 0\] is NaN; 12 such"),
    (IDENTITY, [X, X[:, :2]], "batch 1: the model returned 2 columns, but 3 for the first"),
    (IDENTITY, [X, X.double()], "batch 1: the model returned float64, but float32 for the first"),
    (IDENTITY, [X, (X, Y)], "batch 1: has labels, but the first batch has none"),
    (IDENTITY, [(X, Y), X], "batch 1: has no labels, but the first batch has them"),
    (IDENTITY, [X[:, :1]], r"batch 0: the model returned one number for each row, shape \(4, 1\).*torch.stack"),
    (IDENTITY, [X[:0], X[:0]], "the loader gave no rows"),
    (Doubled(lambda t: t.sum(1)), [X], r"batch 0: the model returned one number for each row, shape \(4,\)"),
    (Doubled(lambda t: t[:, :, None, None]), [X], r"shape \(4, 3, 1, 1\); expected \(rows, classes\)"),
    (Doubled(lambda t: (t, t)), [X], r"batch 0: the model returned a tuple of shapes \(4, 3\), \(4, 3\)"),
    (Doubled(lambda t: (None,)), [X], r"batch 0: the model returned a tuple of shapes \(\); expected exactly one"),
    (
        Doubled(lambda t: {"out": t}),
        [X],
        "batch 0: the model returned a dict with these keys: 'out'; expected 'logits'",
    ),
    (Doubled(lambda t: {"logits": None}), [X], "batch 0: the model returned dict; expected a tensor"),
    (Doubled(lambda t: None), [X], "batch 0: the model returned NoneType"),
    (lambda x: x, [X], "model must be a torch.nn.Module; got function"),
]


@pytest.mark.parametrize(("model", "loader", "message"), BAD)
def test_bad_models_and_batches_are_told_and_leave_no_file(model, loader, message, tmp_path):
    with pytest.raises(ts.InputError, match=message):
        collect_logits(model, loader)
    with pytest.raises(ts.InputError, match=message):
        collect_to_file(model, loader, tmp_path / "val.npz")
    assert list(tmp_path.iterdir()) == []


def test_wrong_number_of_names():
    with pytest.raises(ts.InputError, match="batch 0: classes must hold 3 names"):
        collect_logits(IDENTITY, [X], classes=["a", "b"])


@pytest.mark.parametrize("suffix", ts.io.SUFFIXES)
def test_a_file_holds_what_collecting_gives(suffix, tmp_path):
    x, y = rows_of(11)
    x = x.double()  # csv is read as float64
    names = ["ant", "bee", "cat"]
    made = collect_to_file(Doubled(), loader_of(x, y), tmp_path / f"val{suffix}", classes=names)
    assert ts.load(tmp_path / f"val{suffix}") == ts.Logits(2 * x, y, names)
    hits = int((x.argmax(1) == y).sum())
    assert made == Collected(n_rows=11, n_classes=3, accuracy=hits / 11)
    assert {path.name for path in tmp_path.iterdir()} <= {f"val{suffix}", "val_labels.npy", "val_classes.npy"}


def test_a_file_without_labels_has_no_accuracy(tmp_path):
    assert collect_to_file(IDENTITY, [X], tmp_path / "val.npz") == Collected(4, 3, None)
    assert ts.load(tmp_path / "val.npz") == ts.Logits(X)


def test_a_file_is_written_without_holding_all_rows(tmp_path):
    x = -torch.ones(500, 1000, dtype=torch.float64)
    n_bytes = 20 * x.numel() * 8
    tracemalloc.start()
    collect_to_file(IDENTITY, (x for _ in range(20)), tmp_path / "val.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n_bytes / 4
    assert (tmp_path / "val.npz").stat().st_size > n_bytes


def never():
    """A loader that must not be asked."""
    pytest.fail("the model ran first")
    yield


@pytest.mark.parametrize(
    ("name", "message"), [("val.xyz", "unknown kind of file '.xyz'"), ("no/val.npz", "cannot be written")]
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(name, message, tmp_path):
    with pytest.raises(ts.InputError, match=message):
        collect_to_file(IDENTITY, never(), tmp_path / name)


def test_what_a_format_cannot_hold_is_said_after_one_batch(tmp_path):
    told = []
    with pytest.raises(ts.InputError, match="csv cannot hold these class names"):
        collect_to_file(IDENTITY, [X] * 5, tmp_path / "a.csv", classes=["label", "b", "c"], progress=told.append)
    assert told == []
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_the_old_file(tmp_path):
    ts.save(tmp_path / "val.npz", ts.Logits(X))
    with pytest.raises(ts.InputError):
        collect_to_file(IDENTITY, [X, X[:, :2]], tmp_path / "val.npz")
    assert ts.load(tmp_path / "val.npz") == ts.Logits(X)

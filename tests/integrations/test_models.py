"""Models by name, and weights from files that cannot be trusted."""

import pytest

import thermoset as ts
from helpers_io import Bomb
from parts import require
from thermoset.integrations.models import build_model, load_weights

torch = require("torch", "torch")


def small(out_features=3):
    return torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, out_features))


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_a_callable_is_called_and_a_built_model_is_taken(tmp_path, monkeypatch):
    (tmp_path / "nets_by_name.py").write_text(
        "import torch\nbuilt = torch.nn.Identity()\nnumber = 3\n"
        "def wrong(): return 3\ndef broken(**a): raise KeyError('x')\n"
        "def make(n, *, bias=True): return torch.nn.Linear(n, 2, bias=bias)\n"
    )
    (tmp_path / "nets_broken.py").write_text("import no_such_package_anywhere\n")
    (tmp_path / "nets_unfinished.py").write_text("def (:\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert build_model("nets_by_name:make", {"n": 5, "bias": False}).bias is None
    built = build_model("nets_by_name:built")
    assert built is build_model("nets_by_name:built")
    bad = {
        "nets_by_name:make": "cannot be built with those arguments .TypeError: make",
        "nets_by_name:number": "cannot be built with those arguments .TypeError: 'int' object is not callable",
        "nets_by_name:broken": "cannot be built with those arguments .KeyError",
        "nets_by_name:wrong": "gave a int; expected a torch.nn.Module",
        "nets_by_name:nothing": "module nets_by_name has no 'nothing'",
        "nets_broken:make": "No module named 'no_such_package_anywhere'",
        "nets_unfinished:make": "cannot be imported .SyntaxError",
        "no_nets_here:make": "no_nets_here cannot be imported",
        ".relative:make": "model must be package.module:callable",
        "nets_by_name": "model must be package.module:callable",
        ":make": "model must be package.module:callable",
        "nets_by_name:": "model must be package.module:callable",
    }
    for name, message in bad.items():
        with pytest.raises(ts.InputError, match=message) as caught:
            build_model(name)
        assert "\n" not in str(caught.value)
    with pytest.raises(ts.InputError, match="is already built and takes no arguments; got a"):
        build_model("nets_by_name:built", {"a": 1})


def prefixed(prefix, state):
    return {f"{prefix}{name}": value for name, value in state.items()}


@pytest.mark.parametrize(
    "pack",
    [
        lambda state: state,
        lambda state: {"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}},
        lambda state: {"model": state, "args": [1, 2]},
        lambda state: {"model_state_dict": prefixed("module.", state)},
        lambda state: prefixed("module.", state),
        lambda state: prefixed("module._orig_mod.", state),
        lambda state: {name: value for name, value in state.items() if "num_batches" not in name},  # files before 2018
    ],
)
def test_checkpoints_of_every_shape(pack, tmp_path):
    source, target = small(), small()
    torch.save(pack(dict(source.state_dict())), tmp_path / "w.pth")
    assert not same(source, target)
    load_weights(target, tmp_path / "w.pth")
    assert same(source, target)


def test_safetensors(tmp_path):
    library = require("safetensors.torch", "io")
    source, target = small(), small()
    library.save_file(prefixed("module.", source.state_dict()), tmp_path / "w.safetensors")
    load_weights(target, tmp_path / "w.safetensors")
    assert same(source, target)
    (tmp_path / "w.safetensors").write_bytes((tmp_path / "w.safetensors").read_bytes()[:-8])
    with pytest.raises(ts.FileFormatError, match=r"w\.safetensors: not a readable safetensors file"):
        load_weights(target, tmp_path / "w.safetensors")


def refused(path, model, content, message):
    torch.save(content, path)
    with pytest.raises(ts.InputError, match=message) as caught:
        load_weights(model, path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_what_does_not_fit_is_listed_in_one_line(tmp_path):
    model, state = small(), dict(small().state_dict())
    path = tmp_path / "w.pt"
    renamed = {("head.weight" if name == "1.weight" else name): value for name, value in state.items()}
    refused(path, model, renamed, "do not fit the model: missing 1.weight; unexpected head.weight.$")
    refused(path, small(7), state, r"1.weight is \(3, 4\), the model's \(7, 4\); 1.bias is \(3,\), the model's \(7,\)")
    many = state | {f"extra{i}": torch.zeros(1) for i in range(9)}
    refused(path, model, many, "unexpected extra0, extra1, extra2, extra3, extra4 and 4 more")


def test_what_is_no_state_dict_is_refused(tmp_path):
    model, path = small(), tmp_path / "w.pt"
    refused(path, model, {"epoch": 3, "loss": torch.zeros(1)}, "it contains: epoch, loss")
    refused(path, model, [torch.zeros(1)], "it contains: list")
    refused(path, model, {}, "it contains: nothing")
    with pytest.raises(ts.InputError, match="there is no such file"):
        load_weights(model, tmp_path / "none.pt")
    (tmp_path / "w.h5").write_text("x")
    with pytest.raises(ts.InputError, match="unknown kind of file"):
        load_weights(model, tmp_path / "w.h5")


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    mark = tmp_path / "mark"
    refused(tmp_path / "w.pt", small(), {"state_dict": Bomb(mark)}, "torch cannot read it with weights_only=True")
    assert not mark.exists()

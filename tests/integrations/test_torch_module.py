"""The predictor as a torch module: buffers, types, compilers, files."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from exports import predictor_at
from law import generated
from parts import missing, require
from thermoset import InputError

torch = require("torch", "torch")

from thermoset.integrations.torch import Answers, SetModule, save_torch, to_torch  # noqa: E402

pytestmark = pytest.mark.slow

ROWS, LABELS = generated(1500, 8, signal=0.5)


@pytest.fixture(scope="module")
def predictor():
    return predictor_at(1.3, ROWS[:500], LABELS[:500], method="raps")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch._dynamo.reset()  # it compiles one piece of code for a few modules only
    yield
    torch.set_num_threads(before)


def same_sets(answers, predictor, rows=ROWS):
    np.testing.assert_array_equal(answers.sets.numpy(), predictor.predict_set(rows))


def test_the_five_answers(predictor):
    found = to_torch(predictor)(torch.from_numpy(ROWS))
    assert isinstance(found, Answers)
    assert [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in found._asdict().items()] == [
        ("label", torch.int64, (1500,)),
        ("confidence", torch.float64, (1500,)),
        ("probabilities", torch.float64, (1500, 8)),
        ("sets", torch.bool, (1500, 8)),
        ("sizes", torch.int64, (1500,)),
    ]
    same_sets(found, predictor)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_any_floating_type_is_widened_exactly(predictor, dtype):
    rows = torch.from_numpy(ROWS).to(getattr(torch, dtype))
    same_sets(to_torch(predictor)(rows), predictor, rows.double().numpy())


def test_casting_the_model_leaves_thresholds_alone(predictor):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), to_torch(predictor)).half()
    assert model[0].weight.dtype == torch.float16
    assert {held.dtype for held in model[1].buffers() if held.is_floating_point()} == {torch.float64}
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0)).half()
    with torch.inference_mode():
        same_sets(model(x), predictor, model[0](x).double().numpy())
    assert model.to("meta")[1].seed.is_meta, "a device is followed"


def test_everything_learnt_is_in_the_state(predictor):
    other = predictor_at(0.7, ROWS[500:1000], LABELS[500:1000], method="raps", random_state=9)
    module = to_torch(other)
    assert not np.array_equal(module(torch.from_numpy(ROWS)).sets.numpy(), predictor.predict_set(ROWS))
    module.load_state_dict(to_torch(predictor).state_dict())
    same_sets(module(torch.from_numpy(ROWS)), predictor)
    assert not list(module.parameters())


def test_a_row_does_not_depend_on_its_batch(predictor):
    module, rows = to_torch(predictor), torch.from_numpy(ROWS)
    together = module(rows)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    for whole, part in zip(together, module(rows[order]), strict=True):
        assert torch.equal(whole[order], part)
    for i in range(5):
        for whole, alone in zip(together, module(rows[i : i + 1]), strict=True):
            assert torch.equal(whole[i : i + 1], alone)


def test_small_and_large_sets_of_many_classes():
    logits, labels = generated(700, 300, signal=-1.0)
    predictor = predictor_at(2.0, logits[:300], labels[:300], method="aps")
    sizes = predictor.set_sizes(logits)
    assert (sizes > 64).any(), "the case does not test what it says"
    assert (sizes < 64).any()
    same_sets(to_torch(predictor)(torch.from_numpy(logits)), predictor, logits)


def test_given_u(predictor):
    always, never = (to_torch(predictor)(torch.from_numpy(ROWS), torch.full((1500,), u)) for u in (1e-9, 1.0))
    assert (always.sizes >= never.sizes).all()
    assert (always.sizes - never.sizes).max() == 1, "at most one label of a row depends on u"


def test_no_rows(predictor):
    found = to_torch(predictor)(torch.zeros(0, 8))
    assert [tuple(tensor.shape) for tensor in found] == [(0,), (0,), (0, 8), (0, 8), (0,)]


@pytest.mark.parametrize("shape", [(8,), (3, 7), (2, 3, 8)])
def test_other_shapes_are_refused(predictor, shape):
    with pytest.raises(InputError, match=r"logits must have shape \(n, 8\)"):
        to_torch(predictor)(torch.zeros(*shape))


def test_rows_that_the_library_refuses_have_no_answer(predictor):
    rows = torch.from_numpy(ROWS[:5].copy())
    rows[0, 2], rows[1, 3], rows[2] = torch.nan, torch.inf, -torch.inf
    found = to_torch(predictor)(rows)
    assert found.label[:3].tolist() == [-1, -1, -1]
    assert found.confidence.isnan().tolist() == [True, True, True, False, False]
    assert found.sizes[:3].tolist() == [0, 0, 0]


def test_shown(predictor):
    assert repr(to_torch(predictor)) == "SetModule(n_classes=8, RAPS, T = 1.30, alpha 0.1)"
    assert isinstance(to_torch(predictor), SetModule)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler, about torch
@pytest.mark.parametrize("method", ["raps", "lac"])
def test_compiled(method):
    if shutil.which("c++") is None and shutil.which("g++") is None:
        missing("torch.compile needs a C++ compiler")
    predictor = predictor_at(0.3, ROWS[:500], LABELS[:500], method=method)
    compiled = torch.compile(to_torch(predictor), fullgraph=True, dynamic=True)
    for n_rows in (1500, 3):
        same_sets(compiled(torch.from_numpy(ROWS[:n_rows])), predictor, ROWS[:n_rows])


@pytest.mark.parametrize("grouping", [None, "class"])
@pytest.mark.parametrize("method", ["lac", "aps", "raps", "saps", "topk", "margin"])
def test_traced_whole(method, grouping):
    """What a compiler is given, run as it is: no part of the module is left outside of the trace."""
    predictor = predictor_at(0.3, ROWS[:500], LABELS[:500], method=method, grouping=grouping)
    compiled = torch.compile(to_torch(predictor), fullgraph=True, dynamic=True, backend="eager")
    same_sets(compiled(torch.from_numpy(ROWS)), predictor)


ELSEWHERE = """
import sys
import numpy as np
import torch
found = torch.export.load(sys.argv[1]).module()(torch.from_numpy(np.load(sys.argv[2])))
assert "thermoset" not in sys.modules
np.savez(sys.argv[3], **{name: tensor.numpy() for name, tensor in found.items()})
"""


def test_a_file_answers_without_thermoset(predictor, tmp_path):
    rows = ROWS.astype(np.float32)
    save_torch(predictor, tmp_path / "predictor.pt2")
    np.save(tmp_path / "rows.npy", rows)
    arguments = [tmp_path / "predictor.pt2", tmp_path / "rows.npy", tmp_path / "found.npz"]
    subprocess.run([sys.executable, "-c", ELSEWHERE, *arguments], check=True, cwd=tmp_path)
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_array_equal(found["sets"], predictor.predict_set(rows))
        assert sorted(found) == ["confidence", "label", "probabilities", "sets", "sizes"]


def test_what_cannot_be_saved(predictor, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        save_torch(predictor, tmp_path / "no" / "folder.pt2")
    with pytest.raises(InputError, match="dtype must be a floating type"):
        save_torch(predictor, tmp_path / "predictor.pt2", dtype="int64")
    assert list(tmp_path.iterdir()) == []

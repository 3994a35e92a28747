"""A predictor as a program: every score has a form, and u has the library's bits in every engine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engines import session
from exports import predictor_at
from law import generated
from parts import require
from thermoset import RAPS, SCORES, TwoTemperaturePredictor
from thermoset.arrays import pairs
from thermoset.errors import InputError
from thermoset.integrations.numpy import OPERATIONS, to_numpy
from thermoset.integrations.program import Program
from thermoset.integrations.program.operations import Operations, as_int64, rank_rows, u_of_rows
from thermoset.integrations.program.sets import band_of, threshold_constants
from thermoset.rows import gaps_of, sort_ascending
from thermoset.scores import PlainScore
from thermoset.uniforms import Randomness

LOGITS = generated(800, 5)


def test_every_score_of_the_registry_can_be_exported():
    assert all(score.exportable for score in SCORES.values())


def test_a_score_of_ones_own_cannot():
    class Mine(RAPS):
        """Looks like RAPS, and may compute anything."""

    class Plain(PlainScore):
        name, uses_u = "lac", False

        def pairs(self, rows):
            return -rows.gaps

    for score in (Mine(), Plain()):
        with pytest.raises(InputError, match="cannot be exported"):
            Program(predictor_at(1.0, *LOGITS, method=score))


def test_the_room_for_rounding_is_that_of_a_sum_of_shares_and_steps():
    # 4e-16 (C + 64)(1 + unit C): RAPS adds a penalty of .01 at each of 10 ranks
    assert band_of(SCORES["aps"], 10) == pytest.approx(4e-16 * 74)
    assert band_of(SCORES["raps"], 10) == pytest.approx(4e-16 * 74 * 1.1)


def test_scales_follow_the_tie_breaks_of_thresholds():
    value = np.array([0.9, 1.0, 1.0, np.inf])
    ties = np.array([2.0, 700.0, 1300.0, np.inf])
    exponents, found = threshold_constants(pairs(value, ties), SCORES["aps"], 4)
    assert exponents == (0.0, 500.0, 1000.0)
    assert np.array([found[f"here{k}"] for k in range(3)]).sum(axis=0).tolist() == [1, 1, 1, 1]
    assert found["infinite"].tolist() == [False, False, False, True]
    # each compares at least e**-500 at its own classes
    assert found["floor0"][0] == pytest.approx(np.exp(-2))
    assert found["floor1"][1] == pytest.approx(np.exp(-200))
    assert found["floor2"][2] == pytest.approx(np.exp(-300))


ROWS = st.integers(2, 7).flatmap(
    lambda c: arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.just(c)),
        elements=st.one_of(
            st.floats(-1e3, 1e3), st.just(-np.inf), st.sampled_from([0.0, -0.0, 1e-300, 1e300, -1e300, 0.5])
        ),
    )
)


def whole(rows):
    rows[np.isneginf(rows).all(axis=1), 0] = 0.0
    return rows


@given(ROWS)
def test_equal_logits_are_ranked_by_their_labels(rows):
    assert rank_rows(rows).labels.tolist() == np.argsort(-rows, axis=1, kind="stable").tolist()


def library_u(rows, seed):
    return Randomness(seed).block(gaps_of(sort_ascending(rows)))


@given(ROWS.map(whole), st.sampled_from([0, 1, 2**63, 2**64 - 1]))
def test_numpy_draws_the_bits_of_the_library(rows, seed):
    n_logits = min(4, rows.shape[1])
    largest = OPERATIONS.largest(rows, n_logits)
    found = u_of_rows(OPERATIONS, largest, n_logits, np.array([[as_int64(seed)]]))
    assert found[:, 0].tolist() == library_u(rows, seed).tolist()


def test_numpy_has_every_operation():
    asked = {name for name in vars(Operations) if not name.startswith("_")}
    assert set(vars(OPERATIONS)) == asked


def test_numpy_takes_ids_u_and_many_blocks_and_answers_nothing_for_rows_without_an_answer():
    logits, labels = generated(40_000, 5, seed=2)
    predictor = predictor_at(1.0, logits[:800], labels[:800], method="aps")
    answer, u = to_numpy(predictor.document_), np.linspace(0.0, 1.0, len(logits))
    ids = np.arange(len(logits))
    np.testing.assert_array_equal(answer(logits, ids=ids).sets, predictor.predict_set(logits, ids=ids))
    certain = answer(logits, u=np.zeros(len(logits)))  # the top label has no mass above it
    assert certain.sets[np.arange(len(logits)), certain.label].all()
    assert (answer(logits, u=u).sizes <= certain.sizes).all()
    assert [len(one) for one in answer(logits[:0])] == [0] * 5
    broken = np.array([[np.nan, 0, 0, 0, 0], [np.inf, 0, 0, 0, 0], [-np.inf] * 5])
    found = answer(broken)
    assert found.label.tolist() == [-1] * 3
    assert np.isnan(found.probabilities).all()
    assert not found.sets.any()
    with pytest.raises(InputError, match="logits"):
        answer(logits[:, :4])


@given(ROWS.map(whole), st.sampled_from([0, 1, 2**63, 2**64 - 1]))
def test_torch_draws_the_bits_of_the_library(rows, seed):
    torch = require("torch", "torch")
    from thermoset.integrations.torch.module import TensorOperations

    ops, n_logits = TensorOperations(), min(4, rows.shape[1])
    largest = ops.largest(torch.from_numpy(rows), n_logits)
    found = u_of_rows(ops, largest, n_logits, torch.tensor([[as_int64(seed)]]))
    assert found[:, 0].tolist() == library_u(rows, seed).tolist()


@pytest.mark.parametrize("n_classes", [2, 3, 4, 50])
@pytest.mark.parametrize("seed", [0, 2**63 + 5])
def test_a_graph_draws_the_bits_of_the_library(n_classes, seed):
    onnx = require("onnx", "onnx")
    from thermoset.integrations.onnx.graphs import TYPES, Graph, GraphOperations, Value

    graph = Graph({"seed": np.array([[seed]], dtype=np.uint64).view(np.int64)}, "")
    ops, n_logits = GraphOperations(graph, n_classes), min(4, n_classes)
    logits = Value(graph, "logits", "float64")
    graph.name(u_of_rows(ops, ops.largest(logits, n_logits), n_logits, graph["seed"]), "u")
    nodes, constants = graph.dependencies(["u"])
    sides = [onnx.helper.make_tensor_value_info(name, TYPES["float64"], ["n", None]) for name in ("logits", "u")]
    body = onnx.helper.make_graph(nodes, "draws", sides[:1], sides[1:], constants)
    model = onnx.helper.make_model(body, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    rng = np.random.default_rng(n_classes)
    rows = rng.normal(size=(5000, n_classes)) * 10.0 ** rng.integers(-3, 12, size=(5000, 1))
    rows[rng.random(rows.shape) < 0.2] = -np.inf
    rows = whole(np.where(rng.random(rows.shape) < 0.1, 0.0, rows))
    (found,) = session(model).run(["u"], {"logits": rows})
    np.testing.assert_array_equal(found[:, 0], library_u(rows, seed))


def test_only_what_draws_has_a_seed():
    assert Program(predictor_at(1.0, *LOGITS, method="aps")).draws
    for recipe in ({"method": "lac"}, {"method": "aps", "randomized": False}):
        program = Program(predictor_at(1.0, *LOGITS, **recipe))
        assert not program.draws
        assert "seed" not in program.constants


def test_what_is_no_fitted_predictor_is_refused():
    with pytest.raises(InputError, match="Call fit first"):
        Program(TwoTemperaturePredictor())
    with pytest.raises(InputError, match="a fitted TwoTemperaturePredictor can be exported; got str"):
        Program("predictor.json")

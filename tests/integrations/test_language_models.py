"""Responses of language-model servers, pipelines and classifiers behind servers, and multiple choice.

The responses are made here, in exactly the shapes that the named programs write; of these only the pipeline runs.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import thermoset as ts
from helpers_io import both_refuse, read_blocks
from law import law
from parts import require
from thermoset.data.top_k import TopLogits
from thermoset.errors import FileFormatError, InputError, SuspiciousRowsWarning
from thermoset.integrations.language_models import from_classify, from_pipeline, read_logprobs
from thermoset.io import load, open_blocks

TOKENS = [(" A", -0.5), ("a", -2.0), ("B", -3.0), ("The", -4.0), (" C", -5.0)]
LETTERS = ["A", "B", "C", "D"]


def refusal(read, *given, said=None, **options):
    """The error, which is one line."""
    with pytest.raises(InputError, match=said) as error:
        read(*given, **options)
    assert "\n" not in str(error.value)
    return error.value


def chat(tokens, chosen=None, model="m", before=()):
    """OpenAI's chat completions; vLLM, llama.cpp's server and litellm write the same."""
    top = [{"token": text, "logprob": value, "bytes": [*text.encode()]} for text, value in tokens]
    first = {"token": chosen or tokens[0][0], "logprob": tokens[0][1], "bytes": None, "top_logprobs": top}
    content = [{"token": text, "logprob": 0.0, "bytes": None, "top_logprobs": []} for text in before] + [first]
    message = {"role": "assistant", "content": chosen or tokens[0][0]}
    logprobs = {"content": content, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}


def completion(tokens):
    """OpenAI's completions, and those of vLLM's server."""
    top = dict(tokens)
    logprobs = {"tokens": [tokens[0][0]], "token_logprobs": [tokens[0][1]], "top_logprobs": [top], "text_offset": [0]}
    choice = {"index": 0, "text": tokens[0][0], "logprobs": logprobs, "finish_reason": "length"}
    return {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}


def llama_cpp(tokens):
    """`/completion` of llama.cpp's server with `n_probs`."""
    top = [{"id": i, "token": text, "bytes": [], "logprob": value} for i, (text, value) in enumerate(tokens)]
    return {"content": tokens[0][0], "model": "m", "completion_probabilities": [{**top[0], "top_logprobs": top}]}


def old_llama_cpp(tokens):
    probs = [{"tok_str": text, "prob": float(np.exp(value))} for text, value in tokens]
    answer = tokens[0][0]
    return {"content": answer, "model": "m", "completion_probabilities": [{"content": answer, "probs": probs}]}


def vllm_output(tokens):
    """`RequestOutput` of vLLM in Python."""
    first = {7 * i: SimpleNamespace(logprob=v, rank=i + 1, decoded_token=t) for i, (t, v) in enumerate(tokens)}
    return SimpleNamespace(request_id="0", outputs=[SimpleNamespace(index=0, text=tokens[0][0], logprobs=[first])])


def as_objects(held):
    """What client libraries make of JSON: attributes in place of keys."""
    if isinstance(held, dict):
        return SimpleNamespace(**{name: as_objects(value) for name, value in held.items()})
    return [*map(as_objects, held)] if isinstance(held, list) else held


def batch_line(tokens):
    body = {"status_code": 200, "request_id": "r", "body": chat(tokens)}
    return json.dumps({"id": "b", "custom_id": "row-0", "response": body, "error": None})


SHAPES = {
    "chat": chat,
    "chat objects": lambda tokens: as_objects(chat(tokens)),
    "chat text": lambda tokens: json.dumps(chat(tokens)),
    "completions": completion,
    "llama.cpp": llama_cpp,
    "old llama.cpp": old_llama_cpp,
    "vLLM": vllm_output,
    "batch file": batch_line,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_shape_gives_the_same_numbers(shape):
    found = read_logprobs([shape(TOKENS)], LETTERS)
    # A: log(e**-.5 + e**-2); D: e**-5 is the last that came, and more than that is left
    expected = [np.log(np.exp(-0.5) + np.exp(-2.0)), -3.0, -5.0, -5.0]
    np.testing.assert_allclose(found.logprobs[0], expected, rtol=1e-14)
    assert found.returned.tolist() == [[True, True, True, False]]
    assert found.answered.tolist() == [True]


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_files(tmp_path, suffix):
    responses = [chat(TOKENS), chat([*reversed(TOKENS)])]
    path = tmp_path / f"responses{suffix}"
    path.write_text("\n".join(map(json.dumps, responses)) if suffix == ".jsonl" else json.dumps(responses))
    rows = ts.Logits.from_logprobs(path, LETTERS, labels=["A", "C"])
    assert rows == ts.Logits.from_logprobs(responses, LETTERS, labels=[0, 2])
    assert rows.classes == tuple(LETTERS)
    with pytest.raises(FileFormatError):
        read_logprobs(tmp_path / "none.jsonl", LETTERS)


@pytest.mark.parametrize(
    ("options", "tokens", "option"),
    [
        (["positive", "negative"], ["pos", " Pos", "positive", "\u2581POS"], 0),
        (["positive", "party"], ["pos", "posit"], 0),
        (["positive", "party"], ["p", "\n", "positively", "x"], None),
        (["A", "a"], [" a", "a"], 1),  # only their case tells them apart
        (["(A)", "(B)"], ["(B", "B", " B)", "**B**"], 1),
        (["no", "not sure"], ["no", "No."], 0),
        (["0", "1", "10"], ["10"], 2),
    ],
)
def test_which_option_a_token_is(options, tokens, option):
    for token in tokens:
        if token.strip():
            place = [(token, -0.25), ("?!", -1.0)]
            with pytest.warns(SuspiciousRowsWarning) if option is None else pytest.MonkeyPatch.context():
                found = read_logprobs([chat(place)], options)
            assert found.returned[0].nonzero()[0].tolist() == ([] if option is None else [option]), token


def test_an_option_that_is_missing_is_at_most_what_is_left():
    # .9 and .09 leave .01, less than the last token has
    found = read_logprobs([chat([("A", np.log(0.9)), ("B", np.log(0.09))])], ["A", "B", "C"])
    assert np.exp(found.logprobs[0, 2]) == pytest.approx(0.01, abs=1e-6)
    found = read_logprobs([chat([("A", np.log(0.9))])], ["A", "B"])  # top_logprobs=1
    assert np.exp(found.logprobs[0, 1]) == pytest.approx(0.1, abs=1e-6)


def test_a_sampled_token_bounds_nothing():
    """vLLM and OpenAI's completions list it beside the k likeliest ones."""
    tokens = [("A", np.log(0.5)), ("B", np.log(0.3)), ("zebra", np.log(1e-6))]
    with pytest.warns(SuspiciousRowsWarning):
        found = read_logprobs([chat(tokens, chosen="zebra")], ["A", "B", "C"])
    assert np.exp(found.logprobs[0, 2]) == pytest.approx(0.2, abs=1e-5)  # what is left: less than .3


def test_blank_tokens_come_before_the_answer():
    assert read_logprobs([chat(TOKENS, before=("\n", " "))], LETTERS).returned[0].tolist() == [True, True, True, False]


def test_answers_that_are_no_option_are_counted():
    other = [("I", -0.1), ("A", -3.0)]
    with pytest.warns(SuspiciousRowsWarning, match="2 of 3"):
        found = read_logprobs([chat(TOKENS), chat(other), chat(other)], LETTERS)
    assert found.answered.tolist() == [True, False, False]


BAD = {
    "no logprobs": {**chat(TOKENS), "choices": [{"message": {"content": "A"}, "logprobs": None}]},
    "no top logprobs": chat([("A", -0.1)])
    | {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1}]}}]},
    "no choices": {**chat(TOKENS), "choices": []},
    "cut off": json.dumps(chat(TOKENS))[:-9],
    "an error": {"error": {"message": "rate limit"}},
    "vLLM's error": {"object": "error", "message": "too long", "code": 400},
    "a batch file's error": {"custom_id": "1", "response": None, "error": {"code": "expired"}},
    "not a response": "[]",
    "choices that are no list": {**chat(TOKENS), "choices": 5},
    "a number that is none": chat([("A", "x")]),
    "a probability above 1": chat([("A", 0.5)]),
    "an empty answer": chat([(" ", -0.1)]),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_bad_responses_are_counted_in_one_line(bad):
    error = refusal(read_logprobs, [chat(TOKENS), bad, chat(TOKENS), bad], LETTERS, said="2 of 4")
    assert (error.name, error.row) == ("responses", 1)


def test_responses_of_several_models_are_refused():
    responses = [chat(TOKENS), chat(TOKENS, model="other")]
    assert refusal(read_logprobs, responses, LETTERS, said="2 models").name == "responses"


@pytest.mark.parametrize(
    ("responses", "options", "name"),
    [
        ([], LETTERS, "responses"),
        (chat(TOKENS), LETTERS, "responses"),
        (7, LETTERS, "responses"),
        ([chat(TOKENS)], "ABCD", "options"),
        ([chat(TOKENS)], ["A"], "options"),
        ([chat(TOKENS)], ["A", "A"], "options"),
        ([chat(TOKENS)], ["A", " "], "options"),
        ([chat(TOKENS)], [0, 1], "options"),
        ([chat(TOKENS)], None, "options"),
    ],
)
def test_bad_arguments(responses, options, name):
    assert refusal(read_logprobs, responses, options).name == name


# ---- a model whose whole distribution is known -----------------------------------------------------------------------

OPTIONS = [f"option{i}" for i in "ABCDEF"]


def answers(rng, n, top=5):
    """Responses of a made model with 30 tokens, the whole distribution, and the right options."""
    labels = rng.integers(len(OPTIONS), size=n)
    logits = rng.normal(size=(n, 30)) * 1.5
    logits[np.arange(n), labels] += rng.exponential(3.0, size=n)
    logprobs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    texts = [*OPTIONS, *(f"word{i}" for i in range(24))]
    order = np.argsort(-logprobs, axis=1)[:, :top]
    return (
        [chat([(texts[j], float(row[j])) for j in some]) for row, some in zip(logprobs, order, strict=True)],
        logprobs,
        labels,
    )


@pytest.mark.filterwarnings("ignore::thermoset.errors.SuspiciousRowsWarning")
def test_bounds_are_bounds():
    responses, logprobs, _ = answers(np.random.default_rng(1), 300)
    found = read_logprobs(responses, OPTIONS)
    truth = logprobs[:, : len(OPTIONS)]
    np.testing.assert_allclose(found.logprobs[found.returned], truth[found.returned], rtol=1e-12)
    assert not found.returned.all()
    assert (found.logprobs >= truth - 1e-12).all()


@pytest.mark.filterwarnings("ignore::thermoset.errors.SuspiciousRowsWarning")
@pytest.mark.parametrize("method", ["lac", "aps"])
def test_sets_from_truncated_responses_follow_the_exact_law(method):
    rng, splits, n_cp = np.random.default_rng(2), 40, 199
    responses, _, labels = answers(rng, 800, top=4)
    rows = ts.Logits.from_logprobs(responses, OPTIONS, labels=labels)
    hits = 0
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(rows))
        known, fresh = rows.take(order[:n_cp]), rows.take(order[n_cp:])
        made = ts.ConformalClassifier(method, alpha="0.1").fit(known, ids=order[:n_cp])  # rows without an option tie
        hits += made.predict_set(fresh, ids=order[n_cp:])[np.arange(len(fresh)), fresh.labels].sum()
    mean, variance = law(n_cp, len(rows) - n_cp, "0.1")
    assert abs(hits - splits * mean) < 5 * np.sqrt(splits * variance)


@pytest.mark.filterwarnings("ignore::thermoset.errors.SuspiciousRowsWarning")
def test_undecided_rows_hold_options_that_did_not_come():
    found = read_logprobs([chat(TOKENS), chat(TOKENS[:2])], LETTERS)
    sets = np.array([[True, True, False, False], [True, False, True, False]])
    assert found.undecided(sets).tolist() == [False, True]
    assert refusal(found.undecided, sets[:, :2]).name == "sets"


# ---- pipelines and classifiers behind servers ------------------------------------------------------------------------


def pipeline(probs, names, top=None):
    """What a Hugging Face text or image classification pipeline returns: scores falling."""
    return [[{"label": names[j], "score": float(row[j])} for j in np.argsort(-row)[:top]] for row in probs]


NAMES = ["ant", "bee", "cow", "dog", "eel", "fox", "gnu", "hen"]


def probabilities(n=400):
    rng = np.random.default_rng(3)
    labels = rng.integers(len(NAMES), size=n)
    logits = rng.normal(size=(n, len(NAMES))) + 3 * np.eye(len(NAMES))[labels]
    return np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)), labels


def test_a_whole_pipeline_is_its_probabilities():
    probs, labels = probabilities()
    rows = from_pipeline(pipeline(probs, NAMES), labels=[NAMES[label] for label in labels])
    assert rows == ts.Logits.from_probabilities(probs, labels, NAMES)
    order = from_pipeline(pipeline(probs, NAMES), classes=NAMES[::-1])
    np.testing.assert_array_equal(order.logits, np.log(probs)[:, ::-1])


def test_a_cut_pipeline_gives_sets_that_hold_those_of_whole_rows():
    probs, labels = probabilities()
    whole = ts.Logits.from_probabilities(probs, labels, NAMES)
    cut = from_pipeline(pipeline(probs, NAMES, top=5), labels=labels, classes=NAMES)
    assert isinstance(cut, TopLogits)
    how = ts.ConformalClassifier("lac", alpha=0.05)
    exact = how.fit(whole.take(slice(0, 200))).predict_set(whole.take(slice(200, None)))
    made = ts.ConformalClassifier("lac", alpha=0.05).fit(cut.take(slice(0, 200)))
    assert (made.predict_set(cut.take(slice(200, None))) >= exact).all()


def test_a_pipeline_of_logits():
    """With function_to_apply="none" scores are logits."""
    rows = from_pipeline([[{"label": "no", "score": -2.5}, {"label": "yes", "score": 1.5}]])
    assert rows.logits.tolist() == [[-2.5, 1.5]]
    assert rows.input_kind == "logits"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # those of transformers
def test_a_real_pipeline():
    """A tiny network with random weights, behind the real `transformers.pipeline`."""
    torch, hugging = require("torch", "torch"), require("transformers", "frameworks")
    tokenizers = require("tokenizers", "frameworks")
    words = {"[UNK]": 0, "[PAD]": 1, "good": 2, "bad": 3}
    tokenizer = hugging.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]")),
        pad_token="[PAD]",  # noqa: S106 - no password
    )
    torch.manual_seed(0)
    config = hugging.DistilBertConfig(vocab_size=4, dim=8, n_layers=1, n_heads=1, hidden_dim=8, num_labels=5)
    model = hugging.DistilBertForSequenceClassification(config).eval()
    ask = hugging.pipeline("text-classification", model=model, tokenizer=tokenizer)
    texts = ["good", "bad", "neither"]
    with torch.no_grad():
        logits = [model(torch.tensor([[words.get(text, 0)]])).logits[0] for text in texts]
    names = list(model.config.id2label.values())
    whole = from_pipeline(ask(texts, top_k=None), classes=names)
    np.testing.assert_allclose(np.exp(whole.logits), torch.softmax(torch.stack(logits), 1), atol=1e-6)
    assert isinstance(from_pipeline(ask(texts, top_k=4), classes=names), TopLogits)
    raw = from_pipeline(ask(texts, top_k=None, function_to_apply="none"), classes=names)
    np.testing.assert_allclose(raw.logits, torch.stack(logits), atol=1e-6)


@pytest.mark.parametrize(
    ("outputs", "classes"),
    [
        ([], None),
        ([[]], None),
        (["positive"], None),
        ([[{"label": "a"}]], None),
        ([[{"label": "a", "score": 1.0}]], ["a", "b"]),  # one of two: top_k=1
        ([[{"label": "a", "score": 0.5}, {"label": "c", "score": 0.5}]], ["a", "b"]),
        ([[{"label": "a", "score": 0.5}, {"label": "a", "score": 0.5}]], ["a", "b"]),
        ([[{"label": "a", "score": 0.6}, {"label": "b", "score": 0.4}], [{"label": "a", "score": 1.0}]], None),
    ],
)
def test_bad_pipeline_outputs(outputs, classes):
    assert refusal(from_pipeline, outputs, classes=classes).name == "outputs"


def classify(probs, model="m"):
    """`/classify` of vLLM's server."""
    data = [
        {"index": i, "label": NAMES[int(np.argmax(p))], "probs": p.tolist(), "num_classes": len(p)}
        for i, p in enumerate(probs)
    ]
    return {"id": "classify-1", "object": "list", "created": 1, "model": model, "data": data[::-1], "usage": {}}


def test_classify_responses():
    probs, labels = probabilities()
    rows = from_classify([classify(probs[:100]), classify(probs[100:])], labels, NAMES)
    assert rows == ts.Logits.from_probabilities(probs, labels, NAMES)
    assert from_classify([as_objects(classify(probs))], labels, NAMES) == rows


def test_bad_classify_responses():
    probs, _ = probabilities()
    for bad in ({"object": "error", "message": "no"}, {"data": []}, "{"):
        assert refusal(from_classify, [classify(probs), bad], said="1 of 2").name == "responses"
    fewer = classify(probs[:, :3] / probs[:, :3].sum(axis=1, keepdims=True))
    for other in (classify(probs, model="other"), fewer):
        assert refusal(from_classify, [classify(probs), other]).name == "responses"


# ---- multiple choice -------------------------------------------------------------------------------------------------


def test_options_that_a_row_lacks_are_masked():
    quiz = ts.Logits.from_choices([[-4.0, -2.0, -3.0], [-1.0], [-1.0, -5.0]], labels=[1, 0, 1])
    assert quiz.logits.tolist() == [[-4, -2, -3], [-1, -np.inf, -np.inf], [-1, -5, -np.inf]]
    assert quiz.classes == ("A", "B", "C")
    assert quiz.labels.tolist() == [1, 0, 1]
    assert quiz.n_masked == 3


def test_what_options_may_come_in():
    array = np.array([[-4.0, -2.0], [-1.0, -3.0]])
    tensors = [require("torch", "torch").tensor(row) for row in array]
    for rows in (array, iter(array), [tuple(array[0]), array[1].astype(np.float32)], tensors):
        assert ts.Logits.from_choices(rows) == ts.Logits.from_choices(array.tolist())


def test_lengths_columns_and_names():
    # -6 / 3 = -2, -4 / 1 = -4, -9 / 2 = -4.5
    quiz = ts.Logits.from_choices([[-6.0, -4.0], [-9.0]], lengths=[[3, 1], [2]])
    assert quiz.logits.tolist() == [[-2, -4], [-4.5, -np.inf]]
    quiz = ts.Logits.from_choices([[-1.0, -2.0]], labels=["no"], n_options=3, classes=["yes", "no", "perhaps"])
    assert quiz.logits.tolist() == [[-1, -2, -np.inf]]
    assert quiz.labels.tolist() == [1]
    assert ts.Logits.from_choices(np.zeros((1, 27))).classes is None


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([], {}, "loglikelihoods is empty"),
        (3.5, {}, "got 3.5"),
        ([[-1.0], []], {}, r"loglikelihoods\[1\] is empty"),
        ([[-1.0], [-2.0]], {}, "at least 2 classes"),
        ([-1.0, -2.0], {}, r"loglikelihoods\[0\] is -1.0"),
        ([["-1.0", "-2.0"]], {}, r"loglikelihoods\[0\] is \['-1.0', '-2.0'\]"),
        (["ab"], {}, r"loglikelihoods\[0\] is 'ab'"),
        ([[True, False]], {}, "expected a list of numbers"),
        ([[[-1.0], [-2.0]]], {}, "expected a list of numbers"),
        ([[-1.0, [-2.0]]], {}, "expected a list of numbers"),
        ([[-1.0, float("nan")]], {}, r"logits\[0, 1\] is NaN"),
        ([[-np.inf, -np.inf]], {}, "is -inf for every class"),
        ([[-1.0, -2.0], [-1.0]], {"labels": [0, 1]}, r"labels\[1\] is 1, .* 1 option"),
        ([[-1.0, -2.0]], {"labels": [2]}, r"labels\[0\] is 2"),
        ([[-1.0, -2.0, -3.0]], {"n_options": 2}, "row 0 has 3 options"),
        ([[-1.0, -2.0]], {"n_options": 2.5}, "n_options must be a whole number"),
        ([[-1.0, -2.0]], {"n_options": 10**9}, "from 2 to 10,000,000"),
        ([[-1.0, -2.0]], {"lengths": [[1]]}, "one number for each log-likelihood"),
        ([[-1.0, -2.0]], {"lengths": [[1, 0]]}, r"lengths\[0\] holds 0.0"),
        ([[-1.0, -2.0]], {"lengths": [[np.inf, 1]]}, r"lengths\[0\] holds inf"),
    ],
)
def test_bad_options_are_refused_in_one_line(rows, options, said):
    refusal(ts.Logits.from_choices, rows, said=said, **options)


@pytest.mark.slow
def test_padding_changes_no_probability_and_no_set_has_a_padded_option():
    """Softmax over the options a row has: a masked class takes nothing and is never in a set."""
    rng = np.random.default_rng(0)
    counts = rng.integers(2, 6, size=3000)
    rows = [rng.normal(size=n) * 2 for n in counts]
    labels = [int((row + rng.gumbel(size=len(row))).argmax()) for row in rows]
    quiz = ts.Logits.from_choices(rows, labels)
    for method in ("lac", "aps", "raps", "saps"):
        predictor = ts.TwoTemperaturePredictor(method, alpha=0.2).fit(quiz)
        probs = predictor.predict_proba(quiz)
        for row in range(0, 3000, 500):
            scaled = np.exp(rows[row] / predictor.temperature_)
            assert probs[row, : counts[row]] == pytest.approx(scaled / scaled.sum(), abs=1e-12)
            assert not probs[row, counts[row] :].any()
        assert not (predictor.predict_set(quiz) & np.isneginf(quiz.logits)).any()


# ---- samples of lm-eval ----------------------------------------------------------------------------------------------


def sample(scores, target, *, as_text=True, options=("A", "B", "C", "D", "E"), doc_id=0, **more):
    """A record as EvaluationTracker of lm-eval 0.4 writes it; older releases kept numbers, pairs and integers."""
    write = str if as_text else lambda value: value
    options = options[: len(scores)]
    pairs = [[write(score), write(score == max(scores))] for score in scores]
    asked = [["Q: Which?\nA:", " " + option] for option in options]
    named = {f"gen_args_{i}": {"arg_0": question, "arg_1": text} for i, (question, text) in enumerate(asked)}
    return {
        "doc_id": doc_id,
        "doc": {"question": "Which?", "choices": options},
        "target": write(target),
        "arguments": named if as_text else asked,
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": "0" * 64,
        "acc": float(int(np.argmax(scores)) == target),
        "acc_norm": 0.0,
    } | more


def write_samples(tmp_path, *found):
    path = tmp_path / "samples_arc_challenge_2024-05-06T07-08-09.jsonl"
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found), encoding="utf-8")
    return path


@pytest.mark.parametrize("as_text", [True, False])
def test_samples_of_multiple_choice(tmp_path, as_text):
    questions = [([-4.1, -2.0, -3.3, -7.25], 1), ([-1.5, -0.5, -3.0], 0), ([-9.0, -8.0, -7.0, -6.0, -5.0], 4)]
    path = write_samples(tmp_path, *(sample(s, t, as_text=as_text, doc_id=i) for i, (s, t) in enumerate(questions)))
    val = load(path)
    assert val == ts.Logits.from_choices([s for s, _ in questions], [t for _, t in questions])
    assert val.classes == ("A", "B", "C", "D", "E")
    with open_blocks(path, block_bytes=80, id_column="doc_id") as blocks:
        assert (blocks.n_classes, blocks.classes) == (5, val.classes)
        found = list(blocks.with_ids())
    assert np.array_equal(np.concatenate([block.logits for block, _ in found]), val.logits)
    assert [one for _, ids in found for one in ids] == [0, 1, 2]


def test_columns_for_more_options_than_the_file_has(tmp_path):
    path = write_samples(tmp_path, sample([-1.0, -2.0], 0), sample([-3.0], 0))
    val = load(path, n_options=4)
    assert val.logits.tolist() == [[-1, -2, -np.inf, -np.inf], [-3, -np.inf, -np.inf, -np.inf]]
    assert np.array_equal(read_blocks(path, n_options=4), val.logits)
    path = write_samples(tmp_path, sample([-1.0, -2.0, -3.0], 0))
    both_refuse(path, "row 0 has 3 options", n_options=2)
    for read in (load, read_blocks):
        refusal(read, path, n_options=1, said="n_options must be a whole number")
    path = write_samples(tmp_path, sample([-1.0], 0), sample([-2.0], 0))
    both_refuse(path, "at least 2 classes", InputError)


def test_targets_by_their_text(tmp_path):
    path = write_samples(tmp_path, sample([-1.0, -2.0], "yes", options=("no", "yes")), sample([-2.0, -1.0], 0))
    assert load(path).labels.tolist() == [1, 0]
    for target, options, said in (
        ("perhaps", ("no", "yes"), "is the text of 0 options"),
        ("end", ("end", "end"), "is the text of 2 options"),  # the choices are in the contexts, as in winogrande
        ("[0, 1]", ("no", "yes"), "several right options"),
        (7, ("no", "yes"), "'7' .* 2 options"),
        ("9" * 400, ("no", "yes"), "'999.* 2 options"),  # more than a float holds
        (-1, ("no", "yes"), "'-1' .* 2 options"),
    ):
        path = write_samples(tmp_path, sample([-1.0, -2.0], 0), sample([-1.0, -2.0], target, options=options))
        with pytest.raises(FileFormatError, match=f"record 1: target .*{said}"):
            load(path)
        np.save(tmp_path / "gold.npy", [0, 1])
        assert load(path, labels=tmp_path / "gold.npy").labels.tolist() == [0, 1]
        assert len(read_blocks(path)) == 2


def test_a_target_that_contradicts_the_accuracy_is_refused(tmp_path):
    """Options that are numbers: is "2" the third, or the one called 2? The accuracy knows."""
    path = write_samples(tmp_path, sample([-3.0, -1.0, -2.0], "2", options=("1", "2", "3"), acc=1.0))
    with pytest.raises(FileFormatError, match="option 2, which contradicts acc"):
        load(path)


def test_options_scored_twice_for_mutual_information(tmp_path):
    scores = [-1.0, -2.0, -5.0, -6.0]
    found = sample(scores, 0, metrics=["acc", "acc_mutual_info"], acc_mutual_info=1.0)
    assert load(write_samples(tmp_path, found)) == ts.Logits.from_choices([scores[:2]], [0])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"filtered_resps": ["some text"]}, "filtered_resps is .*Only samples of multiple-choice"),
        ({"filtered_resps": []}, "filtered_resps is"),
        ({"filtered_resps": None}, "filtered_resps is"),
        ({"filtered_resps": [["-1.0", "maybe"]]}, "filtered_resps is"),
        ({"filtered_resps": [["x", "True"], ["-1", "False"]]}, "a log-likelihood is 'x'"),
        ({"filtered_resps": [[None, "True"], ["-1", "False"]]}, "a log-likelihood is None"),
        ({"filtered_resps": [["9" * 5000, "True"], ["-1", "False"]]}, r"logits\[1, 0\] is \+inf"),
        ({"filtered_resps": [[10**400, "True"], ["-1", "False"]]}, "a log-likelihood is 1000"),
        ({"filtered_resps": [["nan", "True"], ["-1", "False"]]}, r"logits\[1, 0\] is NaN"),
        ({"filter": "flexible"}, "two filters, 'flexible' and 'none'"),
    ],
)
def test_samples_that_cannot_be_used(tmp_path, found, said):
    path = write_samples(tmp_path, sample([-1.0, -2.0], 0), sample([-1.0, -2.0], 0, acc=None) | found)
    both_refuse(path, said, InputError)


@pytest.mark.parametrize("target", [None, True, 1.5, [0], {"a": 1}])
def test_targets_of_odd_types(tmp_path, target):
    path = write_samples(tmp_path, sample([-1.0, -2.0], 0) | {"target": target})
    with pytest.raises(FileFormatError, match=r"record 0: target is .*expected the position"):
        load(path)

"""Multiple choice from lm-eval's samples to sets: `python -m examples.multiple_choice [--out FOLDER]`."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import thermoset as ts
from examples.multiple_choice.model import Characters
from examples.multiple_choice.questions import MOST_OPTIONS, Question, first_sentences, questions
from examples.text.docstrings import docstrings
from thermoset.data import split_indices

ALPHA = 0.1


def sample(model: Characters, number: int, question: Question) -> dict[str, Any]:
    """The record that lm-eval writes of a question with `--log_samples`."""
    scores = [model.log_likelihood(question.beginning, f" {option}") for option in question.options]
    best = max(scores)
    pairs = [[str(score), str(score == best)] for score in scores]
    return {
        "doc_id": number,
        "doc": {"beginning": question.beginning, "options": question.options, "gold": question.gold},
        "target": str(question.gold),
        "arguments": {
            f"gen_args_{i}": {"arg_0": question.beginning, "arg_1": f" {option}"}
            for i, option in enumerate(question.options)
        },
        "resps": [[pair] for pair in pairs],
        "filtered_resps": pairs,
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1.0 if scores.index(best) == question.gold else 0.0,
    }


def write_samples(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """One record in each line."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def main(arguments: list[str] | None = None) -> ts.TwoTemperaturePredictor:
    """Score the options of questions, write both halves as samples, fit on one and check on the other."""
    parser = argparse.ArgumentParser(prog="python -m examples.multiple_choice", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("multiple-choice-output"), help="output folder")
    out = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    texts = [one.text for one in docstrings()]
    learn, ask = split_indices(len(texts), 0.35, random_state=0)
    model = Characters().fit(texts[row] for row in learn)
    asked = questions(first_sentences([texts[row] for row in ask]))
    fit, fresh = split_indices(len(asked), 0.6, random_state=0)
    for name, rows in (("fit", fit), ("fresh", fresh)):
        write_samples(out / f"samples_{name}.jsonl", (sample(model, int(row), asked[row]) for row in rows))

    predictor = ts.TwoTemperaturePredictor("aps", alpha=ALPHA, prefer="small").fit(ts.load(out / "samples_fit.jsonl"))
    predictor.save(out / "predictor.json")
    new = ts.load(out / "samples_fresh.jsonl", n_options=predictor.document_.n_classes)
    report = predictor.check(new)
    print(f"{len(fit)} questions to fit on, {report.rows} fresh ones; 2 to {MOST_OPTIONS} options each")
    print(f"accuracy {report.calibration.accuracy:.3f}, T* {predictor.temperature_:.2f}")
    print(f"coverage {report.marginal.coverage:.3f} (promised {1 - ALPHA}), {report.avg_size:.2f} options per set\n")
    for row, answer in zip(fresh[:3], predictor.predict_records(new.take(slice(3))), strict=True):
        print(f"{asked[row].beginning} ...")
        for letter, option in zip(new.classes or (), asked[row].options, strict=False):
            mark = "*" if letter in answer.set else " "
            print(
                f"  {mark} {letter}. {option}{'  <- correct' if asked[row].options[asked[row].gold] == option else ''}"
            )
        print(f"  best guess {answer.label}, confidence {answer.confidence:.2f}")
    print(f"\nwrote {out / 'predictor.json'}")
    return predictor


if __name__ == "__main__":
    main()

"""`study.json`: every number and setting of a study."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from thermoset._version import __version__
from thermoset.levels import exact_level
from thermoset.paper.study.claims import Claim
from thermoset.paper.study.own_temperatures import Way
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.row_by_row import LowTemperatures, SizeDifferences
from thermoset.sweeping import Sweep, median_of_means, standard_error

__all__ = ["study_json"]

_POINTS = 201  # of a curve over rows


def study_json(studies: Sequence[PairStudy], together: Sequence[Claim], skipped: dict[str, str]) -> str:
    """The document, with null for what is not a finite number."""
    whole = {
        "thermoset": __version__,
        "settings": asdict(studies[0].settings),
        "claims_on_all_files": [asdict(claim) for claim in together],
        "files": [_pair(study) for study in studies],
        "skipped": skipped,
    }
    return json.dumps(_plain(whole), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _pair(study: PairStudy) -> dict[str, Any]:
    found = study.measured
    return {
        "file": study.name,
        "pair": None if study.pair is None else asdict(study.pair),
        "rows": study.n_rows,
        "classes": study.n_classes,
        "accuracy": {"top1": found.top1, "top5": found.top5},
        "temperature": {
            "ece": found.ece,
            "nll": found.nll,
            "of_published_mode": found.printed_temperature,
            "trials_ece": found.trial_ece,
            "trials_nll": found.trial_nll,
        },
        "agreement": [asdict(one) for one in study.agreement],
        "reliability": dict(zip(("T = 1", "T*"), map(asdict, found.reliability), strict=True)),
        "claims": [asdict(claim) for claim in study.claims],
        "cells": [asdict(cell) for cell in study.cells],
        "comparison": [asdict(cell) for cell in study.comparison.cells],
        "chosen_temperatures": {", ".join(name): chosen for name, chosen in study.comparison.temperatures.items()},
        "chosen_sets": {
            ", ".join(name): [_way(way) for way in rule.ways] for rule in study.comparison.rules for name in rule.names
        },
        "curves": {f"cp_{cp}": _curves(curves) for cp, curves in found.curves.items()},
        "single_trials": _runs(study.comparison.single_trials),
        "size_differences": [_differences(one) for one in study.differences],
        "low_temperatures": _low(study.low),
        "quantile_samples": asdict(study.quantiles),
        "margin_bounds": asdict(study.bounds),
        "statements": [asdict(one) for one in study.statements],
        "infinite_mondrian_thresholds": study.comparison.infinite,
    }


def _way(way: Way) -> dict[str, Any]:
    """What a rule that chooses one score and level chose."""
    (score,), (level,) = way.scores, way.levels
    return {"score": repr(score), "temperature": way.temperature, "alpha": float(exact_level(level))}


def _curves(curves: Sweep) -> dict[str, Any]:
    return {
        "axes": ["method", "temperature", "alpha", "metric"],
        "methods": curves.methods,
        "temperatures": curves.temperatures,
        "alphas": curves.alphas,
        "metrics": curves.metrics,
        "trials": curves.trials,
        "mean": curves.trial_values.mean(axis=-1),
        "standard_error": standard_error(curves.trial_values),
        "median_of_means": median_of_means(curves.trial_values),
    }


def _runs(curves: Sweep) -> dict[str, Any]:
    """The first three trials, value by value."""
    return {
        "axes": ["method", "temperature", "alpha", "metric", "run"],
        "methods": curves.methods,
        "temperatures": curves.temperatures,
        "metrics": curves.metrics,
        "values": curves.trial_values[..., :3],
    }


def _low(low: LowTemperatures) -> dict[str, Any]:
    naive = {
        kind: {
            metric: {"mean": values.mean(axis=-1), "standard_error": standard_error(values)}
            for metric, values in metrics.items()
        }
        for kind, metrics in low.naive.items()
    }
    return {"rows": low.n_rows, "thermoset": _curves(low.ours), "naive": naive}


def _differences(one: SizeDifferences) -> dict[str, Any]:
    places = np.linspace(0, len(one.mean_sorted) - 1, _POINTS).round().astype(int)
    return {
        "method": one.method,
        "trials": one.trials,
        "grow": one.grow,
        "stay": one.stay,
        "shrink": one.shrink,
        "share_of_rows": places / len(one.mean_sorted),
        "mean_sorted": one.mean_sorted[places],
    }


def _plain(value: Any) -> Any:
    """The same in types that JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

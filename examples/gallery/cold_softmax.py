"""A softmax that saturates.

At low temperatures, probabilities round to 0 and 1, scores tie, and the usual way to compute sets no longer keeps
its promise: the sets contain everything. thermoset gives every score a second number that still tells rows apart,
and covers 90% at every temperature.
"""

import numpy as np
from scipy.special import softmax

import thermoset as ts
from thermoset.plots import COLOURS, figure

rng = np.random.default_rng(0)
labels = rng.integers(0, 50, size=4_000)
rows = ts.Logits(5 * (rng.normal(size=(4_000, 50)) + 3 * np.eye(50)[labels]), labels)
conformal, fresh = rows.split(2_000)


def plain_lac(temperature):
    """LAC as a textbook has it: 1 - probability, and the k-th smallest of the conformal rows' scores."""
    scores = 1 - softmax(conformal.logits / temperature, axis=1)[np.arange(2_000), conformal.labels]
    return 1 - softmax(fresh.logits / temperature, axis=1) <= np.sort(scores)[1_801 - 1]


def thermoset_lac(temperature):
    """The same with thermoset."""
    return ts.ConformalClassifier("lac", alpha=0.1, temperature=temperature).fit(conformal).predict_set(fresh)


temperatures = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0]
made, (ax,) = figure(1, panel=(7.5, 3.8))
for name, sets_at, colour in (("softmax in float64", plain_lac, COLOURS[1]), ("thermoset", thermoset_lac, COLOURS[0])):
    coverage = [ts.metrics.marginal_coverage(sets_at(T), fresh.labels) for T in temperatures]
    ax.semilogx(temperatures, coverage, marker="o", color=colour, label=name)
    print(f"{name}: coverage {coverage[1]:.3f} at T = 0.05, {coverage[-2]:.3f} at T = 1")
ax.axhline(0.9, color="#333333", linewidth=1, linestyle="--")
ax.set(xlabel="temperature", ylabel="coverage (promised: 0.9)")
ax.legend(frameon=False)
made.savefig("cold_softmax.png")

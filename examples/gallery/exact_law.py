"""Coverage follows an exact law.

The coverage of 500 predictors, each with its own random 200 conformal rows, beside the law that theory gives: a
Beta-Binomial distribution that depends on nothing but the numbers of rows and alpha. A predictor that covers less
than 85% is bad luck, not a defect; with more conformal rows it becomes rarer.
"""

import numpy as np

import thermoset as ts
from thermoset.plots import COLOURS, figure

rng = np.random.default_rng(0)
labels = rng.integers(0, 10, size=1_200)
rows = ts.Logits(3 * (rng.normal(size=(1_200, 10)) + 2 * np.eye(10)[labels]), labels)

seen = []
for seed in range(500):
    conformal, fresh = rows.split(200, random_state=seed)
    sets = ts.ConformalClassifier("aps", alpha=0.1).fit(conformal).predict_set(fresh)
    seen.append(int(sets[np.arange(1_000), fresh.labels].sum()))

law = ts.metrics.coverage_law(200, 1_000, alpha=0.1)
hits = np.arange(800, 981)
made, (ax,) = figure(1, panel=(7.5, 3.8))
ax.hist(np.array(seen) / 1_000, bins=np.arange(0.8, 0.98, 0.01) - 0.0005, color=COLOURS[0], label="500 predictors")
ax.plot(hits / 1_000, law.pmf(hits) * 500 * 10, color=COLOURS[1], linewidth=2, label="the law")
ax.set(xlabel="coverage of 1,000 fresh rows", ylabel="predictors")
ax.legend(frameon=False)
made.savefig("exact_law.png")
print(f"mean {np.mean(seen) / 1_000:.4f}, by the law {law.mean() / 1_000:.4f}")
print(f"standard deviation {np.std(seen) / 1_000:.4f}, by the law {law.std() / 1_000:.4f}")
print(f"below 0.85: {np.mean(np.array(seen) < 850):.1%}, by the law {law.cdf(849):.1%}")

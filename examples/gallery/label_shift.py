"""Hard classes become more frequent.

Ten classes, the later ones harder to tell apart. When the predictor was tuned all were equally frequent; now the
hard ones come more often, and coverage falls. `shifted` estimates the new class shares from rows without labels and
makes a predictor for them: coverage returns to 90%, and accuracy rises, because the probabilities know the new
shares.
"""

import numpy as np

import thermoset as ts
from thermoset.plots import COLOURS, figure

rng = np.random.default_rng(0)
signal = np.linspace(4.0, 1.5, 10)


def rows(n, shares):
    """Rows whose classes have these shares; the logits are log-likelihoods, twice too sure."""
    labels = rng.choice(10, size=n, p=shares)
    evidence = rng.normal(size=(n, 10)) + signal * np.eye(10)[labels]
    return ts.Logits(2 * (signal * evidence - signal**2 / 2), labels)


before, now = np.full(10, 0.1), np.arange(1, 11) ** 2 / 385
predictor = ts.TwoTemperaturePredictor("lac", alpha=0.1, prefer="small").fit(rows(4_000, before))
target = rows(4_000, now)
shifted = predictor.shifted(ts.Logits(target.logits))  # no labels

for name, model in (("as tuned", predictor), ("shifted", shifted)):
    accuracy = (model.predict(target) == target.labels).mean()
    coverage = ts.metrics.marginal_coverage(model.predict_set(target), target.labels)
    print(f"{name}: coverage {coverage:.3f}, accuracy {accuracy:.3f}")

made, (ax,) = figure(1, panel=(7.5, 3.8))
shown = {"when tuned": before, "now": now, "estimated": shifted.document_.shift.target}
for place, (name, shares) in enumerate(shown.items()):
    ax.bar(np.arange(10) + 0.28 * place, shares, 0.26, color=COLOURS[place], label=name)
ax.set(xlabel="class", ylabel="share of the rows", xticks=np.arange(10) + 0.28, xticklabels=range(10))
ax.legend(frameon=False)
made.savefig("label_shift.png")

"""Document routing.

A service reads documents and gives a confidence for each field, here made up: it is sure of nearly everything, and
phone photos are read much worse than clean files. Some rows were judged by people. Each kind of document gets the
confidence from which on its fields may be filed without a look, with at most 3% errors.
"""

import numpy as np

import thermoset as ts
from thermoset.plots import COLOURS, figure

rng = np.random.default_rng(0)
kind = rng.choice(["clean file", "scan", "phone photo"], size=9_000, p=[0.5, 0.3, 0.2])
confidence = np.round(1 - 0.25 * rng.random(9_000) ** 2, 2)  # few distinct values, most of them high
risk = {"clean file": 0.05, "scan": 0.12, "phone photo": 0.9}
right = rng.random(9_000) >= np.array([risk[one] for one in kind]) * 4 * (1 - confidence)
judged, later = slice(0, 6_000), slice(6_000, None)

rule = ts.AnswerRule("error<=0.03", joint=True).fit(confidence[judged], right[judged], groups=kind[judged])
filed = rule.answers(confidence[later], groups=kind[later])
for name, claim in zip(rule.group_names_, rule.claims_, strict=True):
    mine = filed & (kind[later] == name)
    share, wrong = mine.sum() / np.sum(kind[later] == name), np.mean(~right[later][mine]) if mine.any() else 0.0
    print(f"{name}: from {claim.threshold:g} on; later rows: {share:.0%} filed alone, {wrong:.1%} of these wrong")

made, (ax,) = figure(1, panel=(7.5, 3.8))
for colour, name in zip(COLOURS, rule.group_names_, strict=False):
    mine = kind[judged] == name
    curve = ts.metrics.risk_coverage_curve(confidence[judged][mine], right[judged][mine])
    ax.plot(curve.share, curve.error, color=colour, label=name)
ax.axhline(0.03, color="black", linewidth=1)
ax.set(xlabel="share of the rows that are filed alone", ylabel="errors among them")
ax.legend()
made.savefig("routing.png")

"""Medical triage.

A model looks at blood-cell measurements, which are made up here. Clear cases go out alone, with at most 2% errors;
unclear ones come to a doctor with a short list; the rest is reviewed from scratch. Sets under one threshold for all
rows would miss too many of the cases that the doctor sees.
"""

import numpy as np

import thermoset as ts
from thermoset.plots import COLOURS, figure

rng = np.random.default_rng(0)
labels = rng.integers(6, size=16_000)
clear = np.where(rng.random(16_000) < 0.6, 7.0, 2.0)[:, None]
cells = ts.Logits(rng.normal(size=(16_000, 6)) + clear * np.eye(6)[labels], labels)
known, new = cells.split(0.5, random_state=0)

predictor = ts.TwoTemperaturePredictor("lac", prefer="small", answer="error<=0.02", review="size>3").fit(known)
plain = ts.TwoTemperaturePredictor("lac", prefer="small").fit(known)
actions = predictor.predict_actions(new)
alone, wrong = actions == "answer", predictor.predict(new) != new.labels
print(predictor.answer_.sentence)
print(f"new rows: {alone.mean():.0%} answered, {wrong[alone].mean():.1%} of these wrong")

covered = {}
for name, model in (("one threshold\nfor all rows", plain), ("a threshold\nof their own", predictor)):
    inside = model.predict_set(new)[np.arange(len(new)), new.labels]
    covered[name] = inside[~alone].mean()
    print(f"{' '.join(name.split())}: sets of the other rows hold the truth in {covered[name]:.0%}")

made, (left, right) = figure(2, panel=(4.2, 3.4))
left.bar(
    ["answer", "choose", "review"],
    [np.mean(actions == one) for one in ("answer", "choose", "review")],
    color=COLOURS[0],
)
left.set(ylabel="share of new rows")
right.bar(list(covered), list(covered.values()), color=[COLOURS[1], COLOURS[0]])
right.axhline(0.9, color="black", linewidth=1)
right.set(ylabel="coverage of rows that people see", ylim=(0, 1))
made.savefig("triage.png")

"""Confidence before and after T*.

A network reads characters of fonts that it has not seen. At T = 1 its confidence is above its accuracy in nearly
every bin. One number, the temperature T* fitted on other rows, brings them together. What is predicted does not
change.
"""

import thermoset as ts
from thermoset.plots import figure, plot_reliability

held_out, fresh = ts.datasets.load_glyphs().logits.split(0.5)
scaler = ts.TemperatureScaler().fit(held_out)
print(f"T* = {scaler.temperature_:.2f}")

made, panels = figure(2)
for ax, temperature, title in zip(panels, (1.0, scaler.temperature_), ("T = 1", "T*"), strict=True):
    probs = ts.calibration.probabilities(fresh, temperature=temperature)
    table = ts.metrics.reliability_table(probs, fresh.labels)
    plot_reliability(table, ax=ax, title=title)
    print(f"{title}: confidence {probs.max(axis=1).mean():.3f}, ECE {table.ece:.3f}")
made.savefig("confidence.png")

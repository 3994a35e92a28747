"""One temperature is not enough.

The size of the sets, and how unevenly the classes are covered, against the temperature that the sets are made at.
Coverage is 90% everywhere. RAPS sets are larger at T* than at T = 1, and cover the classes most evenly at a
temperature above both. The sizes of LAC sets hardly depend on it.
"""

import thermoset as ts
from thermoset.plots import figure, plot_sweep

glyphs = ts.datasets.load_glyphs().logits
grid = ts.sweeping.temperature_grid("0.4:4:0.2")
result = ts.sweep(glyphs, temperatures=grid, methods=["lac", "raps"], alphas=[0.1], trials=20)

calibrated = ts.TemperatureScaler().fit(glyphs).temperature_
made, panels = figure(2)
for ax, metric in zip(panels, ("avg_size", "top_coverage_gap"), strict=True):
    plot_sweep(result, metric, ax=ax, marks={"T*": calibrated})
panels[0].legend(panels[0].get_lines()[:2], [method.upper() for method in result.methods], frameon=False)
made.savefig("temperatures.png")

for method in result.methods:
    small = grid[result.curve("avg_size", method, alpha=0.1).argmin()]
    even = grid[result.curve("top_coverage_gap", method, alpha=0.1).argmin()]
    print(f"{method}: smallest sets at T = {small:.1f}, most even classes at T = {even:.1f}")

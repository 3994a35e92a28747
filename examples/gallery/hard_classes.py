"""Small sets, and which classes they cover less.

Every character's coverage on new rows, from the worst covered to the best. The smallest sets cover 90% on average,
and some characters far less. `prefer="protect"` asks for the smallest sets that cover the hardest tenth of the
characters at least 85% of the time. They cost some more labels, and every character gains. (The tenth that looks
worst on 40 rows each is partly bad luck, so it looks worse than 85%.)
"""

import numpy as np

import thermoset as ts
from thermoset.plots import COLOURS, figure

known, fresh = ts.datasets.load_glyphs().logits.split(0.5)
made, (ax,) = figure(1, panel=(7.5, 4.0))
for prefer, colour in (("small", COLOURS[1]), ("protect", COLOURS[0])):
    predictor = ts.TwoTemperaturePredictor("lac", alpha=0.1, prefer=prefer).fit(known)
    sets = predictor.predict_set(fresh)
    coverage = np.sort(ts.metrics.class_coverage(sets, fresh.labels).coverage)
    worst, size = ts.metrics.worst_tenth_coverage(sets, fresh.labels), ts.metrics.avg_size(sets)
    ax.step(np.arange(len(coverage)), coverage, color=colour, label=f'prefer="{prefer}"')
    print(f"{prefer}: {size:.1f} labels in a set, worst tenth of the classes covered {worst:.2f}")
ax.axhline(0.9, color="#333333", linewidth=1, linestyle="--")
ax.set(xlabel="characters, the worst covered first", ylabel="coverage", ylim=(0.4, 1.02))
ax.legend(frameon=False, loc="lower right")
made.savefig("hard_classes.png")

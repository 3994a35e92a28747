"""Characters and their sets.

Ten characters that the predictor has not seen, with the label that is most likely, its confidence, and the set.
Sets are short where the picture is clear. Where letters of three alphabets share a shape, all of them are in the
set.
"""

import numpy as np

import thermoset as ts
from thermoset.data.splits import split_indices
from thermoset.plots import figure

glyphs = ts.datasets.load_glyphs()
known, fresh = split_indices(len(glyphs.logits), 0.7)
predictor = ts.TwoTemperaturePredictor("lac", alpha=0.1, prefer="small").fit(glyphs.logits.take(known))

pictures = dict(zip(glyphs.thumbnail_rows.tolist(), glyphs.thumbnails, strict=True))
rows = np.array([row for row in fresh.tolist() if row in pictures])[:10]
made, panels = figure(10, columns=5, panel=(2.0, 2.3))
for ax, row, answer in zip(panels, rows, predictor.predict_records(glyphs.logits.take(rows)), strict=True):
    ax.imshow(~pictures[row], cmap="gray")
    ax.set(xticks=[], yticks=[], title=f"{answer.label} ({answer.confidence:.0%})")
    ax.set_xlabel("\n".join(answer.set[:4]) + ("\n..." if len(answer.set) > 4 else ""))
made.savefig("sets.png")

sizes = predictor.set_sizes(glyphs.logits.take(fresh))
one, many = (sizes == 1).mean(), (sizes > 4).mean()
print(f"of {len(fresh):,} new characters, {one:.0%} have a set of one label and {many:.0%} of more than four")

"""An alarm, and when it comes.

Thirty days of 200 rows each. From day 16 on, the rows are noisier than those that the predictor was tuned on. The
monitor looks at each day's rows. Its evidence against the promise stays low for fifteen days and then grows beyond
the line at which it gives an alarm. The chance that a test ever crosses its line without a reason is at most 1%.
"""

import numpy as np

import thermoset as ts
from thermoset.plots import COLOURS, figure

rng = np.random.default_rng(0)


def rows(n, noise):
    """Logits and labels of ten classes."""
    labels = rng.integers(0, 10, size=n)
    return 2 * (noise * rng.normal(size=(n, 10)) + 3 * np.eye(10)[labels]), labels


monitor = ts.Monitor(ts.TwoTemperaturePredictor("aps", alpha=0.1).fit(*rows(4_000, 1.0)))
evidence = []
for day in range(1, 31):
    status = monitor.add(*rows(200, 1.0 if day <= 15 else 1.25), name=f"day {day}")
    test = next(test for test in status.tests if test.name == "under")  # coverage too low
    evidence.append(np.exp(test.log_e))
print(f"first alarm: {status.batches[test.crossed_batch].name}")
print(f"the change most likely began with: {status.batches[status.since].name}")

made, (left, right) = figure(2)
left.plot(range(1, 31), [batch.hits / batch.labelled for batch in status.batches], marker="o", color=COLOURS[0])
left.axhline(0.9, color="#333333", linewidth=1, linestyle="--")
left.set(xlabel="day", ylabel="coverage of the day's rows")
right.semilogy(range(1, 31), evidence, color=COLOURS[1])
right.axhline(np.exp(test.log_bar), color="#333333", linewidth=1, linestyle="--")
right.set(xlabel="day", ylabel="evidence that coverage is too low")
made.savefig("monitoring.png")

"""Rows from several sites, some of which are harder, drawn so that the best temperature for the sites is known."""

import numpy as np

import thermoset as ts

SCALE = 3.0
"""The temperature at which randomised APS covers every single row with probability exactly 1 - alpha."""


def sites(n_rows, seed, *, spread=2.0, bias=0.0, n_classes=10, n_sites=5):
    """Labels drawn from softmax(z), and the logits 3 z: the true probabilities, too confident by a factor of three.

    At T = 3 sets of randomised APS hold the label with probability 1 - alpha whatever the row is, and so at every site.
    Sites differ in how far apart the logits are, from exp(-spread / 2) to exp(spread / 2) times the usual. `bias` makes
    some classes rare, and so hard.
    """
    rng = np.random.default_rng(seed)
    site = rng.integers(0, n_sites, n_rows)
    apart = 3.5 * np.exp(spread * (np.arange(n_sites) / (n_sites - 1) - 0.5))[site]
    z = apart[:, None] * rng.normal(size=(n_rows, n_classes)) + bias * np.linspace(-1, 1, n_classes)
    labels = np.argmax(z + rng.gumbel(size=z.shape), axis=1)  # a draw from softmax(z)
    return ts.Logits(SCALE * z, labels, groups=site)

"""thermoset next to other libraries: same rows, same run, an environment of its own with pinned versions.

`make bench-peers` runs `python -m benchmarks.peers` and writes `docs/peers.md` and `docs/images/peers.png`.
"""

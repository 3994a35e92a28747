"""Speed and memory of thermoset next to simple baselines and other libraries: `python -m benchmarks`, `make bench`."""

"""Speed and memory of thermoset beside simple yardsticks and other libraries: `python -m benchmarks`, `make bench`."""

"""Examples, run by the tests: each folder has a README and one command."""

"""How long attacks go on: briefly in `make test`, longer when THERMOSET_FUZZ=<n> asks for n times as many."""

import os


def cases(n: int) -> int:
    return n * int(os.environ.get("THERMOSET_FUZZ", "1"))

"""How many cases a fuzz test tries: a few in `make test`, THERMOSET_FUZZ times as many in `make fuzz`."""

import os


def cases(n: int) -> int:
    return n * int(os.environ.get("THERMOSET_FUZZ", "1"))

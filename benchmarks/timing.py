"""The one stopwatch."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Clock", "Contender", "Timing", "best_of"]

Contender = Callable[[], Any]
Clock = Callable[[], float]
_PATIENCE = 10.0  # a contender that has used this many seconds is not called again


@dataclass(frozen=True)
class Timing:
    """The best of `runs` calls, and what the last one returned; `missing` says why there was none."""

    seconds: float | None
    runs: int = 0
    result: Any = None
    missing: str = ""


def best_of(
    contenders: Mapping[str, Contender | Exception], repeats: int, clock: Clock = time.perf_counter
) -> dict[str, Timing]:
    """Call contenders in turn (A, B, A, B, ...), so that a busy moment of the machine meets them all."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    results: dict[str, Any] = {}
    for _ in range(repeats):
        for name, contender in contenders.items():
            if isinstance(contender, Exception) or sum(times[name]) > _PATIENCE:
                continue
            start = clock()
            result = contender()
            times[name].append(clock() - start)
            results[name] = result  # after the clock: this frees the one before
    return {
        name: Timing(min(seconds), len(seconds), results[name])
        if seconds
        else Timing(None, missing=_why(contenders[name]))
        for name, seconds in times.items()
    }


def _why(error: object) -> str:
    if isinstance(error, ImportError):
        return f"not installed ({error})"
    return f"fails ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"

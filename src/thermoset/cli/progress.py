"""A progress bar for people: on a terminal, when the work takes a while."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar"]

_SHOW_AFTER = 1.0  # seconds


class ProgressBar:
    """A progress bar on a terminal, for work that takes longer than a second."""

    def __init__(self, quiet: bool, doing: str = "Sweeping") -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._wanted = self._console.is_terminal and not quiet
        self._doing = doing
        self._begun = time.monotonic()
        self._shown: Progress | None = None

    def tell(self, done: int, total: int | None) -> None:
        """Take note that `done` of `total` parts of the work are finished; None if nobody knows how many there are."""
        if self._wanted and self._shown is None and time.monotonic() - self._begun > _SHOW_AFTER:
            from rich.progress import Progress

            self._shown = Progress(console=self._console, transient=True)
            self._shown.add_task(self._doing, total=None)
            self._shown.start()
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=done, total=total)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.stop()

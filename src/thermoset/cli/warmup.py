"""`thermoset warmup`: compile ahead what later processes need."""

from typing import Annotated, Literal

import typer

__all__ = ["warmup"]


def warmup(
    job: Annotated[
        Literal["all", "predict"],
        typer.Option("--for", help="Everything, or only what loading a predictor and predicting need."),
    ] = "all",
) -> None:
    """Compile ahead of time and cache the result on disk: later processes start fast and need no writable folder."""
    from thermoset.quoting import printable
    from thermoset.warming import warmup as compile_ahead

    done = compile_ahead(job, progress=lambda step: typer.echo(f"Preparing {_PREPARED[step]} ..."))
    typer.echo(
        f"{len(done.compiled)} compiled, {len(done.ready) - len(done.compiled)} already there, in {done.seconds:.1f} s."
    )
    typer.echo(f"Cached in {printable(str(done.folder))} ({done.n_bytes / 1e6:.1f} MB).")


_PREPARED = {"predict": "predictions", "tune": "tune", "measure": "sweep, theory and study", "compact": "compact"}

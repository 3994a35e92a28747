"""`thermoset collect`: the logits of a torch model on pictures, as a file."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thermoset.cli.options import told_warnings
from thermoset.cli.output import check_file, name_files
from thermoset.cli.progress import ProgressBar
from thermoset.errors import InputError
from thermoset.quoting import printable

if TYPE_CHECKING:
    from thermoset.integrations.images import Preprocessing
    from thermoset.integrations.torch import Collected

__all__ = ["collect"]


def collect(
    model: Annotated[str, typer.Option(help="package.module:callable, such as torchvision.models:resnet152.")],
    images: Annotated[Path, typer.Option(help="Folder of class folders, or npz with arrays images and labels.")],
    out: Annotated[Path, typer.Option(help="File to write: npz, npy, csv, parquet, safetensors or pt.")],
    model_args: Annotated[str, typer.Option(help="Keyword arguments of the callable, as JSON.")] = "{}",
    weights: Annotated[Path | None, typer.Option(help="Weights: safetensors, or a checkpoint of tensors.")] = None,
    resize: Annotated[int | None, typer.Option(help="Resize the shorter side to this many pixels.")] = None,
    crop: Annotated[int | None, typer.Option(help="Then cut out the middle, a square of this many pixels.")] = None,
    mean: Annotated[
        str | None, typer.Option(help="Subtract this mean: 3 comma-separated numbers, or 1 for grey.")
    ] = None,
    std: Annotated[
        str | None, typer.Option(help="Then divide by this: 3 comma-separated numbers, or 1 for grey.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Pictures at a time.")] = 64,
    device: Annotated[str, typer.Option(help="Where to run the model: cpu, cuda, mps ...")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Run a torch model over pictures and write its logits to a file that the other commands read."""
    from thermoset.integrations.images import ImageBatches, read_images
    from thermoset.integrations.models import build_model, load_weights
    from thermoset.integrations.torch import collect_to_file
    from thermoset.io import SUFFIXES
    from thermoset.io.files import known_suffix

    # Bad input is rejected before any computation.
    known_suffix(out, SUFFIXES)
    check_file(out, [images] if weights is None else [images, weights])
    arguments = _arguments(model_args)
    steps = _steps(resize, crop, mean, std)
    found = read_images(images, steps.channels)
    batches = ImageBatches(found, steps, batch_size)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # where `python -m` would look first: the model's code may lie there
    net = build_model(model, arguments)
    if weights is not None:
        load_weights(net, weights)
    with told_warnings(), ProgressBar(quiet, "Collecting") as bar:
        try:
            made = collect_to_file(net, batches, out, classes=found.classes, device=device, progress=bar.tell)
        except RuntimeError as error:  # torch's, from the model: a wrong size of pictures, or no memory
            reason = " ".join(str(error).split())[:200]
            grey = " For a model of grey pictures give one number: --mean 0 --std 1." if steps.channels == 3 else ""
            raise InputError(
                f"the model failed ({reason}). Check --resize and --crop, or, for memory, --batch-size.{grey}"
            ) from None
    _show(made, out)


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise InputError(f"--model-args must be a JSON object, such as '{{\"num_classes\": 10}}'; got {text!r}.")
    return arguments


def _steps(resize: int | None, crop: int | None, mean: str | None, std: str | None) -> "Preprocessing":
    from thermoset.integrations.images import Preprocessing

    if (mean is None) != (std is None):
        raise InputError("--mean and --std go together. Pass both or neither.")
    if mean is None or std is None:
        return Preprocessing(resize, crop)
    return Preprocessing(resize, crop, _numbers("--mean", mean), _numbers("--std", std))


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} must be comma-separated numbers, such as 0.5,0.5,0.5; got {text!r}.") from None


def _show(made: "Collected", out: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    known = "no labels" if made.accuracy is None else f"accuracy {made.accuracy:.4f}"
    console.print(f"{made.n_rows:,} rows, {made.n_classes:,} classes, {known}", highlight=False)
    name_files(console, [out])
    if made.accuracy is not None:
        console.print(Text(f"Next: thermoset sweep {printable(shlex.quote(str(out)))}"), soft_wrap=True)

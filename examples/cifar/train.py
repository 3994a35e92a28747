"""Train a CIFAR classifier by the paper's recipe and write its test logits: `python -m examples.cifar.train --help`."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import thermoset as ts
from examples.cifar.binary import Part, channel_statistics, read_cifar
from examples.cifar.models import MODELS
from thermoset.integrations.torch import collect_logits
from thermoset.io import SUFFIXES
from thermoset.io.files import known_suffix, write_whole

PADDING = 4
BATCH = 500  # test pictures at a time


@dataclass(frozen=True)
class Recipe:
    """The numbers of the paper's appendix on training. It names no schedule; see `rate_at`."""

    batch_size: int = 128
    epochs: int = 300
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    seed: int = 0

    def rate_at(self, epoch: int) -> float:
        """Fall from the learning rate to 0 along half a cosine: a constant 0.1 would not converge."""
        return self.learning_rate * (1 + math.cos(math.pi * epoch / self.epochs)) / 2


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Shift each picture by up to 4 pixels, with black beyond its edges, and mirror half of them."""
    n, channels, height, width = images.shape
    padded = nn.functional.pad(images, (PADDING,) * 4)
    down, right = torch.randint(0, 2 * PADDING + 1, (2, n, 1), generator=generator)
    mirrored = torch.rand((n, 1), generator=generator) < 0.5
    rows = down + torch.arange(height)
    columns = right + torch.where(mirrored, torch.arange(width - 1, -1, -1), torch.arange(width))
    index = (
        torch.arange(n)[:, None, None, None],
        torch.arange(channels)[None, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
    )
    return padded[tuple(part.to(images.device) for part in index)]


@dataclass(frozen=True)
class Scaling:
    """The mean and the standard deviation of each channel, of bytes divided by 255."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, images: Tensor) -> Tensor:
        """Scale pictures (n, channels, height, width) of bytes as the models take them."""
        mean, std = (torch.tensor(numbers, device=images.device).view(1, -1, 1, 1) for numbers in (self.mean, self.std))
        return (images / 255 - mean) / std


def train(model: nn.Module, part: Part, scaling: Scaling, recipe: Recipe, device: str) -> None:
    """Minimise cross-entropy by stochastic gradient descent, in place."""
    generator = torch.Generator().manual_seed(recipe.seed)
    images, labels = torch.from_numpy(part.images).to(device), torch.from_numpy(part.labels).to(device)
    model.to(device).train()
    optimiser = torch.optim.SGD(
        model.parameters(), lr=recipe.learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    for epoch in range(recipe.epochs):
        begun, total, correct = time.monotonic(), 0.0, 0
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate_at(epoch)
        for rows in torch.randperm(len(labels), generator=generator).to(device).split(recipe.batch_size):
            outputs = model(scaling.apply(augment(images[rows], generator)))
            loss = nn.functional.cross_entropy(outputs, labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
            correct += int((outputs.argmax(1) == labels[rows]).sum())
        print(
            f"epoch {epoch + 1}/{recipe.epochs}  learning rate {recipe.rate_at(epoch):.4f}  "
            f"loss {total / len(labels):.4f}  training accuracy {correct / len(labels):.4f}  "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )


def collect_test(model: nn.Module, part: Part, scaling: Scaling, classes: Sequence[str], device: str) -> ts.Logits:
    """Collect the logits of the test pictures, scaled as in training."""
    images, labels = torch.from_numpy(part.images), torch.from_numpy(part.labels)
    batches = (
        (scaling.apply(some), known) for some, known in zip(images.split(BATCH), labels.split(BATCH), strict=True)
    )
    return collect_logits(model, batches, classes=classes, device=device)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, train, save the weights, collect, save the logits."""
    parser = argparse.ArgumentParser(prog="python -m examples.cifar.train", description="The paper's CIFAR models.")
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of the binary version of CIFAR-10 or CIFAR-100"
    )
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--out", type=Path, required=True, help="file of logits, such as cifar100_resnet50.npz")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--batch-size", type=int, default=Recipe.batch_size)
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    asked = parser.parse_args(arguments)
    recipe = Recipe(batch_size=asked.batch_size, epochs=asked.epochs, seed=asked.seed)
    known_suffix(asked.out, SUFFIXES)  # said now, not after 300 epochs
    if not asked.out.absolute().parent.is_dir():
        raise ts.InputError(f"--out {asked.out}: folder {asked.out.parent} does not exist. Create it first.")
    data = read_cifar(asked.data)
    scaling = Scaling(*channel_statistics(data.train.images))
    torch.manual_seed(recipe.seed)
    model = MODELS[asked.model](len(data.classes))
    train(model, data.train, scaling, recipe, asked.device)
    weights = asked.out.with_name(f"{asked.out.stem}_weights.pt")
    with write_whole(weights) as stream:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, stream)
    logits = collect_test(model, data.test, scaling, data.classes, asked.device)
    ts.save(asked.out, logits)
    accuracy = (logits.logits.argmax(1) == logits.labels).mean()
    mean, std = (",".join(f"{number:.9g}" for number in numbers) for numbers in (scaling.mean, scaling.std))
    print(f"test accuracy {accuracy:.4f}; mean {mean} std {std}\nWrote {weights} and {asked.out}")


if __name__ == "__main__":
    try:
        main()
    except ts.InputError as error:
        sys.exit(f"{error}")

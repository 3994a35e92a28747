"""A small residual network, trained by the paper's recipe until it is sure of what it has seen."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CHANNELS = (32, 64, 128)


@dataclass(frozen=True)
class Recipe:
    """How long and how fast to train; momentum 0.9 and weight decay 5e-4 are the paper's."""

    epochs: int = 30
    batch: int = 128
    rate: float = 0.1
    seed: int = 0


class Block(nn.Module):
    """Two convolutions and a shortcut; the first may halve the picture."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut: nn.Module = nn.Identity()
        if before != after or stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(path + shortcut)."""
        return torch.relu(self.path(x) + self.shortcut(x))


class GlyphNet(nn.Module):
    """Grey pictures (n, 1, SIDE, SIDE), 0 paper and 255 ink, to logits (n, classes)."""

    def __init__(self, classes: int, channels: tuple[int, ...] = CHANNELS) -> None:
        super().__init__()
        first, *_ = channels
        self.stem = nn.Sequential(
            nn.Conv2d(1, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU(inplace=True)
        )
        widths = (first, *channels)
        self.blocks = nn.Sequential(
            *(
                Block(before, after, 1 if before == after else 2)
                for before, after in zip(widths, channels, strict=False)
            )
        )
        self.head = nn.Linear(channels[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        features: Tensor = self.blocks(self.stem(x.float().div(255)))
        return self.head(features.mean(dim=(2, 3)))  # type: ignore[no-any-return]


def loader_of(images: NDArray[np.uint8], labels: NDArray[np.int64], batch: int = 512) -> DataLoader[tuple[Tensor, ...]]:
    """Pictures and labels in order, in batches."""
    return DataLoader(TensorDataset(torch.from_numpy(images)[:, None], torch.from_numpy(labels)), batch)


def train(
    images: NDArray[np.uint8],
    labels: NDArray[np.int64],
    classes: int,
    recipe: Recipe,
    tell: Callable[[str], None] = print,
) -> GlyphNet:
    """Train a network on all pictures; `tell` hears of every epoch."""
    torch.manual_seed(recipe.seed)
    model = GlyphNet(classes).to(memory_format=torch.channels_last)
    pictures, targets = torch.from_numpy(images)[:, None], torch.from_numpy(labels)
    optimizer = torch.optim.SGD(model.parameters(), recipe.rate, momentum=0.9, weight_decay=5e-4)
    steps = -(-len(pictures) // recipe.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.epochs * steps)
    for epoch in range(recipe.epochs):
        model.train()
        losses, hits = 0.0, 0
        for rows in torch.randperm(len(pictures)).split(recipe.batch):
            batch = pictures[rows].to(memory_format=torch.channels_last)
            logits = model(batch)
            loss = nn.functional.cross_entropy(logits, targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += loss.item() * len(rows)
            hits += int((logits.argmax(dim=1) == targets[rows]).sum())
        tell(
            f"epoch {epoch + 1}/{recipe.epochs}: loss {losses / len(pictures):.3f}, accuracy {hits / len(pictures):.3f}"
        )
    return model.eval()

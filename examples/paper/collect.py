"""The logits of a model of torchvision on a folder of pictures: `python -m examples.paper.collect MODEL FOLDER OUT`."""

import sys

import torch
from torchvision import datasets, models

from thermoset.integrations.torch import collect_to_file


def main(model: str, folder: str, out: str) -> None:
    """Write a file of `logits`, `labels` and `classes`; class folders in sorted order are the columns of the model."""
    weights = models.get_model_weights(model)["IMAGENET1K_V1"]
    pictures = datasets.ImageFolder(folder, weights.transforms())
    loader = torch.utils.data.DataLoader(pictures, batch_size=64)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = models.get_model(model, weights=weights)
    print(collect_to_file(network, loader, out, classes=pictures.classes, device=device))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Make the bundled data set: fonts, pictures, network, logits. A stage that is finished is not done again."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track

import thermoset as ts
from examples.glyphs.characters import CLASSES
from examples.glyphs.families import held_out_families, join_families
from examples.glyphs.fonts import download, find_fonts, unpack, wanted_packages
from examples.glyphs.licences import write_table
from examples.glyphs.pack import pack
from examples.glyphs.render import Pictures, render
from examples.glyphs.sampling import balanced_rows, few_fonts
from examples.glyphs.train import GlyphNet, Recipe, loader_of, train
from thermoset.integrations.torch import collect_logits

SHARE_HELD_OUT = 0.5
SPLIT_SEED = 0


@dataclass(frozen=True)
class Sample:
    """How many fonts of a family and how many pictures of a class are used at most."""

    fonts: int
    pictures: int
    seed: int

    def of(self, pictures: Pictures, families: NDArray[np.str_], wanted: set[str]) -> Pictures:
        """Draw from the pictures of the wanted families."""
        some = pictures.of_fonts(few_fonts(families, wanted, self.fonts, self.seed))
        return some.take(balanced_rows(some.labels, self.pictures, self.seed))


# Balanced on both sides: few fonts have Greek letters, and a network that had learnt so would rule them out.
TRAINING = Sample(fonts=12, pictures=130, seed=1)
HELD_OUT = Sample(fonts=8, pictures=80, seed=2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all stages."""
    options = _options(arguments)
    pictures, families = draw_pictures(options.folder, options.fonts or fetch_fonts(options.folder))
    held_out = held_out_families(families, SHARE_HELD_OUT, SPLIT_SEED)
    seen = set(families.tolist()) - held_out
    print(f"{len(seen)} families to train on, {len(held_out)} held out")
    recipe = Recipe(epochs=options.epochs, batch=options.batch)
    model = train_model(options.folder, TRAINING.of(pictures, families, seen), recipe)
    unseen = HELD_OUT.of(pictures, families, held_out)
    logits = collect_logits(model, loader_of(unseen.images, unseen.labels), classes=CLASSES)
    ts.save(options.folder / "logits.npz", logits)
    out = options.out or options.folder / "glyphs.npz"
    pack(out, logits, unseen.images, families[unseen.fonts])
    hits = np.mean(logits.logits.argmax(axis=1) == logits.labels)
    print(f"wrote {out}: {logits}, accuracy {hits:.4f}, {out.stat().st_size / 1e6:.2f} MB")


def fetch_fonts(folder: Path) -> Path:
    """Download and unpack Debian's fonts."""
    packages = wanted_packages()
    for _ in track(download(folder / "packages", packages), "Downloading", len(packages)):
        pass
    for _ in track(unpack(folder / "packages", folder / "fonts"), "Unpacking", len(packages)):
        pass
    return folder / "fonts"


def draw_pictures(folder: Path, fonts: Path) -> tuple[Pictures, NDArray[np.str_]]:
    """Pictures of all glyphs of all fonts, and the family of each font; a table of packages is written as well."""
    path = folder / "pictures.npz"
    if not path.exists():
        found = find_fonts(fonts)
        drawn = list(track(render([font.path for font in found]), "Drawing", len(found)))
        complete = [number for number, part in enumerate(drawn) if len(part.labels)]
        found, pictures = [found[number] for number in complete], Pictures.join([drawn[number] for number in complete])
        folder.mkdir(parents=True, exist_ok=True)
        write_table(folder / "packages.csv", found, folder / "packages", fonts)
        families = join_families([font.name for font in found], pictures)
        np.savez(path, images=pictures.images, labels=pictures.labels, fonts=pictures.fonts, families=families)
    with np.load(path, allow_pickle=False) as stored:
        return Pictures(stored["images"], stored["labels"], stored["fonts"]), stored["families"]


def train_model(folder: Path, pictures: Pictures, recipe: Recipe) -> GlyphNet:
    """Train the network, or load what was trained before."""
    path = folder / f"weights-{recipe.epochs}-epochs.pt"
    if not path.exists():
        print(f"training on {len(pictures.images)} pictures")
        model = train(pictures.images, pictures.labels, len(CLASSES), recipe)
        torch.save(model.state_dict(), path)
    model = GlyphNet(len(CLASSES))
    model.load_state_dict(torch.load(path, weights_only=True))
    return model


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.glyphs", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/glyphs"), help="folder for intermediate files")
    parser.add_argument("--fonts", type=Path, help="a folder of fonts to use instead of Debian's")
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--batch", type=int, default=Recipe.batch)
    parser.add_argument("--out", type=Path, help="the file to write (default: glyphs.npz in the folder)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()

"""The CIFAR recipe on small files in CIFAR's own format: reading, models, training, logits."""

import sys
from itertools import product

import numpy as np
import pytest

import thermoset as ts
from conftest import ROOT
from parts import require

torch = require("torch", "torch")
sys.path.append(str(ROOT))  # `python -m` does it where the recipe is run by hand

from examples.cifar.binary import Part, channel_statistics, read_cifar  # noqa: E402
from examples.cifar.models import MODELS, basic, bottleneck  # noqa: E402
from examples.cifar.train import Recipe, Scaling, augment, collect_test, main, train  # noqa: E402

pytestmark = pytest.mark.long

TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tests run side by side: threads of torch that wait for each other make everything slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pictures(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(n, 3, 32, 32), dtype=np.uint8)


def write(path, images, *labels):
    """One record a picture: its labels, a byte each, then the planes of red, green and blue."""
    path.write_bytes(b"".join(bytes(marks) + image.tobytes() for *marks, image in zip(*labels, images, strict=True)))


@pytest.fixture
def cifar10(tmp_path):
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i in range(1, 6):
        write(folder / f"data_batch_{i}.bin", pictures(2, i), [i - 1, i + 4])
    write(folder / "test_batch.bin", pictures(6), [9, 0, 3, 3, 1, 2])
    (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")  # the archive's file ends so
    return folder


@pytest.fixture
def cifar100(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    write(folder / "train.bin", pictures(3), [19, 0, 4], [99, 0, 50])
    write(folder / "test.bin", pictures(2, 1), [7, 8], [1, 2])
    (folder / "fine_label_names.txt").write_text("".join(f"thing{i}\n" for i in range(100)))
    return folder


def test_cifar10_is_read_from_its_six_files(cifar10):
    data = read_cifar(cifar10)
    assert data.classes == tuple(TEN)
    assert data.train.labels.tolist() == [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]
    assert np.array_equal(data.train.images, np.concatenate([pictures(2, i) for i in range(1, 6)]))
    assert data.test.labels.tolist() == [9, 0, 3, 3, 1, 2]
    assert np.array_equal(data.test.images, pictures(6))


def test_cifar100_has_its_fine_labels(cifar100):
    data = read_cifar(cifar100)
    assert len(data.classes) == 100
    assert data.train.labels.tolist() == [99, 0, 50]
    assert np.array_equal(data.train.images, pictures(3))
    assert np.array_equal(data.test.images, pictures(2, 1))


def test_damaged_and_missing_files(cifar10, tmp_path):
    with pytest.raises(ts.InputError, match="Unpack the binary version"):
        read_cifar(tmp_path)
    whole = (cifar10 / "test_batch.bin").read_bytes()
    for content in (whole[:-1], b""):
        (cifar10 / "test_batch.bin").write_bytes(content)
        with pytest.raises(ts.InputError, match="expected records of 3,073"):
            read_cifar(cifar10)
    (cifar10 / "test_batch.bin").write_bytes(b"\x0a" + whole[1:])
    with pytest.raises(ts.InputError, match="label 10; the names file has 10 classes"):
        read_cifar(cifar10)
    (cifar10 / "test_batch.bin").write_bytes(whole)
    (cifar10 / "data_batch_3.bin").unlink()
    with pytest.raises(ts.InputError, match=r"data_batch_3\.bin: cannot be read"):
        read_cifar(cifar10)


def test_statistics_of_channels():
    images = pictures(20)
    mean, std = channel_statistics(images)
    plain = images.transpose(0, 2, 3, 1).reshape(-1, 3) / 255
    assert mean == pytest.approx(plain.mean(axis=0), rel=1e-12)
    assert std == pytest.approx(plain.std(axis=0), rel=1e-12)


# torchvision's documented numbers of parameters for 1000 classes. Here they begin 3 x 3 instead of 7 x 7 (64 filters
# of 3 channels), the last layer has other outputs, and the dense one has no norm of 64 channels before its blocks.
IMAGENET = {
    "resnet34": (21_797_672, 512, 0),
    "resnet50": (25_557_032, 2048, 0),
    "densenet121": (7_978_856, 1024, 2 * 64),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_classes", [10, 100])
def test_models_have_the_parameters_of_their_big_siblings(name, n_classes):
    count, features, norm = IMAGENET[name]
    want = count - (7 * 7 - 3 * 3) * 3 * 64 - (features + 1) * (1000 - n_classes) - norm
    with torch.device("meta"):  # shapes without numbers
        model = MODELS[name](n_classes)
    assert sum(part.numel() for part in model.parameters()) == want


@pytest.mark.parametrize("name", MODELS)
def test_models_see_32_16_8_and_4_pixels(name):
    with torch.device("meta"):
        model, picture = MODELS[name](10), torch.zeros(1, 3, 32, 32)
    sides = []
    for layer in model:
        layer.register_forward_hook(lambda module, given, made: sides.append(made.shape[-1] if made.ndim == 4 else 0))
    assert model.eval()(picture).shape == (1, 10)
    assert list(dict.fromkeys(sides)) == [32, 16, 8, 4, 1, 0]


@pytest.mark.parametrize(("block", "width"), [(basic, 8), (bottleneck, 2)])
def test_a_new_residual_block_adds_nothing(block, width):
    x = torch.randn(2, 8, 5, 5)
    assert torch.equal(block(8, width, 1)(x), torch.relu(x))


def test_augmented_pictures_are_shifted_and_mirrored_ones():
    images = torch.from_numpy(pictures(40))
    got = augment(images, torch.Generator().manual_seed(0))
    seen = set()
    for before, after in zip(images.numpy(), got.numpy(), strict=True):
        padded = np.pad(before, ((0, 0), (4, 4), (4, 4)))
        crops = {
            (down, right, mirrored): padded[:, down : down + 32, right : right + 32][:, :, :: -1 if mirrored else 1]
            for down, right, mirrored in product(range(9), range(9), (False, True))
        }
        found = [how for how, crop in crops.items() if np.array_equal(crop, after)]
        assert len(found) == 1
        seen |= set(found)
    downs, rights, mirrored = (set(column) for column in zip(*seen, strict=True))
    assert mirrored == {False, True}
    assert downs <= set(range(9))
    assert len(downs) > 5
    assert len(rights) > 5


def test_the_recipe_is_the_paper_s_and_its_rate_falls_along_a_cosine():
    recipe = Recipe()
    assert (recipe.batch_size, recipe.epochs, recipe.learning_rate) == (128, 300, 0.1)
    assert (recipe.momentum, recipe.weight_decay) == (0.9, 5e-4)
    assert recipe.rate_at(0) == 0.1
    assert recipe.rate_at(100) == pytest.approx(0.1 * (1 + 0.5) / 2)  # cos 60 degrees
    assert recipe.rate_at(150) == pytest.approx(0.05)
    assert recipe.rate_at(300) == pytest.approx(0, abs=1e-15)


def test_training_learns_what_can_be_learnt(capsys):
    labels = np.arange(60) % 3
    images = np.zeros((60, 3, 32, 32), dtype=np.uint8)
    images[np.arange(60), labels] = 200  # the class is the colour, wherever a picture is shifted
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 3))
    scaling = Scaling(*channel_statistics(images))
    train(model, Part(images, labels), scaling, Recipe(epochs=15, batch_size=16), "cpu")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 15
    assert lines[0].startswith("epoch 1/15  learning rate 0.1000  loss ")
    assert "training accuracy 1.0000" in lines[-1]


def test_the_script_ends_in_a_file_of_logits_that_the_saved_weights_give_again(cifar10, tmp_path, capsys):
    out = tmp_path / "cifar10_resnet34.npz"
    main(["--data", str(cifar10), "--model", "resnet34", "--out", str(out), "--device", "cpu", "--epochs", "1"])
    made, test = ts.load(out), read_cifar(cifar10).test
    assert made.classes == tuple(TEN)
    assert made.labels.tolist() == test.labels.tolist()
    printed = capsys.readouterr().out
    assert f"test accuracy {np.mean(made.logits.argmax(1) == made.labels):.4f}" in printed

    words = printed.split()
    scaling = Scaling(*(tuple(map(float, words[words.index(name) + 1].split(","))) for name in ("mean", "std")))
    model = MODELS["resnet34"](10)
    model.load_state_dict(torch.load(tmp_path / "cifar10_resnet34_weights.pt", weights_only=True))
    again = collect_test(model, test, scaling, TEN, "cpu")
    assert again.logits == pytest.approx(made.logits, abs=1e-4 * float(np.abs(made.logits).max()))


def test_what_would_fail_after_300_epochs_is_said_before(cifar10, tmp_path):
    asked = ["--data", str(cifar10), "--model", "resnet34", "--out"]
    with pytest.raises(ts.InputError, match="unknown kind of file"):
        main([*asked, str(tmp_path / "logits.xyz")])
    with pytest.raises(ts.InputError, match=r"does not exist\. Create it first"):
        main([*asked, str(tmp_path / "no" / "logits.npz")])

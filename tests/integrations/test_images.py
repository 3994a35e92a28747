"""Pictures for a model: the arithmetic of preprocessing, folders and archives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from parts import require
from thermoset.integrations.images import ImageBatches, ImageSet, Preprocessing, read_images

Image = require("PIL.Image", "torch")

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def test_bytes_are_divided_by_255_and_normalised_by_channel():
    pixels = np.array([[[255, 0, 51]]], dtype=np.uint8)
    got = Preprocessing(**IMAGENET).apply(pixels)
    assert got.dtype == np.float32
    assert got.shape == (3, 1, 1)
    want = [(1 - 0.485) / 0.229, (0 - 0.456) / 0.224, (0.2 - 0.406) / 0.225]
    assert got.ravel() == pytest.approx(want, rel=1e-6)


def test_without_options_bytes_lie_between_0_and_1_and_floats_stay():
    assert Preprocessing().apply(np.full((1, 1, 3), 51, dtype=np.uint8)).ravel() == pytest.approx([0.2] * 3)
    assert Preprocessing().apply(np.full((1, 1, 3), -7.5)).ravel().tolist() == [-7.5] * 3


def test_halving_averages_with_a_triangle_over_four_pixels():
    # Triangle of half-width 2 around the middle of two pixels: distances .5 and 1.5, weights .75 and .25, over 2.
    row = np.array([0, 16, 64, 8, 32, 0, 128, 8], dtype=np.float64)
    pixels = np.tile(row[:, None, None], (1, 4, 1))
    got = Preprocessing(resize=2, mean=(0.0,), std=(1.0,)).apply(pixels)
    assert got.shape == (1, 4, 2), "8 x 4 becomes 4 x 2: the shorter side is resized, the longer follows"
    inner = [0.125 * row[i - 1] + 0.375 * (row[i] + row[i + 1]) + 0.125 * row[i + 2] for i in (2, 4)]
    assert got[0, 1:3, 0] == pytest.approx(inner, rel=1e-6)


@given(height=st.integers(2, 40), width=st.integers(2, 40), size=st.integers(2, 40))
def test_resizing_agrees_with_torch(height, width, size):
    torch = require("torch", "torch")
    pixels = np.random.default_rng(height * 41 + width).random((height, width, 3), dtype=np.float32)
    got = Preprocessing(resize=size).apply(pixels)
    assert min(got.shape[1:]) == size
    longer = int(size * max(height, width) / min(height, width))
    assert max(got.shape[1:]) == longer
    plain = torch.from_numpy(pixels).double().permute(2, 0, 1)[None]  # float64: in float32 torch rounds its weights
    want = torch.nn.functional.interpolate(plain, size=got.shape[1:], mode="bilinear", antialias=True)[0].numpy()
    assert np.abs(got - want).max() < 2 * 2.0**-25 + 1e-12, "rounded to float32 twice, along rows and along columns"
    in_bytes = Preprocessing(resize=size).apply((pixels * 255).round().astype(np.uint8))
    assert np.abs(in_bytes - want).max() < 1.51 / 255, "rounded to bytes thrice, before, along rows and along columns"


@pytest.mark.parametrize(("side", "crop", "first"), [(8, 4, 2), (9, 4, 2), (11, 4, 4), (4, 4, 0)])
def test_the_middle_is_cut_out_and_halves_go_to_even(side, crop, first):
    ramp = np.arange(side, dtype=np.float32)
    got = Preprocessing(crop=crop).apply(np.tile(ramp[:, None, None], (1, side, 3)))
    assert got[0, :, 0].tolist() == list(range(first, first + crop))
    across = Preprocessing(crop=crop).apply(np.tile(ramp[None, :, None], (side, 1, 3)))
    assert across[0, 0].tolist() == list(range(first, first + crop))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resize": 0}, "resize must be a whole number from 1 to 16,384; got 0"),
        ({"crop": -1}, "crop must be a whole number from 1 to 16,384"),
        ({"resize": 5, "crop": 6}, "crop must not be larger than resize; got 6 and 5"),
        ({"mean": (0.5,)}, "must hold 3 numbers each, or 1 for grey pictures; got 1 and 3"),
        ({"mean": (0.5, 0.5), "std": (1.0, 1.0)}, "got 2 and 2"),
        ({"std": (1.0, 0.0, 1.0)}, "std must be finite and above 0"),
        ({"mean": (float("nan"), 0, 0)}, "must be finite"),
        ({"std": (1.0, 1.0, 5e-324)}, "std must be finite and above 0, from 1e-06"),
        ({"resize": 10**9}, "resize must be a whole number from 1 to 16,384"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ts.InputError, match=message):
        Preprocessing(**arguments)


def test_pictures_that_do_not_fit_the_steps():
    with pytest.raises(ts.InputError, match=r"a picture of 3 x 9 \(height x width\) is smaller than crop 4"):
        Preprocessing(crop=4).apply(np.zeros((3, 9, 3)))
    with pytest.raises(ts.InputError, match="for pictures between 0 and 1; got floats from 0 to 255"):
        Preprocessing(**IMAGENET).apply(np.array([[[0.0, 255.0, 0.0]]]))


@pytest.fixture
def folder(tmp_path):
    """Two classes and an empty one; a nested picture, a note, and a hidden folder, which are no pictures."""
    for name, colour in {"bee/2.png": (0, 255, 0), "bee/1.PNG": (0, 0, 51), "ant/deep/x.bmp": (255, 0, 0)}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 2), colour).save(tmp_path / name, format="PNG")
    for name in ("cow", ".git"):
        (tmp_path / name).mkdir()
    for name in ("bee/notes.txt", ".git/x.png", "top.png"):
        (tmp_path / name).write_text("no picture")
    return tmp_path


def test_class_folders_give_names_labels_and_pictures_in_order(folder):
    found = read_images(folder)
    assert found.classes == ("ant", "bee", "cow")
    assert found.labels.tolist() == [0, 1, 1]
    assert [found.pixels(i)[0, 0].tolist() for i in range(found.n_rows)] == [[255, 0, 0], [0, 0, 51], [0, 255, 0]]
    assert found.pixels(0).shape == (2, 4, 3)


@pytest.mark.parametrize(
    ("mode", "colour"), [("L", 51), ("LA", (51, 7)), ("RGBA", (51, 51, 51, 7)), ("P", 51), ("CMYK", (0, 0, 0, 204))]
)
def test_other_modes_become_colours_or_grey(mode, colour, tmp_path):
    (tmp_path / "a").mkdir()
    picture = Image.new("RGB" if mode == "P" else mode, (2, 3), (51, 51, 51) if mode == "P" else colour)
    picture.convert(mode).save(tmp_path / "a" / ("x.tif" if mode == "CMYK" else "x.png"))
    for channels in (1, 3):
        pixels = read_images(tmp_path, channels).pixels(0)
        assert pixels.shape == (3, 2, channels)
        assert set(pixels.ravel().tolist()) == {51}


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_pictures_of_16_bits_keep_their_greys(suffix, tmp_path):
    (tmp_path / "a").mkdir()
    grey = np.array([[0, 255, 256], [13107, 32768, 65535]], dtype=np.uint16)  # Pillow would cut all but one to 255
    Image.fromarray(grey).save(tmp_path / "a" / f"x{suffix}")
    for channels in (1, 3):
        pixels = read_images(tmp_path, channels).pixels(0)
        assert pixels.shape == (2, 3, channels)
        np.testing.assert_allclose(pixels, np.stack([grey / 65535] * channels, axis=2), rtol=1e-6)


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_pictures_of_32_bits_are_refused(kind, tmp_path):
    (tmp_path / "a").mkdir()
    Image.fromarray(np.ones((2, 3), dtype=kind)).save(tmp_path / "a" / "x.tif")
    with pytest.raises(ts.FileFormatError, match=r"x\.tif: .*32 bits for each pixel.*save it with 8 or 16"):
        read_images(tmp_path).pixels(0)


def test_bad_folders_and_pictures(tmp_path):
    with pytest.raises(ts.InputError, match="no pictures in class folders; expected "):
        read_images(tmp_path)
    with pytest.raises(ts.InputError, match="there is no such file"):
        read_images(tmp_path / "none")
    (tmp_path / "a").mkdir()
    Image.new("RGB", (50, 50)).save(tmp_path / "a" / "1.png")
    whole = (tmp_path / "a" / "1.png").read_bytes()
    for content in (b"", b"no picture", whole[:60]):
        (tmp_path / "a" / "1.png").write_bytes(content)
        with pytest.raises(ts.FileFormatError, match=r"1\.png: not a readable picture"):
            read_images(tmp_path).pixels(0)


def test_archives_of_both_layouts(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(5, 4, 6, 3), dtype=np.uint8)
    names = np.array(["ant", "bee"])
    np.savez(tmp_path / "last.npz", images=images, labels=np.arange(5) % 2, classes=names)
    np.savez_compressed(tmp_path / "first.npz", images=images.transpose(0, 3, 1, 2), label=np.arange(5) % 2)
    last, first = read_images(tmp_path / "last.npz"), read_images(tmp_path / "first.npz")
    assert (last.n_rows, last.classes, first.classes) == (5, ("ant", "bee"), None)
    for found in (last, first):
        assert found.labels.tolist() == [0, 1, 0, 1, 0]
        assert all(np.array_equal(found.pixels(i), images[i]) for i in range(5))
    np.savez(tmp_path / "grey.npz", images=images[..., 0])
    grey = read_images(tmp_path / "grey.npz", channels=1)
    assert grey.labels is None
    assert np.array_equal(grey.pixels(2), images[2, :, :, :1])


@pytest.mark.parametrize("layout", [lambda grey: grey, lambda grey: grey[..., None], lambda grey: grey[:, None]])
def test_a_model_of_colours_gets_grey_archives_three_times(layout, tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, size=(5, 4, 6), dtype=np.uint8)
    np.savez(tmp_path / "grey.npz", images=layout(grey))
    found = read_images(tmp_path / "grey.npz", channels=3)
    assert np.array_equal(found.pixels(2), np.stack([grey[2]] * 3, axis=2))
    small = Preprocessing(resize=2).apply(found.pixels(2))
    assert (small.shape, np.ptp(small, axis=0).max()) == ((3, 2, 3), 0.0)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": np.zeros((2, 4, 4, 3))}, "no array called 'images'"),
        ({"images": np.zeros((2, 4))}, r"shape \(n, H, W, 3\) or \(n, 3, H, W\); got \(2, 4\)"),
        ({"images": np.zeros((2, 4, 4, 2))}, r"got \(2, 4, 4, 2\)"),
        ({"images": np.zeros((2, 4, 4), dtype=np.uint16)}, "got uint16. Divide them by 65535"),
        ({"images": np.zeros((0, 4, 4, 3))}, r"got \(0, 4, 4, 3\)"),
        ({"images": np.zeros((2, 3, 5, 3))}, r"are ambiguous: \(n, H, W, channels\) or \(n, channels, H, W\)"),
        ({"images": np.zeros((2, 4, 4, 3), dtype=np.int64)}, "bytes .* or floats from 0 to 1; got int64"),
        ({"images": np.zeros((2, 4, 4, 3)), "labels": [0]}, r"labels must have shape \(2,\)"),
    ],
)
def test_bad_archives(arrays, message, tmp_path):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ts.InputError, match=rf"x\.npz: .*{message}"):
        read_images(tmp_path / "x.npz")


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_batches_keep_the_order_whatever_their_size(batch_size):
    n = 7
    images = ImageSet(n, lambda i: np.full((2, 2, 3), i, dtype=np.float32), np.arange(n) % 3, None)
    batches = ImageBatches(images, Preprocessing(), batch_size)
    for _ in range(2):  # it can be read again
        made = list(batches)
        assert len(made) == len(batches)
        assert np.concatenate([x for x, _ in made])[:, 0, 0, 0].tolist() == list(range(n))
        assert np.concatenate([y for _, y in made]).tolist() == [i % 3 for i in range(n)]
        assert max(len(x) for x, _ in made) <= batch_size


def test_batches_without_labels_and_bad_ones():
    images = ImageSet(2, lambda i: np.zeros((2 + i, 2, 3)), None, None)
    assert [x.shape for x in ImageBatches(images, Preprocessing(), 1)] == [(1, 3, 2, 2), (1, 3, 3, 2)]
    with pytest.raises(ts.InputError, match="must have the same size; got 2 x 2 and 3 x 2"):
        list(ImageBatches(images, Preprocessing(), 2))
    with pytest.raises(ts.InputError, match="batch_size must be a whole number from 1 to 1,000,000; got 0"):
        ImageBatches(images, Preprocessing(), 0)

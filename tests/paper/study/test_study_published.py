"""The paper's numbers as data, and names of files."""

import pytest

from thermoset.paper.study import PAIRS, Pair, find_printed, printed_cells, recognise


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("Cifar100-ResNet50_data.npz", Pair("CIFAR-100", "ResNet50")),
        ("cifar100_resnet50.npz", Pair("CIFAR-100", "ResNet50")),
        ("CIFAR-10-resnet34", Pair("CIFAR-10", "ResNet34")),
        ("Cifar100-DenseNet121_data.npz", Pair("CIFAR-100", "DenseNet121")),
        ("ImageNet-ViT_data.npz", Pair("ImageNet", "ViT-B/16")),
        ("imagenet_vit_b16.parquet", Pair("ImageNet", "ViT-B/16")),
        ("imagenet-resnet152.npz", Pair("ImageNet", "ResNet152")),
    ],
)
def test_names_of_the_papers_pairs_are_recognised(name, pair):
    assert recognise(name) == pair


@pytest.mark.parametrize("name", ["cifar100_densenet_bc100_overconfident", "imagenet5k_efficientnet_lite0", "val", ""])
def test_other_names_are_not(name):
    assert recognise(name) is None


@pytest.mark.parametrize(("top1", "same"), [(0.8093, True), (0.8049, True), (0.772, False), (0.90, False)])
def test_a_pair_is_recognised_by_name_and_accuracy(top1, same):
    assert recognise("cifar100_resnet50.npz", top1) == (Pair("CIFAR-100", "ResNet50") if same else None)
    assert recognise("val.npz", top1) is None


def test_every_pair_has_every_cell_of_the_tables():
    tables = [(0.1, 5), (0.1, 10), (0.1, 20), (0.05, 10)]
    for pair in PAIRS:
        assert find_printed(pair, "top1") is not None
        assert find_printed(pair, "temperature_nll") is not None
        for alpha, cp in tables:
            for metric in ("avg_size", "marginal_coverage_gap", "top_coverage_gap"):
                for at in ("before", "after"):
                    for method in ("lac", "aps", "raps"):
                        assert find_printed(pair, metric, method, at, alpha, cp) is not None
    assert len({(c.pair, c.metric, c.method, c.at, c.alpha, c.cp_percent) for c in printed_cells()}) == len(
        printed_cells()
    )


def test_percent_become_fractions_and_keep_their_rounding():
    cell = find_printed(Pair("CIFAR-100", "ResNet50"), "top_coverage_gap", "aps", "after", 0.1, 10)
    assert cell.value == pytest.approx(0.09)
    assert cell.rounding == pytest.approx(0.0005)
    zero = find_printed(Pair("CIFAR-100", "ResNet50"), "marginal_coverage_gap", "aps", "before", 0.1, 10)
    assert (zero.value, zero.rounding) == (0.0, pytest.approx(0.0005))


def test_cells_that_cannot_be_reproduced_say_so():
    wanted = [
        (Pair("CIFAR-100", "ResNet50"), "avg_size", "lac", "after", 0.05, 10),
        (Pair("CIFAR-100", "ResNet50"), "avg_size", "lac", "before", 0.05, 10),
        (Pair("CIFAR-100", "ResNet50"), "avg_size", "raps", "before", 0.05, 10),
        (Pair("CIFAR-10", "ResNet34"), "avg_size", "aps", "after", 0.05, 10),
        (Pair("CIFAR-10", "ResNet50"), "avg_size", "lac", "before", 0.1, 20),
        (Pair("CIFAR-100", "ResNet50"), "temperature_nll"),
        (Pair("CIFAR-100", "ResNet50"), "avg_size", "raps", "t_hat", 0.1, 10),
    ]
    assert all(find_printed(*cell).note.startswith("not reproducible") for cell in wanted)
    assert not find_printed(Pair("CIFAR-100", "ResNet50"), "avg_size", "aps", "after", 0.1, 10).note


def test_temperatures_stand_wherever_the_paper_and_its_code_have_them():
    vit, cifar = Pair("ImageNet", "ViT-B/16"), Pair("CIFAR-100", "ResNet50")
    kinds = ("temperature_ece", "temperature_ece_compared", "temperature_nll", "temperature_code")
    assert [find_printed(vit, kind).value for kind in kinds] == [1.18, 1.21, 1.18, 1.18]
    assert [find_printed(cifar, kind).value for kind in kinds] == [1.524, 1.524, 1.438, 1.504]
    differ = {
        str(pair)
        for pair in PAIRS
        if find_printed(pair, "temperature_ece").value != find_printed(pair, "temperature_code").value
    }
    assert differ == {"ImageNet, ResNet152", "ImageNet, DenseNet121", str(cifar), "CIFAR-100, DenseNet121"}


def test_rows_that_repeat_those_of_ten_percent_are_found():
    for cell in printed_cells():
        if cell.metric == "avg_size" and cell.at in ("before", "after") and cell.cp_percent in (5, 20):
            row = [
                find_printed(cell.pair, "avg_size", m, at, 0.1, cp).value
                for cp in (cell.cp_percent, 10)
                for m in ("lac", "aps", "raps")
                for at in ("before", "after")
            ]
            assert (row[:6] == row[6:]) == ("repeats" in cell.note)

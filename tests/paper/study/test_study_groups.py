"""Tables of groups in the study: for files that have groups, with the numbers of the sweep."""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require
from thermoset.paper.study import Settings, logits_files, study, study_logits
from thermoset.paper.study.by_group import group_tables

SETTINGS = Settings(trials=4, cp_percents=(10, 20), temperatures="0.5,1,2", alphas=(0.1,))
LOGITS, LABELS = generated(700, 5, signal=0.5)
SITES = np.arange(700) % 3


@pytest.fixture(scope="module")
def studies():
    rows = ts.Logits(LOGITS, LABELS, groups=SITES)
    return study_logits(rows, "with sites", SETTINGS), study_logits(ts.Logits(LOGITS, LABELS), "without", SETTINGS)


def test_files_with_groups_have_a_table(studies):
    (table,) = group_tables(studies)
    assert {line[0] for line in table.lines} == {"with sites"}
    assert [line[2] for line in table.lines[:3]] == ["T = 1", "near T*", "groups most even"]
    curves = studies[0].measured.curves[10]
    method = table.lines[0][1].lower()
    trials = curves.of_trials("avg_group_coverage_gap", method, 0.1)[1]  # T = 1 is the second temperature
    place = table.head.index("AvgCovGap over groups (%)")
    assert table.lines[0][place].split(" ± ")[0] == f"{100 * trials.mean():.1f}"
    best = curves.curve("avg_group_coverage_gap", method, 0.1)
    assert float(table.lines[2][3]) == curves.temperatures[np.argmin(best)]


def test_files_without_groups_have_none(studies):
    assert list(group_tables(studies[1:])) == []


def test_a_column_of_groups_is_read_by_its_name(tmp_path, monkeypatch):
    require("matplotlib", "plot")
    (tmp_path / "files").mkdir()
    np.savez(tmp_path / "files" / "rows.npz", logits=LOGITS, labels=LABELS, site=SITES)
    seen = []

    def watched(data, *_, **__):
        seen.append(data.groups)
        raise ts.InputError("enough was seen")

    monkeypatch.setattr("thermoset.paper.study.study_logits", watched)
    for groups, names in (("site", ("0", "1", "2")), (None, None)):
        with pytest.raises(ts.InputError, match=r"no file could be studied\. enough was seen"):
            study(tmp_path / "files", tmp_path / "out", SETTINGS, groups=groups)
        assert (seen[-1] if names is None else seen[-1].names) == names


def test_groups_beside_an_npy_file_are_no_logits(tmp_path):
    for name in ("rows_logits.npy", "rows_labels.npy", "rows_groups.npy"):
        np.save(tmp_path / name, np.zeros((3, 2)))
    assert [path.name for path in logits_files(tmp_path)] == ["rows_logits.npy"]

"""Every cell of a study as csv."""

from collections.abc import Sequence
from dataclasses import fields

from thermoset.paper.study.cells import Cell
from thermoset.paper.study.pairs import PairStudy
from thermoset.text_tables import csv_text

__all__ = ["cells_csv"]


def cells_csv(studies: Sequence[PairStudy]) -> str:
    """One line for each cell of each file."""
    heads = ["file", *(field.name for field in fields(Cell))]
    lines = [
        [study.name, *(getattr(cell, field.name) for field in fields(Cell))]
        for study in studies
        for cell in (*study.cells, *study.comparison.cells)
    ]
    return csv_text([heads, *lines])

"""Messages name rows as the user counts them, also where only some of the rows were looked at."""

import numpy as np
import pytest

import thermoset as ts
from thermoset import InputError


@pytest.mark.parametrize("row", range(0, 40, 3))
def test_a_row_in_a_message_of_fit_is_the_users(row):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    logits[row, labels[row]] = -1e200
    predictor = ts.TwoTemperaturePredictor("lac", 0.5, prefer="small", calibration_fraction=0.9)
    calibration, _ = ts.data.split_indices(40, 0.9, random_state=0)
    if row in calibration:
        with pytest.raises(InputError, match=rf"^logits\[{row}\] has its label at -1e\+200"):
            predictor.fit(logits, labels)

"""What every preference must be, collected from the registry: a new preference is tested by being in it."""

import warnings

import msgspec
import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.errors import BudgetWarning, InputError
from thermoset.tuning import choose, read_preference
from thermoset.tuning.preferences import (
    PREFERENCES,
    AnyPreference,
    Even,
    GapBudget,
    Protect,
    ProtectClasses,
    ProtectGroups,
    SizeBudget,
    Small,
)

EXAMPLES = {
    Small: ["small"],
    Even: ["even"],
    Protect: ["protect"],
    ProtectClasses: ["classes>=0.6", "classes>=0.999"],
    ProtectGroups: ["groups>=0.6", "groups>=0.999"],
    SizeBudget: ["size<=2", "size<=0.01"],
    GapBudget: ["gap<=0.3", "gap<=0"],
}


def even_of(prefer):
    """What a preference can be asked of."""
    return read_preference(prefer).over or "class"


TYPED = [(kind, prefer) for kind in PREFERENCES for prefer in EXAMPLES.get(kind, [])]


def test_every_preference_has_examples():
    assert set(EXAMPLES) == set(PREFERENCES)
    assert len({kind.__struct_config__.tag for kind in PREFERENCES}) == len(PREFERENCES)


@pytest.mark.parametrize(("kind", "prefer"), TYPED)
def test_a_preference_survives_text_and_file(kind, prefer):
    read = read_preference(prefer)
    assert type(read) is kind
    assert [other for other in PREFERENCES if other.read(prefer) is not None] == [kind]
    assert read_preference(read.text) == read
    back = msgspec.json.decode(msgspec.json.encode(read), type=AnyPreference)
    assert (back, type(back)) == (read, kind)


@pytest.mark.parametrize(("prefer", "text"), [(" size <= 2.5 ", "size<=2.5"), ("classes >= 0.85", "classes>=0.85")])
def test_blanks_do_not_matter(prefer, text):
    assert read_preference(prefer).text == text


@pytest.mark.parametrize(
    ("prefer", "part"),
    [
        *((bad, "prefer must be 'small'") for bad in ("tiny", "size", "", 0, True, None, [0.5], 10**400)),
        *((bad, "prefer must be") for bad in ("size>=3", "size<=", "classes<=0.8")),
        *((f"size<={bad}", "size budget") for bad in ("0", "many", "inf", "1e99999999")),
        *((f"gap<={bad}", "gap budget") for bad in ("1", "-0.1", "nan", "1e-99999999")),
        *((f"classes>={bad}", "coverage of hard classes") for bad in ("1", "0", "most")),
        ("groups>=2", "coverage of hard groups must be between 0 and 1; got 'groups>=2'"),
    ],
)
def test_bad_preferences(prefer, part):
    with pytest.raises(InputError, match=part):
        read_preference(prefer)


@pytest.fixture(scope="module")
def rows():
    logits, labels = generated(800, 5, signal=0.0)
    logits[np.arange(800), labels] += labels  # some classes are easier than others
    return ts.Logits(logits, labels, groups=labels)


@pytest.mark.parametrize(("kind", "prefer"), TYPED)
def test_a_choice_holds_it_and_says_so(rows, kind, prefer):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asked = {"prefer": prefer, "even": even_of(prefer)}
        choice = choose(rows, ts.Recipe("aps"), **asked, calibrated=3.0, temperatures=[0.5, 1, 2, 3, 4, 6])
    assert type(choice.preference) is kind
    assert choice.prefer == choice.preference.text
    named = choice.setting.title if choice.setting.alpha != choice.alpha else f"T-hat = {choice.temperature:.2f}"
    assert named in choice.sentences[0] or not choice.met or choice.signal.tried is not None
    unkept = [warning for warning in caught if warning.category is BudgetWarning]
    assert bool(unkept) is not choice.met
    for warning in unkept:
        assert choice.preference.shortfall(choice) in str(warning.message)
    assert msgspec.json.decode(msgspec.json.encode(choice), type=type(choice)) == choice


@pytest.mark.parametrize(("kind", "prefer"), TYPED)
def test_it_says_how_many_rows_it_needs(kind, prefer):
    needed = 2 * 9  # alpha = 0.1 needs 9 rows for a threshold, and each half has one
    data = ts.Logits(*generated(needed - 1, 3), groups=np.arange(needed - 1) % 2)
    with pytest.raises(InputError, match=f"needs at least {needed} calibration rows; got {needed - 1}"):
        choose(data, prefer=prefer, even=even_of(prefer), calibrated=3.0)


@pytest.mark.parametrize(("kind", "prefer"), TYPED)
def test_it_says_whether_groups_can_have_it(rows, kind, prefer):
    recipe, grid = ts.Recipe("aps", grouping="class"), [1.0, 3.0]
    if kind.needs_closed_form:
        with pytest.raises(InputError, match="needs one threshold for all classes"):
            choose(rows, recipe, prefer=prefer, even=even_of(prefer), calibrated=3.0, temperatures=grid)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        assert choose(rows, recipe, prefer=prefer, calibrated=3.0, temperatures=grid).preference == read_preference(
            prefer
        )

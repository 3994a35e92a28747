"""What one could have instead: every setting once, the front by hand, and what a temperature alone does not tell."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choices import kept_choice, looked_at, made_choice
from thermoset.conformal.recipe import Recipe
from thermoset.tuning import read_preference
from thermoset.tuning.choice import (
    FRONTS,
    Alternative,
    alternatives,
    drawable,
    front,
    is_stricter,
    settings_of,
    target_of,
    tells_setting,
)


def test_the_recommended_setting_comes_first_then_the_named_ones_by_size():
    found = alternatives(made_choice())
    assert [one.name for one in found] == ["recommended", "T = 1", "clustered", "T*", "most even T-hat", "Mondrian"]
    assert [one.chosen for one in found] == [True, False, False, False, False, False]
    assert found[0].outlook.setting.title == "LAC, T = 2.00, alpha 0.06"


def test_settings_without_a_name_are_there_too_and_each_is_there_once():
    """Also a recommendation that the frontier lacks."""
    choice = made_choice()
    found = settings_of(choice)
    assert len(found) == len(choice.frontier) == 10
    assert sum(not one.names for one in found) == 4
    titles = [one.outlook.setting.title for one in found]
    assert len(titles) == len(set(titles))
    without = msgspec.structs.replace(choice, frontier=tuple(at for at in choice.frontier if at.name != "recommended"))
    assert [one.name for one in settings_of(without)] == [one.name for one in found]


def test_a_setting_with_several_names_has_them_together():
    found = alternatives(kept_choice())
    assert found[0].names == ("recommended", "T = 1")
    assert found[0].name == "recommended, T = 1"
    assert [one.name for one in found[1:]] == ["clustered", "T*", "most even T-hat", "Mondrian"]


def test_what_is_not_known_is_not_drawn():
    bare = made_choice(frontier=())
    assert settings_of(bare) == alternatives(bare) == drawable(bare, "worst_tenth") == ()
    choice = made_choice()
    unknown = looked_at("odd", Recipe("aps"), 1.0, 5.0, None, None)
    odd = msgspec.structs.replace(choice, frontier=(*choice.frontier, unknown))
    for metric in FRONTS:
        assert [one.name for one in drawable(odd, metric)] == [one.name for one in settings_of(choice)]


@pytest.mark.parametrize(("prefer", "target"), [("classes>=0.8", 0.8), ("protect", 0.85), ("small", None)])
def test_what_was_asked_for_hard_classes_is_a_target_of_theirs_alone(prefer, target):
    choice = made_choice(preference=read_preference(prefer))
    assert target_of(choice, "worst_tenth") == (None if target is None else pytest.approx(target))
    assert target_of(choice, "class_gap") is None


def at(size, tenth, gap):
    return looked_at("", Recipe("lac"), 1.0, size, tenth, gap)


def test_the_front_by_hand():
    a, b, beaten, c = at(1.0, 0.7, 0.08), at(2.0, 0.8, 0.09), at(3.0, 0.75, 0.07), at(4.0, 0.9, 0.01)
    every = [c, beaten, a, b]
    assert front(every, "worst_tenth") == (a, b, c)
    assert front(every, "class_gap") == (a, beaten, c)
    assert front([at(1.0, None, 0.1)], "worst_tenth") == ()


shares = st.integers(0, 6).map(lambda n: n / 6)


@given(st.lists(st.tuples(st.integers(1, 6), shares), min_size=1, max_size=12))
def test_the_front_is_what_no_other_setting_beats(pairs):
    every = [at(float(size), tenth, 1 - tenth) for size, tenth in pairs]
    kept = front(every, "worst_tenth")
    unbeaten = {
        (size, tenth)
        for size, tenth in pairs
        if not any((s <= size and t >= tenth) and (s, t) != (size, tenth) for s, t in pairs)
    }
    assert {(one.size, one.worst_tenth) for one in kept} == unbeaten
    assert len(kept) == len(unbeaten), "equals stand there once"
    # A gap of one less the coverage is the same question.
    assert [one.size for one in front(every, "class_gap")] == [one.size for one in kept]


@pytest.mark.parametrize(
    ("promised", "level", "stricter"),
    [("0.1", "0.06", True), ("0.1", "0.1", False), ("0.10", "0.1", False), ("1/7", "0.1", True)],
)
def test_a_stricter_level_is_a_smaller_number(promised, level, stricter):
    hat = looked_at("T-hat", Recipe("lac", level), 2.0, 2.0, 0.9, 0.02)
    choice = made_choice(alpha=promised, outlooks=(hat, hat, hat), methods=("LAC",))
    assert is_stricter(choice) is tells_setting(choice) is stricter


def test_where_several_kinds_were_searched_the_kind_is_told():
    hat = looked_at("T-hat", Recipe("lac", "0.1"), 2.0, 2.0, 0.9, 0.02)
    assert tells_setting(made_choice(outlooks=(hat, hat, hat), methods=("LAC", "APS")))
    assert not is_stricter(made_choice(outlooks=(hat, hat, hat), methods=("LAC", "APS")))


@pytest.mark.parametrize(("error", "ends"), [(0.1, (1.804, 2.196)), (2.0, (0.0, 5.92))])
def test_intervals_by_hand(error, ends):
    """Of a size two standard errors, never below nothing; of a metric those of the outlook, or the value alone."""
    at = looked_at("x", Recipe("lac"), 1.0, 2.0, 0.8, 0.05, error=error)
    one = Alternative(("x",), at)
    assert one.size_interval == pytest.approx(ends)
    assert one.interval("worst_tenth") == at.worst_tenth_ends == pytest.approx((0.78, 0.82))
    assert Alternative(("x",), msgspec.structs.replace(at, class_gap_ends=None)).interval("class_gap") == (0.05, 0.05)

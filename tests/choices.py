"""Choices made by hand: every number of them is known, and none was searched for."""

import copy

import msgspec

from thermoset.conformal.recipe import Recipe
from thermoset.predictor.stored import Thresholds
from thermoset.tuning import Choice, Curve, Outlook, TradeOff, read_preference
from thermoset.tuning.choice import MissBreakdown, Signal

AT_ONE = MissBreakdown(easy=0.985, left_out=0.02, empty=(0.001, 0.004, 0.02, 0.06, 0.11))
PROTECTED = MissBreakdown(easy=0.998, left_out=0.0, empty=(0.0, 0.0, 0.0, 0.0, 0.0))
EVEN = MissBreakdown(easy=0.93, left_out=0.068, empty=(0.0, 0.01, 0.05, 0.12, 0.2))


def looked_at(name, recipe, temperature, size, tenth, gap, misses=None, error=0.03):
    """An outlook; intervals reach 0.02 and 0.01 to both sides."""
    return Outlook(
        name=name,
        setting=recipe.change(temperature=temperature),
        size=size,
        size_error=error,
        empty_share=0.0 if misses is None else sum(misses.empty) / 5,
        class_gap=gap,
        class_gap_ends=None if gap is None else (gap - 0.01, gap + 0.01),
        worst_tenth=tenth,
        worst_tenth_ends=None if tenth is None else (tenth - 0.02, tenth + 0.02),
        misses=misses,
    )


def made_choice(temperature=2.0, **changed):
    """What might be said of published logits of 100 classes: LAC with a stricter level protects the hard classes."""
    raps, mondrian, clustered = (Recipe("raps", "0.1", grouping=kind) for kind in (None, "class", "cluster"))
    one = looked_at("T = 1", raps, 1.0, 2.65, 0.793, 0.055, AT_ONE)
    star = looked_at("T*", raps, 1.3, 3.4, 0.815, 0.049, AT_ONE)
    hat = looked_at("T-hat", Recipe("lac", "0.06"), temperature, 2.29, 0.865, 0.041, PROTECTED)
    front = [
        (1.56, 0.776, 0.066, "0.1"),
        (1.72, 0.8, 0.06, "0.09"),
        (1.95, 0.835, 0.05, "0.07"),
        (3.13, 0.895, 0.03, "0.04"),
    ]
    choice = Choice(
        preference=read_preference("small"),
        alpha="0.1",
        methods=("LAC", "RAPS", "RAPS, deterministic"),
        met=True,
        sure=None,
        peak=None,
        spread=None,
        outlooks=(one, star, hat),
        comparisons=tuple(
            TradeOff(at.name, at.temperature, 2.29 - at.size, (2.19 - at.size, 2.39 - at.size), None, None, None)
            for at in (one, star)
        ),
        frontier=(
            *(looked_at("", Recipe("lac", alpha), 2.0, size, tenth, gap) for size, tenth, gap, alpha in front),
            msgspec.structs.replace(hat, name="recommended"),
            one,
            star,
            looked_at("most even T-hat", raps, 2.0, 6.15, 0.859, 0.035, EVEN),
            looked_at("Mondrian", mondrian, 1.0, 7.9, 0.842, 0.03, AT_ONE),
            looked_at("clustered", clustered, 1.0, 3.3, 0.822, 0.046, AT_ONE),
        ),
        signal=Signal(),
        noise_floor=0.08,
        noise_floor_95=0.09,
        n_rows=2_000,
        curve=Curve(
            alpha="0.06",
            temperatures=(0.5, 1.0, 2.0),
            size=(1.9, 2.0, 2.29),
            size_error=(0.1, 0.1, 0.1),
            class_gap=(0.06, 0.05, 0.041),
            loss=(0.3, 0.2, 0.1),
        ),
    )
    return msgspec.structs.replace(choice, **changed)


def kept_choice():
    """The same where nothing could be told: T = 1 was kept, and other scores were not looked at."""
    found = made_choice()
    one, star, _ = found.outlooks
    return made_choice(
        outlooks=(one, star, msgspec.structs.replace(one, name="T-hat")),
        frontier=tuple(at for at in found.frontier if at.name != "recommended"),
        methods=("RAPS",),
        signal=Signal(beats=0.4, tried=2.3),
    )


def with_choice(predictor, choice):
    """A fitted predictor that says it was chosen so."""
    made = copy.copy(predictor)
    if predictor.temperature_sets_ != choice.temperature:
        raise ValueError("its sets are made at another temperature")
    document = of_choice(predictor.document_, choice).change(alpha=choice.alpha)
    if not document.is_plain:  # a stricter level than the promised one
        document = document.change(scores=None, thresholds=Thresholds.of(predictor._inference.thresholds))
    made._adopt(document)
    return made


def of_choice(document, choice):
    """The document as if its choice had been this one."""
    return document.change(stored_choice=msgspec.Raw(msgspec.json.encode(choice)))

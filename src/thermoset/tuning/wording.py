"""A choice in sentences: what it gains and costs, what hard classes get, and what the terms mean."""

from typing import TYPE_CHECKING

from thermoset.tuning.preferences import Protect

if TYPE_CHECKING:
    from thermoset.tuning.choice import Choice, Outlook, TradeOff

PROTECT, STRICTER = "prefer protect", "a stricter alpha"
"""Names of settings of the frontier that a screen offers."""


def sentences(choice: "Choice") -> tuple[str, ...]:
    """The recommendation, what it gains and costs, what hard classes get, and how certain it is."""
    pairs = zip(choice.comparisons, choice.outlooks, strict=False)
    others = [versus for versus, at in pairs if at.setting != choice.setting]
    traded = (_traded(versus, choice.words.gap) for versus in others)
    by_hand = len(choice.curve.temperatures) == 1
    why = f"T-hat = {choice.temperature:.2f} was set by hand." if by_hand else choice.preference.reason(choice)
    return (why, *traded, *_left_out(choice), *hard_classes(choice), *_doubts(choice))


def hard_classes(choice: "Choice") -> tuple[str, ...]:
    """In up to three lines: what hard classes get, and what more would cost."""
    at, many = choice.outlook, choice.words.many
    if at.worst_tenth is None or at.worst_tenth_ends is None:
        return ()
    low, high = at.worst_tenth_ends
    said = [f"Worst tenth of {many}: covered {at.worst_tenth:.2f} of the time ({low:.2f} to {high:.2f})."]
    by_name = {one.name: one for one in choice.frontier}
    if choice.target is None and (more := by_name.get(PROTECT)) is not None:
        said.append(f"--prefer protect: {_offer(more)}, with at least {Protect().target(choice.alpha):.3g} claimed.")
    if (more := by_name.get(STRICTER)) is not None and more.setting.alpha != choice.setting.alpha:
        said.append(f"--alpha {more.setting.alpha}: {_offer(more)}.")
    return tuple(said)


def _offer(at: "Outlook") -> str:
    return f"{at.worst_tenth or 0:.2f} with {at.size:.1f} labels"


def unmet(choice: "Choice") -> str:
    """What a warning says where a request was not met."""
    if choice.target is not None:
        advice = "Add rows" if choice.claim is not None and not choice.claim.enough_rows else "Ask for less"
        short = choice.preference.shortfall(choice)
        return (
            f"nothing is claimed about hard {choice.words.many} ({choice.prefer}); {short}. The promised level is "
            f"kept. {advice}."
        )
    what = "temperature" if len(choice.methods) == 1 else "setting"
    return (
        f"no {what} meets {choice.prefer} with 95% confidence; {choice.setting.title} has "
        f"{choice.preference.shortfall(choice)}. Ask for less."
    )


def too_long(choice: "Choice", n_classes: int) -> str | None:
    """A warning where protecting hard classes takes more than half of all labels, with its price."""
    at, plain = choice.outlook, choice.outlooks[0]
    if not choice.met or choice.target is None or at.size <= max(n_classes / 2, 1.5):  # one of two is not too many
        return None
    return (
        f"{choice.prefer} takes {at.size:.1f} of {n_classes:,} labels on average, more than half; {plain.name} at the "
        f"promised level has {plain.size:.1f}. Ask for less, or use prefer='small'."
    )


def legend(choice: "Choice") -> tuple[tuple[str, str], ...]:
    """The terms used in the table and the sentences, explained."""
    terms = [
        ("T*", "the temperature whose probabilities fit the labels best"),
        ("T-hat", "the temperature chosen for the prediction sets"),
    ]
    if choice.peak is not None:
        terms.append(("T_c", "the temperature at which sets are largest on average; T-hat is never above it"))
    words = choice.words
    if choice.outlook.class_gap is not None:
        typical = f"the typical distance between the coverage of a {words.one} and overall coverage"
        terms.append((words.gap, f"{typical} (root mean square over {words.many})"))
    if choice.outlook.worst_tenth is not None:
        few = "; with fewer than 15 groups, the coverage of the worst one" if choice.even == "group" else ""
        terms.append(("worst tenth", f"the mean coverage of the 10% of {words.many} with the lowest coverage{few}"))
    return tuple(terms)


def _left_out(choice: "Choice") -> list[str]:
    now, one = choice.outlook.misses, choice.outlooks[0].misses
    if now is None or one is None or max(now.left_out, one.left_out) < 0.0005:
        return []
    said = f"{now.left_out:.1%} of all rows have a correct top label that the set leaves out"
    if choice.setting == choice.outlooks[0].setting:
        return [f"{said}."]
    return [f"{said} ({choice.outlooks[0].name}: {one.left_out:.1%})."]


def _doubts(choice: "Choice") -> list[str]:
    said = []
    if choice.spread is not None and choice.signal.tried is None:
        said.append(
            f"Refitting on random halves of the {choice.n_rows:,} rows gives T-hat between {choice.spread[0]:.2f} and "
            f"{choice.spread[1]:.2f} in 90% of cases."
        )
    alike = [c.name for c in choice.comparisons if c.tells_apart is False and c.temperature != choice.temperature]
    if alike:
        said.append(
            f"On these rows its {choice.words.gap} cannot be distinguished from that at {' and '.join(alike)}: the "
            "difference is within the noise."
        )
    return said


def _traded(versus: "TradeOff", name: str) -> str:
    more = "larger" if versus.size > 0 else "smaller"
    size = f"{abs(versus.size):.2f} labels {more}"
    if versus.size_ends is not None:
        size += f" (95% interval: {versus.size_ends[0]:+.2f} to {versus.size_ends[1]:+.2f})"
    if versus.class_gap is None or versus.class_gap_ends is None:
        return f"Compared with {versus.name}, sets are {size}."
    low, high = versus.class_gap_ends
    change = f"{abs(versus.class_gap):.3f} {'higher' if versus.class_gap > 0 else 'lower'}"
    gap = f"the {name} is {'the same' if round(versus.class_gap, 3) == 0 else change}"
    return f"Compared with {versus.name}, sets are {size} and {gap} (95% interval: {low:+.3f} to {high:+.3f})."

"""Who pays for the misses that alpha allows: T = 1 and the recommendation side by side."""

from dataclasses import dataclass

from thermoset.tuning import Choice, Outlook
from thermoset.tuning.choice import MissBreakdown

__all__ = ["Payer", "who_pays"]


@dataclass(frozen=True)
class Payer:
    """A setting with what it is called in a sentence, and who pays there."""

    name: str
    outlook: Outlook
    payers: MissBreakdown


def who_pays(choice: Choice) -> tuple[Payer, ...]:
    """T = 1 and the recommendation, or the recommendation alone where it is T = 1; nothing where it is not known."""
    one, chosen = choice.outlooks[0], choice.outlook
    if one.misses is None or chosen.misses is None or not choice.frontier:
        return ()
    if one.setting == chosen.setting:
        return (Payer("recommended", chosen, chosen.misses),)
    other = "" if one.setting.kind == chosen.setting.kind else f" ({one.setting.kind})"
    return Payer(f"{one.name}{other}", one, one.misses), Payer("recommended", chosen, chosen.misses)

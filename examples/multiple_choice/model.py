"""A language model small enough to read: characters, predicted from the few before them."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable

START = "\n"


class Characters:
    """Counts of characters after the 0 to `order` before them, each smoothed by the next shorter (Witten-Bell)."""

    def __init__(self, order: int = 5) -> None:
        self.order = order
        self._after: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._letters: set[str] = {START}

    def fit(self, texts: Iterable[str]) -> "Characters":
        """Count."""
        for text in texts:
            padded = START * self.order + text
            self._letters.update(text)
            for place in range(self.order, len(padded)):
                for length in range(self.order + 1):
                    self._after[padded[place - length : place]][padded[place]] += 1
        return self

    def log_likelihood(self, context: str, continuation: str) -> float:
        """The logarithm of the probability that the text goes on like this."""
        padded = START * self.order + context + continuation
        places = range(len(padded) - len(continuation), len(padded))
        return sum(math.log(self._probability(padded[place - self.order : place], padded[place])) for place in places)

    def _probability(self, context: str, letter: str) -> float:
        share = 1 / (len(self._letters) + 1)  # one more, for letters that were never seen
        for length in range(len(context) + 1):
            counts = self._after.get(context[len(context) - length :])
            if counts is None:
                break
            total, kinds = counts.total(), len(counts)
            share = (counts[letter] + kinds * share) / (total + kinds)
        return share

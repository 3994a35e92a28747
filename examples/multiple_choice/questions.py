"""Questions made of real sentences: which of two to five words of the same length belongs into this gap."""

import random
from collections import defaultdict
from typing import NamedTuple

MOST_OPTIONS = 5
LETTERS = 4  # of the word that is left out, at least


class Question(NamedTuple):
    """A sentence up to a gap, ways to go on of which one is its own, and where that one stands."""

    beginning: str
    options: tuple[str, ...]
    gold: int


def questions(sentences: list[str], seed: int = 0) -> list[Question]:
    """One question for each sentence; wrong words come from other sentences and are as long as the right one.

    With options of one length their log-likelihoods can be compared as they are.
    """
    rng = random.Random(seed)  # noqa: S311
    by_length: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for sentence in sentences:
        for word in sentence.split(" "):
            if word.isalpha() and word.islower():
                by_length[len(word)][word] = None
    made = []
    for sentence in sentences:
        words = sentence.split(" ")
        gaps = [i for i, word in enumerate(words) if i > 1 and len(word) >= LETTERS and word in by_length[len(word)]]
        if not gaps:
            continue
        gap = rng.choice(gaps)
        others = [word for word in by_length[len(words[gap])] if word != words[gap]]
        wrong = rng.sample(others, min(len(others), rng.randint(1, MOST_OPTIONS - 1)))
        options = [words[gap], *wrong]
        rng.shuffle(options)
        rest = words[gap + 1 : gap + 3]
        endings = tuple(" ".join([option, *rest]) for option in options)
        made.append(Question(" ".join(words[:gap]), endings, options.index(words[gap])))
    return made


def first_sentences(texts: list[str]) -> list[str]:
    """The first sentence of each text, each once."""
    return list(dict.fromkeys(text.split(". ")[0].rstrip(".") for text in texts))

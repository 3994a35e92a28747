"""The 209 classes: letters of three alphabets, digits and ASCII punctuation, with names that tell them apart."""

import re
import string
import unicodedata

GREEK = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρςστυφχψω"
CYRILLIC = "АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдеёжзийклмнопрстуфхцчшщъыьэюя"

CHARACTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits + string.punctuation + GREEK + CYRILLIC
"""The characters in class order."""


def class_name(character: str) -> str:
    """Return a short printable name, different for characters that look alike.

    ASCII characters stand for themselves. Other letters have the names of Unicode, with a capital for capitals, and
    Cyrillic ones say so.

    >>> [class_name(character) for character in "A|ΑΛσςАжй"]
    ['A', '|', 'Alpha', 'Lambda', 'sigma', 'final sigma', 'Cyrillic A', 'Cyrillic zhe', 'Cyrillic short i']
    """
    if character.isascii():
        return character
    found = re.fullmatch(r"(GREEK|CYRILLIC) (SMALL|CAPITAL) LETTER (.+)", unicodedata.name(character))
    if found is None:
        raise ValueError(f"wanted an ASCII character or a letter of the Greek or Cyrillic alphabet; got {character!r}")
    script, case, name = found.groups()
    word = name.lower().replace("lamda", "lambda")  # Unicode's spelling is its own
    word = word.capitalize() if case == "CAPITAL" else word
    return f"Cyrillic {word}" if script == "CYRILLIC" else word


CLASSES = tuple(map(class_name, CHARACTERS))
"""The names in class order."""

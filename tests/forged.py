"""Documents that were changed by someone who knows how their checksum is made."""

import functools
import hashlib
import operator

import msgspec

from thermoset.conformal.recipe import Recipe


def forge(path, document, changes):
    """Write a document with other fields, by their dotted names, and a checksum that fits them."""
    content = msgspec.json.decode(msgspec.json.encode(document))
    for place, value in changes.items():
        *above, name = place.split(".")
        functools.reduce(operator.getitem, above, content)[name] = value
    recipe = content["recipe"]  # what is left out of a file has its place all the same
    content["recipe"] = {name: recipe[name] for name in Recipe.__struct_fields__ if name in recipe} | recipe
    content["checksum"] = ""
    content["checksum"] = hashlib.sha256(msgspec.json.encode(content)).hexdigest()
    path.write_bytes(msgspec.json.encode(content))
    return path

"""Documents that were changed by someone who knows how their checksum is made."""

import functools
import hashlib
import operator

import msgspec


def forge(path, document, changes):
    """Write a document with other fields, by their dotted names, and a checksum that fits them."""
    content = msgspec.json.decode(msgspec.json.encode(document))
    for place, value in changes.items():
        *above, name = place.split(".")
        functools.reduce(operator.getitem, above, content)[name] = value
    content["checksum"] = ""
    content["checksum"] = hashlib.sha256(msgspec.json.encode(content)).hexdigest()
    path.write_bytes(msgspec.json.encode(content))
    return path

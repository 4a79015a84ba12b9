"""Files as somebody edits them by hand: without the checksums that would tell."""

import json


def read_values(path):
    """Return the object in a JSON file, without its checksum."""
    values = json.loads(path.read_text())
    values.pop("checksum", None)
    return values


def edit_json(path, **changes):
    """Replace fields of the object in a JSON file."""
    path.write_text(json.dumps(read_values(path) | changes))

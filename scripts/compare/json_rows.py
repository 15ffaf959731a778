"""Results as JSON with a row to a line, so that a diff shows rows."""

import json


def json_rows(value, depth):
    """What lies `depth` levels deep has one line each."""
    return opened(value, depth, "\n") + "\n"


def opened(value, depth, newline):
    if depth == 0 or not value or not isinstance(value, (dict, list)):
        return json.dumps(value)
    inner = newline + "  "
    if isinstance(value, list):
        return "[" + ",".join(inner + opened(each, depth - 1, inner) for each in value) + newline + "]"
    return "{" + ",".join(f"{inner}{json.dumps(key)}: {opened(each, depth - 1, inner)}" for key, each in value.items()) + newline + "}"

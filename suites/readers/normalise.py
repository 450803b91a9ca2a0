"""Normalises the events of a file of Sentry's envelopes as Sentry's own servers do, and fails if one of them has an error."""
import json
import pathlib
import sys

from sentry_relay.processing import StoreNormalizer


def errors(meta, path=""):
    """What the normaliser noted about a value and those within it."""
    for key, value in meta.items():
        if key == "":
            yield f"{path}: {value}"
        elif isinstance(value, dict):
            yield from errors(value, f"{path}/{key}")


bytes, count, wrong = pathlib.Path(sys.argv[1]).read_bytes(), 0, []
while bytes:
    _, item, bytes = bytes.split(b"\n", 2)
    length = json.loads(item)["length"]
    event, bytes = json.loads(bytes[:length]), bytes[length + 1:]
    normal = StoreNormalizer(project_id=1).normalize_event(event)
    wrong += errors(normal.get("_meta") or {}) if normal else ["refused"]
    wrong += [f"{key} is lost" for key, value in event.items() if value not in (None, {}, {"values": []}) and key not in normal]
    count += 1
print("\n".join(wrong) or f"{count} events, no error")
sys.exit(bool(wrong))

"""Reads a folder of reports with the package `msgpack` alone: python3 examples/read_folder.py FOLDER

A report is a stream of sections, each an array of its kind and its map. One that is cut ends the stream early:
what was read until then is whole.
"""

import pathlib
import sys

import msgpack


def read(path):
    """The sections of a report by kind, each kind's in the order of the file."""
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(path.read_bytes())
    sections = {}
    for kind, fields in unpacker:
        sections.setdefault(kind, []).append(fields)
    return sections


def line(sections):
    """stall of MyApp 1.2.3 at 1700000000 for 400 ms, in libc.so.6 libc.so.6 myapp"""
    head = sections["head"][0]
    event = sections.get("event", [{}])[0].get("type", "nothing")
    lasted = "".join(f" for {end['duration'] // 1_000_000} ms" for end in sections.get("stall_end", []))
    images = [image["name"].rsplit("/", 1)[-1] for image in sections.get("image", [])]
    frames = sections.get("thread", [{}])[0].get("frames", [])[:3]
    inside = [images[image] for _, _, image, *_ in frames if image is not None and image < len(images)]
    app = head["app"]
    return f"{event} of {app['name']} {app['version']} at {head['time'] // 1_000_000_000}{lasted}, in {' '.join(inside)}"


if __name__ == "__main__":
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.wedjat")):
        print(line(read(path)))

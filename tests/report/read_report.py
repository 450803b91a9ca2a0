import sys, zlib, msgpack

def read_report(data):
    """Sections of a report, in order: kind and map. Raises if the file is cut or changed."""
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(data)
    sections, start = [], 0
    for kind, fields in unpacker:
        sections.append((kind, fields))
        if kind == "end":
            assert fields["crc32"] == zlib.crc32(data[:start]), "the file was changed"
            assert fields["sections"] == len(sections), "sections are missing"
        start = unpacker.tell()
    assert sections[0][0] == "head" and sections[0][1]["format"] == "wedjat", "not a report"
    assert sections[-1][0] == "end" and start == len(data), "the file is cut"
    return sections

if __name__ == "__main__":
    for kind, fields in read_report(open(sys.argv[1], "rb").read()):
        print(kind, fields)

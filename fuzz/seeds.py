"""Writes what fuzzing begins from to seeds/, from the byte diagrams in crates/exchange/src/form/mod.rs and frame.rs."""

import pathlib
import struct
import zlib

SEEDS = pathlib.Path(__file__).parent / "seeds"


def header(form, k, threshold, elements, sent):
    return struct.pack("<BBBBfII", 1, form, k, 0, threshold, elements, sent)


def packed(bits):
    number = sum(bit << at for at, bit in enumerate(bits))
    return number.to_bytes((len(bits) + 7) // 8, "little")


def sparse(k, threshold, elements, sent):
    """`sent` is pairs of index and sign bit."""
    fields, unary, following = [], [], 0
    for index, sign in sent:
        gap, following = index - following, index + 1
        fields += [sign] + [gap >> bit & 1 for bit in range(k)]
        unary += [0] * (gap >> k) + [1]
    return header(0, k, threshold, elements, len(sent)) + packed(fields) + packed(unary)


def bitmap(threshold, elements, sent):
    signs = dict(sent)
    planes = [[int(i in signs) for i in range(elements)], [signs.get(i, 0) for i in range(elements)]]
    return header(1, 0, threshold, elements, len(sent)) + packed(planes[0]) + packed(planes[1])


def dense(values):
    return header(2, 0, 0.0, len(values), len(values)) + struct.pack(f"<{len(values)}f", *values)


def update(threshold, elements, values):
    return struct.pack("<fI", threshold, elements - 1) + struct.pack(f"<{len(values)}f", *values)


def frame(kind, sequence, body, version=(1, 0), checksum=None):
    start = b"PCLN" + struct.pack("<BBHI", *version, kind, len(body))
    rest = struct.pack("<QQQQ", 1, 2, 3, sequence)
    checksum = zlib.crc32(start + rest + body) if checksum is None else checksum
    return start + struct.pack("<I", checksum) + rest + body


def stream(limit, piece, content):
    return struct.pack("<HB", limit, piece) + content


DECODE = {
    "sparse_none": sparse(0, 0.5, 64, []),
    "sparse_few": sparse(3, 0.5, 65, [(0, 0), (2, 1), (64, 0)]),
    "sparse_many": sparse(0, 0.25, 63, [(i, i % 2) for i in range(0, 63, 2)]),
    "sparse_wide": sparse(8, 1e-3, 1000, [(3, 1), (500, 0), (999, 1)]),
    "bitmap": bitmap(0.5, 65, [(i, i % 3 == 0) for i in range(60)]),
    "bitmap_one": bitmap(2.0, 1, [(0, 1)]),
    "dense": dense([0.0, 1.5, -2.25] * 21),
    "cut": sparse(3, 0.5, 65, [(0, 0), (2, 1), (64, 0)])[:-1],
}
ROUND_TRIP = {
    "few": update(0.5, 8, [0.1 * i for i in range(-8, 8)]),
    "all": update(1e-3, 70, [1.0, -1.0] * 70),
    "edge": update(1.0, 64, [1.0, -1.0, 0.5, 0.0] * 32),
}
FRAME = {
    "one": stream(100, 7, frame(1, 1, b"body")),
    "many": stream(100, 50, b"".join(frame(kind, kind, bytes(kind)) for kind in range(4))),
    "minor": stream(100, 1, frame(1, 1, b"newer", version=(1, 9))),
    "major": stream(100, 1, frame(1, 1, b"other", version=(2, 0))),
    "large": stream(3, 200, frame(1, 1, b"body")),
    "damaged": stream(100, 20, frame(1, 1, b"body", checksum=0)),
    "cut": stream(100, 48, frame(1, 1, b"body")[:-1]),
    "web": stream(100, 4, b"GET / HTTP/1.1\r\n\r\n"),
}

for target, seeds in [("decode", DECODE), ("frame", FRAME), ("round_trip", ROUND_TRIP)]:
    (SEEDS / target).mkdir(parents=True, exist_ok=True)
    for name, content in seeds.items():
        (SEEDS / target / name).write_bytes(content)

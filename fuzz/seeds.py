"""Writes the messages and updates that fuzzing begins from to seeds/, from the byte diagram in crates/exchange/src/form/mod.rs."""

import pathlib
import struct

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

for target, seeds in [("decode", DECODE), ("round_trip", ROUND_TRIP)]:
    (SEEDS / target).mkdir(parents=True, exist_ok=True)
    for name, content in seeds.items():
        (SEEDS / target / name).write_bytes(content)

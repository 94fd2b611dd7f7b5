"""Writes what fuzzing begins from to seeds/, from the byte diagrams in crates/exchange/src/form/mod.rs,
frame.rs and pieces.rs, and crates/cluster/src/wire.rs."""

import json
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


def piece(kind, left, content):
    return struct.pack("<HQ", kind, left) + content


def word(said, numbers=b""):
    text = json.dumps(said, separators=(",", ":")).encode()
    return struct.pack("<I", len(text)) + text + numbers


PIECES = {
    "two": stream(100, 14, piece(9, 8, b"half") + piece(9, 4, b"half")),
    "long": stream(3, 14, piece(9, 8, b"half")),
    "other": stream(100, 14, piece(9, 8, b"half") + piece(8, 4, b"half")),
    "of_pieces": stream(100, 14, piece(65534, 4, b"half")),
}
SPAN = {"start": 0, "end": 24, "losses": 0}
SCHEDULE = {"examples": 100, "epochs": 2, "share": {"Together": 24}, "epoch": 0, "cursor": 24, "in_the_last": None, "pace": 0, "holes": [SPAN], "marks": [[0, SPAN]]}
PLAN = {"view": 1, "members": [1, 2], "slots": [1, 2], "first": 1, "rest": SCHEDULE, "aside": []}
PLAN |= {"assignment": {"epoch": 0, "slices": [[SPAN], []], "ends_epoch": False}}
MARK = {"lease": 1, "examples": 2}
HAVE = {"sequence": 3, "covered": MARK}
WORD = {
    "hello": word({"Hello": {"token": "00ff", "known_term": 1, "version": "0.1.0"}}),
    "refused": word({"Refused": {"reason": "no"}}),
    "ready": word({"ToMaster": {"Ready": {"data": {"examples": 9, "fingerprint": 7}, "address": "a", "was": None, "slots": 2}}}),
    "running": word({"ToPeer": {"Sharing": {"Running": {"slots": 2}}}}, struct.pack("<2f", 0.5, 1.0)),
    "resume": word({"ToPeer": {"Sharing": {"Resume": {"have": 3, "has_state": True, "answers": False, "view": 1}}}}),
    "beat": word({"ToMaster": {"Beat": {"beat": 7}}}),
    "frozen": word({"ToMaster": {"Frozen": {"view": 1, "completed": None, "contributed": [1, 2]}}}),
    "view": word({"ToMember": {"View": {"plan": PLAN, "addresses": ["a", ""], "holders": [1]}}}),
    "contribution": word({"ToPeer": {"Contribution": {"view": 1, "round": 2}}}, struct.pack("<d2f", 24.0, 1.0, -1.0)),
    "relay": word({"Relay": {"to": 2, "said": {"Reduced": {"view": 1, "round": 2}}}}, struct.pack("<d1f", 24.0, 1.0)),
    "save": word({"SaveState": {"round": 2, "rest": SCHEDULE}}, struct.pack("<3f", 1.0, 2.0, 3.0)),
    "save_shared": word({"SaveShared": {"view": 1, "epoch": 0, "vector": [[1, HAVE]], "round": 2}}),
    "update": word({"ToPeer": {"Sharing": {"Update": {"sequence": 3, "covered": MARK, "examples": 2, "stable": 1}}}}, dense([1.0])),
    "lease": word({"ToMember": {"Sharing": {"Lease": {"id": 1, "epoch": 0, "spans": [SPAN], "iteration": 4}}}}),
    "report": word({"Report": {"loss": 1.5, "weight": 24.0, "bytes_sent": 9, "traffic": None}}),
    "values": struct.pack("<4f", 0.0, 1.0, -1.0, float("inf")),
}

TARGETS = {"decode": DECODE, "frame": FRAME, "pieces": PIECES, "round_trip": ROUND_TRIP, "word": WORD}
for target, seeds in TARGETS.items():
    (SEEDS / target).mkdir(parents=True, exist_ok=True)
    for name, content in seeds.items():
        (SEEDS / target / name).write_bytes(content)

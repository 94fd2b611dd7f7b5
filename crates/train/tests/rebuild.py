"""Rebuilds the parameters of a model file from a dump of the messages of a run.

    python3 rebuild.py DUMP/messages.bin MODEL.safetensors

Written from the byte diagrams of the dump (crates/train/src/exchange/shared/dump.rs), of the messages
(crates/exchange/src/form/mod.rs) and of the model file (crates/nn/src/model_file.rs), and from nothing else. Says what it
found as JSON; the exit status is 0 only if every parameter is where the messages put it.

A replica adds f32 numbers in an order of its own, so each parameter may be off by one rounding, 2**-24 of the result, for
every element that was sent of it. No result is larger than the first parameter and all that was sent, in magnitude.
"""

import json
import struct
import sys


def main(dump_path, model_path):
    with open(dump_path, "rb") as file:
        dump = file.read()
    magic, version, workers, elements = struct.unpack_from("<8sIIQ", dump)
    expect(magic == b"PACELINE" and version == 1, f"a dump of version 1, found {magic} of version {version}")
    first = struct.unpack_from(f"<{elements}f", dump, 24)
    now = list(first)
    travelled = [abs(value) for value in first]
    additions = [0] * elements

    at, count, message_bytes, sent = 24 + 4 * elements, 0, 0, 0
    last_step = [-1] * workers
    while at < len(dump):
        origin, length, step = struct.unpack_from("<IIQ", dump, at)
        at += 16
        expect(origin < workers, f"an origin below {workers}, found {origin}")
        expect(step > last_step[origin], f"a step of worker {origin} after {last_step[origin]}, found {step}")
        last_step[origin] = step
        message = dump[at : at + length]
        expect(len(message) == length, f"a message of {length} bytes, found {len(message)}")
        at += length
        for index, value in decode(message, elements):
            now[index] -= value
            travelled[index] += abs(value)
            additions[index] += 1
            sent += 1
        count += 1
        message_bytes += length

    found = model_parameters(model_path, elements)
    worst, wrong = 0.0, 0
    for index in range(elements):
        error = abs(found[index] - now[index])
        # What the f64 numbers here lose is far below a thousandth of it.
        allowance = 1.001 * additions[index] * 2.0**-24 * travelled[index]
        wrong += error > allowance
        worst = max(worst, error)
    moved = sum(1 for index in range(elements) if now[index] != first[index])
    report = dict(workers=workers, parameters=elements, messages=count, bytes=message_bytes, sent=sent, moved=moved,
                  most_additions=max(additions, default=0), largest_error=worst, wrong=wrong)
    print(json.dumps(report))
    return 1 if wrong else 0


def decode(message, elements):
    """The elements that a message sends, and what of each."""
    version, form, k, zero, threshold, about, sent = struct.unpack_from("<BBBBfII", message)
    expect(version == 1 and zero == 0, f"a message of version 1, found {version}")
    expect(about == elements, f"a message about {elements} elements, found {about}")
    payload = message[16:]
    if form == 0:
        return sparse(payload, k, threshold, elements, sent)
    if form == 1:
        return bitmap(payload, threshold, elements, sent)
    expect(form == 2, f"form 0, 1 or 2, found {form}")
    return list(enumerate(struct.unpack(f"<{elements}f", payload)))


def sparse(payload, k, threshold, elements, sent):
    field_bytes = (sent * (k + 1) + 7) // 8
    fields = int.from_bytes(payload[:field_bytes], "little")
    unary = payload[field_bytes:]
    quotients, zeros = [], 0
    for byte in unary:
        for bit in range(8):
            if byte >> bit & 1:
                quotients.append(zeros)
                zeros = 0
            else:
                zeros += 1
    expect(len(quotients) == sent and zeros < 8, f"{sent} quotients, found {len(quotients)}")
    expect(fields >> (sent * (k + 1)) == 0, "zeros after the last field")
    found, index = [], -1
    for quotient in quotients:
        field = fields & ((1 << (k + 1)) - 1)
        fields >>= k + 1
        index += 1 + (quotient << k) + (field >> 1)
        found.append((index, -threshold if field & 1 else threshold))
    expect(index < elements, f"an element below {elements}, found {index}")
    return found


def bitmap(payload, threshold, elements, sent):
    plane = (elements + 7) // 8
    expect(len(payload) == 2 * plane, f"{2 * plane} bytes of bits, found {len(payload)}")
    found = []
    for index in range(elements):
        byte, bit = divmod(index, 8)
        if payload[byte] >> bit & 1:
            found.append((index, -threshold if payload[plane + byte] >> bit & 1 else threshold))
    expect(len(found) == sent, f"{sent} bits, found {len(found)}")
    return found


def model_parameters(path, elements):
    """The first numbers of a safetensors file in the order of its data: the parameters."""
    with open(path, "rb") as file:
        model = file.read()
    (length,) = struct.unpack_from("<Q", model)
    header = json.loads(model[8 : 8 + length])
    places = sorted(tensor["data_offsets"] for name, tensor in header.items() if name != "__metadata__")
    expect(any(end == 4 * elements for _, end in places), f"arrays of {elements} parameters first")
    return struct.unpack_from(f"<{elements}f", model, 8 + length)


def expect(holds, what):
    if not holds:
        sys.exit(f"expected {what}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

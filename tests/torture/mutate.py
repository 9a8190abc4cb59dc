"""Damage to bytes: what disks, networks, careless editors and forgers do to a file or a request."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

CHUNK = 1 << 20
BYTES = (
    b"\x00",
    b"\xff",
    b"\n",
    b"\r\n",
    b",",
    b'"',
    b"{",
    b"[",
    b"\xef\xbb\xbf",
    b"\xf0\x9f\x8e\xac",
    b"1e308",
    b"nan",
    b"-1",
    b"9" * 40,
)
NUMBERS = (0, 1, -1, 7, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63), 2**64, 10**30)
VALUES = (
    *NUMBERS,
    0.5,
    -0.0,
    1e308,
    5e-324,
    None,
    True,
    False,
    "",
    "x",
    "\u0000",
    "a" * 300,
    [],
    {},
    [[]],
    {"a": 1},
    [0, -1],
)


def bytes_of(data: bytes, draw: random.Random) -> bytes:
    """One to four changes anywhere."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(changed) + 1)
        length = min(draw.choice((1, 1, 2, 8, 64, 4096)), max(len(changed) - at, 0))
        how = draw.randrange(8)
        if how == 0 and changed:
            changed[min(at, len(changed) - 1)] ^= 1 << draw.randrange(8)
        elif how == 1:
            del changed[at:]
        elif how == 2:
            del changed[at : at + length]
        elif how == 3:
            changed[at:at] = draw.choice(BYTES) * draw.choice((1, 1, 3, 200))
        elif how == 4:
            changed[at : at + length] = draw.randbytes(length)
        elif how == 5:
            changed[at:at] = changed[at : at + length] * draw.choice((1, 2, 50))
        elif how == 6:
            size = draw.choice((4, 8))
            changed[at : at + size] = (draw.choice(NUMBERS) % (1 << (8 * size))).to_bytes(size, "little")
        else:
            start = draw.randrange(len(changed) + 1)
            part = bytes(changed[start : start + length])
            changed[at : at + length] = part
    return bytes(changed)


def value(tree: Any, draw: random.Random) -> Any:
    """JSON with one part replaced, removed or repeated; the parts are chosen at any depth."""
    if isinstance(tree, dict) and tree and draw.random() < 0.85:
        name = draw.choice(sorted(tree))
        how = draw.random()
        if how < 0.1:
            return {key: part for key, part in tree.items() if key != name}
        if how < 0.15:
            return {**tree, name + "x": tree[name]}
        return {**tree, name: value(tree[name], draw)}
    if isinstance(tree, list) and tree and draw.random() < 0.85:
        at = draw.randrange(len(tree))
        how = draw.random()
        if how < 0.1:
            return tree[:at] + tree[at + 1 :]
        if how < 0.2:
            return tree[:at] + [tree[at]] * draw.choice((2, 3, 1000)) + tree[at:]
        return [*tree[:at], value(tree[at], draw), *tree[at + 1 :]]
    if isinstance(tree, int | float) and not isinstance(tree, bool) and draw.random() < 0.4:
        return tree + draw.choice((1, -1, 8, -8, 0.5))
    return draw.choice(VALUES)


def forged(data: bytes, draw: random.Random) -> bytes:
    """A model file whose contents are nonsense and whose checksums are right."""
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])
    about = header["__metadata__"]
    what = draw.random()
    if what < 0.4 and body:
        name = draw.choice(sorted(set(header) - {"__metadata__"}))
        lo, hi = header[name]["data_offsets"]
        if hi > lo:
            at = draw.randrange(lo, hi)
            size = draw.choice((1, 2, 4, 8))
            number = draw.choice((*NUMBERS, draw.randrange(200)))
            body[at : min(at + size, hi)] = (number % (1 << (8 * size))).to_bytes(size, "little")[: hi - at]
    elif what < 0.7:
        about["model"] = json.dumps(value(json.loads(about["model"]), draw))
    else:
        name = draw.choice(sorted(set(header) - {"__metadata__"}))
        header[name] = value(header[name], draw)
    chunks = [hashlib.sha256(body[lo : lo + CHUNK]).hexdigest() for lo in range(0, len(body), CHUNK)]
    header["__metadata__"] = {**about, "chunk_sha256": "".join(chunks), "header_sha256": "0" * 64}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    text = text.replace(b"0" * 64, hashlib.sha256(text).hexdigest().encode(), 1)
    return len(text).to_bytes(8, "little") + text + bytes(body)


def json_text(data: bytes, draw: random.Random) -> bytes:
    """A JSON document or lines of JSON, still JSON but with other values."""
    lines = data.splitlines()
    at = draw.randrange(len(lines))
    try:
        lines[at] = json.dumps(value(json.loads(lines[at]), draw)).encode()
    except ValueError:
        return bytes_of(data, draw)
    return b"\n".join(lines) + b"\n"

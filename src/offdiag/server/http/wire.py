"""HTTP/1.1 requests from bytes [RFC 9112], strictly: a request that two programs could read differently is rejected.

No I/O happens here. Where the RFC lets a server either repair or reject a request (bare line feeds, folded lines,
repeated lengths), it is rejected: a proxy in front may have repaired it differently, and two programs that disagree
about where a request ends can be made to see one that was never sent. `Upgrade` is ignored: a request that offers
another protocol is answered as usual [RFC 9110, 7.8].
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from offdiag.server.limits import Refusal

MOST_FIELDS = 100  # header fields of one request
CHUNK_LINE = 256  # bytes of the line before a chunk, including extensions
MOST_CHUNKS = 8192  # chunks of one body: each costs time, however short it is
TRAILER = 4096  # bytes after the last chunk
BLANK_LINES = 2  # allowed before a request: old clients send one after a body

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]*+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]++) HTTP/(\d)\.(\d)")
_BEGINNING = re.compile(_TOKEN + rb"(?: |$)")
_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")  # incomplete line ending
_FIELD = re.compile(rb"(" + _TOKEN + rb"):(" + _TEXT + rb")\r\n")
_FIELDS = re.compile(rb"(?:" + _TOKEN + rb":" + _TEXT + rb"\r\n)*+")
_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::\d{0,5})?")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#]*)([^#]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;" + _TEXT + rb")?")
_LENGTH = re.compile(rb"\d{1,19}")
_NAMED = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"))


class Malformed(Refusal):
    """A request that cannot be parsed. The connection cannot be used after it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text, connection="close")


@dataclass(slots=True)
class Head:
    method: str
    path: str
    raw_path: bytes
    query: bytes
    version: str
    headers: list[tuple[bytes, bytes]]  # names in lower case
    length: int | None  # of the body; None: chunked
    keep_alive: bool
    expects_continue: bool


def check_beginning(data: bytes) -> None:
    """Reject at once data that can never become a request, instead of waiting for the rest."""
    line, end, _ = data.partition(b"\r\n")
    begun = _REQUEST_LINE.fullmatch(line) if end else _BEGINNING.match(data)
    if begun is None or _BARE.search(data):
        raise _no_request()


def _no_request() -> Malformed:
    return Malformed(400, "this is not an HTTP/1.1 request; check the client")


def parse_head(data: bytes) -> Head:
    """The request line and the header fields, without the empty line after them."""
    line, _, rest = data.partition(b"\r\n")
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise _no_request()
    method, target, major, minor = found.groups()
    if major != b"1":
        raise Malformed(505, "this service supports HTTP/1.1 only")
    headers = _fields(rest + b"\r\n" if rest else b"")
    modern = minor != b"0"
    named: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in _NAMED:
            named.setdefault(name, []).append(value)
    authority, raw_path, query = _target(method, target)
    _check_host(named.get(b"host", []), modern)
    if authority is not None:  # then Host is ignored [RFC 9112, 3.2.2]
        headers = [(b"host", authority), *(field for field in headers if field[0] != b"host")]
    length = _length(named, modern)
    expected = named.get(b"expect", []) if modern else []
    if expected and (len(expected) > 1 or expected[0].lower() != b"100-continue"):
        raise Malformed(417, "the only supported expectation is 100-continue")
    connection = b",".join(named[b"connection"]).lower() if b"connection" in named else b""
    keep = modern and (not connection or b"close" not in [one.strip() for one in connection.split(b",")])
    path = raw_path.decode("ascii")
    return Head(
        method.decode("ascii"), unquote(path) if "%" in path else path, raw_path, query, "1.1" if modern else "1.0",
        headers, length, keep, bool(expected),
    )  # fmt: skip


def _fields(block: bytes) -> list[tuple[bytes, bytes]]:
    if not _FIELDS.fullmatch(block):
        raise Malformed(400, "a header field is malformed; a name, a colon and a value on one line, ended by CR LF")
    fields = _FIELD.findall(block)
    if len(fields) > MOST_FIELDS:
        raise Malformed(400, f"too many header fields: at most {MOST_FIELDS}")
    return [(name.lower(), value.strip(b" \t")) for name, value in fields]


def _target(method: bytes, target: bytes) -> tuple[bytes | None, bytes, bytes]:
    """(authority if the target names one, path, query)."""
    authority = None
    if method == b"CONNECT":
        raise Malformed(501, "this service is not a proxy; CONNECT is not supported")
    if not target.startswith(b"/"):
        if target == b"*" and method == b"OPTIONS":
            return None, target, b""
        found = _ABSOLUTE.fullmatch(target)
        if found is None or not found[1] or not _HOST.fullmatch(found[1]):
            raise Malformed(400, "the target of a request is a path, beginning with /")
        authority, target = found.groups()
        target = target if target.startswith(b"/") else b"/" + target
    if b"#" in target:
        raise Malformed(400, "the target of a request has no fragment; remove what follows #")
    path, _, query = target.partition(b"?")
    return authority, path, query


def _check_host(hosts: list[bytes], modern: bool) -> None:
    if len(hosts) > 1 or (modern and not hosts):
        raise Malformed(400, f"expected one Host header, received {len(hosts) or 'none'}")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise Malformed(400, "the Host header is not a name or address with an optional port")


def _length(named: dict[bytes, list[bytes]], modern: bool) -> int | None:
    """The length of the body. Repeated or ambiguous lengths are how requests are smuggled."""
    lengths, codings = named.get(b"content-length", []), named.get(b"transfer-encoding", [])
    if codings:
        if lengths or not modern:
            raise Malformed(400, "Transfer-Encoding cannot be combined with Content-Length or HTTP/1.0")
        if len(codings) == 1 and codings[0].lower() == b"chunked":
            return None
        listed = [one.strip().lower() for one in b",".join(codings).split(b",")]
        if listed[-1] == b"chunked" and listed.count(b"chunked") == 1 and all(listed):
            raise Malformed(501, "the only supported transfer coding is chunked; send the body unencoded")
        raise Malformed(400, "the last transfer coding of a request must be chunked, and only once")
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Malformed(400, "expected one Content-Length, a whole number")
    return int(lengths[0])


class Body:
    """The body of one request. ``take`` moves its bytes out of a buffer and leaves any data that follows.

    ``most``: limit on the bytes of all chunks together; if the length is known, the application decides.
    """

    __slots__ = ("_chunks", "_ended", "_left", "_most", "_trailer", "done")

    def __init__(self, length: int | None, most: int) -> None:
        self._most = most
        self._left = length or 0  # bytes left of the body, or of the current chunk
        self._chunks = -1 if length is not None else 0  # chunks read so far; -1: the length is known
        self._ended = self._trailer = 0
        self.done = length == 0

    def take(self, buffer: bytearray) -> bytes:
        if self._chunks >= 0:
            return self._take_chunks(buffer)
        data = bytes(buffer[: self._left])
        del buffer[: self._left]
        self._left -= len(data)
        self.done = not self._left
        return data

    def _take_chunks(self, buffer: bytearray) -> bytes:
        parts, at = [], 0
        while not self.done:
            if self._left:  # data, and the line ending after it
                part = buffer[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                parts.append(bytes(part))
                if self._left:
                    break
                self._ended = 2
            if self._ended:
                if len(buffer) - at < 2:
                    break
                if buffer[at : at + 2] != b"\r\n":
                    raise Malformed(400, "a chunk is longer than it says")
                at, self._ended = at + 2, 0
            end = buffer.find(b"\r\n", at)
            if end < 0:
                if len(buffer) - at > (TRAILER if self._trailer else CHUNK_LINE):
                    raise Malformed(400, "the line before a chunk is too long")
                break
            self._line(bytes(buffer[at:end]))
            at = end + 2
        del buffer[:at]
        return b"".join(parts)

    def _line(self, line: bytes) -> None:
        """The size of the next chunk, or a trailer field."""
        if self._trailer:
            self._trailer += len(line) + 2
            if line and (self._trailer > TRAILER or not _FIELDS.fullmatch(line + b"\r\n")):
                raise Malformed(400, "a field after the last chunk is malformed or too long")
            self.done = not line
            return
        found = _CHUNK.fullmatch(line) if len(line) <= CHUNK_LINE else None
        self._chunks += 1
        if found is None or self._chunks > MOST_CHUNKS:
            raise Malformed(400, f"a chunk begins with its size in hexadecimal; at most {MOST_CHUNKS} of them")
        self._left = int(found[1], 16)
        self._most -= self._left
        if self._most < 0:
            raise Malformed(413, "the body is too large; send less")
        self._trailer = int(not self._left)

"""Raw requests and what RFC 9110 and RFC 9112 make of them, for any HTTP/1.1 server that runs the application.

``statuses`` are those of this service, in order: one per request that it may see, so that one that was smuggled shows
as one too many. ``also`` are other sequences that the RFCs allow; a server that gives one of them is not wrong.
"""

import json
import re
import socket
import time
from dataclasses import dataclass

from tests.serving import has_read

HOST = b"Host: localhost\r\n"
CLOSE = b"Connection: close\r\n"
BODY = b'{"history": [], "k": 1}'
HIDDEN = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
FIRST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(frozen=True)
class Case:
    name: str
    parts: tuple[bytes, ...]  # sent one after the other, each when the one before was read
    statuses: tuple[int, ...]
    also: tuple[tuple[int, ...], ...] = ()
    half_close: bool = False  # the client closes its side after the last part
    headless: bool = False  # an answer without a body

    def __str__(self):
        return self.name


def case(name, data, *statuses, also=(), **more):
    parts = data if isinstance(data, tuple) else (data,)
    return Case(name, parts, statuses, tuple((one,) if isinstance(one, int) else one for one in also), **more)


def get(line=b"GET /health HTTP/1.1", fields=b"", host=HOST, close=CLOSE, end=b"\r\n"):
    return line + b"\r\n" + host + fields + close + end


def post(fields, body, path=b"/recommend", then=b""):
    return b"POST " + path + b" HTTP/1.1\r\n" + HOST + fields + b"\r\n" + body + then


def sized(body=BODY, fields=b"", then=LAST):
    return post(b"Content-Length: %d\r\n" % len(body) + fields, body, then=then)


def chunked(body, fields=b"Transfer-Encoding: chunked\r\n", then=LAST):
    return post(fields, body, then=then)


def chunks(*sizes, body=BODY):
    out = b""
    for size in sizes:
        out, body = out + b"%x\r\n%s\r\n" % (size, body[:size]), body[size:]
    return out


WHOLE = chunks(len(BODY)) + b"0\r\n\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: %s\r\n"
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"

REQUEST_LINE = [
    case("a plain GET", get(), 200),
    case("HEAD on a path of the service", get(b"HEAD /health HTTP/1.1"), 200, headless=True),
    case("HEAD on the page", get(b"HEAD / HTTP/1.1"), 200, headless=True),
    case("HEAD on nothing", get(b"HEAD /nope HTTP/1.1"), 404, headless=True),
    case("OPTIONS *", get(b"OPTIONS * HTTP/1.1"), 204, also=(200,), headless=True),
    case("OPTIONS on a path", get(b"OPTIONS /health HTTP/1.1"), 405, also=(200, 204)),
    case("GET *", get(b"GET * HTTP/1.1"), 400, also=(404,)),
    case("absolute form", get(b"GET http://localhost/health HTTP/1.1"), 200),
    case("absolute form with a port", get(b"GET http://127.0.0.1:80/health HTTP/1.1"), 200),
    case("absolute form of a foreign host", get(b"GET http://evil.example/health HTTP/1.1"), 400, also=(404, 421)),
    case(
        "absolute form hides the Host",
        get(b"GET http://localhost/health HTTP/1.1", host=b"Host: evil.example\r\n"),
        200,
    ),
    case("absolute form with a user", get(b"GET http://me@localhost/health HTTP/1.1"), 400),
    case("absolute form of another scheme", get(b"GET ftp://localhost/health HTTP/1.1"), 400, also=(404,)),
    case("CONNECT", get(b"CONNECT localhost:80 HTTP/1.1"), 501, also=(400, 404, 405)),
    case("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, also=(400,)),
    case("HTTP/2.0 in a request line", get(b"GET /health HTTP/2.0"), 505, also=(400,)),
    case("HTTP/1.2 counts as 1.1", get(b"GET /health HTTP/1.2"), 200, also=(400, 505)),
    case("HTTP/1.0 without Host", b"GET /health HTTP/1.0\r\n\r\n", 200),
    case("HTTP/1.0 is not kept", b"GET /health HTTP/1.0\r\nConnection: close\r\n\r\n" + HIDDEN, 200),
    case("HTTP/0.9", b"GET /health\r\n", 400),
    case("HTTP/0.9 with an empty line", b"GET /health\r\n\r\n", 400),
    case("a version in lower case", get(b"GET /health http/1.1"), 400),
    case("a version without digits", get(b"GET /health HTTP/x.y"), 400),
    case("a space after the version", get(b"GET /health HTTP/1.1 "), 400),
    case("two spaces", get(b"GET  /health HTTP/1.1"), 400),
    case("tabs for spaces", get(b"GET\t/health\tHTTP/1.1"), 400),
    case("a space at the beginning", get(b" GET /health HTTP/1.1"), 400),
    case("no target", get(b"GET HTTP/1.1"), 400),
    case("a target without a slash", get(b"GET health HTTP/1.1"), 400),
    case("a target with a fragment", get(b"GET /health#x HTTP/1.1"), 400, also=(404,)),
    case("a target with a control character", get(b"GET /he\x01alth HTTP/1.1"), 400),
    case("a target beyond ASCII", get(b"GET /h\xc3\xa9alth HTTP/1.1"), 400, also=(404,)),
    case("a target without end", get(b"GET /" + b"a" * 40_000 + b" HTTP/1.1"), 400, also=(404, 414, 431)),
    case("a method in lower case", get(b"get /health HTTP/1.1"), 405, also=(400, 501)),
    case("an unknown method", get(b"BREW /health HTTP/1.1"), 405, also=(400, 501)),
    case("a method that is no token", get(b"G(E)T /health HTTP/1.1"), 400),
    case("an empty line first", b"\r\n" + get(), 200),
    case("three empty lines first", b"\r\n\r\n\r\n" + get(), 400, also=(200,)),
    case("line feeds alone", b"GET /health HTTP/1.1\nHost: localhost\nConnection: close\n\n", 400, also=(200,)),
    case("carriage returns alone", b"GET /health HTTP/1.1\rHost: localhost\r\r", 400),
    case("TLS on a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
]
HOSTS = [
    case("no Host", get(host=b""), 400),
    case("two Hosts", get(host=HOST + HOST), 400),
    case("two different Hosts", get(host=HOST + b"Host: evil.example\r\n"), 400),
    case("two Hosts in HTTP/1.0", b"GET /health HTTP/1.0\r\n" + HOST + HOST + b"\r\n", 400),
    case("a Host with a port", get(host=b"Host: localhost:8000\r\n"), 200),
    case("an address in brackets as Host", get(host=b"Host: [::1]:8000\r\n"), 200),
    case("a Host with a space", get(host=b"Host: local host\r\n"), 400),
    case("a Host with a path", get(host=b"Host: localhost/x\r\n"), 400),
    case("a Host with a user", get(host=b"Host: me@localhost\r\n"), 400),
    case("a foreign Host", get(host=b"Host: evil.example\r\n"), 400),
    case("an empty Host", get(host=b"Host:\r\n"), 400),
]
FIELDS = [
    case("a space before the colon", get(fields=b"X : y\r\n"), 400),
    case("a field without a name", get(fields=b": y\r\n"), 400),
    case("a field without a colon", get(fields=b"nothing\r\n"), 400),
    case("a folded line", get(fields=b"X: y\r\n z\r\n"), 400, also=(200,)),
    case("a folded first line", b"GET /health HTTP/1.1\r\n X: y\r\n" + HOST + CLOSE + b"\r\n", 400),
    case("NUL in a value", get(fields=b"X: a\x00b\r\n"), 400),
    case("a carriage return in a value", get(fields=b"X: a\rb\r\n"), 400),
    case("a line feed between fields", get(fields=b"X: a\nY: b\r\n"), 400, also=(200,)),
    case("a control character in a value", get(fields=b"X: a\x01b\r\n"), 400, also=(200,)),
    case("a control character in a name", get(fields=b"X\x01: b\r\n"), 400),
    case("a name beyond ASCII", get(fields=b"X\xe9: b\r\n"), 400),
    case("a value beyond ASCII", get(fields=b"X: \xe9\xff\r\n"), 200, also=(400,)),
    case("tabs and spaces around a value", get(fields=b"X: \t y\tz \t \r\n"), 200),
    case("an empty value", get(fields=b"X:\r\n"), 200),
    case("many fields", get(fields=b"".join(b"X-%d: y\r\n" % n for n in range(90))), 200),
    case("more fields than anybody needs", get(fields=b"X: y\r\n" * 101), 400, also=(200, 431)),
    case("20,000 empty fields", get(fields=b"a:\r\n" * 20_000), 400, also=(431,)),
    case(
        "20,000 fields of 32 KiB without their line ends",
        get(fields=b"a:" + b"\r\nb:" * 20_000 + b"\r\n"),
        400,
        also=(431,),
    ),
    case("a field of 40 KB", get(fields=b"X: " + b"a" * 40_000 + b"\r\n"), 400, also=(200, 431)),
]
LENGTHS = [
    case("a body and its length", sized(), 200, 200),
    case("a body of length 0", post(b"Content-Length: 0\r\n", b"", then=LAST), 400, 200),
    case("no length, no body", post(b"", b"", then=LAST), 400, 200),
    case("spaces around a length", post(b"Content-Length:  %d \r\n" % len(BODY), BODY, then=LAST), 200, 200),
    case(
        "GET with a body", get(fields=b"Content-Length: 5\r\n", close=b"") + b"hello" + LAST, 200, 200, also=(200, 400)
    ),
    case(
        "HEAD with a body",
        get(b"HEAD /health HTTP/1.1", b"Content-Length: 5\r\n") + b"hello",
        200,
        also=(400,),
        headless=True,
    ),
    *(
        case(
            f"Content-Length: {text.decode('latin-1')}",
            post(b"Content-Length: " + text + b"\r\n", BODY, then=HIDDEN),
            400,
            also=(413,) if len(text) == 20 else (),
        )
        for text in (b"-1", b"+23", b"0x17", b"", b"23, 23", b"2 3", b"23;", b"\xb2\xb3", b"1" * 20)
    ),
    case(
        "two equal lengths",
        post(b"Content-Length: 23\r\nContent-Length: 23\r\n", BODY, then=HIDDEN),
        400,
        also=((200, 404),),
    ),
    case("two different lengths", post(b"Content-Length: 23\r\nContent-Length: 0\r\n", BODY, then=HIDDEN), 400),
    case("a length beyond the limit", post(b"Content-Length: 9999999999\r\n", b""), 413),
]
CODINGS = [
    case("a body in chunks", chunked(WHOLE), 200, 200),
    case("Chunked in other letters", chunked(WHOLE, b"transfer-encoding: CHUNKED\r\n"), 200, 200),
    case("gzip, chunked", chunked(WHOLE, b"Transfer-Encoding: gzip, chunked\r\n", HIDDEN), 501, also=(400,)),
    *(
        case(
            f"Transfer-Encoding: {text.decode('latin-1')!r}",
            chunked(WHOLE, b"Transfer-Encoding: " + text + b"\r\n", HIDDEN),
            400,
            also=also,
        )
        for text, also in (
            (b"chunked, gzip", (501,)),
            (b"chunked, chunked", (501,)),
            (b"identity", (501,)),
            (b"xchunked", (501,)),
            (b"", (501,)),
            (b"\x0bchunked", (501,)),
            (b"chunked;x=y", (501,)),
            (b"'chunked'", (501,)),
            (b"chunked,", (501, (200, 404))),
            (b",chunked", (501, (200, 404))),
        )
    ),
    case("two fields of chunked", chunked(WHOLE, b"Transfer-Encoding: chunked\r\n" * 2, HIDDEN), 400, also=(501,)),
    case(
        "a coding in two fields",
        chunked(WHOLE, b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", HIDDEN),
        501,
        also=(400,),
    ),
    case("a space before the colon of a coding", chunked(WHOLE, b"Transfer-Encoding : chunked\r\n", HIDDEN), 400),
    case(
        "length, then chunked",
        chunked(WHOLE, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HIDDEN),
        400,
        also=((200,),),
    ),
    case(
        "chunked, then length",
        chunked(WHOLE, b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", HIDDEN),
        400,
        also=((200,),),
    ),
    case(
        "a length of 0 and chunked",
        chunked(b"0\r\n\r\n", b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", HIDDEN),
        400,
        also=((400,),),
    ),
    case(
        "chunked in HTTP/1.0",
        b"POST /recommend HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + WHOLE + HIDDEN,
        400,
        also=(200,),
    ),
]
CHUNKS = [
    case("several chunks", chunked(chunks(3, 7, 13) + b"0\r\n\r\n"), 200, 200),
    case("an extension", chunked(WHOLE.replace(b"\r\n", b";a=b\r\n", 1)), 200, 200),
    case("an extension in quotes", chunked(WHOLE.replace(b"\r\n", b';a="b;c"\r\n', 1)), 200, 200),
    case("a line feed in an extension", chunked(WHOLE.replace(b"\r\n", b";a\n0\r\n", 1), then=HIDDEN), 400),
    case("a carriage return in an extension", chunked(WHOLE.replace(b"\r\n", b";a\rb\r\n", 1), then=HIDDEN), 400),
    case("an extension without end", chunked(b"17;" + b"a" * 100_000), 400, also=(413,)),
    *(
        case(
            f"a size of {text.decode()!r}",
            chunked(text + b"\r\n" + BODY + b"\r\n0\r\n\r\n", then=HIDDEN),
            400,
            also=also,
        )
        for text, also in (
            (b"0x17", ()),
            (b"+17", ()),
            (b"-17", ()),
            (b"17 ", ((200, 404),)),
            (b" 17", ()),
            (b"1_7", ()),
            (b"", ()),
            (b"g", ()),
            (b"000000017", ((200, 404),)),
        )
    ),
    case("a size beyond the limit", chunked(b"ffffffff\r\n" + b"x" * 100_000, then=b""), 413, also=(400,)),
    case("a chunk that is longer than its size", chunked(b"5\r\n" + BODY + b"\r\n0\r\n\r\n", then=HIDDEN), 400),
    case(
        "a chunk that ends in a line feed",
        chunked(b"17\r\n" + BODY + b"\n0\r\n\r\n", then=HIDDEN),
        400,
        also=((200, 404),),
    ),
    case(
        "a size that ends in a line feed",
        chunked(b"17\n" + BODY + b"\r\n0\r\n\r\n", then=HIDDEN),
        400,
        also=((200, 404),),
    ),
    case("a last chunk of several zeros", chunked(chunks(23) + b"000\r\n\r\n"), 200, 200),
    case("a trailer", chunked(chunks(23) + b"0\r\nX: y\r\n\r\n"), 200, 200),
    case(
        "a trailer that names a length", chunked(chunks(23) + b"0\r\nContent-Length: 99\r\n\r\n"), 200, 200, also=(400,)
    ),
    case("a malformed trailer", chunked(chunks(23) + b"0\r\nX : y\r\n\r\n", then=HIDDEN), 400),
    case("a folded trailer", chunked(chunks(23) + b"0\r\nX: y\r\n z\r\n\r\n", then=HIDDEN), 400),
    case("a trailer without end", chunked(chunks(23) + b"0\r\n" + b"X: y\r\n" * 5000), 400, also=((200,), 413, 431)),
    case("10,000 chunks of one byte", chunked(b"1\r\n \r\n" * 10_000 + b"0\r\n\r\n"), 400, also=((400, 200), 413)),
]
EXPECTATIONS = [
    case("100-continue", (post(b"Expect: 100-continue\r\nContent-Length: 23\r\n", b""), BODY + LAST), 100, 200, 200),
    case(
        "100-continue with the body at once",
        sized(fields=b"Expect: 100-continue\r\n"),
        200,
        200,
        also=((100, 200, 200),),
    ),
    case(
        "100-continue, too large",
        post(b"Expect: 100-continue\r\nContent-Length: 9999999999\r\n", b""),
        413,
        also=((100, 413),),
    ),
    case("another expectation", sized(fields=b"Expect: miracles\r\n"), 417, also=((200, 200),)),
    case(
        "100-continue in HTTP/1.0",
        b"POST /recommend HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 23\r\n\r\n" + BODY,
        200,
    ),
]
UPGRADES = [
    case("a POST of curl --http2", sized(fields=H2C), 200, 200),
    case("a POST of curl --http2 in two packets", (post(H2C + b"Content-Length: 23\r\n", b""), BODY + LAST), 200, 200),
    case("a POST in chunks with h2c", chunked(WHOLE, H2C + b"Transfer-Encoding: chunked\r\n"), 200, 200),
    case("a GET with h2c, and another", get(fields=H2C, close=b"") + LAST, 200, 200),
    case("a GET with WebSocket", get(fields=UPGRADE % b"websocket", close=b"") + LAST, 200, 200),
    *(
        case(
            f"a request hidden in a body, Upgrade: {to.decode()}",
            (post((UPGRADE % to) + b"Content-Length: %d\r\n" % len(HIDDEN), b""), HIDDEN, LAST),
            400,
            200,
        )
        for to in (b"websocket", b"h2c", b"TLS/1.0", b"anything", b"")
    ),
    case(
        "a request hidden in the body of a GET",
        (get(fields=(UPGRADE % b"websocket") + b"Content-Length: %d\r\n" % len(HIDDEN), close=b""), HIDDEN + LAST),
        200,
        also=((200, 200), (200, 400)),
    ),
    case(
        "a request hidden in chunks",
        (
            chunked(b"", (UPGRADE % b"x") + b"Transfer-Encoding: chunked\r\n", b""),
            b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN),
            LAST,
        ),
        400,
        200,
    ),
]
CONNECTIONS = [
    case("requests sent ahead", FIRST + FIRST + LAST, 200, 200, 200),
    case("a POST and a GET sent ahead", sized(then=b"") + sized(then=LAST), 200, 200, 200),
    case("many requests sent ahead", FIRST * 200 + LAST, *[200] * 201),
    case("something wrong sent ahead", FIRST + b"GET /health HTTP/1.1\r\n\r\n" + HIDDEN, 200, 400),
    case("nothing follows Connection: close", LAST + HIDDEN, 200),
    case("close among others", get(close=b"Connection: keep-alive, Close\r\n") + HIDDEN, 200),
    case("close in a second field", get(close=b"Connection: x\r\nConnection: close\r\n") + HIDDEN, 200),
    case("a client that closes its side", FIRST, 200, half_close=True),
    case("byte by byte", tuple(bytes([one]) for one in sized(then=b"") + LAST), 200, 200),
    case("a line end in two packets", (FIRST[:-1], b"\n" + LAST), 200, 200),
    case(
        "a Range that makes no sense",
        get(b"GET /static/app.js HTTP/1.1", b"Range: bytes=9-1,x\r\n"),
        200,
        also=(400, 416),
    ),
    case(
        "a Range beyond the end", get(b"GET /static/app.js HTTP/1.1", b"Range: bytes=99999999-\r\n"), 200, also=(416,)
    ),
    case(
        "many Ranges",
        get(b"GET /static/app.js HTTP/1.1", b"Range: bytes=" + b"0-0," * 500 + b"1-1\r\n"),
        200,
        also=(206, 400, 416),
    ),
]
CASES = [
    *REQUEST_LINE, *HOSTS, *FIELDS, *LENGTHS, *CODINGS, *CHUNKS, *EXPECTATIONS, *UPGRADES, *CONNECTIONS,
]  # fmt: skip


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes


def ask(port, case, seconds=10.0):
    """The answers to one case, and whether the server closed the connection in time."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for n, part in enumerate(case.parts):
                if n:
                    wait_until_read(plain)
                plain.sendall(part)
            if case.half_close:
                plain.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has refused the beginning already
        closed = False
        try:
            while more := plain.recv(1 << 16):
                received += more
            closed = True
        except TimeoutError:
            pass
        except OSError:
            closed = True
    return read_answers(received, case.headless), closed


def wait_until_read(plain, seconds=2.0):
    end = time.monotonic() + seconds
    while not has_read(plain) and time.monotonic() < end:
        time.sleep(0.001)


def read_answers(data, headless=False):
    """The answers in a stream; what is no answer becomes one with status 0."""
    answers = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        found = re.match(rb"HTTP/1\.[01] (\d{3}) ", head)
        if not found:
            return [*answers, Answer(0, {}, head)]
        lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        headers = {name.decode().lower(): value.strip().decode("latin-1") for name, _, value in lines}
        status, length = int(found[1]), int(headers.get("content-length", -1))
        if headless or status in (100, 204, 304):
            length = 0
        if headers.get("transfer-encoding") == "chunked":
            body, _, data = data.partition(b"0\r\n\r\n")
        elif length < 0:
            body, data = data, b""
        else:
            body, data = data[:length], data[length:]
        answers.append(Answer(status, headers, body))
    return answers


def complaint(case, answers, closed):
    """What is wrong with the answers by the RFCs; None if nothing is."""
    statuses = tuple(answer.status for answer in answers)
    if statuses not in (case.statuses, *case.also):
        return f"statuses {statuses}"
    if not closed:
        return "left open"
    return None


def without_line(case, answers):
    """Errors that do not carry one line of JSON."""
    wrong = []
    for answer in answers:
        if answer.status >= 400 and not case.headless:
            try:
                if list(json.loads(answer.body)) != ["error"]:
                    wrong.append(answer)
            except ValueError:
                wrong.append(answer)
    return wrong

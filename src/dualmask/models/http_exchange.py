# SPDX-License-Identifier: Apache-2.0
"""One question to a server: answered within a time, in so many bytes, and by nobody but the host that was named."""

import io
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPException, HTTPResponse
from socket import SocketIO, socket
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)

from dualmask.errors import OptionError

ADDRESS = re.compile(r"https?://[^\x00-\x20\x7f\s/?#]+(?:[/?#][!-~]*)?")  # behind the host no space, and ASCII alone
BUSY = (408, 425, 429, 500, 502, 503, 504)  # answers of a server that may answer later
KEPT, LOST = (307, 308), (301, 302, 303)  # redirects that take a question along, and those that may leave it behind
HOPS = 3  # redirects in a row that are followed
PORTS = {"http": 80, "https": 443}
Kind = Literal["refused", "busy", "garbled", "unreachable", "unacceptable"]


class NoAnswerError(Exception):
    """Why a server's answer does not count.

    refused: it said no; busy: it may answer later; garbled: cut, late, or no JSON; unreachable: nobody is there;
    unacceptable: no matter how often it is asked, such as a redirect to somebody else. The last one is a sentence
    without its subject, the others name a thing.
    """

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


def split_address(url: str) -> SplitResult:
    """The parts of an address that can be asked. One that can't may hold a password anywhere, and is not repeated."""
    with suppress(ValueError):  # also of a port that is no number
        if ADDRESS.fullmatch(url) and (parts := urlsplit(url)).hostname and parts.port != 0:
            return parts
    raise OptionError("the victim's address can't be read; expected one such as http://localhost:8080/classify, with "
                      "%20 for a space, and likewise for what else is no plain character.")


def shown_address(url: str) -> str:
    """An address without what may be secret: a password, and what stands behind "?"."""
    parts = split_address(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def server_opener() -> OpenerDirector:
    """Asks as `urlopen` does, through the proxies of the environment; no redirect is followed by itself."""
    return build_opener(RedirectsToldHandler, TimedHTTPHandler, TimedHTTPSHandler)


def exchange(
    opener: OpenerDirector, url: str, body: bytes | None, *, headers: Mapping[str, str], timeout: float, most: int,
) -> object:
    """The JSON that answers a question (without a body: a GET) whole within `timeout` seconds and `most` bytes."""
    try:
        return json.loads(answer_bytes(opener, url, body, headers=headers, end=time.monotonic() + timeout, most=most))
    except HTTPError as error:
        raise NoAnswerError("busy" if error.code in BUSY else "refused", f"status {error.code}") from None
    except (ValueError, RecursionError):  # also bytes that are no text
        raise NoAnswerError("garbled", "an answer that is not JSON") from None
    except (OSError, HTTPException) as error:
        cause = getattr(error, "reason", error)  # a text that takes too long does not mean that nobody is there
        late = isinstance(cause, TimeoutError | HTTPException)
        raise NoAnswerError("garbled" if late else "unreachable", str(cause or type(error).__name__)) from None


def answer_bytes(
    opener: OpenerDirector, url: str, body: bytes | None, *, headers: Mapping[str, str], end: float, most: int,
) -> bytes:
    for _ in range(HOPS + 1):
        request = Request(url, body, dict(headers))
        try:
            with opener.open(request, timeout=max(end - time.monotonic(), 1e-3)) as reply:
                return whole_body(reply, most)
        except HTTPError as error:
            error.close()
            if error.code not in (*KEPT, *LOST) or not error.headers.get("Location"):
                raise
            url = next_address(url, error.headers["Location"], error.code)
    raise NoAnswerError("unacceptable", f"leads from one address to the next, more than {HOPS} times; give the address "
                                        "that answers.")


def next_address(url: str, location: str, code: int) -> str:
    """Where a question goes on: to the same host alone, and only as it is."""
    try:
        found = urljoin(url, location)
        named = shown_address(found)
        same = origin(found) == origin(url) and "@" not in urlsplit(found).netloc
    except (OptionError, ValueError):
        raise NoAnswerError("unacceptable", f"gave status {code} and an address that can't be read; find out at the "
                                            "server which address answers, and give that.") from None
    if not same:
        raise NoAnswerError("unacceptable", f"passes questions on to another host or port, {named}, which got neither "
                                            "texts nor headers. If you trust it, give that address.")
    if code not in KEPT:
        raise NoAnswerError("unacceptable", f"gave status {code} and names {named}, where the texts would not arrive. "
                                            "Give that address, if it is the one that takes texts.")
    return found


def origin(url: str) -> tuple[str, str | None, int]:
    parts = split_address(url)
    return parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme]


def whole_body(reply: HTTPResponse, most: int) -> bytes:
    """The answer, unless it is longer than `most`; none that is compressed, for a few bytes may become gigabytes."""
    coding = reply.headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise NoAnswerError("unacceptable", f"compresses its answers ({coding!r:.20}), which was not asked for; switch "
                                            "that off there, or in the proxy before it.")
    known = reply.length is not None and reply.length <= most
    body = b"" if (reply.length or 0) > most else reply.read() if known else reply.read(most + 1)
    if (reply.length or 0) > most or len(body) > most:
        raise NoAnswerError("unacceptable", f"answers with more than {most:,} bytes; expected a short row for each "
                                            "text. Look at what it sends; HttpVictim(answer_limit=...) allows more.")
    return body


class RedirectsToldHandler(HTTPRedirectHandler):
    """Redirects come out as an HTTPError: whoever asked decides."""

    def http_error_302(self, *answer: Any, **named: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class TimedHandler:
    """Opens connections whose answers end at a moment. The usual time limit is for each read: it has no end at all
    where a byte comes now and then."""

    def do_open(self, http_class: Any, req: Request, **arguments: Any) -> HTTPResponse:
        def connection(host: str, **settings: Any) -> Any:
            made = http_class(host, **settings)
            made.response_class = partial(TimedResponse, end=end)
            return made

        end = time.monotonic() + float(req.timeout or 0)
        return super().do_open(connection, req, **arguments)  # type: ignore[misc,no-any-return]


class TimedHTTPHandler(TimedHandler, HTTPHandler):
    """For http://"""


class TimedHTTPSHandler(TimedHandler, HTTPSHandler):
    """For https://"""


class TimedResponse(HTTPResponse):
    """An answer that is read until a moment, its status and headers as well."""

    def __init__(self, sock: socket, *arguments: Any, end: float, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(TimedStream(self.fp.detach(), sock, end))  # type: ignore[arg-type]


class TimedStream(io.RawIOBase):
    """A socket's bytes until a moment, however slowly they come."""

    def __init__(self, stream: SocketIO, sock: socket, end: float) -> None:
        self.stream, self.sock, self.end = stream, sock, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self.sock.settimeout(left)
        return self.stream.readinto(buffer)

    def close(self) -> None:
        self.stream.close()
        super().close()

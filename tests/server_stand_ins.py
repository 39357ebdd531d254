# SPDX-License-Identifier: Apache-2.0
"""Servers on this machine for tests: those that answer as they are told, and those that send bytes as they are."""

import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Reply = tuple[int, bytes]


class Server:
    """Answers questions as `reply` says, and what is asked for without a body from `pages`; counts both."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []
        self.asked: list[str] = []  # paths of requests without a body
        self.paths: list[str] = []  # of questions
        self.headers: dict[str, str] = {}  # of the last question
        self.missing = 0  # bytes that are promised and never come
        self.more: dict[str, str] = {}  # headers of every answer
        self.pages: dict[str, Callable[[], Reply]] = {}
        self.reply: Callable[[dict[str, object], int], Reply] = lambda body, number: (200, b"[]")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                self.answer(*outer.pages.get(self.path, lambda: (404, b"no such page"))())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.headers["Content-Type"] == "application/json"
                outer.requests.append(body)
                outer.paths.append(self.path)
                outer.headers = dict(self.headers)
                self.answer(*outer.reply(body, len(outer.requests)))

            def answer(self, status: int, content: bytes) -> None:
                with suppress(OSError):  # nobody waits any more
                    self.send_response(status)
                    for name, value in outer.more.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content) + outer.missing))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nothing on the screen."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = f"{self.origin}/classify"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def sending(first: bytes, then: bytes = b"", pause: float = 0.0) -> Iterator[tuple[str, threading.Event]]:
    """The address of a server that sends `first`, then `then` over and over until the other side hangs up.

    The event is set once that has happened.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    gone, stop = threading.Event(), threading.Event()

    def serve() -> None:
        with suppress(OSError):
            while True:
                one, _ = listener.accept()
                with one, suppress(OSError):
                    one.recv(65536)
                    one.sendall(first)
                    while then and not stop.wait(pause):
                        one.sendall(then)
                gone.set()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/classify", gone
    finally:
        stop.set()
        listener.close()


class EmbeddingsServer(Server):
    """Answers as text-embeddings-inference 1.9 does: a list of two texts is one pair, of three an error."""

    def __init__(self, rows: Callable[[list[object]], list[list[float]]], labels: Sequence[str], most: int) -> None:
        super().__init__()
        self.rows, self.labels, self.most = rows, labels, most
        self.reply = self.predict
        self.pages["/info"] = self.info

    def info(self) -> Reply:
        names = {str(place): label for place, label in enumerate(self.labels)}
        ids = {label: place for place, label in enumerate(self.labels)}
        return 200, json.dumps({
            "model_id": "/data/model", "model_sha": None, "model_dtype": "float16", "served_model_name": "/data/model",
            "model_type": {"classifier": {"id2label": names, "label2id": ids}}, "max_concurrent_requests": 512,
            "max_input_length": 512, "max_batch_tokens": 16384, "max_batch_requests": None,
            "max_client_batch_size": self.most, "auto_truncate": False, "tokenization_workers": 8, "version": "1.9.3",
            "sha": None, "docker_label": None}).encode()

    def predict(self, body: dict[str, object], number: int) -> Reply:
        given = body["inputs"]
        if isinstance(given, str):
            return 200, json.dumps(self.ranked([given])[0]).encode()
        assert isinstance(given, list)
        if all(isinstance(one, str) for one in given):
            if len(given) > 2:
                return 422, b"Failed to deserialize the JSON body into the target type: inputs: invalid length 3"
            return 200, json.dumps(self.ranked([tuple(given) if len(given) == 2 else given[0]])[0]).encode()
        if not all(isinstance(one, list) and len(one) in (1, 2) for one in given):
            return 422, b"Failed to deserialize the JSON body into the target type: inputs: expected a string"
        if len(given) > self.most:
            told = f"batch size {len(given)} > maximum allowed batch size {self.most}"
            return 422, json.dumps({"error": told, "error_type": "Validation"}).encode()
        return 200, json.dumps(self.ranked([one[0] if len(one) == 1 else tuple(one) for one in given])).encode()

    def ranked(self, texts: list[object]) -> list[list[dict[str, object]]]:
        """Highest score first."""
        return [sorted(({"score": score, "label": label} for label, score in zip(self.labels, row, strict=True)),
                       key=lambda one: -float(str(one["score"]))) for row in self.rows(texts)]

# SPDX-License-Identifier: Apache-2.0
"""What a server may do with a question: not send it elsewhere, not answer for ever, not answer without end."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator

import pytest
from attack_stand_ins import HashVictim
from server_stand_ins import EmbeddingsServer, Reply, Server, sending

from dualmask.models.victim import HttpVictim, VictimError, VictimUnreachableError, checked
from dualmask.text.examples import Text

LABELS = ("bad", "good")
TEXTS: list[Text] = ["a fine plot", "a dull plot", "a dull actor", "nothing"]


def rows(texts: list[object]) -> list[list[float]]:
    return HashVictim().probabilities(texts)  # type: ignore[arg-type]


def good(body: dict[str, object], number: int) -> Reply:
    return 200, json.dumps(rows(body["inputs"])).encode()  # type: ignore[arg-type]


@pytest.fixture
def servers() -> Iterator[Callable[[], Server]]:
    """Servers that answer rightly."""
    made: list[Server] = []

    def make() -> Server:
        made.append(Server())
        made[-1].reply = good
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def embeddings() -> Iterator[EmbeddingsServer]:
    one = EmbeddingsServer(rows, LABELS, most=3)
    yield one
    one.close()


# text-embeddings-inference


@pytest.mark.parametrize("texts", [
    TEXTS[:1], TEXTS[:2], TEXTS[:3], TEXTS, [("a", "b")], [("a", "b"), ("c", "d"), ("a", "d"), ("c", "b"), ("", "")],
], ids=["1", "2", "3", "4", "a pair", "5 pairs"])
@pytest.mark.parametrize("path", ["/predict", "/", "", "/predict/"])
def test_texts_are_no_pair_for_text_embeddings_inference(
    texts: list[Text], path: str, embeddings: EmbeddingsServer,
) -> None:
    victim = HttpVictim(embeddings.origin + path, LABELS)
    found = checked(victim.probabilities(texts), len(texts))
    assert found.tolist() == rows(list(texts))
    assert checked(victim.probabilities(texts), len(texts)).tolist() == found.tolist()
    assert embeddings.asked == ["/info"], "a server is asked once what it is"
    sizes = [len(body["inputs"]) for body in embeddings.requests]  # type: ignore[arg-type]
    assert max(sizes) <= 3 and sum(sizes) == 2 * len(texts)
    assert all(body["truncate"] for body in embeddings.requests), "as pipelines are asked to"


def test_info_is_asked_for_with_the_headers_and_the_key(embeddings: EmbeddingsServer) -> None:
    page = embeddings.pages.pop("/info")
    embeddings.pages["/tei/info?key=hush"] = page
    victim = HttpVictim(embeddings.origin + "/tei/predict?key=hush", LABELS)
    assert checked(victim.probabilities(TEXTS[:2]), 2).tolist() == rows(list(TEXTS[:2]))
    assert embeddings.asked == ["/tei/info?key=hush"] and embeddings.paths == ["/tei/predict?key=hush"]


def test_a_server_that_still_starts_is_asked_again_what_it_is(
    embeddings: EmbeddingsServer, pauses: list[float],
) -> None:
    page = embeddings.pages["/info"]
    embeddings.pages["/info"] = lambda: page() if len(embeddings.asked) > 2 else (503, b"loading")
    assert checked(HttpVictim(embeddings.origin, LABELS).probabilities(TEXTS), 4).tolist() == rows(list(TEXTS))
    assert len(embeddings.asked) == 3 and len(pauses) == 2


def test_a_server_of_embeddings_is_no_classifier(embeddings: EmbeddingsServer) -> None:
    embeddings.pages["/info"] = lambda: (200, json.dumps(
        {"model_id": "a", "model_type": {"embedding": {"pooling": "cls"}}, "max_client_batch_size": 32}).encode())
    with pytest.raises(VictimError, match="serves a model for 'embedding', expected a classifier"):
        HttpVictim(embeddings.origin, LABELS).probabilities(TEXTS)


@pytest.mark.parametrize("page", [
    (404, b""), (401, b""), (500, b""), (200, b"<html>"), (200, b""), (200, b"[]"), (200, b"5"), (200, b"{}"),
    (200, b'{"model_id": "a", "model_type": "text-classification", "max_client_batch_size": 4}'),
    (200, b'{"model_id": "a", "max_client_batch_size": 4, "max_best_of": 2}'),
    (200, b'{"model_type": {"classifier": {}}, "max_client_batch_size": 0}'),
    (200, b'{"model_type": {"classifier": {}}, "max_client_batch_size": true}'),
    (200, b'{"model_type": {"classifier": {}}, "max_client_batch_size": "4"}'), (200, b" " * 2**21),
    (302, b""), (200, b"[" * 99999), (200, b"\xff\xfe"),
])
def test_other_servers_are_asked_as_ever(
    page: Reply, servers: Callable[[], Server], pauses: list[float],
) -> None:
    server = servers()
    server.pages["/info"] = lambda: page
    assert checked(HttpVictim(server.url, LABELS).probabilities(TEXTS), 4).tolist() == rows(list(TEXTS))
    assert server.requests == [{"inputs": TEXTS, "parameters": {"top_k": None}}]


def test_a_page_that_does_not_come_is_not_waited_for_each_time(servers: Callable[[], Server]) -> None:
    server, wake = servers(), threading.Event()
    server.pages["/info"] = lambda: (wake.wait(5) and None) or (200, b"{}")
    victim = HttpVictim(server.url, LABELS, timeout=0.2)
    for _ in range(3):
        assert checked(victim.probabilities(TEXTS), 4).tolist() == rows(list(TEXTS))
    wake.set()
    assert server.asked == ["/info"] and len(server.requests) == 3


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_neither_texts_nor_headers_go_to_another_host(
    status: int, servers: Callable[[], Server], pauses: list[float],
) -> None:
    server, stranger = servers(), servers()
    server.reply, server.more = (lambda body, number: (status, b"")), {"Location": f"{stranger.url}?token=abc"}
    stranger.pages["/classify?token=abc"] = lambda: (200, json.dumps(rows(list(TEXTS))).encode())
    with pytest.raises(VictimError) as found:
        HttpVictim(server.url, LABELS, headers={"Authorization": "Bearer secret"}).probabilities(TEXTS)
    assert not stranger.requests and not stranger.asked and not pauses
    told = str(found.value)
    assert f"{server.url} passes questions on to another host or port, {stranger.url}, which got neither" in told
    assert "abc" not in told and "secret" not in told


@pytest.mark.parametrize("place", ["/classify/", "classify/", "{origin}/classify/", "//{host}/classify/"])
@pytest.mark.parametrize("status", [307, 308])
def test_a_question_goes_on_whole_on_the_same_host(status: int, place: str, servers: Callable[[], Server]) -> None:
    server = servers()
    server.more = {"Location": place.format(origin=server.origin, host=server.origin.removeprefix("http://"))}
    server.reply = lambda body, number: (status, b"") if server.paths[-1] == "/classify" else good(body, number)
    victim = HttpVictim(server.url, LABELS, headers={"Authorization": "Bearer secret"})
    assert checked(victim.probabilities(TEXTS), 4).tolist() == rows(list(TEXTS))
    assert server.paths == ["/classify", "/classify/"] and server.headers["Authorization"] == "Bearer secret"
    assert server.requests[0] == server.requests[1]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_question_is_not_asked_without_its_texts(status: int, servers: Callable[[], Server]) -> None:
    server = servers()
    server.reply, server.more = (lambda body, number: (status, b"")), {"Location": "/other"}
    server.pages["/other"] = lambda: (200, json.dumps(rows(list(TEXTS))).encode())
    with pytest.raises(VictimError, match=f"status {status} and names {server.origin}/other, where the texts would"):
        HttpVictim(server.url, LABELS).probabilities(TEXTS)
    assert server.asked == ["/info"]


@pytest.mark.parametrize(("place", "words"), [
    ("/classify", "more than 3 times"), ("https://127.0.0.1/x", "another host or port, https://127.0.0.1/x"),
    ("http://user:pw@127.0.0.1/x", "another host"), ("http://[bad", "can't be read"), ("http://a b/", "can't be read"),
    ("//evil\x1b]0;owned\x07/", "can't be read"), ("ftp://127.0.0.1/x", "can't be read"),
    ("file:///etc/passwd", "can't be read"), ("http://127.0.0.1:99999/", "can't be read"), ("", "gave status 307,"),
])
def test_strange_redirects_are_errors(place: str, words: str, servers: Callable[[], Server]) -> None:
    server = servers()
    server.reply, server.more = (lambda body, number: (307, b"")), {"Location": place}
    with pytest.raises(VictimError) as found:
        HttpVictim(server.url, LABELS).probabilities(TEXTS)
    assert words in str(found.value) and "\x1b" not in str(found.value) and "pw" not in str(found.value)


# Time


HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(("first", "then"), [
    (HEAD + b"\r\n[", b" "), (HEAD + b"X: ", b"y"), (b"", b"H"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    (HEAD + b"Content-Length: 100000\r\n\r\n[", b" "),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
], ids=["body", "headers", "status", "interim", "length", "chunks"])
def test_an_answer_that_drips_comes_to_an_end(first: bytes, then: bytes) -> None:
    with sending(first, then, pause=0.02) as (url, gone):
        late = r"no whole answer in 0\.15 seconds: timed out, tried once"
        with pytest.raises((VictimError, VictimUnreachableError), match=late):
            HttpVictim(url, LABELS, retries=0, timeout=0.15).probabilities(TEXTS)
        assert gone.wait(5), "the connection is closed"


# Size


def test_an_answer_without_an_end_is_left() -> None:
    with sending(HEAD + b"\r\n[", b" " * 2**16) as (url, gone):
        with pytest.raises(VictimError, match=r"answers with more than [\d,]+ bytes; expected a short row for each"):
            HttpVictim(url, LABELS, retries=3).probabilities(TEXTS)
        assert gone.wait(5)


def test_a_promise_of_gigabytes_is_not_waited_for() -> None:
    with sending(HEAD + b"Content-Length: 2000000000\r\n\r\n[", b" ", pause=0.01) as (url, _), \
            pytest.raises(VictimError, match="answers with more than"):
        HttpVictim(url, LABELS).probabilities(TEXTS)


@pytest.mark.parametrize("limit", [1, 60, 10**9])
def test_the_size_of_an_answer_is_a_setting(limit: int, servers: Callable[[], Server]) -> None:
    victim = HttpVictim(servers().url, LABELS, answer_limit=limit)
    if limit < 100:
        with pytest.raises(VictimError, match=f"answers with more than {limit} bytes"):
            victim.probabilities(TEXTS)
    else:
        assert checked(victim.probabilities(TEXTS), 4).tolist() == rows(list(TEXTS))


def test_a_thousand_named_classes_are_not_too_much(servers: Callable[[], Server]) -> None:
    server, labels = servers(), [f"a rather long name of class number {number}" for number in range(1000)]
    found = [{"label": label, "score": 0.001} for label in labels]
    server.reply = lambda body, number: (200, json.dumps([found] * len(body["inputs"])).encode())  # type: ignore[arg-type]
    assert checked(HttpVictim(server.url, labels).probabilities(TEXTS * 8), 32).shape == (32, 1000)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "GZIP, gzip"])
def test_compressed_answers_are_refused_unopened(coding: str, servers: Callable[[], Server]) -> None:
    server = servers()
    server.reply = lambda body, number: (200, gzip.compress(good(body, number)[1] + b" " * 10**6))
    server.more = {"Content-Encoding": coding}
    with pytest.raises(VictimError, match=r"compresses its answers .* which was not asked for"):
        HttpVictim(server.url, LABELS).probabilities(TEXTS)
    assert server.headers["Accept-Encoding"] == "identity" and len(server.requests) == 1


def test_a_body_that_is_said_to_be_as_it_is_counts(servers: Callable[[], Server]) -> None:
    server = servers()
    server.more = {"Content-Encoding": "identity"}
    assert checked(HttpVictim(server.url, LABELS).probabilities(TEXTS), 4).tolist() == rows(list(TEXTS))


def test_messages_of_servers_are_bounded(servers: Callable[[], Server]) -> None:
    """Each is kept in a record, and shown."""
    server = servers()
    found = [{"label": f"number {number}", "score": 0.0} for number in range(3000)]
    for status, answer in ((200, json.dumps([found]).encode()), (307, b""), (302, b"")):
        server.reply = lambda body, number, told=(status, answer): told  # type: ignore[misc]
        for place in (f"http://{'x' * 50_000}/", f"/{'x' * 50_000}"):
            server.more = {"Location": place}
            with pytest.raises(VictimError) as told:
                HttpVictim(server.url, LABELS, retries=0).probabilities(["a"])
            assert len(str(told.value)) < 500


# Surroundings


def test_a_proxy_of_the_environment_is_used(servers: Callable[[], Server], monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = servers()
    monkeypatch.setenv("http_proxy", proxy.origin)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    victim = HttpVictim("http://nowhere.invalid/classify", LABELS)
    assert checked(victim.probabilities(TEXTS), 4).tolist() == rows(list(TEXTS))
    assert proxy.paths == ["http://nowhere.invalid/classify"]

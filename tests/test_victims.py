# SPDX-License-Identifier: Apache-2.0
"""Whatever answers with probabilities can be attacked: functions, classifiers, pipelines, servers."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from attack_stand_ins import HashVictim, records, run, stand_ins, tiny_classifier
from conftest import reviews
from server_stand_ins import Reply, Server
from typer.testing import CliRunner

from dualmask.attacks import build_attack
from dualmask.attacks.running import Assault, attack
from dualmask.cli import app
from dualmask.errors import OptionError
from dualmask.models.victim import (
    ClassifierVictim,
    FunctionVictim,
    HttpVictim,
    PipelineVictim,
    VictimError,
    VictimUnreachableError,
    as_victim,
    by_label,
    checked,
    spelled,
)
from dualmask.text.examples import Dataset, Example, Text

TEXTS = [str(example.text) for example in reviews(10, seed=4)]
LABELS = ("bad", "good")


def outcome(victim: object, labels: Sequence[str] = LABELS) -> list[dict[str, object]]:
    examples = HashVictim().examples(TEXTS)
    return records(list(Assault(victim, build_attack("deepwordbug"), measure=None, labels=labels).run(
        list(enumerate(examples)))))


@pytest.fixture(scope="module")
def expected() -> list[dict[str, object]]:
    found = outcome(HashVictim())
    assert {one["outcome"] for one in found} >= {"succeeded"}
    return found


# Functions


def rows(texts: Sequence[Text]) -> list[list[float]]:
    return HashVictim().probabilities(texts)


FUNCTIONS: dict[str, Callable[[Sequence[Text]], object]] = {
    "lists": rows,
    "tuples": lambda texts: tuple(tuple(row) for row in rows(texts)),
    "numpy": lambda texts: np.array(rows(texts)),
    "rows of numpy": lambda texts: [np.array(row) for row in rows(texts)],
    "torch": lambda texts: torch.tensor(rows(texts), dtype=torch.float64),
    "torch with a gradient": lambda texts: torch.tensor(rows(texts), dtype=torch.float64, requires_grad=True),
    "rows of torch": lambda texts: list(torch.tensor(rows(texts), dtype=torch.float64)),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_may_answer_in_any_table_of_numbers(kind: str, expected: list[dict[str, object]]) -> None:
    assert outcome(FUNCTIONS[kind]) == expected
    assert outcome(FUNCTIONS[kind], labels=()) == expected


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_half_precision_is_near_enough_to_one(kind: torch.dtype) -> None:
    found = outcome(lambda texts: torch.tensor(rows(texts)).to(kind))
    assert not [one for one in found if one["outcome"] == "victim-error"]


def test_an_object_that_can_be_called_is_a_function() -> None:
    class Model:
        def __call__(self, texts: list[Text]) -> list[list[float]]:
            assert isinstance(texts, list)
            return rows(texts)

    victim = as_victim(Model(), labels=LABELS)
    assert isinstance(victim, FunctionVictim) and victim.labels == LABELS
    assert checked(victim.probabilities(TEXTS), len(TEXTS)).shape == (10, 2)


def test_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    made = [eval(compile(f"{line}lambda texts: [[{share}, 0.5]] * len(texts)", "some.py", "eval"))
            for line, share in (("", 0.5), ("", 0.25), ("\n", 0.5))]  # the last one is the first, a line below
    one, other, moved = (FunctionVictim(function).describe() for function in made)
    assert one != other and one == moved and one.startswith("function <lambda> of ")
    orders = [frozenset(numbers) for numbers in ([0, 8], [8, 0])]
    assert repr(orders[0]) != repr(orders[1]) and spelled(orders[0]) == spelled(orders[1])
    path, examples = tmp_path / "a.jsonl", [Example("good movie", 0)]
    attack(made[0], examples, "deepwordbug", measure=None, out=path)
    with pytest.raises(OptionError, match="victim: 'function <lambda>"):
        attack(made[1], examples, "deepwordbug", measure=None, out=path, resume=True)


def test_what_is_a_victim_already_stays_one() -> None:
    victim = HashVictim()
    assert as_victim(victim) is victim


@pytest.mark.parametrize("wrong", [None, 5, 3.5, [1, 2], {"a": 1}, "a/folder", Path("a/folder"), "ftp://x", ""])
def test_what_can_not_answer_is_refused_with_what_could(wrong: object) -> None:
    with pytest.raises(OptionError) as found:
        as_victim(wrong)
    assert "pipeline" in str(found.value) and "function" in str(found.value) and "http" in str(found.value)
    if isinstance(wrong, str | Path):
        assert f"'{wrong}'" in str(found.value)


def test_single_class_victims_are_never_fooled() -> None:
    found = run(lambda texts: [[1.0]] * len(texts), build_attack("deepwordbug"), [Example("good movie", 0)])
    assert found[0].outcome == "failed" and found[0].probability_after == 1.0


# Answers


@pytest.mark.parametrize(("answer", "texts"), [
    ("positive", 1), (["positive"], 1), (None, 1), (0.5, 1), ([0.5, 0.5], 2), ([[0.5, 0.5]], 2), ([[0.5, 0.5]] * 3, 2),
    ([[]], 1), ([[0.5, float("nan")]], 1), ([[float("inf"), 0]], 1), ([[1.5, -0.5]], 1), ([[3.0, 1.0]], 1),
    ([[0.5, 0.5], [1.0]], 2), ({"good": 1.0}, 1), ([{"label": "good"}], 1), (np.ones((1, 1, 1)), 1), ([[0.0, 0.0]], 1),
])
def test_what_is_no_table_of_probabilities_is_named(answer: object, texts: int) -> None:
    with pytest.raises(VictimError, match="victim"):
        checked(answer, texts)  # type: ignore[arg-type]


def test_rounding_is_forgiven() -> None:
    assert checked([[0.9995, 0.0], [1.0, 0.0]], 2).tolist() == [[0.9995, 0.0], [1.0, 0.0]]
    assert checked(np.array([[0.25, 0.75]], dtype=np.float16), 1).dtype == np.float64


def test_labels_and_scores_in_any_order() -> None:
    answer = [[{"label": "good", "score": 0.7}, {"label": "bad", "score": 0.3}],
              [{"label": "bad", "score": 0.9}, {"label": "good", "score": 0.1}]]
    assert by_label(answer, LABELS) == [[0.3, 0.7], [0.9, 0.1]]
    with pytest.raises(OptionError, match="names"):
        by_label(answer, ())
    with pytest.raises(VictimError, match="'fair'"):
        by_label(answer, ("bad", "fair"))


@pytest.mark.parametrize("answer", [
    5, None, [5], [[5]], [["good"]], [[{"label": "good"}]], [[{"label": "good", "score": "x"}]],
    [[{"label": "good", "score": [1]}]], [[{"label": "good", "score": 10**400}]], [{"label": "good", "score": 1.0}]])
def test_what_is_not_labels_and_scores_is_told_with_what_was_expected(answer: object) -> None:
    with pytest.raises(VictimError, match=r"the victim answered .*; expected for each text a list"):
        by_label(answer, LABELS)


# Classifiers and pipelines


@pytest.mark.parametrize("defence", ["plain", "ddm"])
def test_a_defended_classifier_is_attacked_with_its_defence(
    defence: str, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    classifier = tiny_classifier(tiny("bert"), defence, data)
    victim = as_victim(classifier)
    assert isinstance(victim, ClassifierVictim) and victim.labels == data.labels
    assert torch.equal(torch.as_tensor(victim.probabilities(TEXTS)), classifier.predict(TEXTS).probabilities)
    assert victim.describe() == f"classifier {classifier.fingerprint()}"
    examples = [Example(text, int(row.argmax())) for text, row in
                zip(TEXTS, classifier.predict(TEXTS).probabilities, strict=True)]
    found = run(classifier, build_attack("deepwordbug"), examples)
    for one in found:
        after = classifier.predict([one.adversarial or one.text]).probabilities[0]
        assert one.predicted == int(after.argmax())
        assert one.probability_after == pytest.approx(float(after[one.label]), abs=2e-4)
        assert (one.outcome == "succeeded") == (one.predicted != one.label)


def real_pipeline(folder: Path) -> object:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    torch.manual_seed(2)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=3, id2label={0: "low", 1: "mid", 2: "high"}, label2id={"low": 0, "mid": 1, "high": 2})
    for weight in model.classifier.parameters():
        torch.nn.init.normal_(weight, std=2.0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return pipeline("text-classification", model=model.eval(), tokenizer=tokenizer, device="cpu")


@pytest.mark.filterwarnings("ignore")
def test_a_transformers_pipeline_is_a_victim(tiny: Callable[[str], Path]) -> None:
    pipe = real_pipeline(tiny("bert"))
    victim = as_victim(pipe)
    assert isinstance(victim, PipelineVictim) and victim.labels == ("low", "mid", "high")
    texts: list[Text] = [*TEXTS, "", "the " * 200]
    found = checked(victim.probabilities(texts), len(texts))
    model, tokenizer = pipe.model, pipe.tokenizer  # type: ignore[attr-defined]
    for text, row in zip(texts, found, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, truncation=True, return_tensors="pt")).logits
        assert row == pytest.approx(logits.softmax(dim=1)[0].numpy(), abs=1e-4)
    pairs: list[Text] = [("good movie", "a plot"), ("bad", "")]
    with torch.no_grad():
        logits = model(**tokenizer("good movie", "a plot", return_tensors="pt")).logits
    assert checked(victim.probabilities(pairs), 2)[0] == pytest.approx(logits.softmax(dim=1)[0].numpy(), abs=1e-4)
    examples = [Example(text, int(row.argmax())) for text, row in zip(TEXTS[:4], found, strict=False)]
    results = run(pipe, build_attack("deepwordbug"), examples)
    assert {one.outcome for one in results} <= {"succeeded", "failed"}


def test_what_answers_like_a_pipeline_is_one(expected: list[dict[str, object]]) -> None:
    class Pipe:
        tokenizer = object()
        model = SimpleNamespace(config=SimpleNamespace(num_labels=2, id2label={0: "bad", 1: "good"}))

        def __call__(
            self, texts: list[Text], *, top_k: int | None, truncation: bool, batch_size: int,
        ) -> list[list[dict[str, object]]]:
            assert top_k is None and truncation and batch_size >= 1
            return [sorted(({"label": label, "score": score} for label, score in zip(LABELS, row, strict=True)),
                           key=lambda one: -one["score"]) for row in rows(texts)]  # type: ignore[operator]

    assert isinstance(as_victim(Pipe()), PipelineVictim)
    assert outcome(Pipe(), labels=()) == expected


# Servers

@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


def good(body: dict[str, object], number: int) -> Reply:
    return 200, json.dumps(rows(body["inputs"])).encode()  # type: ignore[arg-type]


def pipeline_style(body: dict[str, object], number: int) -> Reply:
    found = [[{"label": label, "score": score} for label, score in zip(LABELS[::-1], row[::-1], strict=True)]
             for row in rows(body["inputs"])]  # type: ignore[arg-type]
    return 200, json.dumps(found[0] if len(found) == 1 else found).encode()


@pytest.mark.parametrize("reply", [
    good, pipeline_style,
    lambda body, number: (200, json.dumps({"probabilities": rows(body["inputs"])}).encode()),
    lambda body, number: (200, json.dumps({"outputs": rows(body["inputs"])}).encode()),
], ids=["rows", "pipeline", "probabilities", "outputs"])
def test_servers_may_answer_in_several_ways(
    reply: Callable[[dict[str, object], int], Reply], server: Server, expected: list[dict[str, object]],
) -> None:
    server.reply = reply
    assert outcome(server.url) == expected
    assert all(isinstance(body["inputs"], list) for body in server.requests)


def test_pairs_travel_as_lists_and_odd_characters_survive(server: Server) -> None:
    server.reply = lambda body, number: (200, json.dumps([[0.5, 0.5]] * len(body["inputs"])).encode())  # type: ignore[arg-type]
    texts: list[Text] = [("premise", "hypothesis \u4f60 \U0001f600"), ("a\nb", "\x00\u200b\ud800")]
    assert checked(HttpVictim(server.url).probabilities(texts), 2).shape == (2, 2)
    assert server.requests[0]["inputs"] == [list(pair) for pair in texts]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(status: int, server: Server, pauses: list[float]) -> None:
    server.reply = lambda body, number: good(body, number) if number > 2 else (status, b"busy")
    found = checked(HttpVictim(server.url).probabilities(TEXTS), len(TEXTS))
    assert found.tolist() == rows(TEXTS)
    assert len(server.requests) == 3 and len(pauses) == 2 and 0 < pauses[0] < pauses[1]


@pytest.mark.parametrize(("reply", "words", "tries"), [
    (lambda body, number: (500, b"oh no"), "500", 3), (lambda body, number: (404, b""), "404", 1),
    (lambda body, number: (401, b""), "401", 1), (lambda body, number: (200, b"{garbage"), "JSON", 3),
    (lambda body, number: (200, b""), "JSON", 3), (lambda body, number: (200, b"<html>hello</html>"), "JSON", 3),
], ids=["500", "404", "401", "garbage", "empty", "html"])
def test_a_server_that_does_not_answer_is_named(
    reply: Callable[[dict[str, object], int], Reply], words: str, tries: int, server: Server, pauses: list[float],
) -> None:
    server.reply = reply
    with pytest.raises(VictimError) as found:
        HttpVictim(server.url, retries=2).probabilities(TEXTS)
    assert words in str(found.value) and server.url in str(found.value)
    assert len(server.requests) == tries
    assert f"tried {'once' if tries == 1 else f'{tries} times'};" in str(found.value)


def test_a_question_that_a_server_refuses_is_no_sign_that_it_is_down(server: Server, pauses: list[float]) -> None:
    victim = HttpVictim(server.url, retries=2)
    server.reply = lambda body, number: (400, b"") if number <= 4 else (503, b"") if number <= 6 else good(body, number)
    for _ in range(4):
        with pytest.raises(VictimError, match="status 400, tried once"):
            victim.probabilities(TEXTS)
    assert checked(victim.probabilities(TEXTS), len(TEXTS)).tolist() == rows(TEXTS) and len(server.requests) == 7


def test_answers_that_are_cut_or_not_utf_8_are_victim_errors(server: Server, pauses: list[float]) -> None:
    server.reply = lambda body, number: (200, b'[["\xff\xfe')
    with pytest.raises(VictimError):
        HttpVictim(server.url, retries=1).probabilities(TEXTS)
    server.reply, server.missing = good, 10
    with pytest.raises(VictimError):
        HttpVictim(server.url, retries=1).probabilities(TEXTS)


def test_a_slow_server_times_out(server: Server, pauses: list[float]) -> None:
    wake = threading.Event()
    server.reply = lambda body, number: (wake.wait(5) and None) or good(body, number)
    with pytest.raises((VictimError, VictimUnreachableError), match="timed out"):
        HttpVictim(server.url, retries=1, timeout=0.1).probabilities(TEXTS)
    wake.set()
    assert len(server.requests) == 2


def test_a_text_that_takes_too_long_fails_its_own_example(
    server: Server, pauses: list[float], expected: list[dict[str, object]],
) -> None:
    poison = next(text for text in TEXTS if TEXTS.count(text) == 1)
    wake = threading.Event()
    server.reply = lambda body, number: (
        (wake.wait(5) and None) if poison in body["inputs"] else None) or good(body, number)  # type: ignore[operator]
    try:
        found = outcome(HttpVictim(server.url, LABELS, retries=0, timeout=0.15))
    finally:
        wake.set()
    place = TEXTS.index(poison)
    assert found[place]["outcome"] == "victim-error" and "timed out" in str(found[place]["reason"])
    assert [one for number, one in enumerate(found) if number != place] == [
        one for number, one in enumerate(expected) if number != place]


def test_nobody_at_the_address(pauses: list[float]) -> None:
    victim = HttpVictim("http://127.0.0.1:9/none?key=secret", LABELS, retries=1)
    with pytest.raises(VictimUnreachableError, match=r"127\.0\.0\.1:9/none can't be reached") as found:
        run(victim, build_attack("deepwordbug"), [Example("good movie", 1), Example("bad plot", 0)])
    assert "secret" not in str(found.value) and "secret" not in victim.describe()
    assert len(pauses) == 1, "a server that is down is not waited for again and again"


@pytest.mark.parametrize("content", [
    b"5", b"null", b'"good"', b"[]", b"[[]]", b"{}", b'{"error": "x"}', b"[[1, 2], [3]]", b"[null]", b"[[null]]",
    b'[{"label": "good"}]', b'[[{"label": "good", "score": "x"}]]'])
def test_json_of_another_kind_is_an_outcome_not_a_crash(content: bytes, server: Server, pauses: list[float]) -> None:
    server.reply = lambda body, number: (200, content)
    victim = HttpVictim(server.url, LABELS, retries=0)
    found = run(victim, build_attack("deepwordbug"), [Example("good movie", 1)])
    assert found[0].outcome == "victim-error" and found[0].reason
    with pytest.raises(VictimError, match="each of the first 8 texts"):
        run(victim, build_attack("deepwordbug"), [Example(f"good movie {number}", 1) for number in range(8)])


def test_a_server_that_fails_for_one_text_fails_that_example(
    server: Server, pauses: list[float], expected: list[dict[str, object]],
) -> None:
    poison = next(text for text in TEXTS if TEXTS.count(text) == 1)
    place = TEXTS.index(poison)
    server.reply = lambda body, number: (500, b"") if poison in body["inputs"] else good(body, number)  # type: ignore[operator]
    found = outcome(HttpVictim(server.url, LABELS, retries=0))
    assert found[place]["outcome"] == "victim-error"
    assert [one for number, one in enumerate(found) if number != place] == [
        one for number, one in enumerate(expected) if number != place]


def test_a_server_is_attacked_by_its_address_alone(server: Server, expected: list[dict[str, object]]) -> None:
    server.reply = pipeline_style
    found = attack(server.url, HashVictim().examples(TEXTS), "deepwordbug", labels=LABELS, measure=None)
    assert records(found) == expected
    assert as_victim(server.url).describe() == server.url


@pytest.mark.parametrize("options", [{"retries": -1}, {"timeout": 0.0}, {"timeout": -2.0}])
def test_impossible_settings_of_a_server_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="retries"):
        HttpVictim("http://127.0.0.1", **options)  # type: ignore[arg-type]


def test_headers_travel_with_every_question(server: Server) -> None:
    server.reply = good
    HttpVictim(server.url, headers={"Authorization": "Bearer abc"}).probabilities(TEXTS)
    assert server.headers["Authorization"] == "Bearer abc"


def test_a_password_in_the_address_travels_as_a_header_and_is_not_told(server: Server) -> None:
    server.reply = good
    victim = HttpVictim(server.url.replace("://", "://user:se%40cret@") + "?key=hush#part")
    victim.probabilities(TEXTS)
    assert server.headers["Authorization"] == f"Basic {base64.b64encode(b'user:se@cret').decode()}"
    assert victim.describe() == server.url


@pytest.mark.parametrize("url", ["http://[bad", "http://", "http:///path", "http://host:port/", "http://host:99999/",
                                 "http://host/a b", "http://host/\u00fc", "http://host/\n", "http://user:p/secret@host"])
def test_an_address_that_can_not_be_asked_is_refused_at_once(url: str) -> None:
    with pytest.raises(OptionError, match="address can't be read; expected one such as http") as found:
        as_victim(url, labels=LABELS)
    assert "secret" not in str(found.value)


def test_an_attack_without_a_usable_answer_fails_and_shows_no_secret(server: Server, tmp_path: Path) -> None:
    server.reply = lambda body, number: (200, json.dumps(
        [[{"label": "[/x]\x1b]0;owned\x07", "score": 1.0}]] * len(body["inputs"])).encode())  # type: ignore[arg-type]
    data, out = tmp_path / "data.csv", tmp_path / "a.jsonl"
    data.write_text("text,label\ngood movie,good\nbad plot,bad\n")
    address = server.url.replace("://", "://user:secret@") + "?key=secret"
    found = CliRunner().invoke(app, ["attack", address, str(data), "--labels", "bad,good", "--attack", "deepwordbug",
                                     "--no-measure", "--quiet", "--out", str(out)], env={"COLUMNS": "200"})
    assert found.exit_code == 1 and f"records: {out}" in found.stdout and "against http://127" in found.stdout
    assert "nothing was measured: each of the 2 texts ended in a fault" in found.stderr and "[/x]" in found.stdout
    written = out.read_text(encoding="utf-8")
    assert written.count("victim-error") == 2
    assert all(secret not in found.output + written for secret in ("secret", "\x1b", "\x07"))


def test_a_label_missing_from_the_names_is_told_at_once(server: Server) -> None:
    server.reply = pipeline_style
    with pytest.raises(OptionError, match="names"):
        run(HttpVictim(server.url), build_attack("deepwordbug"), [Example("good movie", 1)])


def test_gradients_of_a_black_box_are_refused_with_what_to_do() -> None:
    for name in ("hotflip", "fgpm"):
        with pytest.raises(OptionError, match=f"'{name}' needs gradients"):
            run(HashVictim(), build_attack(name, tools=stand_ins()), [Example("good", 0)])

# SPDX-License-Identifier: Apache-2.0
"""What an attack may ask: any classifier as a function from texts to probabilities."""

import json
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import Any, Protocol, cast, runtime_checkable
from urllib.parse import unquote

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from dualmask.errors import DataError, DualmaskError, OptionError
from dualmask.models.http_exchange import NoAnswerError, exchange, server_opener, shown_address, split_address
from dualmask.options import check_least
from dualmask.text.encoding import Encode
from dualmask.text.examples import Text

Rows = NDArray[np.float64]  # (texts, classes)
ZERO = 1e-30  # what a probability of 0 counts as where its logarithm is needed
SUM_TOLERANCE = 1e-2  # victims in bfloat16 miss 1 by so much
INFO_SECONDS = 5.0  # at most, for what a server says about itself
# Bytes of an answer: of any, of a text's row, and of a class that has a name
ANSWER_BYTES, ROW_BYTES, CLASS_BYTES = 2**20, 2**16, 256
STRANGE = "\ua000\u1401\u13a0"  # letters of scripts that few vocabularies know


class VictimError(DualmaskError):
    """The victim gave no usable answer for a text. Look at the victim; the attack can't help it."""


class VictimUnreachableError(DualmaskError):
    """Nobody answers at the victim's address. Start the server, then go on with --resume."""


class Victim(ABC):
    """All that a black-box attack may know, and what helps to ask quickly."""

    labels: tuple[str, ...] = ()  # names in the order of the columns; empty if the victim doesn't tell
    classifier: object | None = None  # what a white-box attack may look into
    device: str = "cpu"  # where it runs, and where models that help the attack go
    rows: int = 32  # texts that it takes at a time
    unknown: str = "[UNK]"  # what it reads as an unknown word
    fresh: bool = False  # it draws new noise for each answer
    cost: int = 1  # queries behind each answer
    logged: bool = False  # attacks are told logarithms besides, so that they see differences near 0 and 1
    judge: "Victim | None" = None  # who decides what counts as fooled, where this one only guides the search

    @abstractmethod
    def probabilities(self, texts: Sequence[Text]) -> ArrayLike:
        """(texts, classes); every row sums to 1."""

    def log_probabilities(self, texts: Sequence[Text]) -> Rows:
        """Their natural logarithms, (texts, classes); of a victim that only answers those of what it answers."""
        return logarithms(self.probabilities(texts), len(texts))

    def describe(self) -> str:
        """Enough to notice that a run goes on against another victim."""
        return type(self).__name__


@runtime_checkable
class Classifier(Protocol):
    """What a DefendedClassifier looks like from here."""

    labels: tuple[str, ...]
    encode: Encode

    @property
    def device(self) -> torch.device: ...

    def predict(self, texts: Sequence[Text], *, early: bool = True) -> "Answers": ...

    def fingerprint(self) -> str: ...


class Answers(Protocol):
    @property
    def probabilities(self) -> ArrayLike: ...

    @property
    def log_probabilities(self) -> ArrayLike | None: ...


class ClassifierVictim(Victim):
    """A classifier of this library, its defence on. It packs by tokens itself, so it gets thousands of texts."""

    rows = 4096

    def __init__(self, classifier: Classifier) -> None:
        self.classifier: Classifier = classifier
        self.labels = tuple(classifier.labels)
        self.device = str(classifier.device)
        self.unknown = unknown_word(classifier.encode)
        self.fresh = getattr(getattr(classifier, "defence", None), "noise", "none") == "fresh"

    def probabilities(self, texts: Sequence[Text]) -> ArrayLike:
        return self.classifier.predict(texts, early=False).probabilities  # an attack sees whole votes, not a part

    def log_probabilities(self, texts: Sequence[Text]) -> Rows:
        found = self.classifier.predict(texts, early=False)
        if found.log_probabilities is None:
            return logarithms(found.probabilities, len(texts))
        return finite(found.log_probabilities)

    def describe(self) -> str:
        return f"classifier {self.classifier.fingerprint()}"


def unknown_word(encode: Encode) -> str:
    """A word that becomes the unknown token; "[UNK]" does not where special tokens in texts are plain characters."""
    unknown = encode.tokenizer.unk_token_id
    for letter in STRANGE if encode.literal and unknown is not None else "":
        batch = encode([letter])
        if batch.input_ids[batch.body].tolist() == [unknown]:
            return letter
    return str(encode.tokenizer.unk_token or "[UNK]")


class FunctionVictim(Victim):
    """Any function from a list of texts to probabilities: numpy, torch or plain lists."""

    def __init__(self, function: Callable[[list[Text]], ArrayLike], labels: Sequence[str] = ()) -> None:
        self.function = function
        self.labels = tuple(labels)

    def probabilities(self, texts: Sequence[Text]) -> ArrayLike:
        return self.function(list(texts))

    def describe(self) -> str:
        function = self.function.func if isinstance(self.function, partial) else self.function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"function {name} of {getattr(function, '__module__', None) or 'somewhere'}{code_mark(function)}"


def code_mark(function: Callable[..., object]) -> str:
    """Tells functions of one name apart, such as lambdas: a hash, the same wherever this version of Python runs."""
    bare = getattr(function, "__wrapped__", function) if hasattr(function, "__code__") else type(function).__call__
    code = getattr(bare, "__code__", None)
    return f", code {blake2b(spelled(code).encode(), digest_size=4).hexdigest()}" if type(code) is CodeType else ""


def spelled(value: object) -> str:
    """Code, or a constant in it, without the lines that it stands in and whatever order a set has today."""
    if isinstance(value, CodeType):
        return repr((value.co_code, value.co_names, [spelled(one) for one in value.co_consts]))
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


class PipelineVictim(Victim):
    """A Hugging Face text-classification pipeline, or whatever answers like one."""

    def __init__(self, pipeline: Callable[..., object], labels: Sequence[str]) -> None:
        self.pipeline = pipeline
        self.labels = tuple(labels)
        self.device = str(getattr(pipeline, "device", "cpu"))

    def probabilities(self, texts: Sequence[Text]) -> ArrayLike:
        given = [text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]} for text in texts]
        return by_label(self.pipeline(given, top_k=None, truncation=True, batch_size=len(given)), self.labels)

    def describe(self) -> str:
        return f"pipeline {getattr(cast(Any, self.pipeline).model, 'name_or_path', '')}"


class HttpVictim(Victim):
    """A server that takes {"inputs": [...]} and gives rows of probabilities or, like pipelines, of labels and scores.

    It is first asked for /info beside its address: text-embeddings-inference tells there what it is, reads two texts in
    a row as one pair, and so gets lists of texts, no more at a time than it takes. Whoever has no such page gets all
    texts in one list.

    Answers that may change (busy, unavailable, time-out) are asked for again, after longer and longer pauses. A user
    and a password before "@" in the address, and what stands behind "?", are in no message and no record. No redirect
    to another host is followed. timeout: seconds for a whole answer; answer_limit: its bytes at most, by the number of
    texts unless given.
    """

    def __init__(
        self, url: str, labels: Sequence[str] = (), *, retries: int = 4, timeout: float = 30.0,
        headers: Mapping[str, str] | None = None, answer_limit: int | None = None,
    ) -> None:
        if retries < 0 or timeout <= 0:
            raise OptionError(f"retries={retries}, timeout={timeout}; expected 0 or more, and more than 0 seconds.")
        check_least(answer_limit=(answer_limit, 1))
        self.labels, self.retries, self.timeout, self.answer_limit = tuple(labels), retries, timeout, answer_limit
        login = split_address(url).netloc.rpartition("@")[0]
        self.url = url.replace(f"{login}@", "", 1) if login else url
        known = {"Authorization": f"Basic {b64encode(unquote(login).encode()).decode()}"} if login else {}
        self.headers = {"Content-Type": "application/json", **known, **(headers or {})}
        self._opener = server_opener()
        self._failures = 0  # in a row; a server that is down is not waited for each time
        self._nested: int | None = None  # texts at a time for text-embeddings-inference; 0: another server

    def describe(self) -> str:
        return shown_address(self.url)

    def probabilities(self, texts: Sequence[Text]) -> ArrayLike:
        if self._nested is None:
            self._nested = self._nested_batch()
        if not self._nested:
            return self._rows([text if isinstance(text, str) else list(text) for text in texts],
                              {"parameters": {"top_k": None}})
        rows: list[object] = []
        for first in range(0, len(texts), self._nested):
            part = [[text] if isinstance(text, str) else list(text) for text in texts[first:first + self._nested]]
            found = self._rows(part, {"truncate": True})  # as pipelines are asked to
            if not isinstance(found, list) or len(found) != len(part):
                raise VictimError(f"{self.describe()} gave {len(found) if isinstance(found, list) else 'no'} rows for "
                                  f"{len(part)} texts; expected one for each.")
            rows += found
        return cast(ArrayLike, rows)

    def _nested_batch(self) -> int:
        """How many texts text-embeddings-inference takes at a time; 0 where another server is at the address."""
        parts = split_address(self.url)
        place = parts._replace(path=parts.path.rstrip("/").rpartition("/")[0] + "/info", fragment="").geturl()
        try:
            found = self._ask(place, None, again=("busy", "unreachable"), timeout=min(self.timeout, INFO_SECONDS))
        except VictimUnreachableError:
            raise
        except VictimError:
            self._failures = 0  # no such page: that says nothing about the server
            return 0
        kind, most = (found.get(name) for name in ("model_type", "max_client_batch_size")) if isinstance(
            found, Mapping) else (None, None)
        if not isinstance(kind, Mapping) or type(most) is not int or most < 1:
            return 0
        if "classifier" not in kind:
            raise VictimError(f"{self.describe()} serves a model for {', '.join(map(str, kind))!r:.60}, expected a "
                              "classifier; start the server with one.")
        return most

    def _rows(self, inputs: Sequence[object], settings: Mapping[str, object]) -> ArrayLike:
        body = json.dumps({"inputs": inputs, **settings}).encode()
        most = ANSWER_BYTES + len(body) + len(inputs) * (ROW_BYTES + CLASS_BYTES * len(self.labels))
        answer = self._ask(self.url, body, again=("busy", "garbled", "unreachable"), timeout=self.timeout,
                           most=self.answer_limit or most)
        if isinstance(answer, Mapping):
            answer = answer.get("probabilities", answer.get("outputs"))
        if isinstance(answer, list) and answer and not isinstance(answer[0], list):
            answer = [answer]  # servers drop the outer list for a single text
        if isinstance(answer, list) and answer and answer[0] and isinstance(answer[0][0], Mapping):
            return by_label(answer, self.labels)
        return cast(ArrayLike, answer)

    def _ask(
        self, url: str, body: bytes | None, *, again: Sequence[str], timeout: float, most: int = ANSWER_BYTES,
    ) -> object:
        """The server's answer; again: which failures are worth another try."""
        tries = self.retries + 1 if self._failures < 3 else 1
        self._failures += 1  # until an answer comes that is not worth another try
        for attempt in range(tries):
            if attempt:
                time.sleep(min(0.25 * 2 ** (attempt - 1), 8.0))
            try:
                found = exchange(self._opener, url, body, headers=self.headers, timeout=timeout, most=most)
            except NoAnswerError as error:
                fault = error
                if fault.kind not in again:
                    break
            else:
                self._failures = 0
                return found
        if fault.kind in ("refused", "unacceptable"):
            self._failures = 0
        tried = f"tried {attempt + 1} times" if attempt else "tried once"
        if fault.kind == "unreachable":
            raise VictimUnreachableError(f"{self.describe()} can't be reached ({fault.reason}), {tried}. Check the "
                                         "address and the server; a run that writes records can be resumed.")
        if fault.kind == "unacceptable":
            raise VictimError(f"{self.describe()} {fault.reason}")
        raise VictimError(f"{self.describe()} gave {fault.reason}, {tried}; expected a list with a row of "
                          "probabilities, or of labels and scores, for each text.")


def by_label(answer: object, labels: Sequence[str]) -> list[list[float]]:
    """Labels and scores in any order as rows in the order of the labels."""
    if not labels:
        raise OptionError("this victim answers with label names; give the names in the order of the data's labels.")
    try:
        rows = [{str(one["label"]): float(cast(float, one["score"])) for one in found}
                for found in cast(Sequence[Sequence[Mapping[str, object]]], answer)]
    except (LookupError, TypeError, ValueError, OverflowError):
        raise VictimError(f"the victim answered {answer!r:.100}; expected for each text a list of what each class "
                          'gets, such as {"label": "good", "score": 0.9}.') from None
    for scores in rows:
        if missing := [label for label in labels if label not in scores]:
            raise VictimError(f"the victim's answer lacks the label '{missing[0]}'; it has "
                              f"{', '.join(scores):.200}. It must give all labels (top_k=None).")
    return [[scores[label] for label in labels] for scores in rows]


def as_victim(source: object, *, labels: Sequence[str] = ()) -> Victim:
    """Whatever can be attacked: a victim, a classifier, a pipeline, a function, a web address."""
    if isinstance(source, Victim):
        return source
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        return HttpVictim(source, labels)
    if isinstance(source, str | Path):
        raise OptionError(f"'{source}' is no victim; give a classifier (DefendedClassifier.load), a pipeline, a "
                          "function from texts to probabilities, or an address that begins with http.")
    if isinstance(source, Classifier):
        return ClassifierVictim(source)
    config = getattr(getattr(source, "model", None), "config", None)
    if callable(source) and config is not None and hasattr(source, "tokenizer"):
        return PipelineVictim(source, [config.id2label[place] for place in range(config.num_labels)])
    if callable(source):
        return FunctionVictim(source, labels)
    hint = (" For one of scikit-learn: lambda texts: model.predict_proba(vectoriser.transform(texts))."
            if hasattr(source, "predict_proba") else "")
    raise OptionError(f"a {type(source).__name__} can't be attacked; give a classifier, a pipeline, a function from "
                      f"texts to probabilities, or an address that begins with http.{hint}")


def checked(answer: ArrayLike, texts: int, *, classes: int = 0) -> Rows:
    """The victim's answer as numbers, or VictimError saying what is wrong with it; 0 classes: any number of them."""
    try:
        if isinstance(answer, torch.Tensor):  # of any kind and anywhere, also in the middle of training
            answer = answer.detach().double().cpu().numpy()
        rows: Rows = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise VictimError(f"the victim's answer is no table of numbers: {error}") from None
    if rows.ndim != 2 or rows.shape[0] != texts or rows.shape[1] < 1:
        raise VictimError(f"the victim gave the shape {rows.shape} for {texts} texts; expected (texts, classes).")
    if classes and rows.shape[1] != classes:
        raise VictimError(f"the victim gave {rows.shape[1]} probabilities for a text; it has {classes} labels.")
    if not np.isfinite(rows).all():
        raise VictimError("the victim gave a probability that is not a number.")
    if (rows < -SUM_TOLERANCE).any() or (abs(rows.sum(axis=1) - 1) > SUM_TOLERANCE).any():
        raise VictimError("the victim's rows are no probabilities: they don't sum to 1. Apply softmax to logits.")
    return rows


def logarithms(answer: ArrayLike, texts: int) -> Rows:
    """Of probabilities, of which those under ZERO count as that."""
    rows: Rows = np.log(np.maximum(checked(answer, texts), ZERO))
    return rows


def finite(found: ArrayLike) -> Rows:
    """Logarithms of probabilities; that of a class without a single vote, which has none, is the logarithm of ZERO."""
    rows = np.asarray(found, dtype=np.float64)
    return np.where(np.isneginf(rows), np.log(ZERO), rows)


def check_classes(victim: Victim, examples: Sequence[tuple[Text, int]]) -> None:
    """Labels beyond the victim's classes would make every text look misclassified."""
    lowest, highest = (choose((label for _, label in examples), default=0) for choose in (min, max))
    if lowest < 0:
        raise DataError(f"the data have a label {lowest}; expected classes numbered from 0.")
    if victim.labels and highest >= len(victim.labels):
        raise DataError(f"the data have a label {highest}, but the victim knows {len(victim.labels)} classes: "
                        f"{', '.join(victim.labels)}.")

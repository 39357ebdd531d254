# SPDX-License-Identifier: Apache-2.0
"""The defended classifier: encoder, head and defence behind one `predict`."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import torch
from torch import Tensor

from dualmask.confusion import Confusion
from dualmask.defences.base import Defence
from dualmask.devices import check_device, default_device
from dualmask.errors import DataError, OptionError
from dualmask.long_texts import Asked, answered, in_windows
from dualmask.models.encoders import check_length, check_vocabulary, prepare
from dualmask.models.modes import evaluating
from dualmask.text.encoding import Batch, Encode, check_texts, length_batches
from dualmask.text.examples import Example, Text
from dualmask.text.stretches import Stretch, Stretched
from dualmask.views import DefendedNetwork, Questions
from dualmask.windows import Windows, read_windows

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Input = Text | Mapping[str, str]


class Masked(NamedTuple):
    """A piece of text that the defence distrusted."""

    text: str
    start: int  # characters from `start` to `end` of the text, or of the pair's part
    end: int
    score: float
    part: int = 0  # 1 for the second text of a pair
    becomes: str | None = None  # what was read instead; None: a mask
    why: str = ""


@dataclass(frozen=True)
class Predictions:
    """Answers in the order of the texts."""

    labels: list[str]
    probabilities: Tensor  # (texts, classes)
    masked: list[list[Masked]] | None = None
    passes: Tensor | None = None  # views asked about each text, (texts,)
    suspicion: Tensor | None = None  # of detectors: how suspicious each text is, (texts,)
    log_probabilities: Tensor | None = None  # in double precision: they tell apart what is all 0 or all 1 above
    cut: Tensor | None = None  # bool: which texts are longer than what is read of them, (texts,)


class DefendedClassifier:
    """An encoder with its head, its tokenizer and a defence.

    `predict` gives labels and probabilities; calling it answers like a Hugging Face text-classification pipeline.
    """

    def __init__(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", defence: Defence, *,
        labels: Sequence[str], max_length: int = 128, facts: Mapping[str, object] | None = None,
        windows: Windows | str | None = None,
    ) -> None:
        if len(labels) != model.config.num_labels:
            raise OptionError(f"{len(labels)} label names were given for a model with {model.config.num_labels} "
                              "classes; expected one for each.")
        prepare(model)
        check_length(model, max_length)
        check_vocabulary(model, tokenizer)
        defence.adapt(model)
        self.network = DefendedNetwork(model, defence)
        self.encode = Encode(tokenizer, max_length=max_length)
        self.labels = tuple(labels)
        self.windows = windows
        self.facts = dict(facts or {})
        self.questions = Questions(self.network, self.encode, len(self.labels))

    @property
    def windows(self) -> Windows | None:
        """How texts longer than `max_length` tokens are read; None: they are cut."""
        return self._windows

    @windows.setter
    def windows(self, given: Windows | str | None) -> None:
        windows = read_windows(given)
        if windows is not None:
            windows.check_labels(self.labels)
            windows.check_length(self.encode.max_length)
        self._windows = windows

    @property
    def model(self) -> "PreTrainedModel":
        return self.network.model

    @property
    def defence(self) -> Defence:
        return self.network.defence

    @property
    def device(self) -> torch.device:
        return self.model.device

    def undefended(self) -> "DefendedClassifier":
        """The same network, not a copy, without its defence; what was measured with it on is not told of it."""
        self.check_head()
        facts = {name: fact for name, fact in self.facts.items() if not name.startswith(("validation_", "test_"))}
        return DefendedClassifier(self.model, self.encode.tokenizer, Defence(), labels=self.labels,
                                  max_length=self.encode.max_length, facts=facts, windows=self.windows)

    def to(self, device: str | torch.device) -> Self:
        self.network.to(device)
        return self

    def predict(
        self, texts: Sequence[Text], *, explain: bool = False, defended: bool = True, batch_size: int | None = None,
        early: bool = True, most: int | None = None,
    ) -> Predictions:
        """Labels and probabilities; `explain` adds what was masked; `defended=False` asks the bare network.

        early: a vote ends when its winner is certain, and its shares are those of the votes cast; labels are the same.
        most: views of each text, where the defence has more.
        """
        if isinstance(texts, str):
            raise DataError("predict takes a list of texts; for one text write predict([text]).")
        texts = list(texts)  # of any kind: a column of a data frame is indexed by its own labels
        check_texts(texts)
        kind = self.defence if defended else Defence()

        def ask(some: Sequence[Text]) -> Asked:
            table, seen, cut = self.questions.views(some, kind, early=early, most=most, batch_size=batch_size)
            return Asked(kind.combine(table), seen, cut, kind.suspicion(table))

        windows = self.windows
        found = ask(texts) if windows is None else answered(
            ask, texts, in_windows(texts, self.encode, kind, windows), lambda rows: windows.together(rows, self.labels))
        answers = found.logits.softmax(dim=1).cpu()
        labels = [self.labels[index] for index in answers.argmax(dim=1).tolist()]
        return Predictions(labels, answers, self._marked(texts, kind) if explain else None, found.seen,
                           None if found.suspicion is None else found.suspicion.cpu(),
                           log_probabilities(found.logits, answers), found.cut)

    def logits(self, texts: Sequence[Text]) -> Tensor:
        """The network's answers to every view of the texts, (views, texts, classes); long ones are cut in any case."""
        return self.questions.views(texts, self.defence, early=False).logits.cpu()

    def votes(self, texts: Sequence[Text], numbers: Sequence[int]) -> Tensor:
        """How many of the views with these numbers vote for each class, (texts, classes)."""
        return self.questions.votes(texts, numbers)

    def _marked(self, texts: Sequence[Text], kind: Defence) -> list[list[Masked]]:
        if kind is not self.defence:
            return [[] for _ in texts]
        found = self.hidden(texts)
        if None in found:
            raise OptionError(f"the defence '{kind.name}' rewrites texts, so that what it hid can't be marked in them; "
                              "ask without explain.")
        return [spans or [] for spans in found]

    @torch.no_grad()
    def first_view(self, texts: Sequence[Text]) -> Batch:
        """What the network would be shown of texts; it is not asked, unless the defence itself does."""
        with evaluating(self.network):
            return self.defence.inference_view(texts, [0] * len(texts), self.encode, self.device)

    def hidden(self, texts: Sequence[Text]) -> list[list[Masked] | None]:
        """What the defence hides of each text, or reads otherwise; None where it rewrites the text and can't tell."""
        if self.windows is None:
            return self._hidden(texts)
        found = in_windows(texts, self.encode, self.defence, self.windows)
        spans = iter(self._hidden([part.text for one in found for part in one.parts]))
        return [joined_spans(one.parts, list(islice(spans, len(one.parts)))) for one in found]

    def _hidden(self, texts: Sequence[Text]) -> list[list[Masked] | None]:
        if not self.defence.explainable:
            return [self._accounted(text) for text in texts]
        found: list[list[Masked] | None] = [None] * len(texts)
        for rows in length_batches(texts, rows=64, cells=1 << 16):
            part = [texts[row] for row in rows]
            for row, spans in zip(rows, explained(self.encode, part, self.first_view(part)), strict=True):
                found[row] = spans
        return found

    def unread(self, texts: Sequence[Text]) -> list[bool]:
        """Which texts are longer than what the network is shown of them first; it is not asked, as in `first_view`."""
        found = [Stretched([Stretch(text)], whole=True) for text in texts] if self.windows is None else in_windows(
            texts, self.encode, self.defence, self.windows)
        flat = [part.text for one in found for part in one.parts]
        cut = [False] * len(flat)
        for rows in length_batches(flat, rows=64, cells=1 << 16):
            view = self.first_view([flat[row] for row in rows])
            for row, is_cut in zip(rows, [False] * len(rows) if view.cut is None else view.cut.tolist(), strict=True):
                cut[row] = is_cut
        ends = list(accumulate((len(one.parts) for one in found), initial=0))
        return [not one.whole or any(cut[start:end]) for one, start, end in zip(found, ends, ends[1:], strict=False)]

    def _accounted(self, text: Text) -> list[Masked] | None:
        account = self.defence.account(self.encode.reachable(text))
        return None if account is None else [
            Masked(one.written, one.start, one.end, 0.0, one.part, one.becomes, f"{one.action}: {one.why}")
            for one in account]

    def accuracy(self, examples: Sequence[Example], *, defended: bool = True, most: int | None = None) -> float:
        """Share of right answers; with the defence on unless said otherwise; `most`: of its views."""
        if not examples:
            raise DataError("accuracy was asked for on no examples at all.")
        if not defended:
            self.check_head()
        return share_right(examples, self.chosen(examples, defended=defended, most=most))

    def chosen(self, examples: Sequence[Example], *, defended: bool = True, most: int | None = None) -> Tensor:
        """The number of the class that each example is answered with, (examples,)."""
        found = self.predict([example.text for example in examples], defended=defended, most=most)
        return found.probabilities.argmax(dim=1)

    def check_head(self) -> None:
        """Refuse to judge the network by a head that learned nothing."""
        if not self.defence.trains_head:
            raise OptionError(f"the defence '{self.defence.name}' answers by a head of its own and leaves that of the "
                              "network untrained, so that nothing is defined with the defence off; ask with it on.")

    def fit_defence(self, examples: Sequence[Example]) -> None:
        """Let the defence learn from training examples what it must know at inference."""
        self.defence.fit(examples, self.encode)
        self.defence.to(self.device)

    def tune_defence(self, validation: Sequence[Example]) -> None:
        """Let the defence set its thresholds on examples that nothing was trained on."""
        self.defence.tune(self.logits, validation)
        self.defence.to(self.device)

    def __call__(
        self, inputs: Input | list[Input], *, top_k: int | Literal["best"] | None = "best",
    ) -> list[dict[str, object]] | list[list[dict[str, object]]]:
        """Like a text-classification pipeline: each text's best label or, with `top_k` (None: all), a list for each.

        A pair is a tuple or, as pipelines have it, a dictionary with "text" and "text_pair".
        """
        texts = [as_text(one) for one in (inputs if isinstance(inputs, list) else [inputs])]
        ranked: list[list[dict[str, object]]] = [
            [{"label": self.labels[best], "score": float(row[best])} for best in row.argsort(descending=True).tolist()]
            for row in self.predict(texts).probabilities]
        if top_k == "best":
            return [row[0] for row in ranked]
        most = [row[:top_k] for row in ranked]
        return most if isinstance(inputs, list) else most[0]

    def fingerprint(self) -> str:
        """A hash of weights, defence, labels, length and windows: equal ones give equal answers."""
        digest = blake2b(digest_size=16)
        settings = [self.defence.name, self.defence.lasting_options(), self.labels, self.encode.max_length,
                    *([] if self.windows is None else [self.windows.as_dict()])]
        digest.update(json.dumps(settings, default=str).encode())
        for name, tensor in self.network.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def save(self, folder: str | Path) -> Path:
        """Write a folder that `load` reads, and whose undefended network plain transformers opens too."""
        from dualmask.storage import save

        return save(self, Path(folder))

    @classmethod
    def load(
        cls, source: str | Path, *, device: str | None = None, options: Mapping[str, object] | None = None,
        windows: Windows | str | None = "saved",
    ) -> "DefendedClassifier":
        """Read a saved folder or a hub repository; on the GPU where there is one unless a device is given.

        options: of the defence, in the place of those that were saved; what it learned in training stays as it is.
        windows: how long texts are read, likewise; None: they are cut.
        """
        from dualmask.storage import load

        wanted = check_device(device) or default_device()
        chosen = None if windows == "saved" else read_windows(windows)  # a mistake in it is told first
        classifier = load(source, options=options)
        if windows != "saved":
            classifier.windows = chosen
        return classifier.to(wanted)

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload to the Hugging Face hub; gives the address of the commit."""
        from dualmask.storage import push

        return push(self, repository, private=private)


def share_right(examples: Sequence[Example], chosen: Tensor) -> float:
    """The share of the examples whose class was chosen."""
    return float((chosen == torch.tensor([example.label for example in examples])).float().mean())


def tested(
    classifier: DefendedClassifier, examples: Sequence[Example], *, recalls: bool = False,
) -> dict[str, object]:
    """Accuracy with the defence on, the seconds that it took, and accuracy with the defence off, where it is defined.

    It is not where the network's own head was never trained. recalls: also how many of each class are found, as is
    told in any case where nearly all texts are of one class.
    """
    began = time.perf_counter()
    chosen = classifier.chosen(examples)
    seconds = round(time.perf_counter() - began, 3)
    bare = round(classifier.accuracy(examples, defended=False), 4) if classifier.defence.trains_head else None
    found = Confusion.of((example.label for example in examples), chosen.tolist(), classifier.labels)
    return {"test_accuracy": round(share_right(examples, chosen), 4), "test_seconds": seconds,
            "test_accuracy_undefended": bare, "test_majority": found.largest.as_fact(),
            **({"test_recall": rounded(found.recalls)} if recalls or found.largest.dominates else {})}


def rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in shares.items()}


def log_probabilities(together: Tensor, answers: Tensor) -> Tensor:
    """Of the defence's logits, (texts, classes): a class that is 0 to `answers` may be less or more so.

    They decide as `answers` do, also where rounding made a tie of these.
    """
    found = together.cpu().double().log_softmax(dim=1)
    same = found.argmax(dim=1, keepdim=True) == answers.argmax(dim=1, keepdim=True)
    return found.where(same, answers.double().log())


def joined_spans(parts: Sequence[Stretch], found: Sequence[list[Masked] | None]) -> list[Masked] | None:
    """The spans of a text's windows at their places in the text; where windows overlap the first one's count."""
    kept, taken = list[Masked](), set[tuple[int, int]]()  # taken: characters, each with its part of a pair
    for part, spans in zip(parts, found, strict=True):
        if spans is None:
            return None
        moved = [span._replace(start=span.start + part.shifts[span.part], end=span.end + part.shifts[span.part])
                 for span in spans]
        places = [{(span.part, place) for place in range(span.start, max(span.end, span.start + 1))} for span in moved]
        kept += [span for span, own in zip(moved, places, strict=True) if taken.isdisjoint(own)]
        taken = taken.union(*places)
    return kept


def as_text(given: Input) -> Text:
    """A pipeline's way to write a text or a pair, in ours."""
    if not isinstance(given, Mapping):
        return given
    if "text" not in given or set(given) - {"text", "text_pair"}:
        raise DataError(f"a dictionary with the keys {', '.join(map(str, given))} was given; expected 'text' and, for "
                        "a pair, 'text_pair'.")
    return (given["text"], given["text_pair"]) if "text_pair" in given else given["text"]


def explained(encode: Encode, texts: Sequence[Text], view: Batch) -> list[list[Masked]]:
    """What of each text was replaced by a mask: the k-th body token of the view is the k-th of the text."""
    encoding = encode.tokenise(texts)
    scores = torch.zeros_like(view.input_ids, dtype=torch.float) if view.scores is None else view.scores
    found: list[list[Masked]] = []
    for row, text in enumerate(texts):
        parts = (text,) if isinstance(text, str) else text
        tokens = [(place, part) for place, part in enumerate(encoding.sequence_ids(row)) if part is not None]
        body = view.body[row].nonzero().flatten().tolist()
        masks, values = view.masks[row].tolist(), scores[row].tolist()
        found.append([
            Masked(parts[part][span.start:span.end], span.start, span.end, values[column], part)
            for column, (token, part) in zip(body, tokens, strict=False)  # inserted masks may have cut the text
            if masks[column] and (span := encoding.token_to_chars(row, token)) is not None])
    return found

# SPDX-License-Identifier: Apache-2.0
"""Texts to tensors: one batch type that every defence, encoder and attack speaks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
import torch
from torch import Tensor

from dualmask.errors import DataError, EncoderError
from dualmask.text.columns import SURROGATES
from dualmask.text.examples import Text
from dualmask.text.invisible import is_blank

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import BatchEncoding, PreTrainedTokenizerBase

MaskPosition = Literal["zero", "normal", "release"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of tokens and what a defence must know about each; every tensor is (rows, length) but the labels."""

    input_ids: Tensor
    attention_mask: Tensor  # 1 where a token may be attended to
    token_type_ids: Tensor  # which text of a pair
    positions: Tensor  # place in the text from 0; models/encoders.py turns it into the model's own ids
    body: Tensor  # bool: tokens of the text itself, not [CLS], [SEP], [PAD], nor masks that were inserted
    words: Tensor  # word that a token belongs to, numbered along the row, -1 outside the body
    masks: Tensor  # bool: [MASK] tokens that a defence put there
    mask_position: MaskPosition = "zero"  # which position embedding those masks get
    scores: Tensor | None = None  # how suspicious each token looked to the defence
    labels: Tensor | None = None  # (rows,)
    examples: Tensor | None = None  # (rows,): in training, their numbers in the epoch's list
    seeds: Tensor | None = None  # (rows,), where a defence draws noise inside the network
    cut: Tensor | None = None  # (rows,) bool: something of the text lies behind the last token, and is not read

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def device(self) -> torch.device:
        return self.input_ids.device

    @property
    def lengths(self) -> Tensor:
        """|x|: body tokens per row, (rows,)."""
        return self.body.sum(dim=1)

    def to(self, device: torch.device) -> Self:
        moved = {f.name: value.to(device, non_blocking=True) for f in fields(self)
                 if isinstance(value := getattr(self, f.name), Tensor)}
        return self.with_tensors(moved)

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        return replace(self, **cast(dict[str, Any], tensors))

    def with_labels(self, labels: Sequence[int]) -> Self:
        return replace(self, labels=torch.tensor(labels, dtype=torch.long, device=self.device))

    def per_token(self) -> dict[str, Tensor]:
        """The (rows, length) tensors by name: what moves when tokens move."""
        return {f.name: value for f in fields(self)
                if isinstance(value := getattr(self, f.name), Tensor) and value.dim() == 2}


WORD = re.compile(r"\S+")
PLAIN = re.compile(r"[0-9A-Za-z]")  # what every tokenizer has pieces for
REMEMBERED = 1 << 16  # words: an attack must not fill the memory
LONGEST = 64  # letters of a word that is remembered
SETTING = Lock()  # how to cut and pad is told a tokenizer before it is asked, and several threads may ask one


class Encode:
    """Tokenises texts into a padded `Batch`.

    Special tokens written out in a text stay ordinary characters, unless `literal` is false.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", *, max_length: int = 128, literal: bool = True,
    ) -> None:
        if not tokenizer.is_fast:
            raise EncoderError(f"the tokenizer {type(tokenizer).__name__} is a slow one, which can't tell words from "
                               "pieces; save a fast tokenizer (tokenizer.json) beside the model.")
        if tokenizer.mask_token_id is None:
            raise EncoderError(f"the tokenizer {type(tokenizer).__name__} has no mask token, and masking needs one; "
                               "take a masked-language-model encoder such as 'minilm', 'bert-base-uncased' or "
                               "'roberta-base', or add one (tokenizer.add_special_tokens({'mask_token': '[MASK]'}), "
                               "model.resize_token_embeddings(len(tokenizer))) and train the model with it.")
        if max_length < 4:
            raise EncoderError(f"max_length is {max_length}; at least 4 are needed for special tokens and one of text.")
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.literal = literal
        self.special_ids = sorted(special_ids(tokenizer))
        self.mask_id = int(tokenizer.mask_token_id)
        self.pad_id = int(tokenizer.pad_token_id or 0)
        self.vocabulary_size = len(tokenizer)
        self._pieced: dict[str, bool] = {}  # of words: whether the network reads anything of them

    def __call__(self, texts: Sequence[Text], *, max_length: int | None = None, words: bool = False) -> Batch:
        """Encode, cut to `max_length` tokens and pad to the longest. `words` also fills in the word numbers."""
        if not words:
            return self.padded(self.pieces(texts, max_length=max_length))
        encoding = self.tokenise(texts, max_length=max_length)
        ids, attended, kinds, special = (
            torch.tensor(encoding[key], dtype=torch.long)
            for key in ("input_ids", "attention_mask", "token_type_ids", "special_tokens_mask"))
        body = special == 0
        return Batch(
            input_ids=ids, attention_mask=attended, token_type_ids=kinds,
            positions=torch.arange(ids.shape[1]).expand_as(ids), body=body, words=word_numbers(encoding, body),
            masks=torch.zeros_like(body), cut=cut_rows(encoding.encodings or []))

    def reachable(self, text: Text) -> Text:
        """A text without what lies behind its first `max_length` words that have pieces: nobody gets to see that.

        White space stands for visible words that have none, as long as they are: places stay.
        """
        if not isinstance(text, str):
            first, second = text
            return str(self.reachable(first)), str(self.reachable(second))
        if text.isascii() and len(text.split(None, self.max_length)) <= self.max_length:
            return text
        end, unread, left = len(text), list[re.Match[str]](), self.max_length
        for word, is_read in self._written(text):
            if is_read and not left:
                end = word.start()
                break
            left -= is_read
            unread += [] if is_read or is_blank(word[0]) else [word]
        return blanked(text, unread)[:end]

    def _written(self, text: str) -> Iterator[tuple[re.Match[str], bool]]:
        """Each white-space word, and whether it has pieces and can be seen."""
        words = WORD.finditer(text)
        while some := list(islice(words, 4 * self.max_length)):
            pieced = self._have_pieces({word[0] for word in some})
            yield from ((word, pieced[word[0]]) for word in some)

    def _have_pieces(self, words: set[str]) -> Mapping[str, bool]:
        """Of these words, whether they have pieces; none that can't be seen is said to have any."""
        known = self._pieced if len(self._pieced) <= REMEMBERED else {}
        new = {word: bool(PLAIN.search(word)) for word in words if word not in known}
        rest = [word for word, plain in new.items() if not plain and not is_blank(word)]
        with SETTING:
            core = self.tokenizer.backend_tokenizer
            core.encode_special_tokens = self.literal
            core.no_padding()
            core.no_truncation()
            found = core.encode_batch_fast([f" {readable(word)}" for word in rest], add_special_tokens=False)
        new |= {word: bool(one.ids) for word, one in zip(rest, found, strict=True)}
        answers = {word: new[word] if word in new else known[word] for word in words}
        known.update((word, is_read) for word, is_read in new.items() if len(word) <= LONGEST)
        self._pieced = known  # threads may come at once, and only ever add
        return answers

    def pieces(self, texts: Sequence[Text], *, max_length: int | None = None) -> "list[Encoding]":
        """Each text's tokens, cut but not padded, straight from the tokenizer's core: the quickest way to ids."""
        core, clean = self.tokenizer.backend_tokenizer, self._of_one_kind(texts)
        with SETTING:
            core.encode_special_tokens = self.literal
            core.no_padding()
            core.enable_truncation(max_length=max_length or self.max_length)
            return cast("list[Encoding]", core.encode_batch_fast(clean))

    def padded(self, pieces: "Sequence[Encoding]") -> Batch:
        """Rows of tokens that `pieces` gave, as one batch."""
        rows = [piece.ids for piece in pieces]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        shape = len(rows), int(lengths.max(initial=0))
        attended = np.arange(shape[1]) < lengths[:, None]
        ids, kinds = np.full(shape, self.pad_id), np.zeros(shape, dtype=np.int64)
        # All at once, and nothing by torch, whose threads get in each other's way: attacks ask about thousands a second
        ids[attended] = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
        if pieces and pieces[0].n_sequences > 1:
            kinds[attended] = [kind for piece in pieces for kind in piece.type_ids]
        body = attended.copy()
        for special in self.special_ids:
            body &= ids != special
        return Batch(
            input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(attended.astype(np.int64)),
            token_type_ids=torch.from_numpy(kinds), positions=torch.arange(shape[1]).expand(shape),
            body=torch.from_numpy(body), words=torch.from_numpy(np.full(shape, -1)),
            masks=torch.from_numpy(np.zeros(shape, dtype=bool)), cut=cut_rows(pieces))

    def token_starts(self, text: str) -> list[int]:
        """Where in a text each of its tokens begins, uncut, special ones left out."""
        core = self.tokenizer.backend_tokenizer
        with SETTING:
            core.encode_special_tokens = self.literal
            core.no_padding()
            core.no_truncation()
            found = core.encode(str(readable(text)), add_special_tokens=False)
        return [start for start, _ in found.offsets]

    def prepared(self, texts: Sequence[Text]) -> "PreparedEncode":
        """The same for texts that will be asked for in parts, in an order that their lengths decide."""
        return PreparedEncode(self, texts)

    def tokenise(self, texts: Sequence[Text], *, max_length: int | None = None) -> "BatchEncoding":
        """The tokenizer's own answer, padded, with word numbers and character spans at hand."""
        clean = self._of_one_kind(texts)
        firsts = [text if isinstance(text, str) else text[0] for text in clean]
        pairs = [text[1] for text in clean if not isinstance(text, str)]
        with SETTING:
            return cast("BatchEncoding", self.tokenizer(
                firsts, pairs or None, truncation=True, max_length=max_length or self.max_length, padding=True,
                padding_side="right", return_token_type_ids=True, return_attention_mask=True,
                return_special_tokens_mask=True, split_special_tokens=self.literal))

    def _of_one_kind(self, texts: Sequence[Text]) -> list[Text]:
        clean = [readable(text) for text in texts]
        if len({isinstance(text, str) for text in clean}) > 1:
            raise DataError("single texts and text pairs are mixed in one batch; give all of one kind.")
        return clean

    def corpus(self, texts: Sequence[Text], *, words: bool = False, truncated: bool = False) -> Iterator[Batch]:
        """All of the texts, uncut unless `truncated`, in batches of bounded size and in no particular order."""
        for rows in length_batches(texts, rows=256, cells=1 << 19):
            yield self([texts[row] for row in rows], max_length=None if truncated else 1 << 30, words=words)

    def lengths(self, texts: Sequence[Text]) -> list[int]:
        """Tokens per text, special ones included, after cutting."""
        lengths = [0] * len(texts)
        for rows in length_batches(texts, rows=256, cells=1 << 19):
            found = self([texts[row] for row in rows]).attention_mask.sum(dim=1).tolist()
            for row, length in zip(rows, found, strict=True):
                lengths[row] = length
        return lengths

    def longer(self, texts: Sequence[Text], room: int) -> list[bool]:
        """Which texts have more tokens than there is room for, special ones not counted; a bounded part at a time."""
        found = [False] * len(texts)
        for rows in length_batches(texts, rows=256, cells=1 << 19):
            part = [texts[row] for row in rows]
            cut = cut_rows(self.pieces(part, max_length=room + self.special_tokens(part)))
            for row, is_cut in zip(rows, cut.tolist(), strict=True):
                found[row] = is_cut
        return found

    def special_tokens(self, texts: Sequence[Text]) -> int:
        """How many special tokens each of these texts, or pairs, gets."""
        return self.tokenizer.num_special_tokens_to_add(pair=bool(texts) and not isinstance(texts[0], str))


class PreparedEncode(Encode):
    """An `Encode` that has read its texts already; others it reads when asked."""

    def __init__(self, encode: Encode, texts: Sequence[Text]) -> None:
        self.__dict__.update(encode.__dict__)
        pieces = self.pieces(texts) if texts else []
        self._known = dict(zip(texts, pieces, strict=True))
        self.sizes = [len(piece) for piece in pieces]  # tokens of each text

    def __call__(self, texts: Sequence[Text], *, max_length: int | None = None, words: bool = False) -> Batch:
        if words or max_length is not None or any(text not in self._known for text in texts):
            return super().__call__(texts, max_length=max_length, words=words)
        return self.padded([self._known[text] for text in texts])


def cut_rows(pieces: "Sequence[Encoding]") -> Tensor:
    """Of which texts the tokenizer left something behind the last token, (rows,): it keeps that, and need not be asked.

    It says nothing where it was told not to cut.
    """
    return torch.tensor([bool(piece.overflowing) for piece in pieces], dtype=torch.bool)


def special_ids(tokenizer: "PreTrainedTokenizerBase") -> set[int]:
    """Ids that are never part of a text."""
    found = (getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad", "bos", "eos"))
    return {token for token in found if token is not None}


def batch_of_ids(tokenizer: "PreTrainedTokenizerBase", features: Sequence[Mapping[str, object]]) -> Batch:
    """Rows that were tokenised elsewhere, padded; special tokens are told by their ids."""
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in features[0]]
    rows = [{name: cast(list[int], row[name]) for name in names} for row in features]
    padded = tokenizer.pad(rows, return_tensors="pt", padding_side="right")
    ids = padded["input_ids"]
    attended = padded["attention_mask"]
    return Batch(
        input_ids=ids, attention_mask=attended, token_type_ids=padded.get("token_type_ids", torch.zeros_like(ids)),
        positions=torch.arange(ids.shape[1]).expand_as(ids), words=torch.full_like(ids, -1),
        body=attended.bool() & ~torch.isin(ids, torch.tensor(sorted(special_ids(tokenizer)))),
        masks=torch.zeros_like(ids, dtype=torch.bool))


def check_texts(texts: Sequence[Text]) -> None:
    """All single texts or all pairs."""
    kinds = {isinstance(readable(text), str) for text in texts}
    if len(kinds) > 1:
        raise DataError("single texts and text pairs are mixed; give all of one kind.")


def characters(text: Text) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))


def length_batches(texts: Sequence[Text], *, rows: int, cells: int) -> Iterator[list[int]]:
    """Indices of texts of like length, at most `rows` a batch and about `cells` characters with padding."""
    return packed([characters(text) for text in texts], rows=rows, cells=cells)


def packed(lengths: Sequence[int], *, rows: int, cells: int) -> Iterator[list[int]]:
    """Indices of like lengths together: at most `rows` in a batch, and `cells` counted with padding.

    The longest come first, so that memory that does not suffice shows at once.
    """
    batch: list[int] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) == rows or (len(batch) + 1) * longest > cells):
            yield batch
            batch = []
        if not batch:
            longest = lengths[index]
        batch.append(index)
    if batch:
        yield batch


def bucketed(lengths: Sequence[int], size: int, draw: torch.Generator) -> list[list[int]]:
    """Shuffled batches of like length: shuffle, sort within stretches of fifty batches, shuffle the batches."""
    order = torch.randperm(len(lengths), generator=draw).tolist()
    stretch = 50 * size
    ordered = [row for start in range(0, len(order), stretch)
               for row in sorted(order[start:start + stretch], key=lengths.__getitem__)]
    batches = [ordered[start:start + size] for start in range(0, len(ordered), size)]
    return [batches[place] for place in torch.randperm(len(batches), generator=draw).tolist()]


def readable(text: Text) -> Text:
    """The text with lone surrogates, which no tokenizer can read, replaced by U+FFFD."""
    if isinstance(text, str):
        if text.isascii():
            return text
        return SURROGATES.sub("\ufffd", text)  # one for one, so that spans still fit
    if isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text):
        return str(readable(text[0])), str(readable(text[1]))
    raise DataError(f"expected a text or a pair of texts, got {type(text).__name__}: {text!r:.60}")


def blanked(text: str, words: Sequence[re.Match[str]]) -> str:
    """The text with white space in the place of these of its words, as long as they are."""
    ends = [0, *(word.end() for word in words)]
    starts = [*(word.start() for word in words), len(text)]
    kept = [text[end:start] for end, start in zip(ends, starts, strict=True)]
    return "".join(chain(*zip(kept, [" " * len(word[0]) for word in words] + [""], strict=True)))


def word_numbers(encoding: "BatchEncoding", body: Tensor) -> Tensor:
    """Number the words along each row (the second text of a pair goes on counting), -1 outside the body."""
    rows = [[-1 if word is None else word for word in encoding.word_ids(row)] for row in range(len(body))]
    words = torch.tensor(rows, dtype=torch.long).masked_fill(~body, -1)  # (rows, length)
    follows = (words[:, 1:] == words[:, :-1]) & body[:, 1:] & body[:, :-1]
    starts = body & ~torch.nn.functional.pad(follows, (1, 0), value=False)
    return (starts.cumsum(dim=1) - 1).masked_fill(~body, -1)

# SPDX-License-Identifier: Apache-2.0
"""Words as pieces: views built from tables must be what the tokenizer itself gives."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from dualmask.errors import DataError
from dualmask.text import spelling as module
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text
from dualmask.text.invisible import visible
from dualmask.text.spelling import Spelling

TEXTS = [
    "the movie was good", "the movie, was great!", "  the\tplot\n\nand  actor ", "unables rarely x.y 't",
    "Thé MOVIE wäs fine", "the 映画 movie", "good \U0001f600 movie\u200b \u200b bad", "zzzunknown movies", "", " ",
    "[CLS] the [MASK] was [SEP] good [PAD]", "the \ud800 movie\udfff", "e\u0301 \u0301 x", "x" * 150 + " y",
]
PAIRS: list[Text] = [
    ("the movie was good", "a plot"), ("", "bad actor"), ("bad, actor", ""), ("", ""), ("the [SEP] x", "[MASK] y")]
LONG: list[Text] = [(" ".join(["the"] * first), " ".join(["movies"] * second))
                    for first in range(0, 14) for second in range(0, 9)]
FIELDS = ("input_ids", "attention_mask", "token_type_ids", "positions")
Make = Callable[..., Encode]


@pytest.fixture
def encode_of(tiny: Callable[[str], Path]) -> Make:
    from transformers import AutoTokenizer

    def make(family: str = "bert", *, max_length: int = 60, **options: bool) -> Encode:
        return Encode(AutoTokenizer.from_pretrained(tiny(family)), max_length=max_length, **options)

    return make


def encoded(spelling: Spelling, texts: Sequence[Text]) -> Batch:
    found = spelling.read(texts)
    return spelling.batch([one.words for one in found], [one.boundary for one in found])


def number(spelling: Spelling, word: str) -> int:
    return int(spelling.read([word], exact=True)[0].words[0])


def assert_same(one: Batch, other: Batch) -> None:
    for name in FIELDS:
        assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert getattr(one, name).dtype == getattr(other, name).dtype, name


@pytest.mark.parametrize("texts", [TEXTS, PAIRS, LONG, [], [""], [("", "")]])
@pytest.mark.parametrize("max_length", [60, 4, 5, 9, 12, 13])
def test_word_piece_rows_are_the_tokenizers_own(encode_of: Make, texts: list[Text], max_length: int) -> None:
    encode = encode_of(max_length=max_length)
    ours, theirs = encoded(Spelling(encode), texts), encode(texts)
    assert_same(ours, theirs)
    assert torch.equal(ours.body, theirs.body) and not ours.masks.any()


def test_special_tokens_may_leave_no_room(encode_of: Make) -> None:
    tight = encode_of("roberta", max_length=4)
    assert not encoded(Spelling(tight), LONG).body.any()  # four special tokens leave a pair no room


@pytest.mark.parametrize("texts", [TEXTS, PAIRS])
def test_byte_level_rows_are_the_tokenizers_own_but_for_the_first_word(encode_of: Make, texts: list[Text]) -> None:
    encode = encode_of("roberta", max_length=400)

    def spaced(text: str) -> str:
        words = str(visible(text)).split()
        return "".join(f" {word}" for word in words)  # what the first word looks like inside a text

    clean = [spaced(text) if isinstance(text, str) else (spaced(text[0]), spaced(text[1])) for text in texts]
    ours, theirs = encoded(Spelling(encode), texts), encode(clean)
    assert_same(ours, theirs)
    assert torch.equal(ours.body, theirs.body)


def test_sentence_piece_rows_are_the_tokenizers_own() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = [*((token, 0.0) for token in specials), ("▁the", -1.0), ("▁movie", -2.0), ("▁", -3.0),
              *((letter, -5.0) for letter in "abcdefghijklmnopqrstuvwxyz.,!")]
    core = Tokenizer(models.Unigram(pieces, 3, False))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    names = dict(zip(("cls_token", "pad_token", "sep_token", "unk_token", "mask_token"), specials, strict=True))
    encode = Encode(PreTrainedTokenizerFast(tokenizer_object=core, **names), max_length=20)
    for texts in (["the movie, was good", "movies !"], [("the plot", "the movie was a fine one"), ("", "x")]):
        assert_same(encoded(Spelling(encode), texts), encode(texts))


def test_a_real_vocabulary_gives_equal_rows(encode_of: Make, shared: Path) -> None:
    from transformers import AutoTokenizer

    encode = Encode(AutoTokenizer.from_pretrained(shared / "models" / "gte-small-mlm"), max_length=40)
    texts = [*TEXTS, "isn't it 3.50$ (naïve), co-operation... déjà-vu; 100%", "日本語の テキスト ١٢٣ x\u00a0y\u3000z",
             "word " * 100]
    assert_same(encoded(Spelling(encode), texts), encode(texts))
    pairs: list[Text] = list(zip(texts, texts[::-1], strict=True))
    assert_same(encoded(Spelling(encode), pairs), encode(pairs))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pieces_of_a_word_do_not_depend_on_its_neighbours(encode_of: Make, family: str) -> None:
    spelling = Spelling(encode_of(family))
    whole = encoded(spelling, ["unables movie unables"])
    alone = encoded(spelling, ["unables"])
    pieces = alone.input_ids[alone.body]
    for place in (0, 2):
        assert torch.equal(whole.input_ids[whole.words == place], pieces)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_places_of_words_and_masks(encode_of: Make, family: str) -> None:
    encode = encode_of(family)
    spelling = Spelling(encode)
    movie, unable, mark = (number(spelling, word) for word in ("movie", "unables", "\u200b"))
    row = np.array([movie, spelling.MASK, spelling.NOTHING, unable, mark, spelling.MASK])
    batch = spelling.batch([row, row[:2]], [None, None])
    for line, places in zip(range(2), ([0, 1, 3, 5], [0, 1]), strict=True):
        present = set(batch.words[line].tolist())
        assert present - {4} == {-1, *places}  # byte-level tokenizers have pieces for a zero-width space
        assert torch.equal(batch.words[line] >= 0, batch.body[line])
    assert batch.words[0, batch.masks[0]].tolist() == [1, 5] and batch.words[1, batch.masks[1]].tolist() == [1]
    assert (batch.input_ids[batch.masks] == encode.mask_id).all() and (batch.masks <= batch.body).all()
    assert (batch.input_ids == encode.mask_id).sum() == 3


def test_words_of_a_second_text_go_on_counting(encode_of: Make) -> None:
    spelling = Spelling(encode_of())
    (read,) = spelling.read([("the unables", "plot and")])
    assert read.boundary == 2 and len(read.words) == 4
    batch = spelling.batch([read.words], [read.boundary])
    assert batch.words[0].tolist() == [-1, 0, 1, 1, 1, -1, 2, 3, -1]
    assert batch.token_type_ids[0].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1]


def test_cutting_follows_spelling_and_may_part_a_word(encode_of: Make) -> None:
    whole = encoded(Spelling(encode_of()), ["the unables x"])
    assert whole.words[0].tolist() == [-1, 0, 1, 1, 1, 2, -1]
    assert encoded(Spelling(encode_of(max_length=5)), ["the unables x"]).words[0].tolist() == [-1, 0, 1, 1, -1]
    spelling = Spelling(encode_of(max_length=10))
    row = np.full(50, spelling.MASK)
    assert spelling.batch([row], [None]).masks.sum() == 8
    row[:45] = spelling.NOTHING  # deleted words take no room
    assert spelling.batch([row], [None]).words[0].tolist() == [-1, 45, 46, 47, 48, 49, -1]


def test_all_white_space_is_the_same(encode_of: Make) -> None:
    plain, odd = "the plot was bad", "\x1cthe\u2003plot\x0b\x85was\u2028bad\u3000"
    for family in ("bert", "roberta"):
        spelling = Spelling(encode_of(family))
        assert_same(encoded(spelling, [odd]), encoded(spelling, [plain]))


def test_special_tokens_written_out_count_only_where_they_may(encode_of: Make) -> None:
    text = "the [MASK] was"
    literal, special = (encode_of(literal=literal) for literal in (True, False))
    for encode in (literal, special):
        assert_same(encoded(Spelling(encode), [text]), encode([text]))
    ids = [encoded(Spelling(encode), [text]).input_ids for encode in (literal, special)]
    assert [bool((one == literal.mask_id).any()) for one in ids] == [False, True]
    assert not encoded(Spelling(special), [text]).masks.any()  # nobody masked it


def test_numbers_stay_while_the_table_grows(encode_of: Make) -> None:
    spelling = Spelling(encode_of("roberta", max_length=62))
    assert number(spelling, "movie") == 2
    before = encoded(spelling, TEXTS)
    numbers = {word: number(spelling, word) for word in (f"w{place}" for place in range(3000))}
    assert_same(encoded(spelling, TEXTS), before)
    assert len(set(numbers.values())) == 3000 and number(spelling, "movie") == 2
    assert all(spelling.word(place) == word for word, place in numbers.items())
    assert number(spelling, "x\ud800") == number(spelling, "x\ufffd")
    assert [spelling.word(place) for place in (spelling.MASK, spelling.NOTHING)] == ["<mask>", ""]


def test_equal_texts_share_one_reading_that_nobody_may_write_to(encode_of: Make) -> None:
    one, other, again = Spelling(encode_of()).read(["the plot", "a plot", "the plot"])
    assert one is again and one.words[1] == other.words[1]
    with pytest.raises(ValueError, match="read-only"):
        one.words[0] = 0


def test_a_spelling_serves_until_it_is_too_large(encode_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LETTERS", 20)
    encode = encode_of()
    first = Spelling.current(None, encode)
    first.read(["the plot"])
    assert Spelling.current(first, encode) is first
    assert Spelling.current(first, encode.prepared(["x"])) is first
    assert Spelling.current(first, Encode(encode.tokenizer, max_length=8)) is not first
    assert Spelling.current(first, encode_of()) is not first  # another tokenizer
    before = encoded(first, ["the plot"])
    first.read(["movie" * 3])
    second = Spelling.current(first, encode)
    assert second is not first
    assert_same(encoded(second, ["the plot"]), before)
    assert_same(encoded(first, ["the plot"]), before)  # whoever still holds numbers of the old one can use them


def test_the_encoder_is_left_as_it_was_found(encode_of: Make) -> None:
    encode = encode_of(max_length=8)
    before, words = encode(LONG), encode(LONG, words=True)
    encoded(Spelling(encode), LONG)
    assert_same(encode(LONG), before)
    assert torch.equal(encode(LONG, words=True).words, words.words)


def test_mixed_kinds_and_impossible_boundaries_are_refused(encode_of: Make) -> None:
    spelling = Spelling(encode_of())
    row = np.array([number(spelling, "x")])
    with pytest.raises(DataError, match="mixed"):
        spelling.batch([row, row], [None, 1])
    with pytest.raises(DataError, match="boundary from 0"):
        spelling.batch([row], [2])
    with pytest.raises(DataError, match="expected a text"):
        spelling.read([3])  # type: ignore[list-item]


def test_a_huge_word_costs_no_more_than_the_room(encode_of: Make) -> None:
    spelling = Spelling(encode_of("roberta", max_length=62))
    (read,) = spelling.read(["x" * 200_000])
    assert spelling.batch([read.words] * 1024, [None] * 1024).input_ids.shape == (1024, 62)

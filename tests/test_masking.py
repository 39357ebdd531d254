# SPDX-License-Identifier: Apache-2.0
"""Budget, insertion and replacement against slow versions of themselves, written with plain lists."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dualmask.defences import build_defence
from dualmask.errors import OptionError
from dualmask.masking.budget import counted_length, longest_body, mask_budget
from dualmask.masking.insertion import cut, insert_masks
from dualmask.masking.replacement import pooled, ranks, replace_highest, unit_count, units
from dualmask.text.encoding import Batch, Encode

PAD, UNK, CLS, SEP, MASK = range(5)
CPU = torch.device("cpu")
quick = settings(max_examples=60, deadline=None)


@dataclass(frozen=True)
class Row:
    """A text as a list of words, each a list of token ids; `second` makes it a pair."""

    first: list[list[int]]
    second: list[list[int]] | None = None


def flat(row: Row) -> list[tuple[int, int, int, bool]]:
    """(id, token type, word, body) of every token, special ones included."""
    out, word = [(CLS, 0, -1, False)], 0
    for kind, text in enumerate([row.first] if row.second is None else [row.first, row.second]):
        for pieces in text:
            out += [(piece, kind, word, True) for piece in pieces]
            word += 1
        out.append((SEP, kind, -1, False))
    return out


def make_batch(rows: list[Row], padding: int = 0) -> Batch:
    lists = [flat(row) for row in rows]
    width = max(map(len, lists)) + padding
    full = [tokens + [(PAD, 0, -1, False)] * (width - len(tokens)) for tokens in lists]
    ids, kinds, words, body = (torch.tensor([[token[field] for token in row] for row in full]) for field in range(4))
    attended = torch.tensor([[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in lists])
    return Batch(input_ids=ids, attention_mask=attended, token_type_ids=kinds,
                 positions=torch.arange(width).expand_as(ids), body=body, words=words, masks=torch.zeros_like(body))


word_lists = st.lists(st.lists(st.integers(5, 12), min_size=1, max_size=3), max_size=5)
singles = st.lists(st.builds(Row, word_lists), min_size=1, max_size=4)
pairs = st.lists(st.builds(Row, word_lists, word_lists), min_size=1, max_size=4)


# Budget


@given(st.integers(0, 4), st.data(), st.lists(st.integers(0, 600), max_size=8))
@quick
def test_budget_is_the_exact_ceiling_of_the_decimal_rate(digits: int, data: st.DataObject, lengths: list[int]) -> None:
    units_of_rate = data.draw(st.integers(0, 10**digits))
    exact = Fraction(units_of_rate, 10**digits)
    rate = float(f"{units_of_rate}e-{digits}")
    found = mask_budget(torch.tensor(lengths, dtype=torch.long), rate)
    assert found.dtype == torch.long
    assert found.tolist() == [math.ceil(n * exact) for n in lengths]


@given(st.integers(0, 1000), st.lists(st.integers(0, 600), max_size=8))
@quick
def test_floor_budget_takes_at_least_one_of_a_text_that_has_one(thousandths: int, lengths: list[int]) -> None:
    exact = Fraction(thousandths, 1000)
    expected = [0 if not n or not exact else max(1, math.floor(n * exact)) for n in lengths]
    found = mask_budget(torch.tensor(lengths, dtype=torch.long), thousandths / 1000, rounding="floor")
    assert found.tolist() == expected


@given(st.floats(0, 1), st.integers(0, 8192))
@settings(max_examples=200, deadline=None)
def test_budget_of_any_rate_and_length_stays_within_the_text(rate: float, length: int) -> None:
    """Rates such as 2/3 have 16 digits, and encoders with 8,192 positions exist: nothing may overflow."""
    for rounding in ("ceil", "floor"):
        found = int(mask_budget(torch.tensor([length]), rate, rounding=rounding)[0])
        assert 0 <= found <= length
        assert abs(found - length * rate) <= 1 + 1e-6


@pytest.mark.parametrize("length", [50, 90, 100, 170])
def test_budget_does_not_fall_into_the_float32_trap(length: int) -> None:
    wrong = int((torch.tensor([length]) * 0.3).ceil()[0])
    found = int(mask_budget(torch.tensor([length]), 0.3)[0])
    assert found == length * 3 // 10
    assert wrong == found + 1, "the trap that this test is about is gone"


@pytest.mark.parametrize("rounding", ["ceil", "floor"])
def test_budget_at_the_ends(rounding: str) -> None:
    lengths = torch.tensor([0, 1, 2, 77])
    assert mask_budget(lengths, 0, rounding=rounding).tolist() == [0, 0, 0, 0]
    assert mask_budget(lengths, 0.0, rounding=rounding).tolist() == [0, 0, 0, 0]
    assert mask_budget(lengths, 1, rounding=rounding).tolist() == [0, 1, 2, 77]
    assert mask_budget(lengths, 1.0, rounding=rounding).tolist() == [0, 1, 2, 77]
    assert mask_budget(torch.zeros(0, dtype=torch.long), 0.3, rounding=rounding).tolist() == []


@pytest.mark.parametrize("rate", [-0.1, 1.01, float("nan"), float("inf")])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(OptionError, match="between 0 and 1"):
        mask_budget(torch.tensor([3]), rate)


def test_longest_body_of_the_paper() -> None:
    assert longest_body(128, 0.3) == 96
    assert 96 + math.ceil(96 * Fraction(3, 10)) + 2 == 127
    assert 97 + math.ceil(97 * Fraction(3, 10)) + 2 == 129


@given(st.integers(4, 300), st.integers(0, 100), st.sampled_from(["ceil", "floor"]), st.integers(2, 4))
@quick
def test_longest_body_is_the_longest_that_fits(limit: int, hundredths: int, rounding: str, specials: int) -> None:
    def total(n: int) -> int:
        part = n * Fraction(hundredths, 100)
        masks = math.ceil(part) if rounding == "ceil" else 0 if not n or not part else max(1, math.floor(part))
        return n + masks + specials

    if total(1) > limit:
        with pytest.raises(OptionError, match="no room for text"):
            longest_body(limit, hundredths / 100, rounding=rounding, specials=specials)
        return
    found = longest_body(limit, hundredths / 100, rounding=rounding, specials=specials)
    assert total(found) <= limit < total(found + 1)


def test_what_the_budget_may_count() -> None:
    lengths = torch.tensor([0, 8])
    assert counted_length(lengths, "body", specials=3).tolist() == [0, 8]
    assert counted_length(lengths, "body+sep", specials=3).tolist() == [1, 9]
    assert counted_length(lengths, "all", specials=3).tolist() == [3, 11]


# Mask counts of the paper and of the released code, through the whole defence


COUNTS = [  # body, paper (training, inference), release (training, first pass, both passes at most)
    (8, (3, 3), (1, 1, 2)), (10, (3, 3), (1, 2, 4)), (22, (7, 7), (3, 4, 8)), (40, (12, 12), (6, 8, 16)),
    (100, (30, 30), (15, 20, 40)),
]  # fmt: skip


def encoder_of(folder: Path, max_length: int = 256) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(folder), max_length=max_length)


def counts_of(preset: str, text: str, encode: Encode, **options: object) -> tuple[int, int]:
    from dualmask.text.examples import Example

    defence = build_defence("ddm", preset=preset, options=options)
    defence.fit([Example("the movie was a plot", 0), Example(text, 1)], encode)
    train = defence.training_view([text], [1], encode, torch.Generator().manual_seed(0))
    test = defence.inference_view([text], [0], encode, CPU)
    assert int((train.input_ids == encode.mask_id).sum()) == int(train.masks.sum())
    assert int((test.input_ids == encode.mask_id).sum()) == int(test.masks.sum())
    return int(train.masks.sum()), int(test.masks.sum())


@pytest.mark.parametrize(("body", "paper", "release"), COUNTS)
def test_mask_counts_of_the_paper_and_of_the_release(
    body: int, paper: tuple[int, int], release: tuple[int, int, int], tiny: Callable[[str], Path],
) -> None:
    encode = encoder_of(tiny("bert"))
    words = ["the", "movie", "was", "a", "plot", "and", "actor", "scene", "with", "very", "good", "bad", "x", "y", "z"]
    text = " ".join(words[place % len(words)] for place in range(body))
    assert encode([text]).lengths.tolist() == [body]
    assert counts_of("paper", text, encode) == paper
    assert counts_of("release", text, encode, second_pass=False) == release[:2]
    train, test = counts_of("release", text, encode)
    assert train == release[0]
    assert release[1] <= test <= release[2]


@pytest.mark.parametrize(("body", "kept"), [(96, 96), (97, 97), (110, 94), (126, 89)])
def test_dropping_the_tail_loses_text_and_the_closing_token(body: int, kept: int, tiny: Callable[[str], Path]) -> None:
    """As in the released code; had [SEP] been kept, one token of text less would remain (96, 93, 88)."""
    encode = encoder_of(tiny("bert"), 128)
    defence = build_defence("ddm", preset="paper", options={"length": "drop-tail"})
    batch = defence.training_view(["the " * body], [0], encode, torch.Generator())
    assert batch.input_ids.shape[1] == min(128, body + math.ceil(body * Fraction(3, 10)) + 2)
    assert batch.lengths.tolist() == [kept]
    assert (SEP in batch.input_ids[0].tolist()) == (body == 96)


@pytest.mark.parametrize(("length", "total", "body"), [("fit", 127, 96), ("extend", 166, 126), ("drop-tail", 128, 89)])
def test_what_becomes_of_a_text_that_fills_the_window(
    length: str, total: int, body: int, tiny: Callable[[str], Path],
) -> None:
    encode = encoder_of(tiny("bert"), 128)
    defence = build_defence("ddm", preset="paper", options={"length": length})
    batch = defence.training_view(["the " * 300], [0], encode, torch.Generator())
    assert (batch.input_ids.shape[1], batch.lengths.tolist()) == (total, [body])


@pytest.mark.parametrize("train_count", ["body", "body+sep", "all"])
@pytest.mark.parametrize("rounding", ["ceil", "floor"])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 1.0])
def test_fit_keeps_masks_and_closing_token_within_the_limit(
    train_count: str, rounding: str, rate: float, tiny: Callable[[str], Path],
) -> None:
    tokenizer_folder = tiny("bert")
    for limit in range(16, 33):
        encode = encoder_of(tokenizer_folder, limit)
        options = {"train_rate": rate, "rounding": rounding, "train_count": train_count, "length": "fit"}
        defence = build_defence("ddm", options=options)
        batch = defence.training_view(["the " * 60], [0], encode, torch.Generator())
        assert batch.input_ids.shape[1] <= limit
        assert batch.input_ids[0, -1] == SEP
        assert batch.lengths[0] > 0


# Insertion


Token = dict[str, object]


def tokens_of(batch: Batch, row: int) -> list[Token]:
    names = ("input_ids", "attention_mask", "token_type_ids", "positions", "body", "words", "masks")
    columns = range(batch.input_ids.shape[1])
    return [{name: getattr(batch, name)[row, column].item() for name in names} for column in columns]


def slow_insertion(tokens: list[Token], gaps: list[int], ordinary: str, width: int) -> list[Token]:
    """Put one mask into each gap (the index of the token it precedes), then number the places again."""
    out: list[Token] = []
    for place, token in enumerate([*tokens, None]):
        for _ in range(gaps.count(place)):
            kind = tokens[place]["token_type_ids"] if place < len(tokens) else tokens[-1]["token_type_ids"]
            out.append({"input_ids": MASK, "attention_mask": 1, "token_type_ids": kind, "positions": None,
                        "body": False, "words": -1, "masks": True})
        if token is not None:
            out.append(dict(token))
    for place, token in enumerate(out):
        if ordinary == "shifted" or token["masks"]:
            token["positions"] = place
    padding = {"input_ids": PAD, "attention_mask": 0, "token_type_ids": 0, "body": False, "words": -1, "masks": False}
    return out + [padding] * (width - len(out))


def gaps_for(tokens: list[Token], count: int, place: str, segments: bool) -> list[int]:
    if place == "start":
        second = next((i for i, token in enumerate(tokens) if token["body"] and token["token_type_ids"] == 1), 1)
        first = (count + 1) // 2 if segments else count
        return [1] * first + [second] * (count - first)
    return [len(tokens) - 1 if place == "before-sep" else len(tokens)] * count


def compare(found: list[Token], expected: list[Token]) -> None:
    assert len(found) == len(expected)
    for token, wanted in zip(found, expected, strict=True):
        for name, value in wanted.items():  # padding has no position, word or token type that matters
            if wanted["attention_mask"] or name not in ("words", "token_type_ids"):
                assert token[name] == value, (name, found, expected)


def check_insertion(
    rows: list[Row], counts: list[int], *, place: str, ordinary: str, segments: bool, padding: int,
) -> None:
    batch = make_batch(rows, padding)
    kept = [tokens_of(batch, row) for row in range(len(rows))]
    found = insert_masks(batch, torch.tensor(counts), MASK, place=place, ordinary=ordinary, segments=segments)
    real = [int(n) for n in batch.attention_mask.sum(dim=1)]
    width = max(n + count for n, count in zip(real, counts, strict=True))
    assert found.input_ids.shape == (len(rows), width)
    for row, (n, count) in enumerate(zip(real, counts, strict=True)):
        tokens = kept[row][:n]
        gaps = gaps_for(tokens, count, place, segments)
        compare(tokens_of(found, row), slow_insertion(tokens, gaps, ordinary, width))
    assert [tokens_of(batch, row) for row in range(len(rows))] == kept, "the batch that was given has changed"


@given(singles, st.data(), st.sampled_from(["start", "before-sep", "end"]), st.sampled_from(["shifted", "kept"]),
       st.integers(0, 2))
@quick
def test_insertion_into_single_texts(
    rows: list[Row], data: st.DataObject, place: str, ordinary: str, padding: int,
) -> None:
    counts = data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
    check_insertion(rows, counts, place=place, ordinary=ordinary, segments=data.draw(st.booleans()), padding=padding)


@given(pairs, st.data(), st.sampled_from(["start", "before-sep", "end"]), st.sampled_from(["shifted", "kept"]),
       st.booleans(), st.integers(0, 2))
@settings(max_examples=120, deadline=None)
def test_insertion_into_pairs(
    rows: list[Row], data: st.DataObject, place: str, ordinary: str, segments: bool, padding: int,
) -> None:
    counts = data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
    check_insertion(rows, counts, place=place, ordinary=ordinary, segments=segments, padding=padding)


@given(st.one_of(singles, pairs), st.data(), st.sampled_from(["shifted", "kept"]), st.integers(0, 2**20))
@quick
def test_random_insertion_removes_nothing_and_stays_inside(
    rows: list[Row], data: st.DataObject, ordinary: str, seed: int,
) -> None:
    counts = data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
    batch = make_batch(rows)
    found = insert_masks(batch, torch.tensor(counts), MASK, place="random", ordinary=ordinary,
                         generator=torch.Generator().manual_seed(seed))
    for row, count in enumerate(counts):
        tokens = tokens_of(batch, row)[:int(batch.attention_mask[row].sum())]
        new = tokens_of(found, row)[:len(tokens) + count]
        places = [place for place, token in enumerate(new) if token["masks"]]
        assert len(places) == count
        assert all(0 < place < len(new) - 1 for place in places)
        gaps = [place - before for before, place in enumerate(places)]  # the token that each mask precedes
        compare(new, slow_insertion(tokens, gaps, ordinary, len(new)))


def test_random_insertion_reaches_every_gap_about_equally_and_follows_its_generator() -> None:
    batch = make_batch([Row([[5], [6], [7]])])  # gaps: before 5, 6, 7 and [SEP]
    seen = [0] * 6
    for seed in range(400):
        draws = [insert_masks(batch, torch.tensor([1]), MASK, place="random",
                              generator=torch.Generator().manual_seed(seed)) for _ in range(2)]
        assert torch.equal(draws[0].input_ids, draws[1].input_ids)
        seen[int(draws[0].masks[0].int().argmax())] += 1
    assert seen[0] == seen[5] == 0
    assert all(70 <= count <= 130 for count in seen[1:5])


def test_insertion_literally() -> None:
    batch = make_batch([Row([[5], [6, 7]]), Row([[8]])])
    found = insert_masks(batch, torch.tensor([2, 1]), MASK)
    assert found.input_ids.tolist() == [[CLS, MASK, MASK, 5, 6, 7, SEP], [CLS, MASK, 8, SEP, PAD, PAD, PAD]]
    assert found.positions[0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert found.attention_mask.tolist() == [[1] * 7, [1, 1, 1, 1, 0, 0, 0]]
    assert found.body.int().tolist() == [[0, 0, 0, 1, 1, 1, 0], [0, 0, 1, 0, 0, 0, 0]]
    assert found.words[0].tolist() == [-1, -1, -1, 0, 1, 1, -1]
    kept = insert_masks(batch, torch.tensor([2, 1]), MASK, ordinary="kept")
    assert kept.positions[0, [0, 3, 4, 5, 6]].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("place", ["start", "random", "before-sep", "end"])
def test_no_masks_leave_every_row_as_it_was(place: str) -> None:
    batch = make_batch([Row([[5], [6, 7]]), Row([])])
    found = insert_masks(batch, torch.tensor([0, 0]), MASK, place=place, generator=torch.Generator())
    for name, tensor in batch.per_token().items():
        assert torch.equal(getattr(found, name), tensor), name


@pytest.mark.parametrize("place", ["start", "before-sep", "end"])
def test_a_mask_does_not_depend_on_how_much_padding_its_row_has(place: str) -> None:
    row = Row([[5]], [[6], [7]])
    alone = insert_masks(make_batch([row]), torch.tensor([2]), MASK, place=place)
    beside = insert_masks(make_batch([row], padding=3), torch.tensor([2]), MASK, place=place)
    length = alone.input_ids.shape[1]
    for name, tensor in alone.per_token().items():
        assert torch.equal(getattr(beside, name)[:, :length], tensor), name


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_segments_share_the_masks_of_a_pair_whatever_the_tokenizer(family: str, tiny: Callable[[str], Path]) -> None:
    """RoBERTa's tokenizer gives both texts the token type 0, so token types can't tell them apart."""
    encode = encoder_of(tiny(family), 60)
    defence = build_defence("ddm", options={"segments": True})
    batch = defence.training_view([("the movie was good", "a bad plot")], [1], encode, torch.Generator())
    closing = int((batch.input_ids[0] == encode.tokenizer.sep_token_id).int().argmax())
    masks, total = batch.masks[0].tolist(), int(batch.masks.sum())
    assert sum(masks[:closing]) == (total + 1) // 2
    assert sum(masks[closing:]) == total // 2


def test_new_padding_is_the_tokenizers_padding(tiny: Callable[[str], Path]) -> None:
    """RoBERTa's padding has the id 1, and its id 0 opens a text."""
    encode = encoder_of(tiny("roberta"), 60)
    batch = build_defence("ddm").training_view(["the movie was good", "bad"], [1, 0], encode, torch.Generator())
    hidden = batch.input_ids[batch.attention_mask == 0]
    assert len(hidden) > 0
    assert set(hidden.tolist()) == {encode.tokenizer.pad_token_id}


def test_cut_drops_columns_of_every_tensor() -> None:
    batch = replace(make_batch([Row([[5], [6]])]), scores=torch.zeros(1, 4), labels=torch.tensor([1]))
    shorter = cut(batch, 3)
    assert {tuple(tensor.shape) for tensor in shorter.per_token().values()} == {(1, 3)}
    assert shorter.labels is batch.labels


# Replacement


def unit_lists(batch: Batch, row: int, unit: str) -> list[list[int]]:
    """Columns of each unit, in the order in which units begin."""
    groups: dict[object, list[int]] = {}
    for column, inside in enumerate(batch.body[row].tolist()):
        if inside:
            word, kind = int(batch.words[row, column]), int(batch.input_ids[row, column])
            groups.setdefault({"token": column, "word": word, "type": kind}[unit], []).append(column)
    return list(groups.values())


def slow_replacement(
    batch: Batch, scores: list[list[float]], counts: list[int], unit: str, *, pooling: str, spared: list[set[int]],
) -> list[list[tuple[float, list[int]]]]:
    """Units that may be masked, each with its score, best first and ties left-most, cut at the count."""
    chosen = []
    for row in range(len(batch)):
        scored = []
        for columns in unit_lists(batch, row, unit):
            values = [scores[row][column] for column in columns]
            if not spared[row] & set(columns):
                scored.append((max(values) if pooling == "max" else sum(values) / len(values), columns))
        scored.sort(key=lambda item: -item[0])  # Python's sort is stable: left-most first
        chosen.append(scored[:counts[row]])
    return chosen


@st.composite
def scored_batches(draw: st.DrawFn) -> tuple[Batch, list[list[float]], list[int]]:
    rows = draw(st.one_of(singles, pairs))
    batch = make_batch(rows, draw(st.integers(0, 2)))
    width = batch.input_ids.shape[1]
    # few different values, so that ties are common; special tokens and padding may well score highest
    scores = [draw(st.lists(st.sampled_from([-2.0, 0.0, 1.0, 3.0, 7.0]), min_size=width, max_size=width)) for _ in rows]
    return batch, scores, draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))


@given(scored_batches(), st.sampled_from(["token", "word", "type"]), st.sampled_from(["max", "mean"]), st.data())
@settings(max_examples=150, deadline=None)
def test_replacement_equals_sorting_by_hand(
    case: tuple[Batch, list[list[float]], list[int]], unit: str, pooling: str, data: st.DataObject,
) -> None:
    batch, scores, counts = case
    spared: list[set[int]] = []
    for row in range(len(batch)):
        groups = unit_lists(batch, row, unit)
        spared.append({column for columns in groups if data.draw(st.booleans()) for column in columns})
    candidates = batch.body.clone()
    for row, columns in enumerate(spared):
        candidates[row, sorted(columns)] = False
    found = replace_highest(batch, torch.tensor(scores), torch.tensor(counts), MASK, unit=unit, pooling=pooling,
                            candidates=candidates)
    expected = slow_replacement(batch, scores, counts, unit, pooling=pooling, spared=spared)
    for row, chosen in enumerate(expected):
        columns = {column for _, members in chosen for column in members}
        assert set(found.masks[row].nonzero().flatten().tolist()) == columns
        ids = [MASK if column in columns else value for column, value in enumerate(batch.input_ids[row].tolist())]
        assert found.input_ids[row].tolist() == ids
        for value, members in chosen:
            assert [found.scores[row, column].item() for column in members] == pytest.approx([value] * len(members))
    for name in ("attention_mask", "token_type_ids", "positions", "body", "words"):
        assert torch.equal(getattr(found, name), getattr(batch, name))


@given(scored_batches(), st.sampled_from(["token", "word", "type"]), st.sampled_from(["left", "right", "random"]))
@quick
def test_ties_change_which_but_never_how_many(
    case: tuple[Batch, list[list[float]], list[int]], unit: str, ties: str,
) -> None:
    batch, scores, counts = case
    found = replace_highest(batch, torch.tensor(scores), torch.tensor(counts), MASK, unit=unit, ties=ties)
    for row in range(len(batch)):
        groups = unit_lists(batch, row, unit)
        masked = [columns for columns in groups if found.masks[row, columns].all()]
        assert len(masked) == min(counts[row], len(groups))
        assert sum(map(len, masked)) == int(found.masks[row].sum()), "part of a unit is masked"
        value = {id(columns): max(scores[row][column] for column in columns) for columns in groups}
        spared = [columns for columns in groups if columns not in masked]
        if masked and spared:
            assert min(value[id(c)] for c in masked) >= max(value[id(c)] for c in spared)
        if ties == "right":
            order = sorted(range(len(groups)), key=lambda place: (-value[id(groups[place])], -place))
            assert masked == [groups[place] for place in sorted(order[:counts[row]])]


@given(scored_batches(), st.sampled_from(["token", "word", "type"]), st.sampled_from(["left", "right", "random"]),
       st.integers(1, 5))
@quick
def test_replacement_ignores_padding_and_the_order_of_rows(
    case: tuple[Batch, list[list[float]], list[int]], unit: str, ties: str, padding: int,
) -> None:
    batch, scores, counts = case
    rows = torch.tensor(counts)
    alone = replace_highest(batch, torch.tensor(scores), rows, MASK, unit=unit, ties=ties).masks
    fill = {"words": -1}
    wider = replace(batch, **{name: torch.nn.functional.pad(tensor, (0, padding), value=fill.get(name, 0))
                              for name, tensor in batch.per_token().items()})
    padded_scores = torch.nn.functional.pad(torch.tensor(scores), (0, padding), value=1e12)
    found = replace_highest(wider, padded_scores, rows, MASK, unit=unit, ties=ties).masks
    assert torch.equal(found[:, :alone.shape[1]], alone)
    assert not found[:, alone.shape[1]:].any()
    flipped = replace(batch, **{name: tensor.flip(0) for name, tensor in batch.per_token().items()})
    turned = replace_highest(flipped, torch.tensor(scores).flip(0), rows.flip(0), MASK, unit=unit, ties=ties).masks
    assert torch.equal(turned.flip(0), alone)


def test_random_ties_are_not_simply_left_or_right_most() -> None:
    batch = make_batch([Row([[5 + place] for place in range(20)])])
    zeros = torch.zeros(batch.input_ids.shape)
    found = replace_highest(batch, zeros, torch.tensor([6]), MASK, ties="random").masks[0].nonzero().flatten().tolist()
    assert len(found) == 6
    assert found not in (list(range(1, 7)), list(range(15, 21)))


def test_a_spared_token_is_never_masked_with_its_type() -> None:
    """Of one token type, some occurrences may be spared (they spell a protected word) and others not."""
    batch = make_batch([Row([[5], [6], [5]])])
    for spared in (1, 3):
        candidates = batch.body.clone()
        candidates[0, spared] = False
        found = replace_highest(batch, torch.tensor([[0.0, 9, 1, 9, 0]]), torch.tensor([1]), MASK, unit="type",
                                candidates=candidates)
        assert found.masks[0].nonzero().flatten().tolist() == [4 - spared]


@given(scored_batches(), st.sampled_from(["token", "word", "type"]))
@quick
def test_units_and_their_number(case: tuple[Batch, list[list[float]], list[int]], unit: str) -> None:
    batch = case[0]
    found = units(batch, unit)
    for row in range(len(batch)):
        groups = unit_lists(batch, row, unit)
        expected = [-1] * batch.input_ids.shape[1]
        for columns in groups:
            for column in columns:
                expected[column] = columns[0]
        assert found[row].tolist() == expected
        assert int(unit_count(batch, unit)[row]) == len(groups)


@given(st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=4),
       st.sampled_from(["left", "right", "random"]))
@quick
def test_ranks_are_places_in_a_falling_order(scores: list[list[int]], ties: str) -> None:
    found = ranks(torch.tensor(scores, dtype=torch.float), ties).tolist()
    for row, places in zip(scores, found, strict=True):
        assert sorted(places) == [0, 1, 2, 3]
        falling = [row[places.index(place)] for place in range(4)]
        assert falling == sorted(row, reverse=True)
        if ties != "random":
            sign = 1 if ties == "left" else -1
            assert [places.index(place) for place in range(4)] == sorted(range(4), key=lambda c: (-row[c], sign * c))


@pytest.mark.parametrize(("pooling", "expected"), [("max", [7.0, 4, 4, 2, 9]), ("mean", [7.0, 3, 3, 2, 9])])
def test_pooled_scores(pooling: str, expected: list[float]) -> None:
    groups = torch.tensor([[-1, 1, 1, 3, -1]])
    assert pooled(torch.tensor([[7.0, 4, 2, 2, 9]]), groups, pooling)[0].tolist() == expected

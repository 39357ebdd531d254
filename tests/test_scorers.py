# SPDX-License-Identifier: Apache-2.0
"""Each scorer against a slow version of itself on a small corpus."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dualmask.errors import DualmaskError, EncoderError, OptionError
from dualmask.masking.scorers import (
    GeneralFrequency,
    GradientNorm,
    RandomScore,
    Surprisal,
    TokenFrequency,
    WordFrequency,
    build_scorer,
)
from dualmask.masking.words import contains, first_of_each, first_pieces, keys_of_words, looked_up, word_keys
from dualmask.models.encoders import load_encoder, logits, prepare
from dualmask.seeds import scrambled
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text

CORPUS = [
    "the movie was good", "the plot was bad , the actor was great !", "unable movies", "un able", "the", "rarely x y",
    "x x x x", "very very very very dull", "a scene with a plot", "goodly",
]  # fmt: skip


LOOK_ALIKE = "\u0455t\u0430t\u0435"  # 'state' with three Cyrillic letters


def encoder_of(folder: Path, max_length: int = 40) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(folder), max_length=max_length)


@pytest.fixture(scope="module")
def encode(tiny: Callable[[str], Path]) -> Encode:
    return encoder_of(tiny("bert"))


@pytest.fixture(scope="module", params=["bert", "roberta"])
def any_encode(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Encode:
    return encoder_of(tiny(request.param))


def words_of(encode: Encode, text: str, limit: int | None = None) -> list[list[int]]:
    """The body as words of token ids, straight from the tokenizer; `limit` cuts as training does."""
    encoding = encode.tokenizer(text, truncation=limit is not None, max_length=limit)
    words: dict[int, list[int]] = {}
    for token, word in zip(encoding["input_ids"], encoding.word_ids(0), strict=True):
        if word is not None:
            words.setdefault(word, []).append(token)
    return list(words.values())


def body_scores(scores: Tensor, batch: Batch, row: int = 0) -> list[float]:
    return scores[row][batch.body[row]].tolist()


# Frequencies of tokens


@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_token_frequency_counts_every_body_token(any_encode: Encode, limit: int | None, reverse: bool) -> None:
    encode = Encode(any_encode.tokenizer, max_length=limit or 40)
    counts = Counter(token for text in CORPUS for word in words_of(encode, text, limit) for token in word)
    scorer = TokenFrequency(truncated=limit is not None, reverse=reverse)
    scorer.fit(CORPUS, encode)
    assert scorer.counts.tolist() == [counts[token] for token in range(encode.vocabulary_size)]
    wide = Encode(any_encode.tokenizer, max_length=40)
    batch = wide(CORPUS)
    sign = 1 if reverse else -1
    for row, text in enumerate(CORPUS):
        expected = [sign * math.log(1 + counts[token]) for word in words_of(wide, text, 40) for token in word]
        assert body_scores(scorer(batch), batch, row) == pytest.approx(expected)


def test_texts_are_counted_whole_unless_cut(encode: Encode) -> None:
    """A token beyond max_length counts in the whole corpus only."""
    texts = ["the " * 60 + "superb"]
    whole, cut = TokenFrequency(), TokenFrequency(truncated=True)
    whole.fit(texts, encode)
    cut.fit(texts, encode)
    assert int(whole.counts.sum()) == 61
    assert int(cut.counts.sum()) == encode.max_length - 2
    superb = encode.tokenizer.convert_tokens_to_ids("superb")
    assert (int(whole.counts[superb]), int(cut.counts[superb])) == (1, 0)


def test_special_tokens_and_padding_are_not_counted_but_unknown_ones_are(encode: Encode) -> None:
    scorer = TokenFrequency()
    scorer.fit(["the qqq", "the movie was good and very dull"], encode)
    names = encode.tokenizer.convert_ids_to_tokens([0, 1, 2, 3, 4])
    assert dict(zip(names, scorer.counts[:5].tolist(), strict=True)) == {
        "[PAD]": 0, "[UNK]": 1, "[CLS]": 0, "[SEP]": 0, "[MASK]": 0}


def test_pairs_count_both_texts(encode: Encode) -> None:
    scorer = TokenFrequency()
    pairs: list[Text] = [("the movie", "the plot")]
    scorer.fit(pairs, encode)
    assert int(scorer.counts.sum()) == 4
    assert int(scorer.counts[encode.tokenizer.convert_tokens_to_ids("the")]) == 2


def test_rarest_first_and_literally_the_most_frequent_first(encode: Encode) -> None:
    batch = encode(["the rare x"])
    rarest, literal = TokenFrequency(), TokenFrequency(reverse=True)
    rarest.fit(CORPUS, encode)
    literal.fit(CORPUS, encode)
    the, rare, x = body_scores(rarest(batch), batch)
    assert rare > the and rare > x
    the, rare, x = body_scores(literal(batch), batch)
    assert rare < the and rare < x


def test_unseen_tokens_count_zero_or_once(encode: Encode) -> None:
    batch = encode(["superb dull"])  # never seen, seen once
    for unseen, expected in (("first", [0.0, -math.log(2)]), ("once", [-math.log(2)] * 2)):
        scorer = TokenFrequency(unseen=unseen)
        scorer.fit(CORPUS, encode)
        assert body_scores(scorer(batch), batch) == pytest.approx(expected)


# Frequencies of words


@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_word_frequency_counts_whole_words(any_encode: Encode, limit: int | None, reverse: bool) -> None:
    encode = Encode(any_encode.tokenizer, max_length=limit or 40)
    counts = Counter(tuple(word) for text in CORPUS for word in words_of(encode, text, limit))
    scorer = WordFrequency(truncated=limit is not None, reverse=reverse)
    scorer.fit(CORPUS, encode)
    assert sorted(scorer.values.tolist()) == sorted(counts.values())
    texts = [*CORPUS, "superb movies", "movie unable x goods"]
    wide = Encode(any_encode.tokenizer, max_length=40)
    batch = wide(texts, words=True)
    sign = 1 if reverse else -1
    for row, text in enumerate(texts):
        expected = [sign * math.log(1 + counts[tuple(word)]) for word in words_of(wide, text, 40) for _ in word]
        assert body_scores(scorer(batch), batch, row) == pytest.approx(expected)


def test_a_typo_made_of_frequent_pieces_is_unseen_as_a_word(encode: Encode) -> None:
    """The example of the released code: its pieces are frequent, so token counts let the typo pass."""
    corpus = ["goodly movies"] * 20 + ["the rare plot"] * 10
    batch = encode(["movies goodlys rare"], words=True)  # 'goodlys' = good ##ly ##s
    tokens, words = TokenFrequency(), WordFrequency()
    tokens.fit(corpus, encode)
    words.fit(corpus, encode)
    by_token, by_word = body_scores(tokens(batch), batch), body_scores(words(batch), batch)
    assert encode.tokenizer.convert_ids_to_tokens(batch.input_ids[0, 1:-1]) == [
        "movie", "##s", "good", "##ly", "##s", "rare"]
    assert by_token.index(max(by_token)) == 5, "token counts distrust the rare but right word"
    assert by_word[2:5] == [0.0, 0.0, 0.0] and max(by_word[0], by_word[1], by_word[5]) < 0


def test_among_unseen_words_the_shattered_go_first_if_asked(encode: Encode) -> None:
    batch = encode(["the superb goodlyx rarely"], words=True)  # seen, unseen in 1 piece, in 3, in 2 but seen
    scorer = WordFrequency(unseen="fragmented")
    scorer.fit(CORPUS, encode)
    the, superb, good, ly, x, rare, _ = body_scores(scorer(batch), batch)
    assert good == ly == x > superb > rare > the
    first = WordFrequency(unseen="first")
    first.fit(CORPUS, encode)
    scores = body_scores(first(batch), batch)
    assert scores[1] == scores[2] == 0.0


def test_unseen_words_may_count_once(encode: Encode) -> None:
    batch = encode(["superb goodly"], words=True)
    scorer = WordFrequency(unseen="once")
    scorer.fit(CORPUS, encode)
    assert body_scores(scorer(batch), batch) == pytest.approx([-math.log(2)] * 3)


# Words and their keys


def test_words_are_numbered_along_the_row(any_encode: Encode) -> None:
    """The second text of a pair goes on counting, or its words would be taken for those of the first."""
    pair = ("the unable", "movies x")
    batch = any_encode([pair, ("x", "")], words=True)
    lengths = [len(word) for text in pair for word in words_of(any_encode, text)]
    expected = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert batch.words[0][batch.body[0]].tolist() == expected
    assert batch.words[1][batch.body[1]].tolist() == [0]
    assert bool((batch.words[~batch.body] == -1).all())
    assert bool((any_encode([pair]).words == -1).all()), "words cost time, so they are numbered on request only"


def test_no_two_words_share_a_key_and_order_matters(any_encode: Encode) -> None:
    texts = [*CORPUS, "unables unsable xsx xxs sxx abcabc cabcab bcabca", "aab aba baa ab ba"]
    batch = any_encode(texts, words=True)
    keys = word_keys(batch)
    found: dict[tuple[int, ...], set[int]] = {}
    for row, text in enumerate(texts):
        key_of = body_scores(keys, batch, row)
        for word in words_of(any_encode, text, 40):
            pieces, key_of = key_of[:len(word)], key_of[len(word):]
            found.setdefault(tuple(word), set()).update(int(key) for key in pieces)
    assert all(len(keys) == 1 for keys in found.values()), "a word has one key wherever it stands"
    assert len({next(iter(keys)) for keys in found.values()}) == len(found)


@given(st.lists(st.lists(st.integers(5, 9), min_size=1, max_size=5), min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_keys_tell_any_two_sequences_of_pieces_apart(words: list[list[int]]) -> None:
    tokens = [(piece, number) for number, word in enumerate(words) for piece in word]
    ids, numbers = (torch.tensor([[-1 if field else 2, *(token[field] for token in tokens)]]) for field in range(2))
    body = torch.tensor([[False, *(True for _ in tokens)]])
    batch = Batch(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids),
                  positions=torch.arange(ids.shape[1])[None], body=body, words=numbers, masks=torch.zeros_like(body))
    keys = word_keys(batch)[0, 1:].tolist()
    of_word = {tuple(word): keys[[number for _, number in tokens].index(place)] for place, word in enumerate(words)}
    assert len(set(of_word.values())) == len(of_word)
    assert keys == [of_word[tuple(words[number])] for _, number in tokens]


def test_scrambling_is_one_to_one_and_known() -> None:
    """splitmix64's first outputs for the seed 0 are published; scrambled(0) is the first."""
    assert int(scrambled(torch.tensor([0]))[0]) % 2**64 == 0xE220A8397B1DCDAF
    values = torch.arange(-20_000, 20_000)
    assert len(scrambled(values).unique()) == len(values)


def test_first_pieces_open_words(encode: Encode) -> None:
    batch = encode(["unable movies the", "x"], words=True)
    assert first_pieces(batch).int().tolist() == [[0, 1, 0, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0, 0]]


@given(st.dictionaries(st.integers(-50, 50), st.integers(1, 9), max_size=12),
       st.lists(st.integers(-60, 60), max_size=9))
@settings(max_examples=60, deadline=None)
def test_looking_up_equals_a_dictionary(table: dict[int, int], wanted: list[int]) -> None:
    keys = torch.tensor(sorted(table), dtype=torch.long)
    values = torch.tensor([table[key] for key in sorted(table)], dtype=torch.long)
    asked = torch.tensor([wanted], dtype=torch.long)
    assert looked_up(keys, values, asked)[0].tolist() == [table.get(key, 0) for key in wanted]
    assert contains(keys, asked)[0].tolist() == [key in table for key in wanted]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_the_first_value_of_each_key_stays(entries: list[tuple[int, int]]) -> None:
    expected: dict[int, int] = {}
    for key, value in entries:
        expected.setdefault(key, value)
    keys, values = first_of_each(*(torch.tensor(column) for column in zip(*entries, strict=True)))
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == expected
    assert keys.tolist() == sorted(expected)


def test_keys_of_words_find_the_word_anywhere_in_a_text(any_encode: Encode) -> None:
    keys = keys_of_words(["movie", "unable"], any_encode).unique()
    for text, expected in (("movie", ["movie"]), ("the movie was unable", ["movie", "unable"]), ("movies are", []),
                           ("Movie x", ["Movie"]), ("unable x", ["unable"])):
        batch = any_encode([text], words=True)
        encoding = any_encode.tokenise([text])
        found = (contains(keys, word_keys(batch)) & first_pieces(batch))[0].nonzero().flatten().tolist()
        spans = [encoding.word_to_chars(0, encoding.token_to_word(0, column)) for column in found]
        assert [text[span.start:span.end].strip() for span in spans] == expected


# General frequency


@pytest.fixture(scope="module")
def small_word_list() -> Iterator[Callable[[str], float]]:
    """The package's smaller list (a tenth of the words), to save time: the same function reads it."""
    wordfreq = pytest.importorskip("wordfreq")
    patch = pytest.MonkeyPatch()
    whole = wordfreq.get_frequency_list
    patch.setattr(wordfreq, "get_frequency_list", lambda language, _: whole(language, "small"))
    yield lambda word: wordfreq.zipf_frequency(word, "en", wordlist="small")
    patch.undo()


@pytest.fixture(scope="module")
def general(small_word_list: Callable[[str], float], encode: Encode) -> GeneralFrequency:
    scorer = GeneralFrequency()
    scorer.fit([], encode)
    return scorer


@pytest.mark.parametrize("word", ["the", "movie", "good", "awful", "dull", "unable", "movies", "rarely", "actors"])
def test_general_frequency_is_wordfreqs(
    word: str, general: GeneralFrequency, encode: Encode, small_word_list: Callable[[str], float],
) -> None:
    expected = small_word_list(word)
    assert expected > 2
    for text in (word, f"x {word} y", word.capitalize()):
        batch = encode([text], words=True)
        encoding = encode.tokenise([text])
        place = text.lower().index(word)
        scores = [float(general(batch)[0, column]) for column in range(batch.input_ids.shape[1])
                  if batch.body[0, column] and (span := encoding.token_to_chars(0, column)) and span.start >= place
                  and span.end <= place + len(word)]
        assert scores and scores == pytest.approx([-expected] * len(scores), abs=0.011)


def test_general_frequency_of_unknown_words_is_zero(general: GeneralFrequency, encode: Encode) -> None:
    batch = encode(["the goodlysx movie"], words=True)
    assert body_scores(general(batch), batch)[1:5] == [0.0] * 4


def test_words_that_the_tokenizer_cannot_spell_are_unknown_in_general_too(
    general: GeneralFrequency, encode: Encode,
) -> None:
    """All of them become [UNK]; they must not borrow the frequency of the commonest word that does as well."""
    batch = encode([f"the {LOOK_ALIKE} movie"], words=True)
    assert encode.tokenizer.convert_ids_to_tokens(batch.input_ids[0])[2] == "[UNK]"
    assert body_scores(general(batch), batch)[1] == 0.0


def test_general_frequency_can_be_turned_round(general: GeneralFrequency, encode: Encode) -> None:
    turned = GeneralFrequency(reverse=True)
    turned.keys, turned.values, turned.lettered = general.keys, general.values, general.lettered
    batch = encode(["the movie was dull"], words=True)
    assert torch.equal(turned(batch), -general(batch))


@pytest.mark.shared
def test_general_frequency_with_a_real_tokenizer(small_word_list: Callable[[str], float], shared: Path) -> None:
    encode = encoder_of(shared / "models" / "gte-small-mlm", 64)
    scorer = GeneralFrequency()
    scorer.fit([], encode)
    words = ["the", "film", "heroic", "unflinching", "masterpiece", "screenplay", "terrible"]
    batch = encode([" ".join([*words, "unflinchinglyy"])], words=True)
    opens = first_pieces(batch)
    found = scorer(batch)[opens].tolist()
    assert found == pytest.approx([-small_word_list(word) for word in words] + [0.0], abs=0.011)
    for odd in (LOOK_ALIKE, "\U0001f602", "\u2603"):
        batch = encode([odd], words=True)
        assert encode.tokenizer.convert_ids_to_tokens(batch.input_ids[0])[1] == "[UNK]"
        assert float(scorer(batch)[0, 1]) == 0.0, odd


# Surprisal


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], Path]) -> Path:
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    folder = tmp_path_factory.mktemp("language-model")
    tokenizer = AutoTokenizer.from_pretrained(tiny("bert"))
    torch.manual_seed(1)
    model = BertForMaskedLM(BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, pad_token_id=0))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def surprisal(folder: Path, tiny: Callable[[str], Path], stride: int) -> Surprisal:
    scorer = Surprisal(language_model=str(folder), stride=stride)
    scorer.adapt(load_encoder(tiny("bert"), ["bad", "good"])[0])
    return scorer


@torch.no_grad()
def test_surprisal_masks_one_token_at_a_time_where_the_stride_is_long(
    language_model: Path, encode: Encode, tiny: Callable[[str], Path],
) -> None:
    from transformers import BertForMaskedLM

    model = BertForMaskedLM.from_pretrained(language_model).eval()
    batch = encode(["the movie was unable", "good", "a very dull plot and actor ."])
    found = surprisal(language_model, tiny, stride=32)(batch)
    for row in range(len(batch)):
        length = int(batch.attention_mask[row].sum())
        ids = batch.input_ids[row, :length]
        for column in range(length):
            if batch.body[row, column]:
                hidden = ids.clone()
                hidden[column] = encode.mask_id
                answer = model(input_ids=hidden[None]).logits[0, column].log_softmax(dim=0)
                assert float(found[row, column]) == pytest.approx(-float(answer[ids[column]]), abs=1e-4)
            else:
                assert float(found[row, column]) == 0.0
    assert float(found[batch.body].std()) > 0.1, "all tokens surprise alike: nothing was compared"


def test_a_short_stride_masks_several_tokens_together(
    language_model: Path, encode: Encode, tiny: Callable[[str], Path],
) -> None:
    batch = encode(["the movie was unable", "a very dull plot and actor ."])
    alone, together = (surprisal(language_model, tiny, stride=stride)(batch) for stride in (32, 2))
    assert float((alone - together)[batch.body].abs().max()) > 1e-3
    apart = torch.cat([surprisal(language_model, tiny, stride=3)(encode([text]))[:, 1:4]
                       for text in ("the movie was unable", "a very dull plot and actor .")])
    assert torch.allclose(surprisal(language_model, tiny, stride=3)(batch)[:, 1:4], apart, atol=1e-5)


def test_surprisal_is_no_part_of_the_saved_weights(language_model: Path, tiny: Callable[[str], Path]) -> None:
    scorer = surprisal(language_model, tiny, stride=4)
    assert dict(scorer.state_dict()) == {} and list(scorer.parameters()) == []


def test_a_model_without_a_masked_language_head_is_refused(tiny: Callable[[str], Path]) -> None:
    scorer = Surprisal(language_model=str(tiny("bert")))
    with pytest.raises(EncoderError, match="no masked-language-model head"):
        scorer.adapt(load_encoder(tiny("bert"), ["bad", "good"])[0])


def test_a_language_model_with_another_vocabulary_is_refused(language_model: Path, tiny: Callable[[str], Path]) -> None:
    scorer = Surprisal(language_model=str(language_model))
    with pytest.raises(EncoderError, match="share the encoder's tokenizer"):
        scorer.adapt(load_encoder(tiny("roberta"), ["bad", "good"])[0])


def test_surprisal_says_what_it_needs(encode: Encode) -> None:
    with pytest.raises(OptionError, match="language_model"):
        build_scorer("surprisal")
    with pytest.raises(OptionError, match="stride is 0"):
        build_scorer("surprisal", language_model="x", stride=0)
    with pytest.raises(DualmaskError, match="adapt"):
        Surprisal(language_model="x")(encode(["the"]))


# Gradients


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "mpnet", "deberta-v2", "modernbert"])
def test_gradient_norm_equals_differentiating_by_hand(family: str, tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny(family), ["bad", "good"])
    prepare(model)
    model.eval()
    encode = Encode(tokenizer, max_length=40)
    texts = ["the movie was good", "x"]
    batch = encode(texts)
    scorer = GradientNorm()
    scorer.adapt(model)
    with torch.no_grad():
        found = scorer(batch)
    assert all(weight.grad is None for weight in model.parameters()), "scoring left gradients behind"
    for row, text in enumerate(texts):
        alone = encode([text])
        words = model.get_input_embeddings()(alone.input_ids).detach().requires_grad_()
        answer = logits(model, alone, embeddings=words)[0]
        (-answer.log_softmax(dim=0)[answer.argmax()]).backward()
        expected = words.grad[0].norm(dim=1)
        assert torch.allclose(found[row, :len(expected)], expected, atol=1e-5, rtol=1e-4)
        assert float(expected[1]) > 0
    assert dict(scorer.state_dict()) == {} and list(scorer.parameters()) == []


def test_gradients_need_a_model(encode: Encode) -> None:
    with pytest.raises(DualmaskError, match="adapt"):
        GradientNorm()(encode(["the"]))


@pytest.mark.parametrize("position", ["zero", "normal", "release"])
def test_gradients_with_every_kind_of_mask_position(position: str, tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    prepare(model)
    scorer = GradientNorm()
    scorer.adapt(model.eval())
    batch = replace(Encode(tokenizer, max_length=40)(["the movie was good"]), mask_position=position)
    assert float(scorer(batch)[0, 1:5].min()) > 0


# Noise


def test_random_scores_are_the_same_in_any_batch(encode: Encode) -> None:
    scorer = RandomScore(seed=3)
    together = scorer(encode(CORPUS))
    for row, text in enumerate(CORPUS):
        batch = encode([text])
        assert torch.equal(scorer(batch)[0], together[row, :batch.input_ids.shape[1]])
    turned = scorer(encode(CORPUS[::-1]))
    assert torch.equal(turned.flip(0), together)


def test_random_scores_can_be_drawn_anew_and_held_still(encode: Encode) -> None:
    scorer, batch = RandomScore(seed=3), encode(["x x x x x x", "x x x x x y"])
    first = scorer(batch)
    scorer.redraw(1 << 20)
    assert not torch.equal(scorer(batch)[:, 1:7], first[:, 1:7])
    scorer.redraw(1, same=True)
    still = scorer(batch)
    assert torch.equal(still[0], still[1]), "equal places of different texts have equal draws"
    scorer.redraw(0)
    assert torch.equal(scorer(batch), first)


def test_random_scores_differ_by_seed_text_and_place(encode: Encode) -> None:
    first = encode(["x x x x x x"])
    values = body_scores(RandomScore(seed=0)(first), first)
    assert len(set(values)) == 6
    assert values != body_scores(RandomScore(seed=1)(first), first)
    other = encode(["x x x x x y"])
    assert values != body_scores(RandomScore(seed=0)(other), other)
    turned = encode(["y x x x x x"])
    assert body_scores(RandomScore(seed=0)(turned), turned) != body_scores(RandomScore(seed=0)(other), other)


def test_random_scores_are_roughly_uniform_and_choose_every_place_alike(encode: Encode) -> None:
    texts = [f"{'the ' * (n % 7 + 1)}{' '.join('x' if n >> bit & 1 else 'y' for bit in range(9))}" for n in range(2000)]
    batch = encode(texts)
    scores = RandomScore(seed=5)(batch)
    values = scores[batch.body].sort().values
    low, high = float(values[0]), float(values[-1])
    ideal = torch.linspace(low, high, len(values), dtype=values.dtype)
    assert float((values - ideal).abs().max()) / (high - low) < 0.02  # Kolmogorov-Smirnov, 26,000 values
    highest = scores.masked_fill(~batch.body, -torch.inf)[:, 1:11].argmax(dim=1)
    counts = torch.bincount(highest, minlength=10)
    assert int(counts.min()) > 130 and int(counts.max()) < 270  # 200 expected


@pytest.mark.parametrize("name", ["frequency", "word-frequency", "general", "gradient", "random"])
def test_scorers_by_name(name: str) -> None:
    kinds = {"frequency": TokenFrequency, "word-frequency": WordFrequency, "general": GeneralFrequency,
             "gradient": GradientNorm, "random": RandomScore}
    assert type(build_scorer(name)) is kinds[name]


@pytest.mark.parametrize("name", ["frequency", "word-frequency", "random"])
def test_scores_do_not_depend_on_the_batch(name: str, any_encode: Encode) -> None:
    scorer = build_scorer(name)
    scorer.fit(CORPUS, any_encode)
    together = scorer(any_encode(CORPUS, words=scorer.by_word))
    for row, text in enumerate(CORPUS):
        batch = any_encode([text], words=scorer.by_word)
        assert torch.equal(scorer(batch)[0][batch.body[0]], together[row, :batch.input_ids.shape[1]][batch.body[0]])

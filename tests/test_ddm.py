# SPDX-License-Identifier: Apache-2.0
"""Defensive Dual Masking beside the paper and the released code: both halves, every option, every preset."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch
from conftest import reviews
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence, preset_training
from dualmask.defences.ddm import DDM, DDMOptions
from dualmask.errors import OptionError
from dualmask.masking.scorers import RandomScore, ScorerName, build_scorer
from dualmask.models.encoders import load_encoder, logits, prepare
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Example, Text
from dualmask.training import train

CPU = torch.device("cpu")
# the 6, movie 4, was 3, good 2, plot and bad 1, all others never
CORPUS = ["the the the the the the", "movie movie movie movie", "was was was", "good good", "plot bad"]


@pytest.fixture(scope="module")
def encode(tiny: Callable[[str], Path]) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(tiny("bert")), max_length=60)


def fitted(
    encode: Encode, counted: list[str] | None = None, /, *, preset: str = "recommended", **options: object,
) -> DDM:
    defence = build_defence("ddm", preset=preset, options=options)
    defence.fit([Example(text, 0) for text in (CORPUS if counted is None else counted)], encode)
    assert isinstance(defence, DDM)
    return defence


def trained_on(defence: DDM, texts: list[Text], encode: Encode, seed: int = 0) -> Batch:
    return defence.training_view(texts, [0] * len(texts), encode, torch.Generator().manual_seed(seed))


def asked(defence: DDM, texts: list[Text], encode: Encode) -> Batch:
    return defence.inference_view(texts, [0] * len(texts), encode, CPU)


def shown(batch: Batch, encode: Encode, row: int = 0) -> str:
    """The tokens of a row without padding; masks as _."""
    ids = batch.input_ids[row][batch.input_ids[row] != encode.tokenizer.pad_token_id]
    return " ".join("_" if token == "[MASK]" else token for token in encode.tokenizer.convert_ids_to_tokens(ids))


# The two halves


def test_training_sees_the_sentence_of_the_paper(encode: Encode) -> None:
    """x' = [CLS] [MASK]_1 ... [MASK]_M x_1 ... x_n [SEP] with M = ceil(n b)."""
    batch = trained_on(fitted(encode, preset="paper"), ["the movie was good ."], encode)
    assert shown(batch, encode) == "[CLS] _ _ the movie was good . [SEP]"
    assert batch.masks[0].int().tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0]
    assert batch.positions[0].tolist() == list(range(9))
    assert batch.attention_mask[0].tolist() == [1] * 9
    assert batch.token_type_ids[0].tolist() == [0] * 9
    assert batch.mask_position == "zero"
    assert batch.labels is not None and batch.labels.tolist() == [0]


def test_inference_masks_the_rarest_where_they_stand(encode: Encode) -> None:
    text = "the plot was a good movie"
    plain, batch = encode([text]), asked(fitted(encode, preset="paper"), [text], encode)
    assert shown(batch, encode) == "[CLS] the _ was _ good movie [SEP]"
    for name in ("attention_mask", "token_type_ids", "positions", "body"):
        assert torch.equal(getattr(batch, name), getattr(plain, name)), name
    assert torch.equal(batch.input_ids[~batch.masks], plain.input_ids[~batch.masks])
    assert batch.mask_position == "zero"


def test_training_sees_nothing_but_masked_texts(tiny: Callable[[str], Path], data: Dataset) -> None:
    """What reaches the word embeddings while the network trains, in a real run."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny("bert"))
    encode = Encode(tokenizer, max_length=40)
    seen: list[list[int]] = []

    def record(module: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
        if isinstance(module, torch.nn.Embedding) and module.training and module.num_embeddings == len(tokenizer):
            seen.extend([token for token in row if token != tokenizer.pad_token_id] for row in args[0].tolist())

    hook = torch.nn.modules.module.register_module_forward_pre_hook(record)
    try:
        train(data, encoder=tiny("bert"), defence="ddm", preset="paper", training={"epochs": 1, "max_length": 40},
              progress=False)
    finally:
        hook.remove()
    expected = []
    for example in data.train:
        opening, *body, closing = encode.tokenizer(example.text)["input_ids"]
        expected.append([opening, *[encode.mask_id] * -(-3 * len(body) // 10), *body, closing])
    assert sorted(seen) == sorted(expected)


def test_the_half_that_answers_needs_one_pass(encode: Encode) -> None:
    assert fitted(encode).views == 1


def test_pairs_get_their_masks_once_after_the_opening_token(encode: Encode) -> None:
    pair: list[Text] = [("the movie was good", "a plot x")]
    batch = trained_on(fitted(encode, preset="paper"), pair, encode)
    assert shown(batch, encode) == "[CLS] _ _ _ the movie was good [SEP] a plot x [SEP]"  # ceil(7 * 0.3) = 3
    assert batch.token_type_ids[0].tolist() == [0] * 9 + [1] * 4
    shared = trained_on(fitted(encode, preset="paper", segments=True), pair, encode)
    assert shown(shared, encode) == "[CLS] _ _ the movie was good [SEP] _ a plot x [SEP]"
    assert shared.token_type_ids[0].tolist() == [0] * 8 + [1] * 5
    answered = asked(fitted(encode, preset="paper"), pair, encode)
    assert shown(answered, encode) == "[CLS] the movie was good [SEP] _ _ _ [SEP]"


def test_a_text_is_never_masked_whole_unless_asked(encode: Encode) -> None:
    for text, kept, literal in (("x", "x", "_"), ("x y", "_ y", "_ y"), ("", "", "")):
        assert shown(asked(fitted(encode, test_rate=0.3), [text], encode), encode).split()[1:-1] == kept.split()
        assert shown(asked(fitted(encode, preset="paper"), [text], encode), encode).split()[1:-1] == literal.split()
    whole = asked(fitted(encode, test_rate=1.0), ["the movie x"], encode)
    assert shown(whole, encode) == "[CLS] the _ _ [SEP]"
    assert shown(asked(fitted(encode, test_rate=1.0, unit="word"), ["unablesx"], encode), encode) == (
        "[CLS] un ##able ##s ##x [SEP]")


@pytest.mark.parametrize("protect", [("x",), ("x", "unable"), "x, unable"])
@pytest.mark.parametrize("unit", ["token", "word", "type"])
def test_protected_words_are_never_masked(encode: Encode, protect: object, unit: str) -> None:
    defence = fitted(encode, test_rate=1.0, keep_one=False, protect=protect, unit=unit)
    for text in ("x un able unable X", "un unable x goodx the", "unable un able"):
        tokens = shown(asked(defence, [text], encode), encode).split()[1:-1]
        plain = shown(encode([text]), encode).split()[1:-1]
        words = encode([text], words=True).words[0, 1:-1].tolist()
        spelled = {word: "".join(piece.removeprefix("##") for piece, at in zip(plain, words, strict=True) if at == word)
                   for word in words}
        safe = {"x"} if protect == ("x",) else {"x", "unable"}
        for token, word in zip(tokens, words, strict=True):
            if spelled[word] in safe:
                assert token != "_", (text, tokens)
            elif unit != "type":
                assert token == "_", (text, tokens)


def test_skipping_leaves_punctuation_and_function_words(encode: Encode) -> None:
    text = "the superb , plot ! with a dull '"
    for skip, expected in (("nothing", "_ _ _ _ _ _ _ _ _"), ("punctuation", "_ _ , _ ! _ _ _ '"),
                           ("stop-words", "the _ , _ ! with a _ '")):
        defence = fitted(encode, test_rate=1.0, keep_one=False, skip=skip)
        assert shown(asked(defence, [text], encode), encode) == f"[CLS] {expected} [SEP]"


def test_protecting_what_is_no_single_word_is_refused(encode: Encode) -> None:
    for word in ("\u2603", "the movie", "don't"):
        with pytest.raises(OptionError, match="single words"):
            fitted(encode, protect=(word,))


@pytest.mark.parametrize("options", [{"skip": "punctuation"}, {"skip": "stop-words"}])
def test_sparing_what_the_tokenizer_cannot_spell_does_not_spare_all_unknown_words(
    options: dict[str, object], encode: Encode,
) -> None:
    """'@' and a snowman are [UNK] here, and so is every word with a look-alike letter in it."""
    defence = fitted(encode, test_rate=1.0, keep_one=False, **options)
    assert shown(asked(defence, ["movie m\u043evie"], encode), encode) == "[CLS] _ _ [SEP]"


# Every option does something


@dataclass(frozen=True)
class Case:
    """One option: what a text becomes without it and with it."""

    value: object
    before: str
    after: str
    text: Text = "the movie was good"
    base: dict[str, object] = field(default_factory=dict)
    half: str = "inference"
    corpus: list[str] | None = None
    max_length: int = 60


WORDS = {"scorer": "word-frequency", "unit": "word"}
LONG = {"text": "x y z . , ! ' t", "max_length": 8, "half": "training"}
CASES: list[tuple[str, Case]] = [
    ("train_rate", Case(0.75, "_ _ the movie was good", "_ _ _ the movie was good", half="training")),
    ("test_rate", Case(0.5, "the movie was _", "the movie _ _")),
    ("rounding", Case("floor", "_ _ the movie was good", "_ the movie was good", half="training")),
    ("rounding", Case("floor", "the movie _ _", "the movie was _", base={"test_rate": 0.3})),
    ("train_count", Case("body+sep", "_ _ the movie was good", "_ _ _ the movie was good", base={"train_rate": 0.5},
                         half="training")),
    ("train_count", Case("all", "_ the movie was good", "_ _ the movie was good", base={"train_rate": 0.2},
                         half="training")),
    ("test_count", Case("body+sep", "the movie was _", "the movie _ _", base={"test_rate": 0.25})),
    ("test_count", Case("all", "the movie was _", "the movie _ _", base={"test_rate": 0.25})),
    ("place", Case("before-sep", "_ _ the movie was good", "the movie was good _ _", half="training")),
    ("place", Case("end", "_ _ the movie was good", "the movie was good [SEP] _ _", half="training")),
    ("segments", Case(True, "_ _ _ _ the movie [SEP] a plot x", "_ _ the movie [SEP] _ _ a plot x", half="training",
                      text=("the movie", "a plot x"), base={"train_rate": 0.8})),
    ("length", Case("extend", "_ _ x y z .", "_ _ x y z . , !", **LONG)),
    ("length", Case("drop-tail", "_ _ x y z .", "_ _ x y z . ,", **LONG)),
    ("clean_share", Case(1.0, "_ _ the movie was good", "the movie was good", half="training")),
    ("scorer", Case("word-frequency", "good ##ly _", "_ _ rare", text="goodly rare", base={"unit": "word"},
                    corpus=["good good good", "xly xly xly", "rare rare"])),
    ("order", Case("literal", "the movie was _", "_ movie was good")),
    ("order", Case("literal", "the movie was _", "_ movie was good", base={"scorer": "word-frequency"})),
    ("unseen", Case("once", "plot _", "_ superb", text="plot superb")),
    ("unseen", Case("once", "plot _", "_ superb", text="plot superb", base={"scorer": "word-frequency"})),
    ("unseen", Case("fragmented", "_ good ##ly ##x", "superb _ _ _", text="superb goodlyx", base=WORDS)),
    ("corpus", Case("truncated", "_ y", "x _", text="x y", corpus=["x x y y y"], max_length=4)),
    ("corpus", Case("truncated", "_ y", "x _", text="x y", corpus=["x x y y y"], max_length=4, base=WORDS)),
    ("unit", Case("word", "good _ rare", "_ _ rare", text="goodly rare", corpus=["good rare rare"])),
    ("unit", Case("type", "_ the x", "_ the _", text="x the x")),
    ("pooling", Case("mean", "_ _ plot", "un ##able _", text="unable plot", base={"unit": "word"},
                     corpus=["un un un un un un un un plot"])),
    ("skip", Case("punctuation", "the _ plot", "the , _", text="the , plot")),
    ("skip", Case("stop-words", "_ plot", "with _", text="with plot")),
    ("protect", Case(("superb",), "the _ plot", "the superb _", text="the superb plot")),
    ("ties", Case("right", "_ y z", "x y _", text="x y z")),
    ("keep_one", Case(False, "x", "_", text="x")),
    ("second_pass", Case(True, "the the was _", "the the _ _", text="the the was good")),
]  # fmt: skip
# what the tokens alone don't show; each has a test of its own below
ELSEWHERE = {"mask_position", "ordinary", "attention", "language_model", "stride", "score_seed"}


def between_specials(batch: Batch, encode: Encode) -> str:
    return shown(batch, encode).removeprefix("[CLS]").removesuffix("[SEP]").strip()


@pytest.mark.parametrize(("option", "case"), CASES, ids=[f"{option}={case.value}" for option, case in CASES])
def test_options_have_their_effect(option: str, case: Case, encode: Encode) -> None:
    narrow = Encode(encode.tokenizer, max_length=case.max_length)
    for options, expected in ((case.base, case.before), ({**case.base, option: case.value}, case.after)):
        defence = fitted(narrow, case.corpus, **options)
        view = trained_on if case.half == "training" else asked
        assert between_specials(view(defence, [case.text], narrow), narrow) == expected


def test_every_option_is_seen_to_have_an_effect() -> None:
    assert {option for option, _ in CASES} | ELSEWHERE == {f.name for f in fields(DDMOptions)}


def test_every_choice_of_an_option_is_tried() -> None:
    """All values of the options that are lists of choices stand above, but those drawn by lot and the scorers."""
    drawn = {("place", "random"), ("ties", "random")}
    tried = {(option, case.value) for option, case in CASES} | drawn
    for option, hint in get_type_hints(DDMOptions).items():
        if option not in ELSEWHERE and option != "scorer" and get_args(hint) and hint != tuple[str, ...]:
            default = getattr(DDMOptions(), option)
            assert {(option, value) for value in get_args(hint) if value != default} <= tried, option


def test_clean_share_leaves_about_that_share_unmasked(encode: Encode) -> None:
    batch = trained_on(fitted(encode, clean_share=0.25), ["the movie was good"] * 400, encode)
    assert 70 <= int((~batch.masks.any(dim=1)).sum()) <= 130


def test_random_places_follow_the_generator(encode: Encode) -> None:
    defence = fitted(encode, place="random")
    found = [shown(trained_on(defence, ["the movie was good"], encode, seed), encode) for seed in (1, 1, 2, 3, 4, 5)]
    assert found[0] == found[1]
    assert len(set(found)) > 2


def test_random_ties_are_drawn_and_stay(encode: Encode) -> None:
    text: list[Text] = ["x y z t x y z t x y z t"]
    drawn, left = (asked(fitted(encode, ties=ties, test_rate=0.5), text, encode).masks for ties in ("random", "left"))
    assert int(drawn.sum()) == int(left.sum()) == 6
    assert not torch.equal(drawn, left)
    again = asked(fitted(encode, ties="random", test_rate=0.5), [*text, "the " * 40], encode)
    assert torch.equal(again.masks[:1, :drawn.shape[1]], drawn)


def test_ordinary_tokens_shift_or_keep_their_positions(encode: Encode) -> None:
    shifted, kept = (trained_on(fitted(encode, ordinary=ordinary), ["the movie was good"], encode)
                     for ordinary in ("shifted", "kept"))
    assert shifted.positions[~shifted.masks].tolist() == [0, 3, 4, 5, 6, 7]
    assert kept.positions[~kept.masks].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("half", ["training", "inference"])
def test_attention_to_masks_can_be_cut(half: str, encode: Encode) -> None:
    view = trained_on if half == "training" else asked
    cut, whole = (view(fitted(encode, attention=attention), ["the movie was good"], encode)
                  for attention in (False, True))
    assert cut.masks.any()
    assert torch.equal(cut.attention_mask == 0, cut.masks)
    assert whole.attention_mask.all()


@pytest.mark.parametrize("half", ["training", "inference"])
def test_mask_positions_change_the_answer(half: str, tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny("bert"), ["bad", "good"])
    encode = Encode(tokenizer, max_length=40)
    answers = []
    for position in ("zero", "normal", "release"):
        defence = fitted(encode, mask_position=position)
        prepare(model)
        defence.adapt(model.eval())
        view = trained_on if half == "training" else asked
        batch = view(defence, ["the movie was good"], encode)
        assert batch.mask_position == position
        answers.append(logits(model, batch).detach())
    assert not torch.allclose(answers[0], answers[1], atol=1e-6)
    assert not torch.allclose(answers[1], answers[2], atol=1e-6)
    assert not torch.allclose(answers[0], answers[2], atol=1e-6)


@pytest.fixture(scope="module")
def language_models(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], Path]) -> list[str]:
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    tokenizer = AutoTokenizer.from_pretrained(tiny("bert"))
    folders = []
    for seed in range(2):
        folders.append(str(folder := tmp_path_factory.mktemp(f"language-model-{seed}")))
        torch.manual_seed(seed)
        model = BertForMaskedLM(BertConfig(
            vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
            max_position_embeddings=64, initializer_range=1.0))
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folders


def scores_of(options: dict[str, object], tiny: Callable[[str], Path], data: Dataset) -> Tensor:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    defence = build_defence("ddm", options=options)
    classifier = DefendedClassifier(model, tokenizer, defence, labels=data.labels, max_length=32)
    defence.fit(data.train, classifier.encode)
    classifier.network.eval()
    batch = defence.inference_view(["the movies was unable", "good plot"], [0, 0], classifier.encode, CPU)
    assert batch.scores is not None
    assert int(batch.masks.sum()) == 2
    return batch.scores[batch.body].double()


def test_options_of_single_scorers_have_their_effect(
    language_models: list[str], tiny: Callable[[str], Path], data: Dataset,
) -> None:
    surprisal = {"scorer": "surprisal", "language_model": language_models[0], "stride": 20}
    for base, change in ((surprisal, {"language_model": language_models[1]}), (surprisal, {"stride": 2}),
                         ({"scorer": "random"}, {"score_seed": 1})):
        before, again, after = (scores_of(options, tiny, data) for options in (base, base, {**base, **change}))
        assert torch.equal(before, again)
        assert not torch.allclose(before, after, atol=1e-4), change


def test_only_the_control_draws_and_says_so() -> None:
    assert {name: build_scorer(name, language_model="somewhere").noise for name in get_args(ScorerName)} == {
        **dict.fromkeys(get_args(ScorerName), "none"), "random": "text"}
    assert build_defence("ddm").noise == "none"
    control = build_defence("ddm", options={"scorer": "random"})
    assert control.noise == "text"
    control.redraw(7, same=True)
    assert isinstance(control, DDM) and isinstance(control.scorer, RandomScore)
    assert (control.scorer.number, control.scorer.same) == (7, True)


def test_every_scorer_can_be_chosen_and_no_two_agree(
    language_models: list[str], tiny: Callable[[str], Path], data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    wordfreq = pytest.importorskip("wordfreq")
    whole = wordfreq.get_frequency_list
    monkeypatch.setattr(wordfreq, "get_frequency_list", lambda language, _: whole(language, "small")[:300])
    found = []
    for scorer in get_args(get_type_hints(DDMOptions)["scorer"]):
        options = {"scorer": scorer, "language_model": language_models[0] if scorer == "surprisal" else None}
        found.append(scores_of(options, tiny, data))
        assert torch.isfinite(found[-1]).all()
    for first in range(len(found)):
        for second in range(first):
            assert not torch.allclose(found[first], found[second], atol=1e-4)


# Presets


PAPER = {"train_rate": 0.3, "test_rate": 0.3, "rounding": "ceil", "train_count": "body", "test_count": "body",
         "mask_position": "zero", "place": "start", "length": "fit", "clean_share": 0.0, "attention": True,
         "scorer": "frequency", "order": "rarest", "unit": "token", "skip": "nothing", "protect": (), "keep_one": False,
         "second_pass": False}
RELEASE = {"train_rate": 0.15, "test_rate": 0.2, "rounding": "floor", "train_count": "body+sep", "test_count": "body",
           "mask_position": "release", "ordinary": "shifted", "place": "start", "length": "drop-tail",
           "clean_share": 0.0, "attention": True, "scorer": "frequency", "order": "rarest", "unseen": "first",
           "corpus": "truncated", "unit": "token", "ties": "left", "skip": "nothing", "keep_one": False,
           "second_pass": True}
RECOMMENDED = {**PAPER, "test_rate": DDMOptions().test_rate, "keep_one": True, "corpus": "whole", "ties": "left"}


@pytest.mark.parametrize(("preset", "expected"), [("paper", PAPER), ("release", RELEASE), ("recommended", RECOMMENDED)])
def test_presets_have_the_settings_of_their_source(preset: str, expected: dict[str, object]) -> None:
    options = build_defence("ddm", preset=preset).options
    assert {name: getattr(options, name) for name in expected} == expected


def test_presets_bring_their_training_settings() -> None:
    paper, release, ours = (preset_training("ddm", preset) for preset in ("paper", "release", "recommended"))
    assert (paper.optimiser, paper.learning_rate, paper.final_rate, paper.warmup) == ("adam", 2e-5, 1e-6, 10_000)
    assert (paper.schedule, paper.clip, paper.clip_at, paper.epochs, paper.patience) == ("cosine", "value", 1.0, 10, 1)
    assert (release.optimiser, release.learning_rate, release.schedule) == ("adamw", 5e-5, "constant")
    assert (release.clip, release.validate, release.epochs, release.warmup) == ("none", "plain", 5, 0.0)
    assert (ours.optimiser, ours.learning_rate, ours.schedule, ours.warmup) == ("adamw", 5e-5, "linear", 0.1)
    assert (ours.clip, ours.clip_at, ours.patience, ours.epochs, ours.validate) == ("norm", 1.0, 2, 5, "defended")
    assert {options.batch_size for options in (paper, release, ours)} == {32}
    assert {options.max_length for options in (paper, release, ours)} == {128}
    assert preset_training("ddm", "paper", {"epochs": "3"}).epochs == 3


# The released code and its two faults


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
@torch.no_grad()
def test_fault_a_gives_ordinary_tokens_their_position_twice(family: str, tiny: Callable[[str], Path]) -> None:
    model, tokenizer = load_encoder(tiny(family), ["bad", "good"])
    encode = Encode(tokenizer, max_length=40)
    defence = fitted(encode, preset="release")
    prepare(model)
    defence.adapt(model.eval())
    parts, seen = model.base_model.embeddings, []
    hook = parts.register_forward_hook(lambda _, args, output: seen.append(output))
    pairs: list[Text] = [("the movie was good", "a plot"), ("x", "y")]
    first = int(tokenizer.pad_token_id) + 1 if family == "roberta" else 0
    for batch in (trained_on(defence, pairs, encode), asked(defence, pairs, encode)):
        assert batch.masks.any()
        logits(model, batch)
        times = torch.where(batch.masks, 1.0, 2.0)[..., None]
        by_hand = parts.LayerNorm(
            parts.word_embeddings.weight[batch.input_ids]
            + times * parts.position_embeddings.weight[batch.positions + first]
            + 2 * parts.token_type_embeddings.weight[batch.token_type_ids])
        attended = batch.attention_mask.bool()
        assert torch.allclose(seen.pop()[attended], by_hand[attended], atol=1e-5)
    hook.remove()


def slow_release(texts: list[list[int]], counts: dict[int, int], width: int, mask: int) -> list[list[int]]:
    """Two passes of the released code: by training counts, then by counts inside the batch, padding included."""

    def masked(row: list[int], frequency: Callable[[int], float]) -> list[int]:
        scores = [1 / frequency(token) if frequency(token) else 1e9 for token in row]
        order = sorted(range(len(row)), key=lambda place: -scores[place])  # stable: ties go to the left-most
        chosen = set(order[:max(1, len(row) // 5)])
        return [mask if place in chosen else token for place, token in enumerate(row)]

    once = [masked(row, lambda token: counts.get(token, 0)) for row in texts]
    everything = [token for row in once for token in [2, *row, 3, *[0] * (width - 2 - len(row))]]
    return [masked(row, everything.count) for row in once]


def test_fault_b_masks_twice(encode: Encode) -> None:
    texts = [example.text for example in reviews(24, seed=7)]
    corpus = [str(example.text) for example in reviews(60, seed=8)]
    defence = fitted(encode, corpus, preset="release")
    counts = {token: int(count) for token, count in enumerate(defence.scorer.counts)}
    plain = encode(texts)
    rows = [plain.input_ids[row][plain.body[row]].tolist() for row in range(len(plain))]
    expected = slow_release(rows, counts, plain.input_ids.shape[1], encode.mask_id)
    found = asked(defence, texts, encode)
    assert [found.input_ids[row][found.body[row]].tolist() for row in range(len(found))] == expected
    assert torch.equal(found.masks, found.input_ids == encode.mask_id), "masks of both passes are known as such"
    assert any(row.count(encode.mask_id) > max(1, len(row) // 5) for row in expected)


def test_fault_b_lets_an_answer_depend_on_its_company(encode: Encode) -> None:
    text, other = "the movie was good x", "the the the movie movie"
    for preset, differs in (("release", True), ("paper", False), ("recommended", False)):
        defence = fitted(encode, preset=preset)
        alone, beside = (asked(defence, texts, encode).input_ids[0, :7] for texts in ([text], [text, other]))
        assert torch.equal(alone, beside) != differs, preset


@pytest.mark.parametrize("preset", ["paper", "recommended"])
def test_answers_do_not_depend_on_their_company(preset: str, tiny: Callable[[str], Path], data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    defence = build_defence("ddm", preset=preset)
    classifier = DefendedClassifier(model, tokenizer, defence, labels=data.labels, max_length=32)
    defence.fit(data.train, classifier.encode)
    texts = [example.text for example in data.test or []]
    together = classifier.predict(texts).probabilities
    alone = torch.cat([classifier.predict([text]).probabilities for text in texts])
    assert torch.allclose(together, alone, atol=1e-5)


# Errors


def test_unknown_names_get_a_hint_and_all_errors_come_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        build_defence("ddm", options={"test_rat": 0.1, "unit": "wrod", "train_rate": "much", "keep_one": "perhaps"})
    message = str(caught.value)
    assert "did you mean 'test_rate'?" in message
    assert "token, word, type" in message
    assert "train_rate='much': expected a number" in message
    assert "keep_one='perhaps': expected true or false" in message
    with pytest.raises(OptionError, match="unknown defence 'dmd': did you mean 'ddm'"):
        DEFENCES.find("dmd")
    with pytest.raises(OptionError, match="no preset 'papre': did you mean 'paper'"):
        build_defence("ddm", preset="papre")
    with pytest.raises(OptionError, match="unknown option 'rate'; there are none"):
        build_defence("plain", options={"rate": 1})


def test_an_unknown_preset_is_refused_for_training_settings_too() -> None:
    with pytest.raises(OptionError, match="did you mean 'paper'"):
        preset_training("ddm", "papre")


@pytest.mark.parametrize(("option", "value"), [
    ("protect", 5), ("stride", float("inf")), ("stride", "2.5"), ("test_rate", None), ("test_rate", [0.1]),
    ("unit", ["word"]), ("score_seed", 1.5),
])  # fmt: skip
def test_values_of_a_wrong_kind_are_refused(option: str, value: object) -> None:
    with pytest.raises(OptionError, match=option):
        build_defence("ddm", options={option: value})


@pytest.mark.parametrize(("option", "value"), [
    ("train_rate", 1.5), ("test_rate", -0.1), ("clean_share", 2.0), ("test_rate", float("nan")),
])  # fmt: skip
def test_impossible_shares_are_refused_before_anything_is_trained(option: str, value: float) -> None:
    """A wrong test_rate would else show up only after the first epoch."""
    with pytest.raises(OptionError, match="between 0 and 1"):
        build_defence("ddm", options={option: value})


def test_options_may_be_written_as_text() -> None:
    options = build_defence("ddm", options={"test_rate": "0.2", "keep_one": "no", "protect": "good, bad", "stride": "4",
                                            "language_model": "none", "unit": "word"}).options
    assert isinstance(options, DDMOptions)
    assert (options.test_rate, options.keep_one, options.protect, options.stride) == (0.2, False, ("good", "bad"), 4)
    assert (options.language_model, options.unit) == (None, "word")


@pytest.mark.parametrize("name", sorted(DEFENCES))
def test_cards_have_all_their_headings(name: str) -> None:
    kind = DEFENCES[name]
    card = kind.card()
    headings = ["Idea", "Acts at", "Deviations", "Relations"]
    assert list(card.sections) == (["Paper", *headings] if kind.paper else headings)
    assert card.name == name
    assert card.summary and not card.summary.endswith(".")
    assert all(text and "  " not in text for text in card.sections.values())

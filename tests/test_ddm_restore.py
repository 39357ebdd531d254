# SPDX-License-Identifier: Apache-2.0
"""ddm-restore: what the network is shown of a text, in training and at inference, and how it is accounted for."""

import random
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import ABSOLUTE, RELATIVE

from dualmask.classifier import DefendedClassifier
from dualmask.defences import build_defence
from dualmask.defences.ddm_restore import DDMRestore
from dualmask.errors import OptionError
from dualmask.evaluation.protocol import hidden_spans
from dualmask.masking.swaps import Sparing
from dualmask.models.encoders import load_encoder
from dualmask.storage import load
from dualmask.text import tampering
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.mixtures import FIRST
from dualmask.text.readings import Reading
from dualmask.text.rewriting import HIDDEN, Rewriting, within_budget
from dualmask.text.tampering import exchanged, neighbours
from dualmask.training import train

CPU = torch.device("cpu")
GOOD = ["wonderful", "brilliant", "superb", "moving", "charming"]
BAD = ["terrible", "dreadful", "boring", "stupid", "clumsy"]
THINGS = ["story", "picture", "actress", "music", "dialogue", "camera"]


def review(draw: random.Random, label: int) -> str:
    words = GOOD if label else BAD
    return (f"the {draw.choice(THINGS)} was {draw.choice(words)} and the {draw.choice(THINGS)} of this "
            f"{draw.choice(THINGS)} was {draw.choice(words)} .")


def reviews(count: int) -> list[Example]:
    draw = random.Random(0)
    return [Example(review(draw, number % 2), number % 2) for number in range(count)]


@pytest.fixture(scope="module")
def encode(tiny: Callable[[str], Path]) -> Encode:
    from transformers import AutoTokenizer

    return Encode(AutoTokenizer.from_pretrained(tiny("bert")), max_length=64)


@pytest.fixture(scope="module")
def fitted(encode: Encode) -> DDMRestore:
    return made(encode)


def made(encode: Encode, **options: object) -> DDMRestore:
    defence = build_defence("ddm-restore", options={"synonyms": "head", **options})
    assert isinstance(defence, DDMRestore)
    defence.adapt(load_encoder(encode.tokenizer.name_or_path, ["bad", "good"])[0])
    defence.fit(reviews(400), encode)
    return defence


def words_of(batch: Batch, row: int, encode: Encode) -> str:
    return str(encode.tokenizer.decode(batch.input_ids[row][batch.body[row]]))


# What is read


@pytest.mark.parametrize(("written", "read"), [
    ("the stroy was terrible .", "the story was terrible ."),
    ("the story was terri ble .", "the story was terrible ."),
    ("the story wasterrible .", "the story was terrible ."),
    ("the st\u043ery was ter\u200brible .", "the story was terrible ."),
    ("the story was qzxvkj .", f"the story was {HIDDEN} ."),
    ("the story was (qzxvkj) .", f"the story was ( {HIDDEN} ) ."),
    (f"the {HIDDEN} story", "the story"), ("", "")])
def test_words_are_restored_and_what_is_unknown_is_hidden(encode: Encode, written: str, read: str) -> None:
    found = made(encode, synonyms="none").rewriting(written)
    assert isinstance(found, str) and found.split() == read.split()


def test_synonyms_are_read_as_one_and_opposites_are_not(fitted: DDMRestore) -> None:
    heads = {word: fitted.rewriting(word) for word in (*GOOD, *BAD, "marvellous", "awful")}
    assert {heads[word] for word in GOOD}.isdisjoint({heads[word] for word in BAD})
    assert len(set(heads.values())) < len(heads)


def test_each_stage_can_be_left_out(encode: Encode) -> None:
    text = "the stroy was qzxvkj and marvellous"
    assert made(encode, restore=False, synonyms="mixture").rewriting(text) == text
    assert HIDDEN not in str(made(encode, masking=False).rewriting(text))
    assert "stroy" in str(made(encode, restore=False).rewriting(text))


def test_texts_of_a_pair_are_read_one_by_one(fitted: DDMRestore) -> None:
    one, other = "the stroy was wonderful", "the musik was dreadful"
    assert fitted.rewriting((one, other)) == (fitted.rewriting(one), fitted.rewriting(other))


def test_what_is_read_is_read_the_same_again(fitted: DDMRestore) -> None:
    for example in reviews(20):
        read = fitted.rewriting(example.text)
        assert fitted.rewriting(read) == read


def test_names_addresses_and_code_stay() -> None:
    draw = random.Random(1)
    cased = [Example(f"Yesterday {draw.choice(['Google', 'Yahoo'])} said that the {draw.choice(THINGS)} was "
                     f"{draw.choice(GOOD if label else BAD)} .", label) for label in [0, 1] * 150]
    defence = build_defence("ddm-restore", options={"synonyms": "head", "threshold": 0.5})
    assert isinstance(defence, DDMRestore)
    defence.rewriting.fit(cased)
    text = "Yesterday Google said of https://wonderful.example/storry, or a@dreadful.org, @stroy, read_csv() \U0001f600"
    assert defence.rewriting(text) == text


def test_masks_keep_to_the_budget(encode: Encode) -> None:
    text = "qzxvkj wvqqz xxkjq zzvbk the story was wonderful and the music"
    assert str(made(encode).rewriting(text)).count(HIDDEN) == 4
    assert str(made(encode, budget=0.2).rewriting(text)).count(HIDDEN) == 3  # of eleven words, rounded up
    assert HIDDEN not in str(made(encode, budget=0.0).rewriting(text))
    kept = Reading(0, 1, "a", "b", "restored", "")
    masks = [kept, kept._replace(becomes=None), kept, kept._replace(becomes=None)]
    assert list(within_budget(masks, 1)) == masks[:3]


# What the network is shown


def test_inference_shows_what_is_read_with_whole_words_masked(fitted: DDMRestore, encode: Encode) -> None:
    texts: list[Text] = ["the stroy was qzxvkj", "the story was wonderful"]
    batch = fitted.inference_view(texts, [0, 0], encode, CPU)
    assert words_of(batch, 0, encode).count("[MASK]") == 1 and batch.masks[0].sum() == 1
    assert batch.mask_position == "zero" and not batch.masks[1].any()
    assert fitted.noise == "none" and fitted.views == 1 and fitted.pass_count == "1"


@pytest.mark.parametrize("written", [
    "the sto ry was wonderful and the music was charming", "the storywas wonderful and the music was charming",
    "the story was wonderful qzxvkj, and the music was charming", "the stroy wsa wonderfull adn the musik was charmng"])
def test_what_is_exchanged_is_what_was_read(encode: Encode, written: str) -> None:
    """Split, joined, misspelt and hidden words: a vote must not stand still where the text was rewritten."""
    defence = made(encode, synonyms="mixture")
    texts, seeds = [written] * 12, torch.arange(12)
    draft = defence.draft(texts, torch.zeros(12), seeds, encode)
    spelling, read = draft.spelling, str(defence.rewriting(written)).replace(HIDDEN, "[MASK]").split()
    assert [spelling.word(number) for number in draft.rows[0]] == read
    shuffled = defence.drafts.shuffled(draft, torch.full((12,), 0.5), lambda _: seeds)
    assert len({tuple(row.tolist()) for row in shuffled.rows}) > 6
    for row in shuffled.rows:
        for old, new in zip(draft.rows[0].tolist(), row.tolist(), strict=True):
            assert new == old or new in defence.drafts.candidates(old, draft.memory)


def test_words_that_nobody_sees_do_not_sway_how_others_are_read(encode: Encode) -> None:
    defence = made(encode, synonyms="mixture")
    seen = " ".join(["the stroy was wonderfull and the musik was charming ."] * 6)
    unknown = " ".join(["qzxvkjw"] * 400)
    for text in (f"{seen} {unknown}", (f"{seen} {unknown}", "the stroy"), f"{unknown} {seen} {seen} {seen}"):
        alone = text if isinstance(text, str) else text[0]
        short = " ".join(alone.split()[:encode.max_length])
        other = short if isinstance(text, str) else (short, text[1])
        rows = defence.inference_view([text, other], [0, 0], encode, CPU).input_ids
        assert torch.equal(rows[0], rows[1])
    assert encode.reachable(seen[:60]) == seen[:60] and encode.reachable((seen, "a")) == (seen, "a")


@pytest.mark.slow
def test_other_views_of_a_vote_exchange_words_by_chance(encode: Encode) -> None:
    defence = made(encode, synonyms="mixture", votes=40, vote_swaps=0.5)
    text = reviews(1)[0].text
    batch = defence.inference_view([text] * 40, list(range(40)), encode, CPU)
    one = made(encode, synonyms="mixture").inference_view([text], [0], encode, CPU)
    length = one.input_ids.shape[1]
    assert torch.equal(batch.input_ids[0, :length], one.input_ids[0])
    assert len({tuple(row.tolist()) for row in batch.input_ids}) > 20 and not batch.masks[0].any()
    again = defence.inference_view([text], [7], encode, CPU)
    length = again.input_ids.shape[1]
    assert torch.equal(again.input_ids[0], batch.input_ids[7, :length]) and defence.noise == "text"


def test_training_hides_and_inserts_as_often_as_told(encode: Encode) -> None:
    examples = reviews(300)
    texts, labels = [one.text for one in examples], [one.label for one in examples]
    generator = torch.Generator().manual_seed(0)

    def view(**options: object) -> Batch:
        none = {"insert_share": 0.0, "hide_share": 0.0, "synonyms": "none"}
        return made(encode, **{**none, **options}).training_view(texts, labels, encode, generator)

    plain = view()
    assert not plain.masks.any() and plain.labels is not None and plain.labels.tolist() == labels
    inserted = view(insert_share=0.5, insert_rate=0.3)
    some = inserted.masks.any(dim=1)
    assert 0.35 < some.float().mean() < 0.65 and not (inserted.masks & inserted.body).any()
    assert torch.equal(inserted.masks[some].sum(dim=1), (inserted.lengths[some] * 3 + 9) // 10)
    hidden = view(hide_share=1.0, hide_rate=0.4)
    share = (hidden.masks & hidden.body).sum() / hidden.body.sum()
    assert 0.1 < share < 0.3 and torch.equal(hidden.masks & hidden.body, hidden.masks)


def test_synonyms_stand_for_the_longest_run_of_letters_in_its_case() -> None:
    shipped = ("shipped",)
    near = [word.capitalize() for word in neighbours("wonderful", shipped)]
    assert list(exchanged("(Wonderful,")) == [(f"({word},", word) for word in near]
    assert neighbours("wonderful", shipped) and not neighbours("the", shipped)
    assert not list(exchanged("the")) and not list(exchanged("--"))


def test_wordnet_may_be_a_source_of_synonyms(monkeypatch: pytest.MonkeyPatch) -> None:
    names = SimpleNamespace(synonyms=lambda word: ["Wonderful", "grand", "high_tea", "marvelous"])
    monkeypatch.setattr(tampering, "load_wordnet", lambda: names)
    assert neighbours("wonderful", ("wordnet",)) == ("grand", "marvelous")
    shipped = neighbours("wonderful", ("shipped",))
    assert neighbours("wonderful", ("shipped", "wordnet")) == tuple(dict.fromkeys([*shipped, "grand", "marvelous"]))
    neighbours.cache_clear()  # of the names above


def test_words_of_other_texts_may_stand_for_a_word(encode: Encode) -> None:
    texts = ["the story was wonderful .", "a camera of terrible dialogue"]
    defence = made(encode, synonyms="mixture", strange_rate=1.0)
    draft = defence.draft(texts, torch.zeros(2), torch.arange(2), encode, keep=True)
    known = {int(number) for row in draft.rows for number in row}
    swaps = defence.drafts.swaps(draft, torch.ones(2), torch.arange(2), strange=1.0)
    assert len(swaps) == sum(map(len, draft.rows)), "stop words too"
    for swap in swaps:
        near = {int(number) for number in defence.drafts.candidates(
                int(draft.rows[swap.row][swap.place]), draft.memory)}
        assert {*map(int, swap.numbers)} - near <= known and len({*map(int, swap.numbers)} & known) > 3
    some = defence.drafts.swaps(draft, torch.ones(2), torch.arange(2), strange=0.3)
    assert len(defence.drafts.swaps(draft, torch.ones(2), torch.arange(2))) <= len(some) < len(swaps)


@pytest.mark.slow
def test_training_is_against_the_worst_of_swaps(encode: Encode) -> None:
    """Of a loss that is linear in the embeddings, the words that raise it most."""
    examples = reviews(64)
    texts, labels = [one.text for one in examples], [one.label for one in examples]
    table = load_encoder(encode.tokenizer.name_or_path, ["bad", "good"])[0].get_input_embeddings()
    slope = torch.randn(table.weight.shape[1], generator=torch.Generator().manual_seed(1))

    def loss(batch: Batch, embeddings: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        words = defence.table(batch.input_ids) if embeddings is None else embeddings
        rows = ((words @ slope) * batch.body).sum(dim=1) / batch.lengths
        return rows.sum(), torch.stack([rows, torch.zeros_like(rows) + middle], dim=1)

    middle = 0.0
    none = {"insert_share": 0.0, "hide_share": 0.0, "synonyms": "mixture"}
    defence = made(encode, **none, worst_share=1.0, worst_sure=0.0)
    before = defence.training_view(texts, labels, encode, torch.Generator().manual_seed(0))
    after = defence.harden(loss, before)
    assert torch.equal(after.labels, before.labels) and after.examples is before.examples
    risen = (loss(after)[1] - loss(before)[1])[:, 0]
    assert (risen > -1e-5).all() and (risen > 1e-3).float().mean() > 0.7
    defence = made(encode, **none, worst_share=1.0, worst_sure=0.5)
    before = defence.training_view(texts, labels, encode, torch.Generator().manual_seed(0))
    middle = float(loss(before)[1][:, 0].median())
    right = loss(before)[1].argmax(dim=1) == before.labels
    risen = (loss(defence.harden(loss, before))[1] - loss(before)[1])[:, 0]
    assert 0 < right.sum() < 64 and (risen[~right].abs() < 1e-5).all() and (risen[right] > 1e-3).float().mean() > 0.7
    defence = made(encode, **none, worst_share=1.0, worst_sure=0.5, worst_known=0.0001)  # one is right
    before = defence.training_view(texts, labels, encode, torch.Generator().manual_seed(0))
    risen = (loss(defence.harden(loss, before))[1] - loss(before)[1])[:, 0]
    assert (risen > 1e-3).float().mean() > 0.7
    calm = made(encode, **none, worst_share=0.0)
    same = calm.training_view(texts, labels, encode, torch.Generator().manual_seed(0))
    assert calm.harden(loss, same) is same


def test_texts_are_spared_until_enough_is_known() -> None:
    """A running share: what one batch says is soon forgotten, and what was unlearned counts as well."""
    sparing, labels = Sparing(0.7, 0.5), torch.tensor([0, 1, 1])
    good, bad = torch.tensor([[3.0, 0.0], [0.0, 0.5], [0.0, 3.0]]), torch.tensor([[0.0, 3.0], [0.5, 0.0], [3.0, 0.0]])
    assert sparing(good, labels) == [False, True, False] and sparing(bad, labels) == [True] * 3
    batches = 0
    while any(sparing(good, labels)):
        batches += 1
    assert 20 < batches < 60 and sparing(good, labels) == [False] * 3 and sparing(bad, labels) == [False] * 3
    for _ in range(60):
        found = sparing(bad, labels)
    assert found == [True] * 3
    never = Sparing(0.7, 1.0)
    assert all(never(good, labels) == [False, True, False] for _ in range(300))


def test_the_share_of_right_answers_is_kept_and_may_be_lacking() -> None:
    sparing, other = Sparing(0.7, 0.5), Sparing(0.7, 0.5)
    sparing(torch.tensor([[9.0, 0.0]]), torch.tensor([0]))
    other.load_state_dict(sparing.state_dict())
    assert float(other.right) == float(sparing.right) > 0
    Sparing(0.7, 0.5).load_state_dict({})  # of a classifier that was saved without it


def test_training_texts_are_read_once(encode: Encode, monkeypatch: pytest.MonkeyPatch) -> None:
    examples, defence, asked = reviews(20), made(encode), list[Text]()
    texts, labels = [one.text for one in examples], [one.label for one in examples]
    read = Rewriting.__call__
    monkeypatch.setattr(Rewriting, "__call__", lambda self, text: asked.append(text) or read(self, text))

    def times() -> int:
        """How often a whole text, not a synonym, is read in a training view."""
        asked.clear()
        defence.training_view(texts, labels, encode, torch.Generator().manual_seed(0))
        return sum(text in texts for text in asked)

    defence.inference_view(texts, [0] * len(texts), encode, CPU)
    assert times() == len(set(texts)) and times() == 0
    defence.fit(examples, encode)
    assert times() == len(set(texts))  # other words may be known now


def test_an_error_that_is_put_right_makes_no_new_draw(encode: Encode) -> None:
    """Else each one would be another throw of the dice for whoever wants the vote to fall otherwise."""
    defence = made(encode, synonyms="mixture", votes=12, vote_swaps=0.5)
    texts = ["the story was wonderful .", "the stroy was wonderful .", "The story was wonderful .",
             "the story was a clumsy ."]
    views = [defence.inference_view([text] * 12, range(12), encode, CPU).input_ids for text in texts]
    assert torch.equal(views[0], views[1]) and torch.equal(views[0], views[2])
    assert len({tuple(row) for row in views[0].tolist()}) > 6
    pair = defence.inference_view([("the story", "was wonderful .")] * 12, range(12), encode, CPU)
    assert len({tuple(row) for row in pair.input_ids.tolist()}) > 3


@pytest.mark.slow
def test_a_copy_shows_the_same(encode: Encode) -> None:
    """Copies number words anew, so that numbers which the first one remembers mean nothing to them."""
    defence = made(encode, synonyms="mixture", votes=6)
    texts = ["the story was wonderful .", "a clumsy picture , qzxvkj"]
    for text in texts:  # words get their numbers in another order than below
        defence.training_view([text], [1], encode, torch.Generator().manual_seed(0))
        defence.inference_view([text] * 6, range(6), encode, CPU)
    other = deepcopy(defence)
    for text in reversed(texts):
        one, two = (each.inference_view([text] * 6, range(6), encode, CPU) for each in (defence, other))
        assert torch.equal(one.input_ids, two.input_ids)
        one, two = (each.training_view([text], [1], encode, torch.Generator().manual_seed(1))
                    for each in (defence, other))
        assert torch.equal(one.input_ids, two.input_ids)


@pytest.mark.parametrize(("steps", "passes"), [(0, [False]), (3, [True, True, True])])
def test_steps_are_taken_as_in_freelb(encode: Encode, steps: int, passes: list[bool]) -> None:
    defence, moved = made(encode, steps=steps), list[bool]()
    batch = defence.training_view(["a fine film"], [1], encode, torch.Generator().manual_seed(0))

    def loss(batch: Batch, embeddings: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        moved.append(embeddings is not None)
        words = defence.table(batch.input_ids) if embeddings is None else embeddings
        return words.square().sum(), words.sum(dim=(1, 2))

    defence.learn(loss, batch, lambda value: value.backward())
    assert moved == passes


# Accounts


def test_the_account_tells_what_was_read_and_why(fitted: DDMRestore) -> None:
    text = "the stroy was qzxvkj"
    account = fitted.account(text)
    assert [(one.written, one.becomes is None, one.action) for one in account] == [
        ("stroy", False, "restored"), ("qzxvkj", True, "masked")]
    assert all(text[one.start:one.end] == one.written and one.why for one in account)
    assert [one.part for one in fitted.account(("the story", "a stroy"))][-1] == 1


def test_explanations_show_it(tiny: Callable[[str], Path], data: Dataset, fitted: DDMRestore) -> None:
    model, tokenizer = load_encoder(tiny("bert"), data.labels)
    classifier = DefendedClassifier(model, tokenizer, fitted, labels=data.labels, max_length=64)
    (found,) = classifier.predict(["the stroy was qzxvkj"], explain=True).masked or ()
    assert [(one.text, one.becomes) for one in found][-1] == ("qzxvkj", None) and "restored" in found[0].why
    assert classifier.predict(["the stroy"], explain=True, defended=False).masked == [[]]
    (spans,) = hidden_spans(classifier, ["the stroy was qzxvkj"])  # as records keep it, and reports show it
    assert spans == tuple((one.start, one.end, 0) if one.becomes is None else (one.start, one.end, 0, one.becomes)
                          for one in found) and {len(one) for one in spans} == {3, 4}


# Storage


def test_it_reads_the_same_after_storage(fitted: DDMRestore) -> None:
    other = build_defence("ddm-restore", options={"synonyms": "head"})
    other.restore(fitted.state_dict())
    assert isinstance(other, DDMRestore) and isinstance(other.rewriting, Rewriting)
    for text in ["the stroy was qzxvkj", "a marvellous musik", *(one.text for one in reviews(10))]:
        assert other.account(text) == fitted.account(text)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(OptionError, match="budget"):
        build_defence("ddm-restore", options={"budget": 1.5})
    with pytest.raises(OptionError, match="thesaurus"):
        build_defence("ddm-restore", options={"sources": ("thesaurus",)})


@pytest.mark.slow
@pytest.mark.parametrize("family", [*ABSOLUTE, *RELATIVE])
def test_every_family_of_encoders_takes_means_of_synonyms(
    family: str, tiny: Callable[[str], Path], data: Dataset, tmp_path: Path,
) -> None:
    classifier = train(data, encoder=tiny(family), defence="ddm-restore", out=tmp_path / "model", progress=False,
                       training={"epochs": 1, "max_length": 48, "batch_size": 16})
    texts = ["a wonderful film", "the story was dreadful, a pity", ""]
    assert int(classifier.first_view(texts[:1]).input_ids.max()) >= FIRST
    again = load(tmp_path / "model")
    assert torch.equal(again.predict(texts).probabilities, classifier.predict(texts).probabilities)

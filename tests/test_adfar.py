# SPDX-License-Identifier: Apache-2.0
"""ADFAR: its randomisation, its four sets, its two losses, and which view answers for a text that looks adversarial."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import ceil, exp, log
from pathlib import Path

import numpy as np
import pytest
import torch
from attack_stand_ins import NEAR, SentenceVectors, Tagger, run, stand_ins, tiny_classifier
from attack_stand_ins import Synonyms as NearWords
from conftest import reviews
from torch import Tensor

from dualmask.attacks import build_attack
from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.adfar import ADFAR, ADFAROptions
from dualmask.errors import OptionError
from dualmask.models.encoders import load_encoder
from dualmask.models.observation import watched
from dualmask.options import make_options
from dualmask.results import FORMAT, AttackResult, ResultFile
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.randomisation import FrequentSynonyms
from dualmask.text.stop_words import stop_words
from dualmask.text.synonyms import Pairs, Synonyms, shipped_synonyms
from dualmask.text.words import Words
from dualmask.training import train

DEFENCES.setdefault("adfar", ADFAR)
Tiny = Callable[[str], Path]
NOBODY: DefendedClassifier = None  # type: ignore[assignment]
SHORT = {"epochs": 2, "max_length": 40, "learning_rate": 1e-6, "batch_size": 16, "seed": 3}
TEXTS: list[Text] = [example.text for example in reviews(20, seed=9)]
LONG = "superb movie of good and dull plot with the awful but fine scene in a great film and actor"


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """What TextFooler loads by itself."""
    monkeypatch.setattr("dualmask.models.sentences.find_sentence_encoder", lambda *_, **__: SentenceVectors())
    monkeypatch.setattr("dualmask.text.synonyms.find_synonyms", lambda _: NearWords(NEAR))
    monkeypatch.setattr("dualmask.text.tagging.find_tagger", lambda _: Tagger({"rare": "ADV"}))


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def untrained(tiny: Tiny, data: Dataset, **options: object) -> DefendedClassifier:
    """A network that is unsure of itself, and a defence that suspects nobody yet."""
    plain = tiny_classifier(tiny("bert"), "plain", data)
    return DefendedClassifier(plain.model, plain.encode.tokenizer, ADFAR(make_options(ADFAROptions, options)),
                              labels=data.labels, max_length=40)


def of(classifier: DefendedClassifier) -> ADFAR:
    assert isinstance(classifier.defence, ADFAR)
    return classifier.defence


@pytest.fixture(scope="module")
def right(tiny: Tiny, data: Dataset) -> list[Example]:
    """Texts under the labels that the network gives them, each once."""
    texts = list(dict.fromkeys(example.text for example in reviews(60, seed=4)))
    labels = untrained(tiny, data).predict(texts).probabilities.argmax(dim=1).tolist()
    return [Example(text, label) for text, label in zip(texts, labels, strict=True)]


# Randomisation


def table(words: Sequence[str], cosines: dict[str, float]) -> Synonyms:
    """Words from frequent to rare, and how near some of them are to 'film'."""
    film = words.index("film")
    rows = sorted((*sorted((film, words.index(word))), cosine) for word, cosine in cosines.items())
    first, second, near = (np.array(column) for column in zip(*rows, strict=True))
    return Synonyms(words, Pairs(first, second, near.astype(np.float32)))


RANKED = ["film", "the", *(f"word{rank:02}" for rank in range(30))]
COSINES = {f"word{rank:02}": 0.99 - 0.02 * ((7 * rank) % 30) for rank in range(30)}  # nearness is not frequency


@pytest.fixture
def synonyms() -> FrequentSynonyms:
    return FrequentSynonyms(table(RANKED, COSINES))


def test_synonyms_are_the_most_frequent_of_the_near_ones(synonyms: FrequentSynonyms) -> None:
    nearest = sorted(COSINES, key=lambda word: -COSINES[word])[:20]
    near = [word for word in RANKED if word in nearest and COSINES[word] >= 0.7 - 1e-6]
    assert 10 < len(near) < 20 < len([word for word in COSINES if COSINES[word] > 0.5])
    assert synonyms("film") == near[:10] and synonyms("unknown") == [] == synonyms("the")


def test_each_of_them_is_drawn_as_often(synonyms: FrequentSynonyms) -> None:
    drawn = Counter(synonyms.randomised("film", 1.0, seed) for seed in range(4000))
    assert set(drawn) == set(synonyms("film"))
    assert all(abs(count - 400) < 4 * (4000 * 0.1 * 0.9) ** 0.5 for count in drawn.values())


def test_so_many_words_are_drawn_and_stop_words_among_them_stay(synonyms: FrequentSynonyms) -> None:
    text = " ".join(["film"] * 10)
    for rate, count in ((0.0, 0), (0.25, 2), (0.3, 3), (1.0, 10)):
        found = [Words(synonyms.randomised(text, rate, seed)).words for seed in range(50)]
        assert {sum(word != "film" for word in words) for words in found} == {count}
    places = Counter(place for seed in range(2000) for place, word in enumerate(
        Words(synonyms.randomised(text, 0.3, seed)).words) if word != "film")
    assert all(abs(count - 600) < 4 * (2000 * 0.3 * 0.7) ** 0.5 for count in places.values())
    half = [Words(synonyms.randomised("the film The film of film and film", 0.5, seed)).words for seed in range(200)]
    assert all([word for word in words if word.lower() in stop_words("textfooler")] == ["the", "The", "of", "and"]
               for words in half)
    assert 1.8 < np.mean([sum(word.startswith("word") for word in words) for words in half]) < 2.2
    assert synonyms.randomised("film film film", 0.3, 0) == "film film film", "less than one word is none"


def test_all_around_the_words_stays_and_pairs_are_pairs(synonyms: FrequentSynonyms) -> None:
    found = synonyms.randomised(("A Film, (film)!\n", "FILM  film?"), 1.0, 3)
    assert isinstance(found, tuple) and found[0].startswith("A Word") and found[0].endswith(")!\n")
    assert found[1].startswith("WORD") and found[1].endswith("?") and "  " in found[1]
    assert synonyms.randomised("", 1.0, 0) == "" and synonyms.randomised("?!", 1.0, 0) == "?!"


def test_draws_come_from_the_seed_and_the_text(synonyms: FrequentSynonyms) -> None:
    once, again, other = (synonyms.randomised("film film film", 1.0, seed) for seed in (1, 1, 2))
    assert once == again != other
    longer = [str(synonyms.randomised("film film film film", 1.0, seed)) for seed in range(9)]
    assert any(not text.startswith(str(synonyms.randomised("film film film", 1.0, seed)))
               for seed, text in enumerate(longer))


def test_the_shipped_table_lists_frequent_words_first() -> None:
    words = shipped_synonyms().words
    assert [words.index(word) for word in ("the", "good", "superb", "peaky")] == sorted(
        words.index(word) for word in ("the", "good", "superb", "peaky"))
    near = FrequentSynonyms(shipped_synonyms())
    assert len(near("superb")) == 10
    assert all(shipped_synonyms().cosine("superb", word) >= 0.7 for word in near("superb"))  # type: ignore[operator]


# Four sets


def test_an_epoch_is_clean_adversarial_and_both_randomised(tiny: Tiny, data: Dataset, right: list[Example]) -> None:
    classifier = untrained(tiny, data)
    defence = of(classifier)
    assert defence.augment(right, 0, draw(), NOBODY) is right
    epoch = list(defence.augment(right, 1, draw(), classifier))
    count = len(epoch) // 2 - len(right)
    fooled = epoch[len(right):len(right) + count]
    found = run(classifier, build_attack("textfooler", preset="paper", options={"neighbours": 30, "queries": 200},
                                         tools=stand_ins(tagger=Tagger({"rare": "ADV"}))), right)
    won = [Example(one.adversarial, one.label) for one in found if one.outcome == "succeeded" and one.adversarial]
    assert sorted(fooled) == sorted(won) and 0 < len(won) < len(right)
    assert epoch[:len(right)] == right and len(epoch) == 2 * (len(right) + count)
    for plain, copy in zip(epoch[:len(epoch) // 2], epoch[len(epoch) // 2:], strict=True):
        assert copy == (defence.synonyms.randomised(plain.text, 0.25, 0), plain.label)
    assert any(plain != copy for plain, copy in zip(epoch[:len(epoch) // 2], epoch[len(epoch) // 2:], strict=True))
    assert defence.augment(right, 2, draw(9), NOBODY) == epoch, "made once"


def test_a_share_of_the_examples_is_attacked(tiny: Tiny, data: Dataset, right: list[Example]) -> None:
    classifier = untrained(tiny, data, share=0.1, clean_epochs=0)
    epoch = of(classifier).augment(right, 0, draw(), classifier)
    assert 0 < len(epoch) // 2 - len(right) <= ceil(0.1 * len(right))
    spent = of(untrained(tiny, data, queries=1, clean_epochs=0))
    assert len(spent.augment(right, 0, draw(), classifier)) == 2 * len(right)


def recorded(path: Path, pairs: Sequence[tuple[Example, Text | None]]) -> Path:
    """A file as `dualmask attack` writes it; without an adversarial text the attack has failed."""
    file = ResultFile(path, {"format": FORMAT}, resume=False, overwrite=False)
    for index, (example, adversarial) in enumerate(pairs):
        file.add(AttackResult(
            index=index, text=example.text, label=example.label, outcome="succeeded" if adversarial else "failed",
            adversarial=adversarial or "a failed try", clean=example.label, predicted=1 - example.label,
            probability=0.9, probability_after=0.2, queries=9, rows=9, gradients=0, words=4, changed=1,
            similarity=None, seconds=0.1))
    file.close()
    return path


def test_records_are_used_from_the_first_epoch_on(tiny: Tiny, data: Dataset, tmp_path: Path) -> None:
    pairs = [(example, f"rare {example.text}" if place % 3 else None)
             for place, example in enumerate(dict.fromkeys(data.train[:30]))]
    classifier = untrained(tiny, data, records=str(recorded(tmp_path / "records", pairs)))
    classifier.fit_defence(data.train)
    epoch = of(classifier).augment(data.train, 0, draw(), NOBODY)
    expected = sorted(Example(adversarial, example.label) for example, adversarial in pairs if adversarial
                      for one in data.train if one == example)
    assert sorted(epoch[len(data.train):len(epoch) // 2]) == expected


# The loss


def network(classes: int, rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits of labels and of anomalies."""
    return torch.randn(rows, classes, generator=draw(seed)), torch.randn(rows, generator=draw(seed + 1))


def test_the_loss_against_values_computed_by_hand(
    tiny: Tiny, data: Dataset, monkeypatch: pytest.MonkeyPatch,
) -> None:
    classifier = untrained(tiny, data)
    defence = of(classifier)
    logits, anomaly = network(2, 6)
    monkeypatch.setattr(defence, "heads", lambda *_: (logits, anomaly))
    defence._clean, defence._plain = 10, 14  # clean: 0 to 9; adversarial: 10 to 13; randomised: 14 and on
    labels, numbers = [0, 1, 1, 0, 1, 0], [3, 9, 10, 13, 14, 40]
    batch = replace(classifier.encode(TEXTS[:6]).with_labels(labels), examples=torch.tensor(numbers))
    loss, answer = defence.loss(classifier.network, batch)
    by_label = [log(sum(exp(one) for one in row)) - row[label]
                for row, label in zip(logits.tolist(), labels, strict=True)]
    right = [1 / (1 + exp(-one)) for one in anomaly.tolist()]
    by_kind = [-log(1 - right[0]), -log(1 - right[1]), -log(right[2]), -log(right[3])]
    assert float(loss) == pytest.approx(sum(by_label) / 6 + sum(by_kind) / 4, rel=1e-5)
    assert answer is logits
    for unknown in (replace(batch, examples=None), replace(batch, examples=torch.tensor([20] * 6))):
        assert float(defence.loss(classifier.network, unknown)[0]) == pytest.approx(sum(by_label) / 6, rel=1e-5)


def test_before_the_attack_nothing_moves_the_anomaly_head(tiny: Tiny, data: Dataset) -> None:
    classifier = untrained(tiny, data)
    defence = of(classifier)
    batch = replace(classifier.encode(TEXTS[:6]).with_labels([0, 1] * 3), examples=torch.arange(6))
    defence.loss(classifier.network, batch)[0].backward()
    assert all(weight.grad is not None and not weight.grad.any() for weight in defence.parameters())
    defence._clean, defence._plain = 3, 6
    defence.loss(classifier.network, batch)[0].backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in defence.parameters())


def test_both_heads_read_one_pass(tiny: Tiny, data: Dataset) -> None:
    classifier = untrained(tiny, data)
    defence, batch = of(classifier), classifier.encode(TEXTS[:5])
    with torch.no_grad():
        defence.anomaly.weight.normal_(generator=draw())
    for embeddings in (None, torch.randn(*batch.input_ids.shape, 16, generator=draw())):
        classifier.network.take()
        logits, anomaly = defence.heads(classifier.network, batch, embeddings)
        assert classifier.network.take()[0] == 1
        states = classifier.network(batch, embeddings, states=True)
        assert torch.allclose(anomaly, defence.anomaly(states[:, 0]).squeeze(1), atol=1e-5)
        assert torch.allclose(logits, classifier.network(batch, embeddings), atol=1e-6)
    assert not classifier.model.base_model._forward_hooks, "nothing stays on the model"


@pytest.mark.parametrize("family", ["roberta", "distilbert", "electra", "mpnet", "deberta-v2", "modernbert"])
def test_every_family_tells_its_first_state(family: str, tiny: Tiny, data: Dataset) -> None:
    model, tokenizer = load_encoder(tiny(family), data.labels)
    classifier = DefendedClassifier(model, tokenizer, ADFAR(), labels=data.labels, max_length=40)
    with watched(model) as seen:
        classifier.predict(TEXTS[:3], defended=False)
    assert seen["states"][:, 0].shape == (3, 16)


# The answer


def set_head(classifier: DefendedClassifier, weight: float, bias: float = 0.0) -> DefendedClassifier:
    with torch.no_grad():
        of(classifier).anomaly.weight.normal_(std=weight, generator=draw())
        of(classifier).anomaly.bias.fill_(bias)
    return classifier


def divided(classifier: DefendedClassifier, texts: Sequence[Text]) -> DefendedClassifier:
    """With a head that suspects about half of the texts."""
    found = set_head(classifier, 1.0).predict(texts).suspicion
    assert found is not None
    return set_head(classifier, 1.0, -float(found.logit().median()) - 1e-3)


def test_the_mean_of_the_logits_is_the_anomalys(tiny: Tiny, data: Dataset) -> None:
    classifier = set_head(untrained(tiny, data), 1.0, 0.3)
    defence, batch = of(classifier), classifier.encode(TEXTS)
    logits, anomaly = defence.heads(classifier.network, batch, None)
    answer = defence.answer(classifier.network, batch)
    assert torch.allclose(answer.softmax(dim=1), logits.softmax(dim=1), atol=1e-5)
    assert torch.allclose(defence.suspicion(answer[None]), anomaly.sigmoid(), atol=1e-5)


def test_untrained_it_suspects_nobody_and_answers_like_the_network(tiny: Tiny, data: Dataset) -> None:
    found = (classifier := untrained(tiny, data)).predict(TEXTS)
    assert found.passes is not None and found.passes.tolist() == [1] * len(TEXTS)
    assert torch.allclose(found.probabilities, classifier.predict(TEXTS, defended=False).probabilities, atol=1e-5)
    assert found.suspicion is not None and (found.suspicion < 0.5).all() and of(classifier).threshold == 0.5


def test_who_is_suspected_is_answered_from_other_words(tiny: Tiny, data: Dataset) -> None:
    texts = [*TEXTS, LONG]
    classifier = divided(untrained(tiny, data, test_rate=1.0), texts)
    defence = of(classifier)
    others = [defence.synonyms.randomised(text, 1.0, seed) for text, seed in
              zip(texts, defence.seeds(texts, [1] * len(texts)).tolist(), strict=True)]
    plain, changed = (classifier.predict(those, defended=False).probabilities for those in (texts, others))
    found = classifier.predict(texts)
    flagged = found.suspicion > 0.5  # type: ignore[operator]
    assert 3 < int(flagged.sum()) < len(texts) - 3
    assert torch.allclose(found.probabilities, torch.where(flagged[:, None], changed, plain), atol=1e-5)
    assert not torch.allclose(changed[flagged], plain[flagged], atol=1e-2)
    assert found.passes is not None and found.passes.tolist() == (1 + flagged.long()).tolist()
    assert torch.allclose(classifier.predict(texts, most=1).probabilities, plain, atol=1e-5)


def test_the_rule_holds_whatever_views_there_are() -> None:
    defence = ADFAR()
    logits = torch.tensor([[[1.0, -1.1], [3.0, -2.0]], [[5.0, 6.0], [8.0, 9.0]]])  # means of view 0: -0.05, 0.5
    assert defence.combine(logits).tolist() == [[pytest.approx(1.0), pytest.approx(-1.1)], [8.0, 9.0]]
    assert defence.combine(logits[:1]).tolist() == logits[0].tolist()
    assert defence.wanted(logits[:1], torch.ones(2, dtype=torch.long), early=True).tolist() == [0, 1]
    assert defence.wanted(logits, torch.full((2,), 2), early=False).tolist() == [0, 0]
    assert defence.wanted(torch.zeros(0, 2, 2), torch.zeros(2, dtype=torch.long), early=False).tolist() == [1, 1]
    nothing = torch.zeros(0, 0, 2)
    assert defence.combine(nothing).shape == (0, 2) and defence.suspicion(nothing).shape == (0,)


def test_noise_is_the_texts_own_redrawn_or_fresh(tiny: Tiny, data: Dataset) -> None:
    def answers(classifier: DefendedClassifier) -> Tensor:
        return set_head(classifier, 0.0, 9.0).predict([LONG] * 8).probabilities[:, 0]

    classifier = untrained(tiny, data, test_rate=0.5)
    first = answers(classifier)
    assert (first - first[0]).abs().max() < 1e-5 and torch.equal(first, answers(classifier))
    classifier.defence.redraw(1)
    assert not torch.allclose(first, answers(classifier), atol=1e-4)
    assert not torch.allclose(first, answers(untrained(tiny, data, test_rate=0.5, noise_seed=1)), atol=1e-4)
    fresh = untrained(tiny, data, test_rate=0.5, noise="fresh")
    assert fresh.defence.noise == "fresh" and answers(fresh).std() > 1e-4


@pytest.mark.parametrize("wrong", [{"share": 2}, {"queries": 0}, {"train_rate": -1}, {"test_rate": 1.2},
                                   {"clean_epochs": -1}, {"noise": "none"}])
def test_impossible_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        make_options(ADFAROptions, wrong)


# As a whole


@pytest.fixture(scope="module")
def start(tiny: Tiny, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that has its texts right, since few steps teach a tiny one nothing."""
    return tiny_classifier(tiny("bert"), "plain", data).save(tmp_path_factory.mktemp("start"))


def trained(start: Path, right: list[Example], name: str = "adfar", **options: object) -> DefendedClassifier:
    data = Dataset("own", ("bad", "good"), right[:48], right[48:], None)
    return train(data, encoder=start, defence=name, options={"clean_epochs": 0, **options}, training=SHORT,
                 progress=False)


def test_training_attacks_learns_and_is_saved(start: Path, right: list[Example], tmp_path: Path) -> None:
    data = Dataset("own", ("bad", "good"), right[:48], right[48:], None)
    classifier = train(data, encoder=start, defence="adfar", training=SHORT, out=tmp_path / "model", progress=False)
    assert 3 + 6 < int(str(classifier.facts["steps"])) <= 3 + 12, "from the second epoch on there are four sets"
    divided(classifier, TEXTS).save(tmp_path / "again")
    again = DefendedClassifier.load(tmp_path / "again", device="cpu")
    before, after = (one.predict([*TEXTS, LONG]) for one in (classifier, again))
    assert torch.equal(before.probabilities, after.probabilities) and before.passes is not None
    assert torch.equal(before.suspicion, after.suspicion)  # type: ignore[arg-type]
    assert set(before.passes.tolist()) == {1, 2}
    assert asdict(of(again).options) == asdict(of(classifier).options)


def test_the_same_seed_gives_the_same_weights(start: Path, right: list[Example]) -> None:
    first, second, clean = (trained(start, right, share=share).network.state_dict() for share in (1.0, 1.0, 0.0))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], clean[name]) for name in first)


def test_it_learns_to_tell_adversaries(tiny: Tiny, data: Dataset) -> None:
    """Adversaries that all have one word in common are soon known by it."""
    classifier = untrained(tiny, data)
    defence, clean = of(classifier), data.train[:24]
    changed = [example._replace(text=f"rare rare {example.text}") for example in clean]
    defence._found = changed
    epoch = defence.augment(clean, 1, draw(), NOBODY)
    batch = replace(classifier.encode([one.text for one in epoch]).with_labels([one.label for one in epoch]),
                    examples=torch.arange(len(epoch)))
    optimiser = torch.optim.AdamW([{"params": classifier.model.parameters()},
                                   {"params": defence.parameters(), "lr": 3e-2}], lr=1e-3)
    for _ in range(250):
        optimiser.zero_grad()
        defence.loss(classifier.network, batch)[0].backward()
        optimiser.step()
    suspected = classifier.predict([one.text for one in (*clean, *changed)]).suspicion
    assert suspected is not None
    assert (suspected[:24] < 0.5).float().mean() > 0.8 and (suspected[24:] > 0.5).float().mean() > 0.8


def test_together_with_steps_on_embeddings_it_still_takes_one_pass_a_step(start: Path, right: list[Example]) -> None:
    both = trained(start, right, "freelb+adfar", steps=2)
    cost = both.facts["cost"]
    assert isinstance(cost, dict) and cost["backward_passes"] == 2 * int(str(both.facts["steps"]))
    assert both.defence.threshold == 0.5 and both.predict(TEXTS).suspicion is not None
    assert build_defence("freelb+adfar").views == 2


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "mpnet", "deberta-v2", "modernbert"])
def test_the_pooled_head_reads_what_the_labels_last_layer_reads(family: str, tiny: Tiny, data: Dataset) -> None:
    """The released head is one layer on the pooled state after dropout, beside the one for the labels."""
    model, tokenizer = load_encoder(tiny(family), data.labels)
    defence = ADFAR(ADFAROptions(anomaly="pooled"))
    found = DefendedClassifier(model, tokenizer, defence, labels=data.labels, max_length=40)
    last = found.model.classifier
    last = last if isinstance(last, torch.nn.Linear) else last.out_proj
    with torch.no_grad():
        defence.anomaly.weight.copy_(last.weight[1:])  # so that both say the same of the same
        defence.anomaly.bias.copy_(last.bias[1:])
    batch = found.encode([str(text) for text in TEXTS[:4]])
    for training in (False, True):
        found.network.train(training)
        answer, anomaly = defence.heads(found.network, batch, None)
        assert torch.allclose(anomaly, answer[:, 1], atol=1e-6)
    assert ADFAROptions().anomaly == "state", "models that were saved before do not say it"


def test_the_pooled_head_of_bert_by_hand(tiny: Tiny, data: Dataset) -> None:
    found = untrained(tiny, data, anomaly="pooled")
    defence, model, batch = of(found), found.model.eval(), found.encode([str(text) for text in TEXTS[:4]])
    torch.manual_seed(2)
    torch.nn.init.normal_(defence.anomaly.weight)
    with torch.no_grad(), watched(model) as seen:
        _, anomaly = defence.heads(found.network.eval(), batch, None)
        pooled = torch.tanh(seen["states"][:, 0] @ model.bert.pooler.dense.weight.T + model.bert.pooler.dense.bias)
        expected = pooled @ defence.anomaly.weight[0] + defence.anomaly.bias
    assert torch.allclose(anomaly, expected, atol=1e-5) and expected.std() > 1e-3


def test_the_card_and_presets() -> None:
    assert set(ADFAR.card().sections) == {"Paper", "Idea", "Acts at", "Deviations", "Relations"}
    assert ADFAR.presets["paper"].options == {"queries": None, "anomaly": "pooled"}
    assert ADFAR.noise.fget(ADFAR()) == "text"  # type: ignore[attr-defined]


def test_it_says_how_many_passes_a_text_takes(tiny: Tiny, data: Dataset) -> None:
    defence = of(untrained(tiny, data))
    assert (defence.views, defence.pass_count, ADFAR.passes) == (2, "1 to 2", "1 to 2")

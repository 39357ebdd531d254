# SPDX-License-Identifier: Apache-2.0
"""FGWS: what it replaces, how suspicious a text is, whom it flags, and how it is tuned."""

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from math import floor, log1p
from pathlib import Path

import numpy as np
import pytest
import torch
from attack_stand_ins import Lexicon, tiny_classifier
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dualmask.attacks import build_attack
from dualmask.attacks.running import Assault
from dualmask.checksums import sealed
from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES
from dualmask.defences.fgws import FGWS, FGWSOptions
from dualmask.errors import OptionError
from dualmask.evaluation.protocol import shortened
from dualmask.models.encoders import load_tokenizer
from dualmask.text import substitutes as module
from dualmask.text.encoding import Encode
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.frequencies import WordCounts
from dualmask.text.stop_words import stop_words
from dualmask.text.substitutes import Substitutes, rewritten
from dualmask.text.synonyms import Pairs, Synonyms, shipped_synonyms
from dualmask.text.words import Words
from dualmask.training import train

# word -> cosine with others; the table itself is symmetric
NEAR = {
    ("great", "superb"): 0.95, ("great", "splendid"): 0.9, ("great", "good"): 0.8, ("good", "fine"): 0.9,
    ("good", "superb"): 0.7, ("bad", "awful"): 0.95, ("bad", "poor"): 0.9, ("bad", "dire"): 0.85,
    ("film", "movie"): 0.99, ("film", "flick"): 0.8, ("fine", "well-made"): 0.75,
}
COUNTS = {"the": 60, "movie": 20, "good": 12, "film": 8, "bad": 8, "great": 5, "superb": 2, "fine": 2, "awful": 1,
          "well-made": 1}


def synonyms(near: Mapping[tuple[str, str], float]) -> Synonyms:
    words = sorted({word for pair in near for word in pair})
    rows = sorted((*sorted(map(words.index, pair)), cosine) for pair, cosine in near.items())
    first, second, cosines = (np.array(column) for column in zip(*rows, strict=True))
    return Synonyms(words, Pairs(first, second, cosines.astype(np.float32)))


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Synonyms:
    found = synonyms(NEAR)
    monkeypatch.setattr(module, "shipped_synonyms", lambda: found)
    return found


def training_texts(counts: dict[str, int]) -> list[Example]:
    return [Example(" ".join([word] * count), 0) for word, count in counts.items()]


def fitted(counts: dict[str, int] = COUNTS, **options: object) -> FGWS:
    defence = FGWS(FGWSOptions(**options))  # type: ignore[arg-type]
    defence.fit(training_texts(counts), None)  # type: ignore[arg-type]
    return defence


# Replacing words


def frequent(near: Substitutes, text: Text, delta: float) -> Text:
    return near.frequent([text], delta)[0]


@pytest.mark.usefixtures("table")
def test_rare_words_give_way_to_the_most_frequent_near_word() -> None:
    near = fitted().substitutes
    delta = log1p(6)  # words seen five times or less are rare
    assert frequent(near, "the great film", delta) == "the good film"
    assert frequent(near, "a Superb, SPLENDID flick!", delta) == "a Good, GREAT film!"
    assert frequent(near, "dire (awful) acting", delta) == "bad (bad) acting"
    assert frequent(near, "(Well-Made)\n fine  fare.", delta) == "(fine)\n good  fare."
    assert frequent(near, ("Great film", "superb."), delta) == ("Good film", "good.")
    assert frequent(near, "film", log1p(9)) == "movie" and frequent(near, "", delta) == ""
    assert frequent(near, "the iPhone", 99.0) == "the iPhone"


@pytest.mark.usefixtures("table")
def test_delta_is_an_open_bound() -> None:
    near = fitted().substitutes
    assert frequent(near, "great", log1p(5)) == "great"
    assert frequent(near, "great", log1p(5) + 1e-9) == "good"
    assert frequent(near, "dire", 0.0) == "dire" and frequent(near, "dire", 1e-9) == "bad"


@pytest.mark.usefixtures("table")
def test_every_replacement_by_brute_force(table: Synonyms) -> None:
    near = fitted().substitutes
    for most in (1, 2, 50):
        near.neighbours.fill_(most)
        for word in [*table.words, "the", "unknown"]:
            others = [other for other, _ in table.neighbours(word, most)]
            best = max([COUNTS.get(word, 0), *(COUNTS.get(other, 0) for other in others)])
            found = str(frequent(near, word, 99.0))
            assert COUNTS.get(found, 0) == best and found in [word, *others]
            assert (found == word) == (COUNTS.get(word, 0) == best), "only a more frequent word is taken"


@pytest.mark.usefixtures("table")
def test_what_is_remembered_goes_with_new_counts() -> None:
    near = fitted().substitutes
    assert frequent(near, "flick", 9.0) == "film"
    near.counts.fit(["flick flick flick film"])
    assert frequent(near, "flick", 9.0) == "flick" and frequent(near, "film", 9.0) == "flick"
    again = Substitutes(6)
    assert frequent(again, "film", 9.0) == "film"
    again.load_state_dict({}, strict=False)
    again.counts.letters, again.counts.counts = near.counts.letters, near.counts.counts
    assert frequent(again, "film", 9.0) == "flick"


@pytest.mark.usefixtures("table")
def test_made_up_words_leave_no_trace() -> None:
    near = fitted().substitutes
    near.frequent(["a superb film"], 9.0)
    before = pickle.dumps(near)
    assert near.frequent([f"word{number} a{'b' * number}" for number in range(50)], 9.0)
    assert pickle.dumps(near) == before


@given(st.text(alphabet="ab -'.,\n", max_size=30))
def test_rewriting_keeps_all_but_the_words(text: str) -> None:
    spans = Words(text).spans
    found = str(rewritten(text, lambda word: f"<{word}>"))
    for start, end in reversed(spans):
        text = f"{text[:start]}<{text[start:end]}>{text[end:]}"
    assert found == text


@pytest.mark.usefixtures("table")
def test_wordnet_adds_its_single_words(monkeypatch: pytest.MonkeyPatch) -> None:
    lexicon = Lexicon({"dire": ["dire", "Fine", "the_end", "awful"], "film": ["film", "movie", "motion_picture"]})
    monkeypatch.setattr("dualmask.text.wordnet.load_wordnet", lambda: lexicon)
    both = fitted(synonyms="both").substitutes
    assert both.near("dire", 6) == ["fine", "awful", "bad"] and both.near("film", 1) == ["movie"]
    assert both.mean_synonyms([("dire film", "Film!"), "unknown"]) == (2 + 1 + 0) / 3
    assert fitted().substitutes.near("dire", 6) == ["bad"]
    tuned = fitted(synonyms="both", neighbours=0, percentile=50)
    assert int(tuned.substitutes.neighbours) == 0
    tuned.tune(lambda texts: torch.zeros(2, len(texts), 2), [Example("dire", 0), Example("film", 0)])
    assert int(tuned.substitutes.neighbours) == 2  # of 1.5
    lexicon.table["good"] = ["fine"]
    tuned.tune(lambda texts: torch.zeros(2, len(texts), 2), [Example(word, 0) for word in ("dire", "film", "good")])
    assert int(tuned.substitutes.neighbours) == 2, "of 4 / 3: rounded up"


def test_the_release_looks_among_the_words_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """'splendid' and 'dire' are not among them: one is nobody's neighbour, and the other has none."""
    monkeypatch.setattr(module, "shipped_synonyms", lambda: synonyms(NEAR))
    own, usual = (fitted(nearest=nearest).substitutes for nearest in ("release", "table"))
    assert own.near("great", 2) == ["superb", "good"] and usual.near("great", 2) == ["superb", "splendid"]
    assert own.near("dire", 6) == [] and usual.near("dire", 6) == ["bad"]
    assert frequent(own, "a dire and great film", 2.0) == "a dire and good film"
    lexicon = Lexicon({"dire": ["dire", "bad", "awful"]})
    monkeypatch.setattr("dualmask.text.wordnet.load_wordnet", lambda: lexicon)
    assert frequent(fitted(nearest="release", synonyms="both").substitutes, "dire", 2.0) == "bad"
    assert fitted(nearest="release").substitutes.near("bad", 1) == ["awful"]


def test_of_equally_frequent_words_the_release_takes_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "shipped_synonyms", lambda: synonyms({("aa", "word"): 0.9, ("bb", "word"): 0.8}))
    counts = {"word": 1, "aa": 3, "bb": 3}
    assert frequent(fitted(counts, nearest="release").substitutes, "word", 1.0) == "bb"
    assert frequent(fitted(counts).substitutes, "word", 1.0) == "aa"
    equal = fitted({"word": 3, "aa": 3, "bb": 3}, nearest="release").substitutes
    assert frequent(equal, "word", 9.0) == "word", "none is more frequent"


def test_rarer_words_are_rarer_and_drawn_by_the_text() -> None:
    near = Substitutes(6)
    text = "The good movie, with a great plot and the worst actor of all, was a very sad film about a happy house."
    near.counts.fit([text] * 9 + ["superb great flick picture gloomy cheerful"])
    made = {seed: str(near.rarer([text], 0.5, seed)[0]) for seed in range(40)}
    assert made == {seed: near.rarer(["", text], 0.5, seed)[1] for seed in range(40)} and len(set(made.values())) > 30
    old, changed = Words(text).words, 0
    for found in made.values():
        for before, after in zip(old, Words(found).words, strict=True):
            if before != after:
                changed += 1
                assert near.counts(after) < near.counts(before) and before.lower() not in stop_words("nltk")
                assert after.lower() in [word for word, _ in shipped_synonyms().neighbours(before.lower(), 6)]
    content = [word for word in old if word.lower() not in stop_words("nltk")]
    assert 0.3 < changed / (40 * len(content)) < 0.6
    assert near.rarer([text], 0.0, 0) == [text]


# Suspicion, flags, answers


def test_suspicion_by_hand() -> None:
    view0 = torch.tensor([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    view1 = torch.tensor([[0.3, 0.7], [0.1, 0.9], [0.5, 0.5]])
    logits = torch.stack([view0, view1]).log() + 5
    defence = FGWS()
    assert torch.allclose(defence.suspicion(logits), torch.tensor([0.5, 0.0, 0.1]), atol=1e-6)
    assert torch.equal(defence.combine(logits), logits[0]) and defence.threshold is None
    defence.gamma.fill_(0.3)
    assert torch.equal(defence.combine(logits), torch.stack([logits[1, 0], logits[0, 1], logits[0, 2]]))
    assert defence.threshold == pytest.approx(0.3)
    always = FGWS(FGWSOptions(restore="always"))
    assert torch.equal(always.combine(logits), logits[1])
    assert defence.suspicion(logits[:1]).tolist() == [0, 0, 0] and torch.equal(always.combine(logits[:1]), logits[0])
    assert defence.combine(torch.zeros(0, 0, 2)).shape == (0, 2) == always.combine(torch.zeros(0, 0, 2)).shape


def test_noise_between_equal_views_is_no_suspicion() -> None:
    """At gamma 0 a text in which nothing was replaced must not be flagged because its two passes differ."""
    view = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    defence = FGWS()
    defence.gamma.fill_(0.0)
    noise = 1e-5 * torch.randn(view.shape, generator=torch.Generator().manual_seed(1))
    assert not defence.suspicion(torch.stack([view, view + noise])).any()
    assert torch.equal(defence.combine(torch.stack([view, view + noise])), view)
    assert defence.suspicion(torch.stack([view, view.flip(1)])).all()


class Counted(Tensor):
    """A number that counts how often it is read, as a GPU would have to be waited for."""

    reads = 0

    def __int__(self) -> int:
        Counted.reads += 1
        return int(self.as_subclass(Tensor))

    def __float__(self) -> float:
        Counted.reads += 1
        return float(self.as_subclass(Tensor))


@pytest.mark.usefixtures("table")
def test_numbers_are_read_once_for_many_texts(tiny: Callable[[str], Path]) -> None:
    defence = fitted(percentile=100)
    for owner, name in ((defence, "delta"), (defence, "gamma"), (defence.substitutes, "neighbours")):
        setattr(owner, name, getattr(owner, name).as_subclass(Counted))
    encode = Encode(load_tokenizer(tiny("bert")), max_length=40)
    texts = [f"the great film {number}" for number in range(50)]
    reads = []
    for count in (1, 50):
        Counted.reads = 0
        defence.inference_view(texts[:count] * 2, [0] * count + [1] * count, encode, torch.device("cpu"))
        reads.append(Counted.reads)
    assert reads == [2, 2]  # delta and K


@given(st.floats(0, 1, width=32), st.sampled_from([None, 0.0, 1e-5, 0.12345, 0.5]) | st.floats(0, 1, width=32))
def test_short_scores_in_records_tell_the_same_flags(score: float, threshold: float | None) -> None:
    short = shortened(score, threshold)
    assert abs(short - score) <= 5.1e-5 and (threshold is None or (short > threshold) == (score > threshold))
    if threshold is None or abs(score - threshold) > 1e-4:
        assert short == round(score, 4)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.5, 0.9]) | st.floats(0, 1, width=32), min_size=1, max_size=60),
       st.sampled_from([0.0, 0.05, 0.1, 0.29, 0.3, 0.5, 1.0]))
def test_gamma_is_the_least_score_within_the_budget(scores: list[float], budget: float) -> None:
    defence = FGWS(FGWSOptions(false_positives=budget))
    scores = torch.tensor(scores).tolist()  # rounded
    gamma = defence.limit(torch.tensor(scores))
    allowed = floor(round(budget * len(scores), 6))
    assert sum(score > gamma for score in scores) <= allowed
    lower = [score for score in scores if score < gamma]
    assert gamma in scores and (not lower or sum(score > max(lower) for score in scores) > allowed)


def test_a_budget_is_used_up() -> None:
    scores = torch.arange(100) / 100
    for percent in range(100):
        defence = FGWS(FGWSOptions(false_positives=percent / 100))
        assert int((scores > defence.limit(scores)).sum()) == percent


# Tuning, on a classifier whose every word is known


WEIGHTS = {"good": 2.0, "great": 2.0, "superb": -3.0, "splendid": -3.0, "bad": -2.0, "awful": 3.0, "dire": 3.0,
           "poor": 3.0, "film": 0.1, "movie": 0.1, "fine": 6.0, "flick": 0.1, "well-made": -3.0}


def answered(texts: Sequence[Text]) -> Tensor:
    """A classifier that misreads rare words: logits (texts, classes)."""
    scores = torch.tensor([sum(WEIGHTS.get(word.lower(), 0.0) for word in Words(text).words) for text in texts])
    return torch.stack([-scores / 2, scores / 2], dim=1)


def ask(defence: FGWS, asked: list[int]) -> Callable[[Sequence[Text]], Tensor]:
    def logits(texts: Sequence[Text]) -> Tensor:
        asked.append(len(texts) * defence.views)
        shown = [list(texts), defence.substitutes.frequent(texts, float(defence.delta))]
        return torch.stack([answered(view) for view in shown[:defence.views]])

    return logits


def validation(count: int) -> list[Example]:
    """'fine' is a word of its own here: exchanging it for 'bad', as too high a delta does, turns a right answer."""
    kinds = [("the good film", 1), ("a great movie", 1), ("a bad movie", 0), ("the fine film", 1), ("bad film", 0)]
    return [Example(f"{kinds[number % 5][0]} {'the ' * (number % 7)}", kinds[number % 5][1]) for number in range(count)]


MISLEADING = {**{pair: cosine for pair, cosine in NEAR.items() if "fine" not in pair}, ("bad", "fine"): 0.6}
SPREAD = {"the": 90, "movie": 40, "bad": 35, "good": 30, "film": 25, "fine": 12, "great": 30,
          **{f"filler{number}": 1 for number in range(12)}, **{f"other{number}": 20 for number in range(4)},
          **{f"rare{number}": 5 for number in range(4)},
          "superb": 2, "awful": 2}


def test_words_exactly_at_a_percentile_are_not_below_it() -> None:
    counts = WordCounts()
    for times in range(1, 60):
        counts.fit([f"{'good ' * times}"])
        assert not counts.phi("good") < counts.percentile(0.5), times


def test_the_percentile_with_the_best_f1_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = synonyms(MISLEADING)
    monkeypatch.setattr(module, "shipped_synonyms", lambda: found)
    defence = fitted(SPREAD, simulated=1.0)
    assert defence.views == 1 and defence.threshold is None
    asked: list[int] = []
    examples = validation(100)
    trials = list(defence.trials(ask(defence, asked), examples))
    assert [delta for delta, _ in trials] == sorted({defence.substitutes.counts.percentile(tenth / 10)
                                                     for tenth in range(11)})
    assert sum(asked) < 4 * len(examples), "equal texts are asked about once"
    asked.clear()
    defence.tune(ask(defence, asked), examples)
    # unseen words alone (delta ln 2) are found, and seen ones (superb, awful: twice) above ln 3; above ln 13 'fine',
    # one clean text in five, becomes 'bad'
    assert log1p(2) < float(defence.delta) <= log1p(12)
    assert dict(trials)[float(defence.delta)] == max(score for _, score in trials)
    assert min(score for delta, score in trials if delta > log1p(12)) < max(score for _, score in trials)
    assert defence.views == 2 and defence.threshold is not None
    flagged = defence.suspicion(ask(defence, [])([example.text for example in examples])) > defence.threshold
    assert flagged.float().mean() <= 0.1
    again: list[int] = []
    chosen = float(defence.delta), defence.threshold
    defence.tune(ask(defence, again), examples)
    assert (float(defence.delta), defence.threshold) == chosen and again == asked, "as for the first time"
    bad = ["a splendid movie", "dire film", "awful film"]
    logits = ask(defence, asked)(bad)
    assert (defence.suspicion(logits) > defence.threshold).all()
    assert answered(bad).argmax(dim=1).tolist() == [0, 1, 1]
    assert defence.combine(logits).argmax(dim=1).tolist() == [1, 0, 0]


def test_most_adversaries_found_and_of_equals_the_highest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As released; F1 and the lowest of equals choose another delta."""
    near = {pair: cosine for pair, cosine in NEAR.items() if "fine" not in pair}
    monkeypatch.setattr(module, "shipped_synonyms", lambda: synonyms(near))
    examples = [example for example in validation(100) if "fine" not in str(example.text)]
    chosen: dict[str, float] = {}
    for rule in ("found", "f1"):
        defence = fitted(SPREAD, simulated=1.0, chosen_by=rule)
        trials = list(defence.trials(ask(defence, []), examples))
        defence.tune(ask(defence, []), examples)
        chosen[rule] = float(defence.delta)
        best = max(score for _, score in trials)
        equal = [delta for delta, score in trials if score == best]
        assert len(equal) > 1 and chosen[rule] == (max(equal) if rule == "found" else min(equal))
    texts, labels = [one.text for one in examples], torch.tensor([one.label for one in examples])
    changed = defence.substitutes.rarer(texts, 1.0, 0)
    lost = [text for text, is_lost in zip(changed, answered(changed).argmax(dim=1) != labels, strict=True) if is_lost]
    found = fitted(SPREAD, simulated=1.0, chosen_by="found")
    for delta, rate in found.trials(ask(found, []), examples):
        clean, scores = (defence.suspicion(torch.stack([answered(some), answered(
            defence.substitutes.frequent(some, delta))])) for some in (texts, lost))
        assert rate == pytest.approx(float((scores > defence.limit(clean)).float().mean()))


WORDS = {"good": ["good", "fine", "superb", "Well-made"], "film": ["movie", "film", "flick"], "bad": ["poor", "fine"]}


def test_validation_texts_are_attacked_greedily(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in random order give way to what costs the label most, if it costs anything or not: one, or a fifth."""
    monkeypatch.setattr("dualmask.text.wordnet.load_wordnet", lambda: Lexicon(WORDS))
    defence, asked = fitted(adversaries="attacked", synonyms="both"), list[int]()
    short = [Example(f"The good film {number}", 1) for number in range(20)]
    found = set(defence.attacked(ask(defence, asked), short))
    kinds = {str(text).rsplit(" ", 1)[0] for text in found}
    assert kinds == {"The superb film", "The good flick"}  # 'flick' and 'movie' cost alike: the first by name
    assert len(asked) == 1 and sum(asked) == sum(3 if " superb " in str(text) else 2 for text in found)
    long = Example(("Good film " + "the " * 10).strip(), 1)  # two changes, unless the first costs the label
    seen = {str(fitted(adversaries="attacked", synonyms="both", seed=seed).attacked(ask(defence, []), [long])[0])
            for seed in range(12)}
    rest = " the" * 10
    assert seen == {"Superb film" + rest, "Superb flick" + rest}
    pair = Example(("a bad film", "no good film at all, and none of it"), 0)
    (both,) = defence.attacked(ask(defence, []), [pair])
    assert isinstance(both, tuple) and both != pair.text
    assert defence.attacked(ask(defence, []), [Example("", 0), Example("unknown words", 1)]) == ["", "unknown words"]
    assert defence.attacked(ask(defence, []), []) == []


def test_the_release_is_tuned_on_attacked_texts_that_were_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualmask.text.wordnet.load_wordnet", lambda: Lexicon(WORDS))
    monkeypatch.setattr(module, "shipped_synonyms", lambda: synonyms(MISLEADING))
    options = DEFENCES.preset("fgws", "release").options
    defence = fitted(SPREAD, **{**options, "tuned_on": 25})
    tried: list[Sequence[Example]] = []
    real = FGWS.attacked
    monkeypatch.setattr(FGWS, "attacked", lambda self, ask, right: tried.append(right) or real(self, ask, right))
    wrong = [Example("a superb movie", 1), *validation(99)]
    defence.tune(ask(defence, []), wrong)
    assert len(tried) == 1 and len(tried[0]) == 24 and wrong[0] not in tried[0]
    assert int(defence.substitutes.neighbours) == 1 and defence.threshold is not None and defence.views == 2
    texts = ["a dire film", "the good film"]
    logits = ask(defence, [])(texts)
    assert torch.equal(defence.combine(logits), logits[1]), "every text is answered with its words replaced"


@pytest.mark.usefixtures("table")
def test_tuning_is_bounded_and_needs_no_adversary() -> None:
    defence, asked = fitted(), [0]
    many = [Example(f"the film {number}", 1) for number in range(2000)]
    defence.tune(ask(defence, asked), many)
    assert sum(asked) <= 2 * 2000 + 500 * 3  # gamma on all; delta on 500: clean, adversaries, 'film' for 'movie'
    assert float(defence.delta) == defence.substitutes.counts.percentile(0.0), "no adversary: the lowest"
    given_percentile = fitted(percentile=40)
    assert float(given_percentile.delta) == given_percentile.substitutes.counts.percentile(0.4)
    given_percentile.tune(ask(given_percentile, asked := []), many[:50])
    assert asked == [100] and float(given_percentile.delta) == given_percentile.substitutes.counts.percentile(0.4)


# In a classifier


def test_trained_tuned_and_saved(
    tiny: Callable[[str], Path], data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(DEFENCES, "fgws", FGWS)
    settings = {"epochs": 4, "max_length": 40, "learning_rate": 3e-3, "batch_size": 16, "seed": 3}
    one, plain = (train(data, encoder=tiny("bert"), defence=name, training=settings, out=tmp_path / name,
                        progress=False) for name in ("fgws", "plain"))
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(one.model.state_dict()[name], weight), "training is the plain classifier's"
    assert one.defence.threshold is not None and one.defence.views == 2
    texts = [example.text for example in data.test or []] + ["a lousy film", "", "SUPERB!"]
    found = one.predict(texts)
    assert found.passes is not None and found.passes.tolist() == [2] * len(texts) and found.suspicion is not None
    flags = one.predict([example.text for example in data.validation or []]).suspicion
    assert flags is not None and (flags > one.defence.threshold).float().mean() <= 0.1
    again = DefendedClassifier.load(tmp_path / "fgws", device="cpu")
    assert torch.equal(again.predict(texts).probabilities, found.probabilities)
    assert torch.equal(again.predict(texts).suspicion, found.suspicion)  # type: ignore[arg-type]
    assert again.defence.threshold == one.defence.threshold
    with pytest.raises(OptionError, match="without explain"):
        one.predict(texts, explain=True)


def test_a_model_of_before_answers_as_it_did(tiny: Callable[[str], Path], data: Dataset, tmp_path: Path) -> None:
    """Its description lacks options that came later; its fingerprint is the same, so that unfinished work goes on."""
    plain = tiny_classifier(tiny("bert"), "plain", data)
    defence = FGWS(FGWSOptions(percentile=100))
    classifier = DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=data.labels, max_length=40)
    classifier.fit_defence(data.train)
    classifier.tune_defence(data.validation or [])
    path = classifier.save(tmp_path / "model") / "dualmask.json"
    description = json.loads(path.read_text())
    later = [description["options"].pop(name) for name in ("nearest", "adversaries", "tuned_on", "chosen_by")]
    assert later == ["table", "simulated", 500, "f1"]
    path.write_text(sealed(description))
    again = DefendedClassifier.load(path.parent, device="cpu")
    texts = [example.text for example in data.test or []]
    assert torch.equal(again.predict(texts).probabilities, classifier.predict(texts).probabilities)
    assert again.defence.lasting_options() == description["options"]
    digest = blake2b(digest_size=16)
    digest.update(json.dumps(["fgws", again.defence.lasting_options(), list(data.labels), 40]).encode())
    for name, tensor in again.network.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    assert again.fingerprint() == digest.hexdigest()
    header = Assault(again, build_attack("deepwordbug"), measure=None).header()
    assert header["defence"] == {"name": "fgws", **description["options"]}


@pytest.mark.parametrize("restore", ["flagged", "always"])
def test_the_second_view_answers_for_flagged_texts(
    restore: str, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    plain = tiny_classifier(tiny("bert"), "plain", data)
    defence = FGWS(FGWSOptions(percentile=100, restore=restore))  # type: ignore[arg-type]
    classifier = DefendedClassifier(plain.model, plain.encode.tokenizer, defence, labels=data.labels, max_length=40)
    classifier.fit_defence(data.train)
    classifier.tune_defence(data.validation or [])
    texts = [example.text for example in data.test or []]
    shown = defence.substitutes.frequent(texts, float(defence.delta))
    assert shown != texts
    before, after = plain.predict(texts).probabilities, plain.predict(shown).probabilities
    label = before.argmax(dim=1, keepdim=True)
    score = (before - after).gather(1, label).squeeze(1).clamp(min=0)
    found = classifier.predict(texts, batch_size=5)
    assert found.suspicion is not None and torch.allclose(found.suspicion, score, atol=1e-5)
    flagged = (found.suspicion > float(defence.gamma)) | (restore == "always")
    assert torch.allclose(found.probabilities, torch.where(flagged[:, None], after, before), atol=1e-4)
    assert flagged.any()


@pytest.mark.parametrize(("options", "named"), [
    ({"percentile": 101.0}, "percentile"), ({"false_positives": -0.1}, "false_positives"),
    ({"neighbours": -1}, "neighbours"), ({"neighbours": 0}, "WordNet"), ({"simulated": 2.0}, "simulated"),
    ({"tuned_on": 0}, "tuned_on"),
])  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        FGWSOptions(**options)  # type: ignore[arg-type]


def test_what_is_said_about_it() -> None:
    card = FGWS.card()
    assert {"Paper", "Idea", "Acts at", "Deviations", "Relations"} <= set(card.sections) and FGWS.noise

# SPDX-License-Identifier: Apache-2.0
"""Certifying real classifiers: what is drawn, what is written, and whether attacks inside a radius ever win."""

import json
import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from conftest import BAD, FILLERS, GOOD
from typer.testing import CliRunner

from dualmask.classifier import DefendedClassifier
from dualmask.cli import app
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.base import Defence, Network
from dualmask.defences.voting import Voting, VotingOptions
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.certification import CERTIFYING, CertifyingOptions, certify, provable, under
from dualmask.evaluation.certified_records import Certificate, Certified, Summary, read_certificates, summarise
from dualmask.evaluation.enumeration import withstood
from dualmask.evaluation.statistics import clopper_pearson
from dualmask.masking.certificates import certified_words
from dualmask.reporting.certified import GUESSED, corners, facts, one_answer, page, rows
from dualmask.seeds import uniform
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Example, Text
from dualmask.training import train

FEW = CertifyingOptions(selection=20, draws=60, seed=4)
TRAINING = {"epochs": 20, "max_length": 40, "learning_rate": 5e-3, "batch_size": 16, "patience": 0, "seed": 3}


@dataclass(frozen=True, kw_only=True)
class KeepFewOptions(VotingOptions):
    kept: int = 2


class KeepFew(Voting):
    """Keep so many tokens, mask the others: the smallest defence that has a certificate."""

    name: ClassVar[str] = "keepfew"
    certificate: ClassVar[str] = "words replaced by others"
    Options = KeepFewOptions
    options: KeepFewOptions

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        batch = encode(texts)
        return self.few(batch, torch.rand(batch.input_ids.shape, generator=generator), encode).with_labels(labels)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        batch = encode(texts)
        return self.few(batch, uniform(self.seeds(texts, numbers), batch.input_ids.shape[1]), encode).to(device)

    def few(self, batch: Batch, lots: torch.Tensor, encode: Encode) -> Batch:
        masks = (lots.masked_fill(~batch.body, 2.0).argsort(dim=1).argsort(dim=1) >= self.options.kept) & batch.body
        return replace(batch, input_ids=batch.input_ids.masked_fill(masks, encode.mask_id), masks=masks,
                       mask_position="normal")

    def radius(self, text: Text, share: float, encode: Encode, *, strict: bool = True) -> int:
        length = int(encode([text]).lengths[0])
        return certified_words(length, min(self.options.kept, length), share, beta=1 if strict else share)


def laden(count: int, seed: int = 0) -> list[Example]:
    """Texts in which most words speak for the label: a vote over few of them can be sure."""
    draw = random.Random(seed)
    return [Example(" ".join(draw.choice((GOOD if number % 2 else BAD) if draw.random() < 0.9 else FILLERS)
                             for _ in range(8 + number % 5)), number % 2) for number in range(count)]


DATA = Dataset("laden", ("bad", "good"), laden(160), laden(24, 1), laden(24, 2))


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    DEFENCES[KeepFew.name] = KeepFew
    yield
    del DEFENCES[KeepFew.name]


@pytest.fixture(scope="module")
def folder(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DDM model, saved."""
    out = tmp_path_factory.mktemp("ddm")
    train(DATA, encoder=tiny("bert"), defence="ddm", training=TRAINING, out=out, progress=False)
    return out


@pytest.fixture(scope="module")
def ddm(folder: Path) -> DefendedClassifier:
    return DefendedClassifier.load(folder, device="cpu")


@pytest.fixture(scope="module")
def voter(tiny: Callable[[str], Path]) -> DefendedClassifier:
    return train(DATA, encoder=tiny("bert"), defence="keepfew", training=TRAINING, progress=False)


def over(classifier: DefendedClassifier, defence: Defence) -> DefendedClassifier:
    return DefendedClassifier(classifier.model, classifier.encode.tokenizer, defence, labels=classifier.labels,
                              max_length=classifier.encode.max_length, facts=classifier.facts)


def same(found: Sequence[Certificate]) -> list[Certificate]:
    """All that does not depend on the machine's pace."""
    return [replace(one, seconds=0.0) for one in found]


# Votes


def test_a_certificate_follows_from_its_own_counts(voter: DefendedClassifier) -> None:
    found = certify(voter, laden(24, 2), FEW).records
    for one in found:
        assert sum(one.selection) == 20 and sum(one.estimation) == 60 and one.passes == 80
        assert one.predicted == one.selection.index(max(one.selection))
        assert one.share == clopper_pearson(one.estimation[one.predicted], 60, 0.05)
        length = len(str(one.text).split())
        assert one.length == length and one.radius == certified_words(length, 2, one.share)
        assert one.heuristic == certified_words(length, 2, one.share, beta=one.share)
        assert one.abstained == (one.share <= 0.5) == (one.radius == -1)
    assert max(one.radius for one in found) >= 1 and any(one.heuristic != one.radius for one in found)


def test_the_draws_share_no_view_with_each_other_or_with_answers(
    voter: DefendedClassifier, monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, ...]] = []
    inner = KeepFew.seeds

    def seeds(self: KeepFew, texts: Sequence[Text], numbers: Sequence[int]) -> torch.Tensor:
        found = inner(self, texts, numbers)
        asked.extend(zip(texts, found.tolist(), [self._redraw] * len(texts), numbers, strict=True))  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(KeepFew, "seeds", seeds)
    certify(voter, laden(6, 2), FEW)
    assert len(asked) == 6 * 80 == len({(text, seed) for text, seed, *_ in asked})
    assert all(redraw >= CERTIFYING for *_, redraw, _ in asked)
    assert {number for *_, number in asked} == set(range(80))
    drawn = {(text, seed) for text, seed, *_ in asked}
    asked.clear()
    voter.predict([example.text for example in laden(6, 2)], early=False)  # after which noise is as it was
    assert {redraw for *_, redraw, _ in asked} == {0} and not drawn & {(text, seed) for text, seed, *_ in asked}


def test_certificates_do_not_depend_on_order_or_company(
    voter: DefendedClassifier, monkeypatch: pytest.MonkeyPatch,
) -> None:
    examples = laden(9, 5)
    whole = same(certify(voter, examples, FEW).records)
    monkeypatch.setattr("dualmask.evaluation.certification.ROWS", {"cpu": 1, "cuda": 1})
    alone = same(certify(voter, examples[::-1], FEW).records)
    assert [replace(one, index=8 - one.index) for one in alone[::-1]] == whole
    assert same(certify(voter, examples, replace(FEW, seed=5)).records) != whole


def test_an_unsure_vote_abstains(voter: DefendedClassifier) -> None:
    """Words of both classes, and views of one word."""
    unsure = [one for one in certify(over(voter, KeepFew(KeepFewOptions(kept=1))), [
        Example(" ".join(draw.choice(GOOD + BAD) for _ in range(8)), 1) for draw in map(random.Random, range(20))],
        CertifyingOptions(draws=20)).records if one.abstained]
    assert unsure and all(one.share is not None and one.share <= 0.5 for one in unsure)
    assert all(one.radius == one.heuristic == -1 for one in unsure)
    assert summarise(unsure).certified == (0,) and summarise(unsure).median == -1
    assert summarise(unsure).abstained == len(unsure)


def test_only_votes_are_certified(ddm: DefendedClassifier, voter: DefendedClassifier) -> None:
    with pytest.raises(OptionError, match=r"'plain'.*--under NAME, one of .*keepfew"):
        certify(ddm.undefended(), laden(2), FEW)
    with pytest.raises(OptionError, match="only a vote is certified"):
        certify(over(ddm, KeepFew(KeepFewOptions(decision="mean"))), laden(2), FEW)
    for wrong in ({"draws": 0}, {"selection": 0}, {"alpha": 0.0}, {"alpha": 0.5}, {"samples": 0}, {"changes": 0}):
        with pytest.raises(OptionError, match="expected"):
            CertifyingOptions(**wrong)  # type: ignore[arg-type]


def test_a_models_own_options_are_kept_under_its_own_defence(ddm: DefendedClassifier) -> None:
    mean = over(ddm, build_defence("ranmask", options={"rate": 0.9, "decision": "mean", "votes": 7}))
    with pytest.raises(OptionError, match="add --under ranmask --option decision=vote"):
        certify(mean, laden(2), FEW)
    for name in ("ranmask", "RanMASK"):
        found = under(mean, name, options={"decision": "vote"}).defence.options_as_dict()
        assert (found["rate"], found["votes"], found["decision"]) == (0.9, 7, "vote")
    assert under(mean, "ranmask", preset="recommended").defence.options_as_dict()["rate"] == 0.3
    assert under(mean, "certed").defence.options_as_dict()["rate"] == 0.3


@pytest.mark.parametrize(("name", "rate", "draws", "possible"), [
    ("ranmask", 0.49, 1000, False), ("ranmask", 0.9, 1000, True), ("certed", 0.3, 1000, False),
    ("certed", 0.52, 1000, True), ("certed", 0.52, 100, False), ("ranmask", 0.9, 3, False)])
def test_what_can_certify_nothing_is_known_before(
    ddm: DefendedClassifier, name: str, rate: float, draws: int, possible: bool,
) -> None:
    classifier, texts = under(ddm, name, options={"rate": rate}), [one.text for one in laden(6)]
    options = CertifyingOptions(draws=draws)
    assert provable(classifier, texts, options) == possible
    best = clopper_pearson(draws, draws, options.alpha)
    assert (max(classifier.defence.radius(text, best, classifier.encode) for text in texts) > 0) == possible
    assert provable(ddm, texts, options)  # nothing is drawn
    with pytest.raises(OptionError, match="no certificate follows"):
        provable(ddm.undefended(), texts, options)


def test_a_defence_without_a_heuristic_has_none(ddm: DefendedClassifier) -> None:
    class Strict(KeepFew):
        def radius(self, text: Text, share: float, encode: Encode, *, strict: bool = True) -> int:
            return super().radius(text, share, encode) if strict else Voting.radius(self, text, share, encode,
                                                                                    strict=False)

    found = certify(over(ddm, Strict()), laden(4), FEW)
    assert found.header["heuristic"] is False and all(one.heuristic is None for one in found.records)
    assert all(row.guessed is None for row in rows(summarise(found.records)))
    assert GUESSED not in page(found, "x")


# Soundness on a trained network


Change = Callable[[list[str], int, list[str], random.Random], list[str]]


def substituted(words: list[str], changes: int, wrong: list[str], draw: random.Random) -> list[str]:
    found = list(words)
    for place in draw.sample(range(len(words)), min(changes, len(words))):
        found[place] = draw.choice([*wrong, "zzz"])
    return found


def edited(words: list[str], changes: int, wrong: list[str], draw: random.Random) -> list[str]:
    found = list(words)
    for _ in range(changes):
        place = draw.randrange(len(found) + 1)
        kind = draw.choice(["insert", "delete", "replace"])
        found[place:place + (kind != "insert")] = [] if kind == "delete" else [draw.choice(wrong)]
    return found


SURE = 1e-6  # a flip counts if another class has more than half of all possible votes, but for such a chance


def flips(classifier: DefendedClassifier, change: Change, *, beyond: int = 0, views: int = 150) -> tuple[int, int]:
    """Attack certified texts at their radius and `beyond`: how many attacks were tried, and how many won for sure."""
    draw, tried, won = random.Random(1), 0, 0
    found = certify(classifier, laden(8, 2), CertifyingOptions(draws=120)).records
    for one in [one for one in found if one.radius > 0][:4]:
        wrong = GOOD if one.predicted == 0 else BAD
        attacks = {" ".join(change(str(one.text).split(), one.radius + beyond, wrong, draw)) for _ in range(8)}
        votes = classifier.votes(sorted(attacks), range(views))
        tried += len(attacks)
        won += sum(clopper_pearson(views - row[one.predicted], views, SURE) > 0.5 for row in votes.tolist())
    return tried, won


def exchanged(words: list[str], changes: int, wrong: list[str], draw: random.Random) -> list[str]:
    """Synonyms: in the table below the words before and after a word."""
    found = list(words)
    places = [place for place, word in enumerate(words) if word in CHAIN]
    for place in draw.sample(places, min(changes, len(places))):
        at = CHAIN.index(words[place])
        found[place] = draw.choice(CHAIN[max(0, at - 1):at] + CHAIN[at + 1:at + 2])
    return found


CHAIN = [*GOOD, *BAD]
CHANGES: dict[str, Change] = {"keepfew": substituted, "ranmask": substituted, "certed": edited, "safer": exchanged}
CERTIFIED = ["keepfew", *(name for name, kind in DEFENCES.items() if issubclass(kind, Voting) and kind.certificate)]


def certifying_options(name: str, folder: Path) -> dict[str, object]:
    """Under which the texts here have certificates. Synonyms lie 20 degrees apart, and a set holds three words."""
    vectors = folder / "vectors.txt"
    vectors.write_text("".join(f"{word} {math.cos(turn * math.pi / 9)} {math.sin(turn * math.pi / 9)}\n"
                               for turn, word in enumerate(CHAIN)), encoding="utf-8")
    known = {"ranmask": {"rate": 0.8}, "certed": {"rate": 0.8},
             "safer": {"synonyms": str(vectors), "threshold": 0.9, "most": 3}}
    return known[name]


@pytest.fixture(scope="module", params=CERTIFIED)
def trained(
    request: pytest.FixtureRequest, tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, DefendedClassifier]:
    name: str = request.param
    if name == "keepfew":
        return name, request.getfixturevalue("voter")
    options = certifying_options(name, tmp_path_factory.mktemp("vectors"))
    return name, train(DATA, encoder=tiny("bert"), defence=name, options=options, training=TRAINING, progress=False)


def test_no_attack_inside_the_radius_flips(trained: tuple[str, DefendedClassifier]) -> None:
    name, classifier = trained
    tried, won = flips(classifier, CHANGES[name])
    assert tried > 15 and won == 0


def test_what_no_certificate_covers_does_flip(trained: tuple[str, DefendedClassifier]) -> None:
    """Any words for many: else the test above could not fail."""
    assert flips(trained[1], substituted, beyond=8)[1] > 0


# DDM: every choice of places


def brute_force(classifier: DefendedClassifier, text: str, changes: int, rare: Sequence[int]) -> bool:
    """Whether the answer outlasts every edit of so many tokens into these, through the defence as it is."""
    row = classifier.encode([text])
    places = row.body[0].nonzero().flatten().tolist()
    wanted = int(classifier.predict([text]).probabilities[0].argmax())
    rows = []
    for chosen in combinations(places, changes):
        for token in rare:
            ids = row.input_ids.clone()
            ids[0, list(chosen)] = token
            rows.append(ids)
    edits = torch.cat(rows)

    class Given(Encode):
        """An encode that has the tokens already."""

        def __call__(self, texts: Sequence[Text], *, max_length: int | None = None, words: bool = False) -> Batch:
            batch = Encode.__call__(self, texts)
            return replace(batch, input_ids=edits)

    given = Given(classifier.encode.tokenizer, max_length=classifier.encode.max_length)
    with torch.no_grad():
        shown = classifier.defence.inference_view([text] * len(edits), [0] * len(edits), given, torch.device("cpu"))
        return bool((classifier.network(shown).argmax(dim=1) == wanted).all())


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_rare_edits_against_brute_force(ddm: DefendedClassifier, rate: float) -> None:
    classifier = with_ddm(ddm, test_rate=rate)
    scorer = classifier.defence.scorer
    unseen = [token for token in (scorer.counts == 0).nonzero().flatten().tolist() if token > 4][:3]
    assert len(unseen) == 3
    texts = [str(example.text) for example in laden(6, 7)] + ["good bad rare x plot y", "x y z un bad good the a"]
    radii = []
    for text in texts:
        found = withstood(classifier, text, changes=2, passes=10_000)
        radii.append(found.radius)
        held = [brute_force(classifier, text, changes, unseen) for changes in (1, 2)]
        assert all(held[:found.radius])
        known = not any(scorer.counts[token] == 0 for token in classifier.encode([text]).input_ids[0][1:-1].tolist())
        if known and found.radius < min(2, math.ceil(rate * found.tokens)):  # all edits are hidden: it is exact
            assert not held[found.radius] and found.ended == "flipped"
    assert len(set(radii)) > 1


def with_ddm(classifier: DefendedClassifier, **options: object) -> DefendedClassifier:
    found = over(classifier, build_defence("ddm", options=options))
    found.fit_defence(DATA.train)
    return found


class Contrary(Defence):
    """Answers with the opposite of what the network says, whatever it is shown."""

    name: ClassVar[str] = "contrary"

    def answer(self, network: Network, batch: Batch, embeddings: torch.Tensor | None = None) -> torch.Tensor:
        return -network(batch, embeddings)


def test_edits_are_answered_as_the_defence_answers(
    ddm: DefendedClassifier, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside one that acts inside the network it is the answer of both that must not change."""
    monkeypatch.setitem(DEFENCES, Contrary.name, Contrary)
    both = over(ddm, build_defence("ddm+contrary"))
    both.fit_defence(DATA.train)
    alone, radii = with_ddm(ddm), []
    for text in (str(example.text) for example in laden(6, 7)):
        found, other = (withstood(one, text, changes=2, passes=10_000) for one in (both, alone))
        assert found == other._replace(predicted=1 - other.predicted)
        radii.append(found.radius)
    assert max(radii) > 0


@pytest.fixture
def stubborn(folder: Path) -> DefendedClassifier:
    """A network that says the same about everything, so that only masks decide what can be proved."""
    classifier = DefendedClassifier.load(folder, device="cpu")
    with torch.no_grad():
        classifier.model.classifier.bias += torch.tensor([0.0, 1000.0])
    return classifier


def test_as_many_passes_as_there_are_sets_of_places(stubborn: DefendedClassifier) -> None:
    classifier = with_ddm(stubborn, test_rate=0.3)
    text = "good great fine superb good great fine superb"  # 8 tokens, 3 of them hidden
    assert withstood(classifier, text, changes=1, passes=10_000) == (1, 1, 8, 1 + 8, "all tried")
    assert withstood(classifier, text, changes=2, passes=10_000) == (1, 2, 8, 1 + 8 + 28, "all tried")
    assert withstood(classifier, text, changes=2, passes=36) == (1, 1, 8, 1 + 8, "passes")  # the next would exceed it
    assert withstood(classifier, text, changes=2, passes=8) == (1, 0, 8, 1, "passes")
    four = withstood(classifier, text, changes=4, passes=10_000)
    assert four.radius == 3 and four.passes == 1 + 8 + 28 + 56 and four.ended == "in sight"
    assert withstood(classifier, "", changes=2, passes=10_000)[1:] == (0, 0, 1, "all tried")


def test_unseen_tokens_of_the_text_itself_compete_for_masks(stubborn: DefendedClassifier) -> None:
    """Of equally rare tokens the left ones are hidden: an edit further right would be seen."""
    classifier = with_ddm(stubborn, test_rate=0.1)  # one mask
    assert withstood(classifier, "good great fine superb good", changes=1, passes=100).radius == 1
    assert withstood(classifier, "x great fine superb good", changes=1, passes=100)[1:] == (0, 5, 1, "in sight")
    assert withstood(classifier, "good great fine superb x", changes=1, passes=100)[1:] == (1, 5, 6, "all tried")


@pytest.mark.parametrize("options", [
    {"unit": "word"}, {"scorer": "word-frequency"}, {"unseen": "once"}, {"order": "literal"}, {"second_pass": True},
    {"skip": "punctuation"}, {"protect": "good"}, {"test_rate": 0.0},
])
def test_what_the_argument_is_not_about_is_refused(ddm: DefendedClassifier, options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(options))} is .*expected") as error:
        certify(with_ddm(ddm, **options), laden(2))
    assert "--under ranmask" in str(error.value)


def test_ddm_is_certified_by_its_own_answers(ddm: DefendedClassifier) -> None:
    found = certify(ddm, laden(12, 2), CertifyingOptions(changes=2))
    assert found.header["method"] == "enumeration" and found.header["alpha"] is None
    labels = ddm.predict([example.text for example in laden(12, 2)]).probabilities.argmax(dim=1).tolist()
    assert [one.predicted for one in found.records] == labels
    assert all(one.share is None and one.heuristic is None and not one.abstained for one in found.records)
    assert max(one.radius for one in found.records) >= 1
    assert "nothing was drawn" in page(found, "x")
    assert "because an edit might stay in sight" in dict(facts(found, summarise(found.records)))["went no further"]
    few = certify(ddm, laden(3), CertifyingOptions(passes=2))
    assert [one.ended for one in few.records] == ["passes"] * 3
    assert dict(facts(few, summarise(few.records)))["went no further"] == "3 because the passes were used up"
    old = Certified(found.header, [replace(one, ended=None) for one in found.records])
    assert dict(facts(old, summarise(old.records)))["went no further"] == "not recorded"


# Records


ONE = Certificate(index=3, text="a b", label=1, predicted=1, radius=2, heuristic=3, share=0.9, selection=(0, 20),
                  estimation=(3, 57), length=2, passes=80, seconds=0.5)


def written(path: Path, *lines: str, **header: object) -> Path:
    head = {"format": 1, "kind": "certificates", "certificate": "words", "method": "votes", "alpha": 0.05, **header}
    path.write_text("\n".join([json.dumps(head), *lines]) + "\n", encoding="utf-8")
    return path


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    pair = replace(ONE, index=4, text=("a", "b"), share=None, heuristic=None, selection=(), estimation=(),
                   ended="passes")
    assert "ended" not in ONE.as_json()
    found = read_certificates(written(tmp_path / "a.jsonl", ONE.as_json(), pair.as_json()))
    assert found.records == [ONE, pair] and found.header["alpha"] == 0.05


@pytest.mark.parametrize(("change", "told"), [
    ({"radius": -2}, "radius is -2; expected a whole number from -1 on"), ({"radius": 1.0}, "radius is 1.0"),
    ({"share": 1.5}, "share is 1.5"), ({"share": float("nan")}, "share is nan"), ({"share": 0.5}, "proves nothing"),
    ({"selection": [1, -1]}, "selection is"), ({"estimation": "x"}, "estimation is 'x'"),
    ({"predicted": None}, "predicted is None"), ({"radius": 1001}, "radius of 1001; expected 1000 at most"),
    ({"heuristic": 10**12}, "expected 1000 at most"), ({"estimation": [60, 0]}, "class with 0 of 60 votes"),
    ({"estimation": [7, 53]}, "class with 53 of 60 votes"), ({"predicted": 2}, "class with 0 of 60 votes"),
    ({"ended": "x"}, "ended is 'x'; expected one of all tried, flipped"),
    ({"heuristic": "1"}, "heuristic is '1'"), ({"seconds": -1}, "seconds is -1"), ({"text": 5}, "text is 5"),
])
def test_a_wrong_record_is_named(tmp_path: Path, change: dict[str, object], told: str) -> None:
    line = json.dumps({**json.loads(ONE.as_json()), **change})
    with pytest.raises(DataError, match=r"a\.jsonl, line 2") as error:
        read_certificates(written(tmp_path / "a.jsonl", line))
    assert told in str(error.value)


def test_wrong_files_are_told(tmp_path: Path) -> None:
    line = json.loads(ONE.as_json())
    del line["radius"]
    with pytest.raises(DataError, match="lacks radius"):
        read_certificates(written(tmp_path / "a.jsonl", json.dumps(line)))
    with pytest.raises(DataError, match="holds no certificates"):
        read_certificates(written(tmp_path / "a.jsonl", kind=None))
    with pytest.raises(DataError, match="line 1: the header's alpha is 'x'"):
        read_certificates(written(tmp_path / "a.jsonl", alpha="x"))


@pytest.mark.parametrize("cut", [1, 40, 700])
def test_a_run_that_was_stopped_goes_on(tmp_path: Path, voter: DefendedClassifier, cut: int) -> None:
    path, examples = tmp_path / "c.jsonl", laden(8, 2)
    whole = certify(voter, examples, FEW, out=path)
    assert read_certificates(path) == whole
    path.write_bytes(path.read_bytes()[:-cut])
    left = len(read_certificates(path).records)
    assert left < 8
    asked: list[Certificate] = []
    again = certify(voter, examples, FEW, out=path, resume=True, watch=asked.append)
    assert len(asked) == 8 - left and same(again.records) == same(whole.records)
    assert same(read_certificates(path).records) == same(whole.records)


def test_other_settings_are_not_mixed_in(tmp_path: Path, voter: DefendedClassifier) -> None:
    path = tmp_path / "c.jsonl"
    header = certify(voter, laden(4), FEW, out=path).header
    for name in ("selection", "draws", "alpha", "seed", "noise", "data", "victim", "certificate", "strict", "about"):
        assert header[name] not in ("", None), name
    assert header["defence"] == {"name": "keepfew", **voter.defence.lasting_options()}
    for changed in (replace(FEW, draws=61), replace(FEW, alpha=0.01), replace(FEW, seed=5)):
        with pytest.raises(OptionError, match="other settings"):
            certify(voter, laden(4), changed, out=path, resume=True)
    with pytest.raises(OptionError, match="there already"):
        certify(voter, laden(4), FEW, out=path)


# Figures


def test_figures_by_hand() -> None:
    found = [replace(ONE, radius=radius, heuristic=guess, predicted=predicted) for radius, guess, predicted in
             [(2, 3, 1), (0, 0, 1), (-1, -1, 1), (4, 4, 0), (1, 1, 1)]]
    assert summarise(found) == Summary(5, 4, 1, 0, (3, 2, 1, 0), (3, 2, 1, 1), 0.5, 80.0)
    assert summarise(found[:2] + found[4:]).median == 1
    with pytest.raises(DataError, match="nothing was certified"):
        summarise([])
    table = rows(summarise(found))
    assert [(row.changes, row.proved.mean, row.guessed.mean if row.guessed else None) for row in table] == [
        (0, 0.6, 0.6), (1, 0.4, 0.4), (2, 0.2, 0.2), (3, 0.0, 0.2)]


def test_a_radius_may_exceed_a_thousand_in_a_text_of_many_words(tmp_path: Path) -> None:
    long = replace(ONE, text="a " * 30_000, radius=30_000, heuristic=None)
    found = read_certificates(written(tmp_path / "a.jsonl", long.as_json(), *[ONE.as_json()] * 300))
    figures = summarise(found.records)
    assert (figures.certified[0], figures.certified[2], figures.certified[3], len(figures.certified)) == (
        301, 301, 1, 30_001)
    assert corners(figures.certified) == [0, 3, 30_000] and len(page(found, "x")) < 100_000


@pytest.mark.parametrize("counts", [(3,), (3, 3), (3, 2, 2, 2, 0), (5, 4, 3)])
def test_corners_are_all_that_steps_need(counts: tuple[int, ...]) -> None:
    found = corners(counts)
    assert found[0] == 0 and found[-1] == len(counts) - 1
    assert [counts[max(place for place in found if place <= at)] for at in range(len(counts))] == list(counts)


def test_a_long_table_takes_larger_steps() -> None:
    for most in (0, 1, 11, 12, 13, 68, 500):
        places = [row.changes for row in rows(summarise([replace(ONE, radius=most, heuristic=None)]))]
        assert places[0] == 0 and places[-1] == most and len(places) <= 26
        assert places == sorted(set(places)) and places[:12] == list(range(min(12, most + 1)))[:12]


def test_a_page_needs_nothing_else_and_says_what_is_no_guarantee(voter: DefendedClassifier) -> None:
    found = certify(voter, [Example("<script>alert(1)</script>", 1), *laden(6)], FEW)
    made = page(found, "A & B")
    assert "<title>A &amp; B</title>" in made and "<script" not in made and "<svg" in made
    assert made.count(GUESSED) >= 2 and "no attack" not in made and "can&#x27;t be compared" in made
    assert "20 views choose the class, 60 others" in made and "keepfew" in made and "kept=2" in made


def test_one_answer_to_all_texts_is_told() -> None:
    """Nothing is certified more easily than a classifier that has learned nothing."""
    alike = [replace(ONE, index=n, label=n % 2) for n in range(10)]
    assert one_answer(alike).startswith("Doubt: all 10 texts got one and the same answer")
    head = {"format": 1, "kind": "certificates", "certificate": "words", "method": "votes", "alpha": 0.05}
    assert "one and the same answer" in page(Certified(head, alike), "x")
    for usual in (alike[:9], [replace(one, label=1) for one in alike], [*alike, replace(ONE, predicted=0)]):
        assert one_answer(usual) == "" and "same answer" not in page(Certified(head, usual), "x")


def test_the_command_tells_one_answer_to_all_texts(
    folder: Path, reviews_file: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Certified({"method": "votes", "alpha": 0.05}, [replace(ONE, index=n, label=n % 2) for n in range(10)])
    monkeypatch.setattr("dualmask.cli_certify.certified", lambda request, options: found)
    result = CliRunner().invoke(app, ["certify", str(folder), str(reviews_file)])
    assert result.exit_code == 0 and "all 10 texts got one and the same answer" in " ".join(result.stdout.split())


def test_reports_load_no_torch() -> None:
    code = ("import sys, dualmask.evaluation.certified_records, dualmask.reporting.certified, "
            "dualmask.masking.certificates, dualmask.cli_certify; sys.exit('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The command


@pytest.fixture
def reviews_file(tmp_path: Path) -> Path:
    path = tmp_path / "laden.csv"
    lines = [f"{example.text},{('bad', 'good')[example.label]}" for example in laden(10, 2)]
    path.write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    return path


def test_the_command_certifies_a_network_under_another_defence(
    folder: Path, reviews_file: Path, tmp_path: Path,
) -> None:
    out, html = tmp_path / "c.jsonl", tmp_path / "c.html"
    command = ["certify", str(folder), str(reviews_file), "--under", "keepfew", "--option", "kept=3", "--draws", "30",
               "--samples", "6", "--quiet", "--out", str(out)]
    result = CliRunner().invoke(app, [*command, "--html", str(html)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    for told in ("over the network of a model trained with ddm: the vote's, not those of ddm", "kept=3", "abstained",
                 "median radius", GUESSED, "100 views choose the class, 30 others", "95.0% confidence"):
        assert told in result.output, told
    found = read_certificates(out)
    assert len(found.records) == 6 and found.header["trained"] == "ddm"
    assert "<svg" in html.read_text(encoding="utf-8")
    again = CliRunner().invoke(app, [*command, "--resume"], env={"COLUMNS": "200"})
    assert again.exit_code == 0 and read_certificates(out) == found


def test_the_command_certifies_ddm_itself(folder: Path, reviews_file: Path) -> None:
    result = CliRunner().invoke(app, ["certify", str(folder), str(reviews_file), "--quiet", "--changes", "2"],
                                env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "up to 2 edits" in result.output and "training texts do not have" in result.output
    assert GUESSED not in result.output


@pytest.mark.parametrize(("arguments", "told"), [
    (["--option", "rate=0.9"], "name it with --under"), (["--preset", "paper"], "name it with --under"),
    (["--resume"], "name it with --out"), (["--under", "keepfwe"], "did you mean 'keepfew'"),
    (["--under", "keepfew", "--option", "rate=1"], "unknown option 'rate'"), (["--alpha", "2"], "alpha is 2.0"),
    (["--under", "plain"], "no certificate follows"),
    (["--draws", "1000", "--alpha", "0.1"], "--draws, --alpha would have no effect: answers of the defence 'ddm'"),
    (["--selection", "5"], "--selection would have no effect"),
    (["--under", "keepfew", "--changes", "1"], "--changes would have no effect: answers of the defence 'keepfew'"),
    (["--under", "keepfew", "--passes", "9"], "--passes would have no effect"),
])
def test_wrong_commands_are_told(folder: Path, reviews_file: Path, arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["certify", str(folder), str(reviews_file), "--quiet", *arguments])
    assert isinstance(result.exception, OptionError) and told in str(result.exception)


def test_the_command_tells_at_the_start_that_nothing_can_be_certified(folder: Path, reviews_file: Path) -> None:
    command = ["certify", str(folder), str(reviews_file), "--quiet", "--samples", "2", "--under", "ranmask"]
    result = CliRunner().invoke(app, [*command, "--option", "rate=0.4", "--draws", "20"])
    assert result.exit_code == 0, result.output
    assert "nothing can be certified" in result.stderr and "a rate above 0.639, not 0.4" in result.stderr
    result = CliRunner().invoke(app, [*command, "--preset", "certify", "--draws", "20"])
    assert result.exit_code == 0 and "nothing can be certified" not in result.output

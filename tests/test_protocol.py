# SPDX-License-Identifier: Apache-2.0
"""Modes, calibration, noise and what is written down, on tiny classifiers."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from attack_stand_ins import hashed, stand_ins, tiny_classifier
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dualmask.attacks import build_attack
from dualmask.attacks.base import Attack
from dualmask.attacks.oracles import VictimOracle
from dualmask.attacks.problem import Problem, Streams, Terms
from dualmask.attacks.running import Assault
from dualmask.classifier import DefendedClassifier, log_probabilities
from dualmask.defences import build_defence
from dualmask.defences.base import Defence, Noise
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.calibration import Revealed, Tempered, fit_temperature, tempered
from dualmask.evaluation.metrics import robustness
from dualmask.evaluation.noise import OWN, Averaged, Still, drawing, drawn, verified
from dualmask.evaluation.protocol import Protocol, evaluate, source_mark
from dualmask.evaluation.records import FITTED, TEMPERATURES, Cell, CellRecords, read_cell
from dualmask.models.victim import ZERO, ClassifierVictim, FunctionVictim
from dualmask.results import AttackResult
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Dataset, Example, Text
from dualmask.text.words import Words

FEW = Protocol(samples=12, measure=None)
CELL = Cell("reviews", "tiny", "plain", "deepwordbug", "adaptive", 0)


class Blurred(Defence):
    """Hides each token by the toss of a coin: from the text and a number, or anew."""

    name: ClassVar[str] = "blurred"

    def __init__(self, noise: Noise, rate: float = 0.3) -> None:
        super().__init__()
        self.kind, self.rate, self.number, self.asked, self.same = noise, rate, 0, 0, False

    @property
    def noise(self) -> Noise:
        return self.kind

    def redraw(self, number: int, *, same: bool = False) -> None:
        self.number, self.same = number, same

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        batch = encode(texts).to(device)
        masks = torch.zeros_like(batch.body)
        for row, text in enumerate(texts):
            self.asked += 1
            fresh, of = self.noise == "fresh" and not self.same, "" if self.same else text
            seed = self.asked if fresh else hashed(f"{self.number} {of}")
            toss = torch.rand(masks.shape[1], generator=torch.Generator().manual_seed(seed))
            masks[row] = (toss < self.rate) & batch.body[row]
        return replace(batch, masks=masks, input_ids=batch.input_ids.masked_fill(masks, encode.mask_id))


@pytest.fixture(scope="module")
def victims(tiny: Callable[[str], Path], data: Dataset) -> dict[str, DefendedClassifier]:
    return {name: tiny_classifier(tiny("bert"), name, data) for name in ("plain", "ddm")}


def deepwordbug(**options: object) -> Attack:
    return build_attack("deepwordbug", options=options, tools=stand_ins())


def blurred(classifier: DefendedClassifier, noise: Noise) -> DefendedClassifier:
    return DefendedClassifier(classifier.model, classifier.encode.tokenizer, Blurred(noise), labels=classifier.labels,
                              max_length=classifier.encode.max_length)


def voter(classifier: DefendedClassifier, **options: object) -> DefendedClassifier:
    return DefendedClassifier(classifier.model, classifier.encode.tokenizer, build_defence("ranmask", options=options),
                              labels=classifier.labels, max_length=classifier.encode.max_length)


def measured(cell: Cell, classifier: DefendedClassifier, data: Dataset, folder: Path, **more: Any) -> CellRecords:
    path = folder / cell.file_name
    evaluate(cell, classifier, data.test or [], more.pop("attack", None) or deepwordbug(),
             protocol=more.pop("protocol", FEW), out=path, **more)
    return read_cell(path)


def test_an_adaptive_cell_tells_how_it_came_about(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    found = measured(replace(CELL, defence="ddm"), victims["ddm"], data, tmp_path)
    header, about = found.header, found.header["about"]
    assert found.cell == replace(CELL, defence="ddm") and len(found.results) == header["texts"] == found.wanted == 12
    assert {key: header[key] for key in ("temperature", "noise", "eot", "draws", "passes", "source")} == {
        "temperature": 1.0, "noise": "none", "eot": 1, "draws": 0, "passes": "1", "source": None}
    assert isinstance(about, dict) and {"torch", "transformers", "dualmask", "python"} <= set(about["versions"])
    assert about["hardware"]["cores"] >= 1 and "revision" in about
    bare = victims["ddm"].predict([one.text for one in found.results], defended=False).probabilities.argmax(dim=1)
    assert [one.undefended for one in found.results] == bare.tolist()
    for one in found.results:
        for text, spans in ((one.text, one.hidden), (one.adversarial, one.hidden_after)):
            masked = victims["ddm"].predict([text], explain=True).masked if text is not None else None
            assert spans == (None if masked is None else tuple((m.start, m.end, m.part) for m in masked[0]))
    assert any(one.hidden_after for one in found.results)


def test_every_defence_gets_the_same_texts_whatever_the_training_seed(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    one = measured(CELL, victims["plain"], data, tmp_path)
    other = measured(replace(CELL, defence="ddm", seed=3), victims["ddm"], data, tmp_path)
    assert [r.text for r in one.results] == [r.text for r in other.results]
    drawn_anew = measured(replace(CELL, seed=1), victims["plain"], data, tmp_path,
                          protocol=replace(FEW, sample_seed=1))
    assert [r.index for r in drawn_anew.results] != [r.index for r in one.results]


def test_transfer_shows_the_plain_classifiers_texts_to_the_defended_one(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    source = measured(CELL, victims["plain"], data, tmp_path)
    cell = replace(CELL, defence="ddm", mode="transfer")
    found = measured(cell, victims["ddm"], data, tmp_path, source=source)
    assert [one.adversarial for one in found.results] == [one.adversarial for one in source.results]
    assert all((one.queries, one.rows, one.gradients) == (0, 0, 0) for one in found.results)
    assert found.header["source"] == source_mark(source) and found.header["attack"] == "deepwordbug"
    assert found.header["victim"] != source.header["victim"]
    defended = victims["ddm"]
    for one in found.results:
        before, after = defended.predict([one.text, one.adversarial or one.text]).probabilities.argmax(dim=1).tolist()
        expected = "skipped" if before != one.label else "succeeded" if after != one.label else "failed"
        assert (one.outcome, one.clean, one.predicted) == (expected, before, after)
    assert {"failed", "succeeded"} & {one.outcome for one in found.results}


def test_the_plain_classifier_has_no_accuracy_left_on_texts_that_fooled_it(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    source = measured(CELL, victims["plain"], data, tmp_path)
    fooled = [one.index for one in source.results if one.outcome == "succeeded"]
    assert fooled
    found = measured(replace(CELL, mode="transfer-successful"), victims["plain"], data, tmp_path, source=source)
    assert [one.index for one in found.results] == fooled and found.wanted == len(fooled)
    assert robustness(found.results).accuracy_under_attack == 0


def test_transfer_of_a_plain_classifier_to_itself_is_the_adaptive_attack(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    source = measured(CELL, victims["plain"], data, tmp_path)
    found = measured(replace(CELL, mode="transfer"), victims["plain"], data, tmp_path, source=source)
    assert robustness(found.results) == robustness(source.results)


def test_modes_that_lack_what_they_need_are_refused(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    plain = victims["plain"]
    with pytest.raises(OptionError, match="measure that one first"):
        measured(replace(CELL, mode="transfer"), plain, data, tmp_path)
    with pytest.raises(OptionError, match="defence-aware"):
        measured(replace(CELL, mode="defence-aware"), plain, data, tmp_path)
    with pytest.raises(OptionError, match="validation data"):
        measured(replace(CELL, scores="calibrated"), plain, data, tmp_path)
    source = measured(CELL, plain, data, tmp_path)
    with pytest.raises(OptionError, match="has no record of text"):
        measured(replace(CELL, mode="transfer"), plain, data, tmp_path, source=source,
                 protocol=replace(FEW, samples=20))
    with pytest.raises(OptionError, match="other settings"):
        measured(CELL, plain, data, tmp_path, protocol=replace(FEW, attack_seed=5))
    with pytest.raises(OptionError, match="texts that are to be replayed"):
        evaluate(replace(CELL, mode="transfer"), plain, data.test or [], deepwordbug(), protocol=FEW,
                 out=source.path, source=source, overwrite=True)
    assert not list(tmp_path.glob("*transfer*")) and len(read_cell(tmp_path / CELL.file_name).results) == 12


def test_what_is_there_is_not_done_again(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    whole = measured(CELL, victims["plain"], data, tmp_path)
    path = tmp_path / CELL.file_name
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:6]) + lines[6][:20], encoding="utf-8")  # killed while it wrote the sixth
    seen: list[int] = []
    again = measured(CELL, victims["plain"], data, tmp_path, watch=lambda one: seen.append(one.index))
    assert len(seen) == 7
    assert [replace(one, seconds=0) for one in again.results] == [replace(one, seconds=0) for one in whole.results]


# Calibration


rows_of = st.lists(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), min_size=1, max_size=6)


@given(rows_of, st.floats(0.1, 10))
@settings(max_examples=60, deadline=None)
def test_a_temperature_moves_no_decision(rows: list[list[float]], temperature: float) -> None:
    given_rows = np.array(rows) / np.array(rows).sum(axis=1, keepdims=True)
    found = np.exp(tempered(np.log(given_rows), temperature))
    assert np.allclose(found.sum(axis=1), 1)
    # equal shares may swap by a rounding error; a clear winner stays
    top = np.sort(given_rows, axis=1)
    clear = top[:, -1] - top[:, -2] > 1e-9
    assert (found.argmax(axis=1) == given_rows.argmax(axis=1))[clear].all()
    assert np.allclose(np.exp(tempered(np.log(found), 1 / temperature)), given_rows, atol=1e-6)


@pytest.mark.parametrize("true", [0.4, 1.0, 3.0])
def test_the_temperature_of_a_known_miscalibration_is_found(true: float) -> None:
    generator = np.random.default_rng(0)
    honest = generator.dirichlet([1, 1, 1], size=20_000)
    labels = [int(generator.choice(3, p=row)) for row in honest]
    assert fit_temperature(tempered(np.log(honest), 1 / true), labels) == pytest.approx(true, rel=0.05)


def test_the_fit_is_the_best_of_a_fine_grid() -> None:
    generator = np.random.default_rng(1)
    rows = generator.dirichlet([0.3, 0.3], size=200)
    labels = [int(generator.random() < 0.7 * row[1] + 0.15) for row in rows]
    choices = np.exp(np.linspace(*np.log(TEMPERATURES), 4001))
    losses = [-tempered(np.log(rows), value)[np.arange(200), labels].mean() for value in choices]
    assert fit_temperature(np.log(rows), labels) == pytest.approx(float(choices[int(np.argmin(losses))]), rel=0.01)


def test_a_temperature_of_nothing_is_refused() -> None:
    with pytest.raises(DataError, match="one row of log-probabilities for each label"):
        fit_temperature(np.zeros((0, 2)), [])


def test_calibrated_scores_are_what_the_attack_sees(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    found = measured(replace(CELL, scores="calibrated"), victims["plain"], data, tmp_path, validation=data.train)
    raw = measured(CELL, victims["plain"], data, tmp_path)
    temperature = found.header["temperature"]
    assert isinstance(temperature, float) and temperature != 1.0
    one = found.results[0]
    share = Tempered(ClassifierVictim(victims["plain"]), temperature).probabilities([one.text])[0, one.label]
    assert one.probability == pytest.approx(share, abs=2e-4)
    assert [r.clean for r in found.results] == [r.clean for r in raw.results]


def test_calibrated_scores_of_votes_have_a_slope(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    """The views' probabilities behind the shares, which decide as before."""
    classifier = voter(victims["plain"], votes=5)
    texts = [example.text for example in data.train]
    shares = classifier.predict(texts, early=False).probabilities.numpy()
    rows = Revealed(classifier).probabilities(texts)
    assert (rows.argmax(axis=1) == shares.argmax(axis=1)).all() and np.abs(rows - shares).max() <= 0.1
    assert np.allclose(rows.sum(axis=1), 1) and len({*rows[:, 0]}) > 10 > len({*shares[:, 0]})
    cells = [measured(replace(CELL, defence="ranmask", scores=scores), classifier, data, tmp_path,
                      validation=data.train, protocol=replace(FEW, eot=1)) for scores in ("raw", "calibrated")]
    assert [[one.clean for one in cell.results] for cell in cells] == 2 * [[one.clean for one in cells[0].results]]
    assert "with its views' probabilities" in str(cells[1].header["victim"])


@pytest.mark.parametrize("eot", [1, 3])
def test_the_temperature_of_votes_is_fitted_on_what_the_attack_sees(
    eot: int, victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    """Shares of votes alone are 0 or 1 for most texts, and ask for a far higher one."""
    classifier = voter(victims["plain"], votes=3)
    found = measured(replace(CELL, defence="ranmask", scores="calibrated"), classifier, data, tmp_path,
                     validation=data.train, protocol=replace(FEW, samples=2, eot=eot))
    attacked = Revealed(classifier) if eot == 1 else Averaged(classifier, eot, Revealed(classifier))
    texts, labels = [one.text for one in data.train], [one.label for one in data.train]
    fitted = fit_temperature(attacked.log_probabilities(texts), labels)
    on_votes = fit_temperature(ClassifierVictim(classifier).log_probabilities(texts), labels)
    assert found.header["temperature"] == fitted and abs(np.log(on_votes / fitted)) > 0.5
    assert found.header["temperature_fitted_on"] == FITTED
    assert str(found.header["victim"]) == f"{attacked.describe()} at temperature {fitted}"
    raw = measured(replace(CELL, defence="ranmask"), classifier, data, tmp_path, protocol=replace(FEW, samples=2))
    assert raw.header["temperature"] == 1.0 and "temperature_fitted_on" not in raw.header


# Scores near 0 and 1


def sure(classifier: DefendedClassifier, factor: float) -> DefendedClassifier:
    """The same with logits so many times as large: its decisions, and no doubt about any."""
    model = deepcopy(classifier.model)
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            parameter.mul_(factor)
    return DefendedClassifier(model, classifier.encode.tokenizer, build_defence("plain"), labels=classifier.labels,
                              max_length=classifier.encode.max_length)


def gaps(classifier: DefendedClassifier, texts: Sequence[Text]) -> Tensor:
    table = classifier.logits(texts)[0]
    return table[:, 1] - table[:, 0]


@pytest.mark.parametrize("temperature", [1.0, 1.4])
def test_a_calibrated_attack_sees_differences_between_texts_that_are_all_0_or_1(
    temperature: float, victims: dict[str, DefendedClassifier], data: Dataset,
) -> None:
    texts = [one.text for one in data.train if one.label == 1][:40]
    least = float(gaps(victims["plain"], texts).abs().min())
    classifier = sure(victims["plain"], 150 / least)
    odds = gaps(classifier, texts)
    assert odds.abs().min() > 100 and odds.unique().numel() > 10
    assert set(classifier.predict(texts).probabilities.flatten().tolist()) == {0.0, 1.0}
    victim = Tempered(ClassifierVictim(classifier), temperature)
    rows = VictimOracle(victim).answers(texts)
    problem = Problem(Words("a"), 1, streams=Streams(0), terms=Terms())
    assert np.allclose([problem.score(row) for row in rows], -odds.double().numpy() / temperature)
    assert [row.index(max(row)) for row in rows] == (odds > 0).tolist()
    beliefs = [problem.belief(row) for row, gap in zip(rows, odds, strict=True) if gap > 0]
    assert len(set(beliefs)) > 1 == len({row[1] for row, gap in zip(rows, odds, strict=True) if gap > 0})


@pytest.mark.parametrize("preset", ["textattack-0.3.11", "paper"])
def test_an_attack_on_a_very_sure_classifier_finds_what_it_finds_on_the_same_that_is_less_so(
    preset: str, victims: dict[str, DefendedClassifier], data: Dataset,
) -> None:
    """Under the temperature that takes its sureness back; its raw scores hide where to go."""
    plain, found = victims["plain"], []
    for victim in (ClassifierVictim(plain), Tempered(ClassifierVictim(sure(plain, 1e5)), 1e5),
                   ClassifierVictim(sure(plain, 1e5))):
        attack = build_attack("deepwordbug", preset=preset, tools=stand_ins())
        run = Assault(victim, attack, measure=None).run(list(enumerate(data.test or []))[:12])
        found.append([one.adversarial for one in sorted(run, key=lambda one: one.index)])
    assert found[0] == found[1] != found[2] and any(found[0])


def test_log_probabilities_are_those_of_the_probabilities_and_know_more(
    victims: dict[str, DefendedClassifier], data: Dataset,
) -> None:
    texts = [one.text for one in data.train][:20]
    for classifier in (victims["plain"], victims["ddm"], voter(victims["plain"], votes=5),
                       voter(victims["plain"], votes=5, decision="mean")):
        found = classifier.predict(texts, early=False)
        logs = found.log_probabilities
        assert logs is not None and logs.dtype == torch.float64
        assert torch.allclose(logs.exp().float(), found.probabilities, atol=1e-6)
        assert torch.equal(logs.argmax(dim=1), found.probabilities.argmax(dim=1))
        for victim in (ClassifierVictim(classifier), Revealed(classifier), Averaged(classifier, 2)):
            rows = victim.log_probabilities(texts)
            assert np.isfinite(rows).all() and np.allclose(np.exp(rows), victim.probabilities(texts), atol=1e-6)
    server = FunctionVictim(lambda texts: [[1.0, 0.0]] * len(texts))
    assert np.allclose(Tempered(server, 2.0).log_probabilities(["x"]), [[0.0, np.log(ZERO) / 2]])


def test_a_tie_that_rounding_made_is_decided_as_before() -> None:
    together = torch.tensor([[0.1, np.nextafter(np.float32(0.1), np.float32(1))]])
    answers = together.softmax(dim=1)
    assert answers[0, 0] == answers[0, 1]
    assert log_probabilities(together, answers).argmax(dim=1).item() == answers.argmax(dim=1).item() == 0


# Noise


def test_text_noise_repeats_itself_and_new_numbers_change_it(victims: dict[str, DefendedClassifier]) -> None:
    classifier = blurred(victims["plain"], "text")
    texts = ["the good movie was a great plot", "a dull scene with a poor actor"]
    first, again = (classifier.predict(texts).probabilities for _ in range(2))
    assert torch.equal(first, again)
    assert torch.allclose(classifier.predict(texts[::-1]).probabilities.flip(0), first, atol=1e-5)
    answers = drawn(classifier, texts, range(5))
    assert np.allclose(answers[0], first.numpy()) and not np.allclose(answers[1], answers[0])
    assert torch.equal(classifier.predict(texts).probabilities, first)  # number 0 again
    mean = Averaged(classifier, 5)
    assert np.allclose(mean.probabilities(texts), np.mean(answers, axis=0)) and mean.cost == 5


def test_fresh_noise_is_drawn_for_every_question(victims: dict[str, DefendedClassifier], data: Dataset) -> None:
    classifier = blurred(victims["plain"], "fresh")
    victim = ClassifierVictim(classifier)
    assert victim.fresh and not ClassifierVictim(blurred(victims["plain"], "text")).fresh
    work = Assault(victim, deepwordbug(), measure=None, width=8)
    twins = [(number, Example("the good movie was a great plot", 1)) for number in range(8)]
    before = classifier.defence.asked  # type: ignore[union-attr]
    results = list(work.run(twins))
    read = classifier.defence.asked - before  # type: ignore[operator]
    assert read == sum(one.rows for one in results)  # nothing remembered, nothing shared between equal texts
    assert len({one.probability for one in results}) > 1


def test_a_query_of_an_averaged_victim_costs_its_draws(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    classifier = blurred(victims["plain"], "text")
    one = measured(replace(CELL, defence="blurred"), classifier, data, tmp_path, protocol=replace(FEW, eot=1))
    ten = measured(replace(CELL, defence="blurred10"), classifier, data, tmp_path, protocol=replace(FEW, eot=10))
    assert (one.header["eot"], ten.header["eot"], ten.header["draws"]) == (1, 10, 10)
    # The judge's word on the text and on the answer is no query; its words on what looked like a success are
    assert all(r.queries >= 10 and (r.rows - r.queries) % 10 in (1, 2) for r in ten.results)
    assert any(r.queries % 10 for r in ten.results)
    with pytest.raises(OptionError, match="takes 10 queries"):
        measured(replace(CELL, defence="few"), classifier, data, tmp_path, attack=deepwordbug(queries=9))
    limited = measured(replace(CELL, defence="limited"), classifier, data, tmp_path,
                       protocol=replace(FEW, eot=10), attack=deepwordbug(queries=35))
    assert 30 <= max(r.queries for r in limited.results) <= 35
    assert {r.outcome for r in limited.results} >= {"out-of-queries"}


@pytest.mark.parametrize("noise", ["text", "fresh"])
def test_a_success_must_outlive_new_noise(noise: Noise, victims: dict[str, DefendedClassifier]) -> None:
    """Unless the same text always gets the same answer; then it is told how many new draws repeat it."""
    classifier = blurred(victims["plain"], noise)
    text = "the good movie was a great plot"
    labels = [int(row[0].argmax()) for row in drawn(classifier, [text], range(1 << 20, (1 << 20) + 11))]
    base = AttackResult(
        index=0, text="x", label=0, outcome="succeeded", adversarial=text, clean=0, predicted=1, probability=0.5,
        probability_after=0.5, queries=1, rows=1, gradients=0, words=1, changed=0, similarity=None, seconds=0.0)
    for label in (0, 1):
        wrong = sum(found != label for found in labels)
        found = verified(classifier, replace(base, label=label), 11)
        assert found.draws == 11 and (noise == "fresh" or found.wrong_draws == wrong)
        assert found.outcome == ("succeeded" if noise == "text" or found.wrong_draws >= 6 else "unconfirmed")
    assert verified(victims["plain"], base, 11) == base  # no noise, nothing to draw
    held = replace(base, outcome="failed")
    assert verified(classifier, held, 11) == held


@pytest.mark.parametrize("noise", ["text", "fresh"])
def test_draws_are_held_still_beside_the_own_decision(
    noise: Noise, victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    """Who wins is the classifier's own answer; the rest is a mean that knows no text."""
    classifier = blurred(victims["plain"], noise)
    texts = [f"the {word} movie was a great plot" for word in ("good", "bad", "dull", "fine")]
    victim, twice = Still(classifier, 3), []
    for _ in range(2):
        rows = victim.probabilities(texts)
        own = rows >= OWN
        assert (own.sum(axis=1) == 1).all() and np.allclose(rows.sum(axis=1), 1.0)
        twice.append(rows - OWN * own)
    assert np.allclose(*twice) and victim.cost == 4
    with drawing(classifier, 2, same=True):
        third = classifier.predict(texts).probabilities
        assert torch.equal(third, classifier.predict(texts).probabilities)
        assert torch.allclose(third[:1], classifier.predict(texts[:1]).probabilities, atol=1e-5)
    if noise == "text":
        assert (own.argmax(axis=1) == classifier.predict(texts).probabilities.argmax(dim=1).numpy()).all()
        found = measured(replace(CELL, defence="blurred", scores="still"), classifier, data, tmp_path,
                         protocol=replace(FEW, eot=3))
        assert found.header["temperature"] == 1.0 and "3 draws held still" in str(found.header["victim"])
        assert all(one.queries % 4 == 0 for one in found.results)
        first = classifier.predict([one.text for one in found.results]).probabilities.argmax(dim=1).tolist()
        assert [one.clean for one in found.results] == first


def test_averaging_guides_the_search_and_decides_nothing(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    """Clean accuracy is the defence's own, one draw, however many the attack averages over."""
    classifier = blurred(victims["plain"], "text")
    cells = [measured(replace(CELL, defence=f"eot{draws}"), classifier, data, tmp_path,
                      protocol=replace(FEW, samples=None, eot=draws)) for draws in (1, 25)]
    own = classifier.predict([one.text for one in cells[0].results]).probabilities.argmax(dim=1).tolist()
    mean = Averaged(classifier, 25).probabilities([one.text for one in cells[0].results]).argmax(axis=1).tolist()
    assert own != mean  # else this shows nothing
    for cell in cells:
        assert [one.clean for one in cell.results] == own
        assert [one.outcome == "skipped" for one in cell.results] == [
            found != one.label for found, one in zip(own, cell.results, strict=True)]


@pytest.mark.parametrize("noise", ["text", "fresh"])
def test_one_fresh_draw_does_not_decide_about_transferred_texts(
    noise: Noise, victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    """An answer that will be given again does, as where the classifier is asked: the figures stand side by side."""
    source = measured(CELL, victims["plain"], data, tmp_path)
    classifier = blurred(victims["plain"], noise)
    found = measured(replace(CELL, defence="blurred", mode="transfer"), classifier, data, tmp_path, source=source,
                     protocol=replace(FEW, draws=11))
    shown = [one for one in found.results if one.outcome != "skipped" and one.adversarial is not None]
    for one in shown:
        rows = drawn(classifier, [one.adversarial or ""], range(1 << 20, (1 << 20) + 11))
        wrong = sum(int(row[0].argmax()) != one.label for row in rows)
        assert one.draws == 11 and (noise == "fresh" or one.wrong_draws == wrong)
        fooled = one.predicted != one.label if noise == "text" else one.wrong_draws > 5
        assert one.outcome == ("succeeded" if fooled else "failed")
    assert any((one.wrong_draws > 5) != (one.predicted != one.label) for one in shown)  # a draw that misled


def test_noise_makes_no_attack_of_a_text_that_was_not_changed(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    source = measured(CELL, victims["plain"], data, tmp_path, protocol=replace(FEW, samples=None))
    found = measured(replace(CELL, defence="blurred", mode="transfer"), blurred(victims["plain"], "fresh"), data,
                     tmp_path, source=source, protocol=replace(FEW, samples=None))
    same = [one for one in found.results if one.adversarial is None]
    assert same and all(one.clean == one.predicted and one.outcome in ("skipped", "failed") for one in same)


class Shortened(Defence):
    """Rewrites a text: without its last word."""

    name: ClassVar[str] = "shortened"
    explainable: ClassVar[bool] = False

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        return encode([str(text).rpartition(" ")[0] for text in texts]).to(device)


def test_defences_that_rewrite_texts_are_evaluated(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    plain = victims["plain"]
    classifier = DefendedClassifier(plain.model, plain.encode.tokenizer, Shortened(), labels=plain.labels,
                                    max_length=plain.encode.max_length)
    found = measured(replace(CELL, defence="shortened"), classifier, data, tmp_path)
    assert all(one.hidden is None for one in found.results) and len(found.results) == 12
    with pytest.raises(OptionError, match="rewrites texts"):
        classifier.predict(["a dull movie"], explain=True)


def test_source_marks_tell_other_texts_apart(
    victims: dict[str, DefendedClassifier], data: Dataset, tmp_path: Path,
) -> None:
    source = measured(CELL, victims["plain"], data, tmp_path)
    first = source.results[0]
    for change in ({"adversarial": "other"}, {"outcome": "victim-error"}, {"index": 999}):
        other = source._replace(results=[replace(first, **change), *source.results[1:]])  # type: ignore[arg-type]
        assert source_mark(other)["digest"] != source_mark(source)["digest"]
    timed = source._replace(results=[replace(first, seconds=9.0), *source.results[1:]])
    assert source_mark(timed) == source_mark(source)


def test_protocol_settings_are_checked() -> None:
    for wrong in ({"samples": 0}, {"eot": 0}, {"draws": -1}):
        with pytest.raises(OptionError):
            Protocol(**wrong)  # type: ignore[arg-type]
    assert asdict(Protocol()) == {"samples": 1000, "sample_seed": 0, "attack_seed": 0, "eot": 10, "draws": 10,
                                  "measure": "minilm"}


def test_a_tempered_victim_is_otherwise_the_same(victims: dict[str, DefendedClassifier]) -> None:
    inner = ClassifierVictim(victims["ddm"])
    outer = Tempered(inner, 2.0)
    for name in ("labels", "classifier", "device", "rows", "unknown", "fresh", "cost"):
        assert getattr(outer, name) == getattr(inner, name)
    assert outer.describe() != inner.describe()

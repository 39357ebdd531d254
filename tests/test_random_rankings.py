# SPDX-License-Identifier: Apache-2.0
"""Words by chance, a control for what attacks' rankings are worth: nothing is asked for it, and it repeats itself."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from attack_stand_ins import HashVictim, assault, records, stand_ins, tiny_language_model

from dualmask.attacks import build_attack
from dualmask.attacks.base import Attack, Tools
from dualmask.evaluation.records import read_cells

ROOT = Path(__file__).parents[1]
USUAL = {"textfooler": "deletion", "textbugger": "delete", "bertattack": "unk", "pwws": "saliency"}
LOOSE = {"similarity": None, "fix_premise": False}
WORDS = ("scene", "actor", "plot", "movie", "rare", "fine")
VICTIM = HashVictim(gain=0.5)
EXAMPLES = list(enumerate(VICTIM.examples([
    f"the good {word} was a fine movie and a superb plot with some dull actor in it" for word in WORDS])))


@pytest.fixture(scope="module")
def tools(tiny: Callable[[str], Path]) -> Tools:
    return stand_ins(tiny_language_model(tiny("bert")))


def build(name: str, tools: Tools, ranking: str = "random", **options: object) -> Attack:
    return build_attack(name, options={**LOOSE, "ranking": ranking, **options}, tools=tools)


def asked(attack: Attack) -> list[str]:
    """What the victim is asked about the first text, in order, without the first look."""
    run = assault(VICTIM, attack)
    run.logs = {}
    list(run.run(EXAMPLES[:1]))
    return run.logs[0][1:]


@pytest.mark.parametrize("name", USUAL)
def test_order_and_batch_change_nothing_and_the_seed_does(name: str, tools: Tools) -> None:
    attack = build(name, tools)
    found = records(list(assault(VICTIM, attack).run(EXAMPLES)))
    assert found == records(list(assault(VICTIM, attack, width=1).run(EXAMPLES[::-1])))
    assert any(found != records(list(assault(VICTIM, attack, seed=seed).run(EXAMPLES))) for seed in (1, 2, 3))


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in USUAL), ("pwws", {"search": "fixed"})])
def test_nothing_is_asked_for_it(name: str, options: dict[str, object], tools: Tools) -> None:
    """Rankings ask about the text without each of its words, or with an unknown one there."""
    words = len(str(EXAMPLES[0][1].text).split())

    def tells_ranks(text: str) -> bool:
        return len(text.split()) < words or VICTIM.unknown in text.split()

    assert sum(map(tells_ranks, asked(build(name, tools, USUAL[name], **options)))) > 3
    assert not any(map(tells_ranks, asked(build(name, tools, **options))))


def test_pwws_still_puts_in_the_best_synonym_of_each_word(tools: Tools) -> None:
    """Chosen beforehand, on the original: in whatever order."""
    def changes(ranking: str) -> dict[int, str]:
        last = asked(build("pwws", tools, ranking, search="fixed"))[-1].split()
        before = str(EXAMPLES[0][1].text).split()
        return {place: new for place, (old, new) in enumerate(zip(before, last, strict=True)) if old != new}

    usual, chance = changes("saliency"), changes("random")
    shared = usual.keys() & chance.keys()
    assert shared and all(chance[place] == usual[place] for place in shared)


def test_records_of_before_have_the_options_of_today() -> None:
    """An option that came up later and changes nothing is not written down."""
    for one in read_cells(ROOT / "results" / "ttso.jsonl.gz").cells:
        attack = build_attack(str(one.header["attack"]), preset=str(one.header["preset"]))
        assert json.loads(json.dumps(attack.lasting_options())) == one.header["options"], one.cell.attack
    chance = build_attack("textfooler", options={"ranking": "random"})
    assert chance.options_as_dict()["ranking"] == "random" and chance.changes(chance.preset) == {"ranking": "random"}

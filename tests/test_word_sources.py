# SPDX-License-Identifier: Apache-2.0
"""Whose synonyms methods take, and which attack defences learn from: what classes declare is what reports read."""

from pathlib import Path

import pytest
from attack_stand_ins import NEAR, Synonyms, stand_ins

from dualmask.attacks import ATTACKS, build_attack
from dualmask.attacks.base import Attack
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.adversaries import Adversaries
from dualmask.threats import ASSET as THREATS_ASSET
from dualmask.threats import as_asset as threats_as_asset
from dualmask.threats import threat_of
from dualmask.word_sources import ASSET, as_asset, learned_attacks, synonym_tables

PLACE = Path(__file__).parents[1] / "src" / "dualmask" / "assets" / ASSET


def test_the_asset_is_what_classes_declare() -> None:
    assert PLACE.read_text(encoding="utf-8") == as_asset([*ATTACKS.values(), *DEFENCES.values()]), (
        "run python tools/build_word_sources.py")


def test_every_attack_has_a_threat_that_reports_know_without_loading_it() -> None:
    assert (PLACE.parent / THREATS_ASSET).read_text(encoding="utf-8") == threats_as_asset(ATTACKS.values()), (
        "run python tools/build_word_sources.py")
    assert {name: threat_of(name) for name in ATTACKS} == {name: kind.threat for name, kind in ATTACKS.items()}
    assert all(kind.threat and kind.threat.help.endswith(".") for kind in ATTACKS.values())
    assert threat_of("deepwordbug") != threat_of("textfooler") and threat_of("somebody-elses") is None


@pytest.mark.parametrize(("name", "options"), [
    *((name, {}) for name in ("deepwordbug", "textbugger", "pwws", "textfooler", "hotflip", "a2t", "frequent")),
    ("pwws", {"source": "vectors"}), ("hotflip", {"pool": "vocabulary"}),
])
def test_attacks_take_their_words_from_the_tables_that_they_declare(
    name: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: set[str] = set()

    def synonyms(self: Attack, table: str) -> Synonyms:
        asked.add(table)
        return Synonyms(NEAR)

    monkeypatch.setattr(Attack, "synonyms", synonyms)
    monkeypatch.setattr("dualmask.text.wordnet.load_wordnet", lambda: asked.add("wordnet"))
    attack = build_attack(name, options=options, tools=stand_ins(wordnet=None))
    attack.transformations()
    assert asked == set(synonym_tables("attack", name, attack.options_as_dict()))


@pytest.mark.parametrize(("name", "options", "tables"), [
    ("plain", {}, ()), ("ddm", {}, ()), ("ranmask", {}, ()), ("freelb++", {}, ()),
    ("safer", {}, ("shipped",)), ("safer", {"synonyms": "mine.txt"}, ("mine.txt",)), ("textrs", {}, ("shipped",)),
    ("adfar", {}, ("shipped",)), ("a2t", {}, ("shipped",)), ("a2t", {"records": "old.jsonl"}, ()),
    ("fgws", {}, ("shipped",)), ("fgws", {"synonyms": "both"}, ("shipped", "wordnet")),
    ("ddm-restore", {}, ("shipped",)), ("ddm-restore", {"sources": ["shipped", "wordnet"]}, ("shipped", "wordnet")),
    ("ddm-restore", {"synonyms": "none", "worst_share": 0.0}, ()),
    ("ddm-restore", {"synonyms": "none", "worst_share": 0.0, "votes": 10}, ("shipped",)),
    ("ddm+freelb++", {}, ()), ("ddm-restore+a2t", {"synonyms": "none", "a2t_synonyms": "mine.txt"}, (
        "mine.txt", "shipped")),
])
def test_what_defences_declare_depends_on_their_options(
    name: str, options: dict[str, object], tables: tuple[str, ...],
) -> None:
    assert synonym_tables("defence", name, options) == tables


def test_the_attack_that_a_defence_learns_from_is_the_one_that_it_runs() -> None:
    for name in DEFENCES:
        found = [one.attack for one in vars(build_defence(name)).values() if isinstance(one, Adversaries)]
        assert list(learned_attacks(name, {})) == found
    assert learned_attacks("adfar", {"records": "old.jsonl"}) == () and learned_attacks("ddm+a2t", {}) == ("a2t",)

# SPDX-License-Identifier: Apache-2.0
"""WordNet: a small database written in the real format, and the real one against NLTK's answers."""

import csv
import hashlib
import re
from pathlib import Path

import pytest

from dualmask.errors import OptionError, ResourceError
from dualmask.resources import resolve, status
from dualmask.text.wordnet import WordNet, load_wordnet

LICENCE = "  1 This software and database is being provided to you under the following licence.  \n"
MANY = [f"name{number}" for number in range(17)]  # 17 names: the count is hexadecimal
SENSES: dict[str, list[list[str]]] = {
    "noun": [["film", "movie", "moving_picture"], ["Film", "photographic_film"], ["man"], ["goose"], MANY, ["run"]],
    "verb": [["film", "shoot"], ["run", "operate"], ["run", "scat"], ["hope"], ["hop"], ["die"]],
    "adj": [["good", "full"], ["alone(p)"], ["mere(a)", "bare"], ["well(p)"], ["large", "big"], ["galore(ip)"]],
    "adv": [["well", "good"], ["fast"]],
}
EXCEPTIONS = {"noun": ["geese goose", "men man"], "verb": ["ran run", "dying die", "runs run"],
              "adj": ["better good well", "best unknown"], "adv": ["best well"]}


def write_database(folder: Path) -> Path:
    """The files of WordNet 3.0 with a handful of entries: byte offsets, counts, pointers, glosses, licence lines."""
    for name, senses in SENSES.items():
        data, places = LICENCE, {}
        for names in senses:
            places[len(data)] = names
            listed = " ".join(f"{each} 0" for each in names)
            kind = "s" if name == "adj" else name[0]
            data += f"{len(data):08d} 00 {kind} {len(names):02x} {listed} 001 @ 00000001 n 0000 | a gloss; said 0  \n"
        (folder / f"data.{name}").write_text(data, newline="\n")
        lemmas: dict[str, list[int]] = {}
        for place, names in places.items():
            for each in names:
                lemmas.setdefault(re.sub(r"\(.*", "", each).lower(), []).append(place)
        if name == "verb":
            lemmas["run"].reverse()  # the index says which sense comes first, not the data file
        index = LICENCE
        for lemma, found in sorted(lemmas.items()):
            index += f"{lemma} {name[0]} {len(found)} 2 @ + {len(found)} 1 {' '.join(f'{at:08d}' for at in found)}  \n"
        (folder / f"index.{name}").write_text(index, newline="\n")
        (folder / f"{name}.exc").write_text("\n".join(EXCEPTIONS[name]) + "\n", newline="\n")
    return folder


@pytest.fixture
def small(tmp_path: Path) -> WordNet:
    return WordNet(write_database(tmp_path))


@pytest.fixture(scope="module")
def real() -> WordNet:
    if status("wordnet").state != "cached":
        pytest.skip("wordnet is not fetched: dualmask resources fetch wordnet")
    return load_wordnet()


def test_all_senses_in_order_without_repeats(small: WordNet) -> None:
    assert small.synonyms("film") == ["film", "movie", "moving_picture", "Film", "photographic_film", "shoot"]
    assert small.synonyms_of("film", "v") == ["film", "shoot"]
    assert small.synonyms_of("run", "v") == ["run", "scat", "operate"]
    assert small.synonyms("nothing") == small.synonyms("") == small.synonyms_of("film", "r") == []


def test_case_is_ignored_in_the_question_only(small: WordNet) -> None:
    assert small.synonyms("FILM") == small.synonyms("film")
    assert small.synonyms("Moving_Picture") == ["film", "movie", "moving_picture"]
    assert small.synonyms("moving picture") == []


def test_counts_are_hexadecimal(small: WordNet) -> None:
    assert small.synonyms("name16") == MANY


@pytest.mark.parametrize(("word", "expected"), [
    ("alone", ["alone"]), ("mere", ["mere", "bare"]), ("galore", ["galore"]), ("well", ["well", "good"])])
def test_markers_are_stripped(small: WordNet, word: str, expected: list[str]) -> None:
    assert small.synonyms(word) == expected


@pytest.mark.parametrize(("word", "part", "expected"), [
    ("films", "n", ["film", "movie", "moving_picture", "Film", "photographic_film"]),
    ("geese", "n", ["goose"]),
    ("men", "n", ["man"]),
    ("hoping", "v", ["hope", "hop"]),  # both "hope" and "hop" may lie behind it, in the order of the rules
    ("hoped", "v", ["hope", "hop"]),
    ("ran", "v", ["run", "scat", "operate"]),
    ("dying", "v", ["die"]),
    ("larger", "a", ["large", "big"]),
    ("largest", "a", ["large", "big"]),
    ("better", "a", ["good", "full", "well"]),
    ("best", "a", []),  # an exception whose base is no entry: no rule is tried after it
    ("best", "r", ["well", "good"]),
    ("faster", "r", []),  # adverbs have exceptions but no rules
    ("filmss", "n", []),  # rules are applied once
])
def test_inflected_forms(small: WordNet, word: str, part: str, expected: list[str]) -> None:
    assert small.synonyms_of(word, part) == expected  # type: ignore[arg-type]


def test_answers_can_be_changed_by_the_caller(small: WordNet) -> None:
    small.synonyms_of("film", "n").clear()
    small.synonyms("film").clear()
    assert small.synonyms_of("film", "n")[:2] == small.synonyms("film")[:2] == ["film", "movie"]


def test_unknown_parts_and_broken_folders_are_named(small: WordNet, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"unknown part of speech 'noun'.*known: a, n, r, v"):
        small.synonyms_of("film", "noun")  # type: ignore[arg-type]
    with pytest.raises(ResourceError, match=r"no WordNet database.*index.noun.*resources fetch wordnet"):
        WordNet(tmp_path / "elsewhere")
    (tmp_path / "data.verb").write_bytes(b"")
    with pytest.raises(ResourceError, match="no WordNet database"):
        WordNet(tmp_path)


def test_a_lexicon_is_a_name_or_a_folder(tmp_path: Path) -> None:
    folder = write_database(tmp_path)
    assert WordNet(resolve(str(folder), kind="lexicon")).synonyms("geese") == ["goose"]
    with pytest.raises(ResourceError, match=r"'wordnett' is no named lexicon and no local path: choose wordnet"):
        resolve("wordnett", kind="lexicon")
    with pytest.raises(ResourceError, match=r"'wordnet' is of kind lexicon, but encoder is needed"):
        resolve("wordnet", kind="encoder")


def test_known_answers(real: WordNet) -> None:
    """As NLTK 3.10.4 gives them."""
    assert real.synonyms("Geese")[:6] == ["goose", "fathead", "goof", "goofball", "bozo", "jackass"]
    assert real.synonyms("alone")[:4] == ["alone", "lone", "lonely", "solitary"]
    assert real.synonyms_of("alone", "r") == ["entirely", "exclusively", "solely", "alone", "only", "solo",
                                              "unaccompanied"]
    assert real.synonyms_of("movies", "n")[-4:] == ["motion-picture_show", "picture_show", "pic", "flick"]


@pytest.mark.shared
def test_every_word_of_mr_gets_nltks_answer(real: WordNet, shared: Path) -> None:
    """The digest is of NLTK 3.10.4's answers: tools/compare_wordnet.py prints it."""
    with (shared / "data" / "mr" / "test.csv").open(encoding="utf-8", newline="") as stream:
        texts = [row["text"] for row in csv.DictReader(stream)]
    words = {word for text in texts for word in (*text.split(), *re.findall(r"[\w'-]+", text))}
    words |= {form for word in words for form in (word.lower(), word.upper(), word.capitalize())}
    answers = "\n".join(f"{word} {' '.join(real.synonyms(word))}" for word in sorted(words))
    expected = "b7ed9925c77741fca9d2da77e102f900b0e18aa81ae0d00d0960ab96bd16aa28"
    assert hashlib.sha256(answers.encode()).hexdigest() == expected

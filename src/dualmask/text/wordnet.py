# SPDX-License-Identifier: Apache-2.0
"""WordNet's synonyms, read from its own database files; the same answers in the same order as NLTK 3.9 and later."""

import mmap
import re
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from dualmask.errors import OptionError, ResourceError, did_you_mean
from dualmask.system_errors import told_reason

Part = Literal["n", "v", "a", "r"]

_FILES: dict[Part, str] = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Endings of inflected forms, each with what the base form has instead; WordNet's own rules, in its order.
_ENDINGS: dict[Part, tuple[tuple[str, str], ...]] = {
    "n": (("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"),
          ("men", "man"), ("ies", "y")),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
_MARKER = re.compile(r"\(\w+\)$")  # where an adjective may stand: "(p)" after a verb, "(a)" before a noun, "(ip)"


class WordNet:
    """The database in a folder: three files for each part of speech. Answers are remembered."""

    def __init__(self, folder: Path) -> None:
        try:
            self._tables = {part: _Table(folder, part) for part in get_args(Part)}
        except (OSError, ValueError) as error:
            raise ResourceError(f"{folder} holds no WordNet database that can be read ({told_reason(error)}); expected "
                                "index.*, data.* and *.exc for noun, verb, adj and adv. Run 'dualmask resources fetch "
                                "wordnet'.") from error
        self._known: dict[tuple[str, Part], tuple[str, ...]] = {}

    def synonyms(self, word: str) -> list[str]:
        """Every name in every sense of the word, as noun, verb, adjective, adverb; in the database's spelling.

        The word's own base form is among them, phrases have underscores, and case is ignored in the question only.
        """
        return list(dict.fromkeys(name for part in self._tables for name in self._names(word, part)))

    def synonyms_of(self, word: str, part: Part) -> list[str]:
        """The same for one part of speech: "n" noun, "v" verb, "a" adjective, "r" adverb."""
        if part not in self._tables:
            raise OptionError(f"unknown part of speech '{part}'{did_you_mean(part, self._tables)}")
        return list(self._names(word, part))

    def _names(self, word: str, part: Part) -> tuple[str, ...]:
        key = word.lower(), part
        if key not in self._known:
            self._known[key] = tuple(dict.fromkeys(self._tables[part].names(key[0])))
        return self._known[key]


class _Table:
    """One part of speech: its index and irregular forms in memory, its senses read from the file when asked for."""

    def __init__(self, folder: Path, part: Part) -> None:
        name = _FILES[part]
        lines = (folder / f"index.{name}").read_text(encoding="utf-8").split("\n")
        self.index = dict(line.split(" ", 1) for line in lines if line and line[0] != " ")  # a licence stands on top
        rows = [line.split() for line in (folder / f"{name}.exc").read_text(encoding="utf-8").split("\n") if line]
        self.irregular = {form: bases for form, *bases in rows}
        self.endings = _ENDINGS[part]
        with (folder / f"data.{name}").open("rb") as stream:
            self.data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)

    def names(self, word: str) -> list[str]:
        return [name for base in self.base_forms(word) for place in self.places(base) for name in self.sense(place)]

    def base_forms(self, word: str) -> list[str]:
        """The word and what it may be inflected from, those that the index has; rules are for regular words only."""
        bases = self.irregular.get(word)
        if bases is None:
            bases = [word.removesuffix(old) + new for old, new in self.endings if word.endswith(old)]
        return [form for form in dict.fromkeys([word, *bases]) if form in self.index]

    def places(self, base: str) -> list[int]:
        """Where the word's senses stand in the data file, commonest first: they close its line in the index."""
        fields = self.index[base].split()  # part, number of senses, ...
        return [int(field) for field in fields[-int(fields[1]):]]

    def sense(self, place: int) -> list[str]:
        line = self.data[place:self.data.find(b"\n", place)].decode("utf-8")
        fields = line.split(" ", 4)  # place, file, kind, number of names in hexadecimal, then each name and a digit
        names = fields[4].split(" ", 2 * int(fields[3], 16))[:-1:2]
        return [_MARKER.sub("", name) for name in names]


@lru_cache(maxsize=1)
def load_wordnet() -> WordNet:
    """WordNet 3.0, fetched at first use."""
    from dualmask.resources import resolve

    return WordNet(resolve("wordnet", kind="lexicon"))

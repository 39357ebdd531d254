# SPDX-License-Identifier: Apache-2.0
"""Parts of speech: a small averaged perceptron that ships with the package, and NLTK's or spaCy's tagger if asked for.

Paper: Collins, "Discriminative training methods for hidden Markov models", EMNLP 2002; here greedy, left to right.
Tags are the universal ones (Petrov et al., 2012). A window of words without punctuation, as attacks ask about, is
what the shipped weights were trained for besides whole sentences; case helps but is not needed.
"""

import gzip
import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module, resources
from typing import IO, Protocol

from dualmask.errors import OptionError, ResourceError, did_you_mean

TAGS = ("ADJ", "ADP", "ADV", "CONJ", "DET", "NOUN", "NUM", "PRON", "PRT", "VERB", "X", ".")
ASSET = "tagger.json.gz"

Vector = tuple[int, ...]  # one score for each of TAGS

# The Penn tags, with OntoNotes' additions, that make up each universal tag. OntoNotes tags the preposition "to" IN, so
# it is ADP; the "to" of an infinitive, possessive endings and the particles of verbs are PRT.
_PENN = {
    "ADJ": "JJ JJR JJS AFX", "ADP": "IN", "ADV": "RB RBR RBS WRB", "CONJ": "CC", "DET": "DT PDT WDT EX",
    "NOUN": "NN NNS NNP NNPS", "NUM": "CD", "PRON": "PRP PRP$ WP WP$", "PRT": "RP TO POS",
    "VERB": "MD VB VBD VBG VBN VBP VBZ", "X": "FW LS SYM UH ADD XX NIL GW",
    ".": ". , : `` '' -LRB- -RRB- ( ) HYPH NFP $ #",
}
UNIVERSAL = {penn: universal for universal, tags in _PENN.items() for penn in tags.split()}

_REMEMBERED = 100_000  # words with their scores; an attack with a large dictionary must not fill the memory
_PLAIN = str.maketrans("\u2019\u2018123456789", "''000000000")


class Tagger(Protocol):
    """Universal tags of the words of one sentence or window, one for each word."""

    def __call__(self, words: Sequence[str]) -> list[str]: ...


@lru_cache(maxsize=_REMEMBERED)
def normal(word: str) -> str:
    """The form under which a word is looked up: lower case, one kind of apostrophe, one digit."""
    return word.lower().translate(_PLAIN)


def shape(word: str) -> str:
    """Letters as X or x, digits as 0, repetitions dropped: "McDonald's" gives XxXx'x."""
    kinds = ["X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word[:20]]
    return "".join(kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before)


def own_features(word: str) -> list[str]:
    """What the word itself says."""
    plain = normal(word)
    features = ["bias", "word " + plain, "shape " + shape(word), "start1 " + plain[:1], "start3 " + plain[:3]]
    features += [f"end{size} {plain[-size:]}" for size in (1, 2, 3, 4)]
    if "-" in plain:
        features.append("part " + plain.rsplit("-", 1)[1])
    return features


def neighbour_features(word: str, place: int) -> list[str]:
    """What the word at `place` (-2, -1, 1, 2 places off) says; an empty word stands for the edge."""
    plain = normal(word)
    if abs(place) == 2:
        return [f"{place} word {plain}"]
    return [f"{place} word {plain}", f"{place} end3 {plain[-3:]}", f"{place} shape {shape(word)[:2]}"]


def history_features(before: str, tag: str) -> list[str]:
    """What the last two tags say, the nearer one last."""
    return ["tag " + tag, f"tags {before} {tag}"]


def mixed_features(tag: str, word: str, follower: str) -> list[str]:
    """What the last tag says together with this word, its ending and the next word."""
    plain = normal(word)
    return [f"tag word {tag} {plain}", f"tag end2 {tag} {plain[-2:]}", f"tag next {tag} {normal(follower)}"]


class PerceptronTagger:
    """Sums integer weights, so that the answer does not depend on the machine."""

    def __init__(self, certain: Mapping[str, int], weights: Mapping[str, str]) -> None:
        """`certain`: number of the tag of words that need no context. `weights`: feature -> "tag weight tag weight"."""
        self._certain = certain
        self._weights = weights
        self._vectors: dict[str, Vector] = {}  # unpacked when first needed: most features never are
        self._remembered: dict[tuple[str, int], Vector] = {}
        self._histories: dict[tuple[str, str], Vector] = {}

    @classmethod
    def from_bytes(cls, packed: bytes) -> "PerceptronTagger":
        """The tagger in a gzip file that the build script wrote."""
        content = json.loads(gzip.decompress(packed))
        if content["tags"] != list(TAGS):
            raise ResourceError(f"the tagger's tags are {content['tags']}, expected {list(TAGS)}: build it again.")
        return cls(content["certain"], content["weights"])

    def __call__(self, words: Sequence[str]) -> list[str]:
        padded = ["", "", *words, "", ""]
        before = tag = ""
        tags = []
        for at in range(2, len(padded) - 2):
            number = self._certain.get(normal(padded[at]))
            if number is None:
                number = self._best(padded, at, (before, tag))
            before, tag = tag, TAGS[number]
            tags.append(tag)
        return tags

    def _best(self, words: Sequence[str], at: int, history: tuple[str, str]) -> int:
        """The number of the tag with the highest score; the first of equals."""
        vectors = [self._word(words[at + place], place) for place in (-2, -1, 0, 1, 2)]
        if history not in self._histories:
            self._histories[history] = self._sum(history_features(*history))
        vectors.append(self._histories[history])
        for feature in mixed_features(history[1], words[at], words[at + 1]):
            if feature in self._weights:
                vectors.append(self._vector(feature))
        scores = list(map(sum, zip(*vectors, strict=True)))
        return scores.index(max(scores))

    def _word(self, word: str, place: int) -> Vector:
        """The scores that a word gives to the one `place` places before it, whatever stands between."""
        known = self._remembered.get((word, place))
        if known is None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            known = self._sum(neighbour_features(word, place) if place else own_features(word))
            self._remembered[word, place] = known
        return known

    def _sum(self, features: Iterable[str]) -> Vector:
        vectors = [self._vector(feature) for feature in features if feature in self._weights]
        return tuple(map(sum, zip(*vectors, strict=True))) if vectors else (0,) * len(TAGS)

    def _vector(self, feature: str) -> Vector:
        vector = self._vectors.get(feature)
        if vector is None:
            scores = [0] * len(TAGS)
            numbers = [int(number) for number in self._weights[feature].split()]
            for tag, weight in zip(numbers[::2], numbers[1::2], strict=True):
                scores[tag] = weight
            vector = self._vectors[feature] = tuple(scores)
        return vector


@lru_cache(maxsize=1)
def shipped_tagger() -> PerceptronTagger:
    """The tagger of the package, read once."""
    return PerceptronTagger.from_bytes(resources.files("dualmask").joinpath("assets", ASSET).read_bytes())


def find_tagger(name: str) -> Tagger:
    """The tagger of a name: `shipped`, `nltk`, or `spacy:MODEL` with the name or folder of a spaCy model."""
    if name == "shipped":
        return shipped_tagger()
    if name == "nltk":
        return _nltk_tagger()
    kind, _, model = name.partition(":")
    if kind == "spacy" and model:
        return _spacy_tagger(model)
    raise OptionError(f"unknown tagger '{name}'{did_you_mean(name, ('shipped', 'nltk', 'spacy:MODEL'))}")


def _nltk_tagger() -> Tagger:
    """NLTK's perceptron with universal tags: the same as `nltk.pos_tag(words, tagset="universal")`."""
    try:
        perceptron, data = import_module("nltk.tag.perceptron"), import_module("nltk.data")
    except ImportError as error:
        raise ResourceError(
            f"the tagger 'nltk' needs the package nltk ({error}): 'pip install nltk', or choose 'shipped'.") from error
    try:
        tagger = perceptron.PerceptronTagger()
    except LookupError:
        try:  # current NLTK does not read the data under its name of before 2024; the data are the same
            path = str(data.find("taggers/averaged_perceptron_tagger/averaged_perceptron_tagger.pickle"))
        except LookupError as error:
            raise ResourceError(
                "the tagger 'nltk' found no data: 'python -m nltk.downloader averaged_perceptron_tagger_eng', or set "
                "NLTK_DATA to the folder that has it, or choose 'shipped'.") from error
        tagger = perceptron.PerceptronTagger(load=False)
        with open(path, "rb") as stream:
            tagger.model.weights, tagger.tagdict, tagger.classes = _PlainUnpickler(stream).load()
        tagger.model.classes = tagger.classes

    def tag(words: Sequence[str]) -> list[str]:
        return [UNIVERSAL.get(pair[1], "X") for pair in tagger.tag(list(words))]

    return tag


class _PlainUnpickler(pickle.Unpickler):
    """Reads numbers, strings, dictionaries and sets; a pickle that wants to call anything else is refused."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream)
        self._name = getattr(stream, "name", "the file")

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in (("__builtin__", "set"), ("builtins", "set")):
            return set
        raise ResourceError(f"{self._name} asks to run {module}.{name}, which tagger data need not: it was not read.")


def _spacy_tagger(model: str) -> Tagger:
    """A spaCy model's fine tags, mapped to universal ones; words are tagged as given, not split again."""
    try:
        spacy, tokens = import_module("spacy"), import_module("spacy.tokens")
    except ImportError as error:
        raise ResourceError(
            f"the tagger 'spacy:{model}' needs spaCy ({error}): 'pip install spacy', or choose 'shipped'.") from error
    try:
        pipeline = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])
    except OSError as error:
        raise ResourceError(f"spaCy has no model '{model}': install it ('python -m spacy download {model}'), give its "
                            "folder, or choose 'shipped'.") from error
    if "tagger" not in pipeline.pipe_names:
        raise ResourceError(f"the spaCy model '{model}' has the parts {pipeline.pipe_names}, but no tagger: take one "
                            "that has, such as en_core_web_sm, or choose 'shipped'.")

    def tag(words: Sequence[str]) -> list[str]:
        # spaCy refuses empty words; any mark keeps their place
        document = pipeline(tokens.Doc(pipeline.vocab, words=[word or "-" for word in words]))
        return [UNIVERSAL.get(token.tag_, "X") for token in document]

    return tag

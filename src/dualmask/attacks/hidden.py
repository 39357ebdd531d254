# SPDX-License-Identifier: Apache-2.0
"""What a defence hides of a text: a question to the defence itself, which costs the victim no query."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import torch

from dualmask.attacks.moves import Moves
from dualmask.attacks.pieces import PIECE_MARKS, tokens_of
from dualmask.attacks.problem import Answer, Problem, Question, Steps
from dualmask.attacks.rankings import Ranking
from dualmask.attacks.searches import greedy
from dualmask.classifier import DefendedClassifier
from dualmask.errors import OptionError
from dualmask.models.victim import Victim
from dualmask.text.encoding import Batch, Encode, characters
from dualmask.text.examples import Text
from dualmask.text.words import Words
from dualmask.windows import refuse_windows

if TYPE_CHECKING:
    from tokenizers import Encoding

T = TypeVar("T")
LETTERS = 16  # for each token of the network's input: more than words have
Span = tuple[int, int]  # characters of a text; a pair counts as its texts joined by one character


def opened(victim: Victim, attack: str, against: Sequence[str]) -> DefendedClassifier:
    """The classifier whose defence an attack knows; refused where there is none, or another."""
    purpose = f"the attack '{attack}' is made against the defence {' or '.join(against)}"
    if not isinstance(victim.classifier, DefendedClassifier):
        raise OptionError(f"{purpose} and asks it what it hides, but this victim only answers; give a "
                          "DefendedClassifier that has it, or choose an attack that only asks.")
    if victim.classifier.defence.asker.name not in against:
        raise OptionError(f"{purpose}; this victim's is '{victim.classifier.defence.name}'. Give a classifier that "
                          "has it, or choose an attack on any classifier: see 'dualmask list attacks'.")
    refuse_windows(victim.classifier.windows, f"the attack '{attack}'",
                   "it asks what the defence hides of a text that is read at once.")
    return victim.classifier


class Hidden(NamedTuple):
    """A text's tokens as its defence leaves them; what was cut off is not among them."""

    starts: list[int]
    ends: list[int]
    masked: list[bool]
    scores: list[float]  # how suspicious each looked

    @property
    def masks(self) -> list[Span]:
        """Where masks stand."""
        return [(start, end) for start, end, masked in zip(self.starts, self.ends, self.masked, strict=True) if masked]

    def places(self, words: Words, among: Iterable[int] | None = None) -> set[int]:
        """Words, all or some, of which the network is not shown every piece."""
        return {place for place in (range(len(words)) if among is None else among)
                if any(self.masked[row] for row in self.tokens(words, place))}

    def read(self, words: Words) -> list[int]:
        """Words that were not cut off."""
        return [place for place in range(len(words)) if self.tokens(words, place)]

    def tokens(self, words: Words, place: int) -> list[int]:
        """A word's tokens, by their numbers."""
        start, end = words.spans[place]
        return tokens_of(self.starts, self.ends, start, end) if self.ends and start < self.ends[-1] else []


class HiddenOracle:
    """The defence's own choice for each text. Tables answer without the network; a defence that asks it, asks it here.

    A defence that looks at the whole batch (DDM's second_pass) answers for the batch it gets, as it does in `predict`.
    """

    memory = 1 << 14
    rows, cells = 256, 1 << 17

    def __init__(self, classifier: DefendedClassifier) -> None:
        self.classifier = classifier

    def lengths(self, items: Sequence[Text]) -> list[int]:
        return [characters(text) for text in items]

    def answers(self, items: Sequence[Text]) -> list[Hidden]:
        return of_beginnings(self.classifier.encode, items, self._answers, size=lambda hidden: len(hidden.starts))

    def _answers(self, items: Sequence[Text]) -> list[Hidden]:
        view = self.classifier.first_view(items)
        scores = torch.zeros_like(view.masks, dtype=torch.float) if view.scores is None else view.scores
        found = []
        for spans, body, masks, values in zip(
                view_spans(self.classifier, items, view), view.body, view.masks, scores, strict=True):
            starts, ends = [start for start, _ in spans], [end for _, end in spans]
            found.append(Hidden(starts, ends, masks[body].tolist(), values[body].tolist()))
        return found


def of_beginnings(
    encode: Encode, texts: Sequence[Text], ask: Callable[[Sequence[Text]], list[T]], *, size: Callable[[T], int],
    letters: int = LETTERS,
) -> list[T]:
    """Answers about texts, of long ones about the beginning alone where it fills the network's input by itself.

    size: the tokens of the text that an answer is about; letters: how many to look at for each that fits.
    """
    starts = [beginning(text, letters * encode.max_length) for text in texts]
    found = ask(starts)
    full = encode.max_length - encode.special_tokens(texts)
    short = [row for row, text in enumerate(texts) if starts[row] != text and size(found[row]) < full]
    for row, answer in zip(short, ask([texts[row] for row in short]) if short else (), strict=True):
        found[row] = answer
    return found


def beginning(text: Text, letters: int) -> Text:
    """The first words of a long text; pairs, which are cut in two places, stay whole."""
    if not isinstance(text, str) or len(text) <= letters:
        return text
    end = text.find(" ", letters)
    return text[:end] if end >= 0 else text


def view_spans(classifier: DefendedClassifier, texts: Sequence[Text], view: Batch) -> list[list[Span]]:
    """The characters that each token of the texts' view comes from, special ones left out.

    Of a defence that rewrites these are whole words, their punctuation with them: its own tokens get no characters.
    """
    if classifier.defence.explainable:
        return token_spans(classifier.encode, texts)
    found = []
    for text, ids, places, body in zip(texts, view.input_ids, view.words, view.body, strict=True):
        spans = origins(classifier, text)
        tokens = classifier.encode.tokenizer.convert_ids_to_tokens(ids[body].tolist())
        found.append([spans[place] if is_word(token) else (spans[place][1],) * 2
                      for place, token in zip(places[body].tolist(), tokens, strict=True)])
    return found


def origins(classifier: DefendedClassifier, text: Text) -> list[Span]:
    """Where the words that are read stand in the text, of those that can be seen."""
    seen = classifier.encode.reachable(text)
    spans = classifier.defence.origins(seen) or []
    if isinstance(seen, str):
        return spans
    gap = len(text[0]) - len(seen[0])  # what was left out of the first text
    return [(start + gap, end + gap) if start > len(seen[0]) else (start, end) for start, end in spans]


def is_word(token: str | None) -> bool:
    """Whether a token has letters or digits; a number that the vocabulary does not have is a whole word's."""
    return token is None or any(map(str.isalnum, token.strip(PIECE_MARKS)))


def token_spans(encode: Encode, texts: Sequence[Text]) -> list[list[Span]]:
    """The characters of each token of the texts, special ones left out."""
    encoding = encode.tokenise(texts)
    found = []
    for row, text in enumerate(texts):
        shift = 0 if isinstance(text, str) else len(text[0]) + 1
        offsets = cast("list[Encoding]", encoding.encodings)[row].offsets
        found.append([(start + shift * part, end + shift * part) for (start, end), part
                      in zip(offsets, encoding.sequence_ids(row), strict=True) if part is not None])
    return found


def asked(texts: Sequence[Words]) -> Steps[list[Hidden]]:
    """What the defence hides of each text."""
    return (yield Question("hidden", [words.value for words in texts])) if texts else []


class Shown:
    """Keeps the candidates of whose changed words, old and new, the network is shown every piece.

    An edit may also hide an older one: where a masked word becomes a frequent one, its mask goes to the next.
    """

    def __call__(self, problem: Problem, candidates: list[Words], current: Words) -> Steps[list[Words]]:
        found = yield from asked(candidates)
        return [words for words, hidden in zip(candidates, found, strict=True)
                if not hidden.places(words, words.changed)]


def by_swapping(problem: Problem, moves: Moves) -> Steps[list[int]]:
    """How much the best allowed exchange of a word gains. Deleting a masked word would tell nothing but where its mask
    goes; words that are cut off are left out."""
    text = problem.start.words
    read = (yield from asked([text]))[0].read(text)
    first = {here: place for place, here in enumerate(text.places)}
    order, gains = [], []
    for here in moves.places(text, first.keys() & read):
        if problem.spent:
            break
        candidates = yield from moves.candidates(problem, text, [here])
        answers = yield from problem.ask(candidates)
        order.append(first[here])
        gains.append(max((answer.score for answer in answers), default=problem.start.score))
        if any(answer.fooled for answer in answers):
            return [first[here]]
    return [order[rank] for rank in problem.order(gains)]


def in_rounds(problem: Problem, moves: Moves, ranking: Ranking) -> Steps[Answer]:
    """Greedy again and again, each time from what it came to: when masks have moved, other edits are allowed."""
    while True:
        answer = yield from greedy(problem, moves, ranking)
        if problem.best.fooled and not answer.fooled:  # found while words were ranked, and no query left
            return problem.best
        if answer is problem.start or answer.fooled or problem.spent:
            return answer
        problem.start = answer

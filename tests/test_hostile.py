# SPDX-License-Identifier: Apache-2.0
"""A thousand texts that nobody should send: each gets an answer, and what is said to be masked is in the text."""

import math
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dualmask.attacks import build_attack
from dualmask.attacks.unseen import BLANKS, Unseen
from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.errors import DataError
from dualmask.models.encoders import load_encoder
from dualmask.text.examples import Dataset
from dualmask.text.invisible import is_invisible
from dualmask.text.words import Words

MEGABYTE = 1 << 20
FAMILIES = ["bert", "roberta"]  # word pieces with a normaliser, and plain bytes
SPECIAL = ["[MASK] [SEP] [CLS] [PAD] [UNK]", "<mask> </s> <s> <pad> <unk>", "[MASK]", "<mask>good</s>",
           "[CLS][SEP][SEP]", "[MASK]" * 50, "the [MASK] movie", "##able ##s", "<|endoftext|>", "[unused1]"]
MARKUP = ["<script>alert('x')</script>", "{{ 7 * 7 }}", "%s%n%x", "../../etc/passwd", "'; DROP TABLE texts; --",
          "&lt;b&gt;", "[bold]text[/bold] [/] [red]", "\x1b[31mred\x1b[0m", "=1+1", "NULL", "nan", "None", "true", "\\",
          '"', "```"]
NUMBERS = ["0", "-0.0", "1e308", "NaN", "١٢٣٤", "½ ⅔ ²", "1" * 400, "3.14159265358979", "0x1F", "１２３"]  # noqa: RUF001
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
EMOJI = ["\U0001f602", FAMILY, FAMILY * 200, "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\U0001f3f4\U000e0067",
         "good \U0001f602 movie \U0001f621", "\u2764\ufe0f", "\ufe0f", "\u200d"]
LETTERS = "abcxyz \t.,!'\u00e9\u0301\u200b\u202e\u05d0\u0627\u4e00\U0001f602\ud800\udc00\x00\x07\ufeff\ufffd\U0010ffff"


def hostile_texts() -> list[str]:
    """The same thousand on every machine."""
    draw = random.Random(2024)
    control = [chr(code) for code in [*range(32), 127, *range(0x80, 0xA0)]]
    bidi = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
    hidden = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u034f\u115f\u3164"
    texts = ["", " ", "\t", "\n\n\n", " " * 5000, "\u00a0\u2003\u3000", "a", ".", "?!" * 300]
    texts += ["x" * MEGABYTE, "the movie was good " * (MEGABYTE // 19), "\u4e00" * 100_000, "z" * 300, "ab" * 2000]
    texts += [*SPECIAL, *MARKUP, *NUMBERS, *EMOJI, *control]
    texts += [f"the {character} movie{character}good" for character in [*control, *bidi, *hidden]]
    texts += ["\u202ethe movie was good\u202c", "\u05e1\u05e8\u05d8 \u05d8\u05d5\u05d1"]
    texts += ["\u0641\u064a\u0644\u0645 " * 50]
    texts += ["g\u200bo\u200bo\u200bd", hidden * 50, "".join(chr(0x300 + n % 112) for n in range(3000))]
    texts += ["e" + "\u0301" * n for n in (1, 10, 100, 5000)]
    texts += ["\ud800", "\udfff", "good \ud83d movie", "\ude00\ud83d", "\ud800" * 500, "\ud83d\ude00 bad"]
    texts += [unicodedata.normalize(form, "\ufb01ne \u01c4 \u00e9 \u1e9b\u0323 \uac00")
              for form in ("NFC", "NFD", "NFKC", "NFKD")]
    texts += ["".join(draw.choices(LETTERS, k=draw.randrange(1, 120))) for _ in range(300)]
    while len(texts) < 1000:
        code_points = (draw.choice([draw.randrange(0x300), draw.randrange(0x10000), draw.randrange(0x110000)])
                       for _ in range(draw.randrange(1, 40)))
        texts.append("".join(map(chr, code_points)))
    return texts


@pytest.fixture(scope="module", params=FAMILIES)
def classifier(request: pytest.FixtureRequest, tiny: Callable[[str], Path], data: Dataset) -> DefendedClassifier:
    return defended(tiny(request.param), data)


def defended(folder: Path, data: Dataset, **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(folder, data.labels)
    defence = build_defence("ddm", options={"test_rate": 0.3, **options})
    found = DefendedClassifier(model, tokenizer, defence, labels=data.labels, max_length=48)
    defence.fit(data.train, found.encode)
    found.network.eval()
    return found


def check_answers(classifier: DefendedClassifier, texts: list[str]) -> None:
    found = classifier.predict(texts, explain=True)
    assert len(found.labels) == len(texts) and set(found.labels) <= set(classifier.labels)
    assert torch.isfinite(found.probabilities).all()
    assert torch.allclose(found.probabilities.sum(dim=1), torch.ones(len(texts)), atol=1e-5)
    assert found.masked is not None
    for text, masked in zip(texts, found.masked, strict=True):
        for one in masked:
            assert 0 <= one.start <= one.end <= len(text)
            assert one.text == text[one.start:one.end]
            assert one.part == 0 and math.isfinite(one.score)


def test_there_are_a_thousand_and_they_stay_the_same() -> None:
    texts = hostile_texts()
    assert len(texts) == 1000
    assert texts == hostile_texts()


def test_every_hostile_text_gets_an_answer(classifier: DefendedClassifier) -> None:
    check_answers(classifier, hostile_texts())


def test_words_and_protected_words_meet_hostile_texts_too(tiny: Callable[[str], Path], data: Dataset) -> None:
    for options in ({"scorer": "word-frequency", "unit": "word", "unseen": "fragmented", "protect": "good"},
                    {"scorer": "random", "unit": "type", "skip": "stop-words", "ties": "random"}):
        check_answers(defended(tiny("bert"), data, **options), hostile_texts()[::7])


def test_hostile_texts_can_be_trained_on(classifier: DefendedClassifier) -> None:
    texts = [text for text in hostile_texts() if len(text) < 10_000][::5]
    defence = classifier.defence
    batch = defence.training_view(texts, [0] * len(texts), classifier.encode, torch.Generator().manual_seed(0))
    with torch.no_grad():
        loss, _ = defence.loss(classifier.network, batch)
    assert bool(torch.isfinite(loss))
    assert batch.input_ids.shape[1] <= classifier.encode.max_length


def test_hostile_corpora_can_be_counted(tiny: Callable[[str], Path], data: Dataset) -> None:
    texts = [text for text in hostile_texts() if len(text) < 200_000][::3]
    for scorer in ("frequency", "word-frequency"):
        found = defended(tiny("bert"), data, scorer=scorer)
        found.defence.fit([example._replace(text=text) for text, example in zip(texts, data.train * 4, strict=False)],
                          found.encode)
        check_answers(found, texts[:40])


# What nobody sees


SEEN = "the movie was a great plot and the actor was very fine , unables"
PIECED = ["\u3164", "\x01", "\u2800"]  # a tokenizer may have pieces for them
DROPPED = ["\u200b", "\u200d", "\u2060", "\u00ad", "\ufeff", "\u034f", "\ufe0f", "\U000e0041"]  # by the tokenizer
READERS = ("ddm-restore", "ranmask", "safer", "certed")  # that read word by word, whatever the tokenizer does


def with_unseen(text: str, nothing: str, count: int = 60) -> list[str]:
    """Invisible words before, amid and behind the words of a text, and invisible characters within words."""
    words, blanks = text.split(), " ".join([nothing] * count)
    middle = len(words) // 2
    return [f"{blanks} {text}", " ".join([*words[:middle], blanks, *words[middle:]]), f"{text} {blanks}",
            text.replace("great", f"gr{nothing}eat").replace("movie", f"{nothing}mo{nothing}vie{nothing}")]


def with_all_unseen(characters: list[str]) -> list[str]:
    return [text for nothing in characters for text in with_unseen(SEEN, nothing)]


def unseen_texts() -> list[str]:
    """Those, and what the attack writes that tries such words."""
    attack = build_attack("unseen", options={"most": 64})
    assert isinstance(attack, Unseen) and all(map(is_invisible, BLANKS))
    written = [str(words.value) for padded in attack.padded(Words(SEEN)) for words in padded]
    return [*with_all_unseen([*DROPPED, *PIECED]), *written]


def asked(name: str, folder: Path, data: Dataset) -> DefendedClassifier:
    """Six views where there are votes, and a head to which every word makes a difference."""
    model, tokenizer = load_encoder(folder, data.labels)
    options = {"votes": 6} if hasattr(DEFENCES[name].Options(), "votes") else {}
    found = DefendedClassifier(model, tokenizer, build_defence(name, options=options), labels=data.labels,
                               max_length=40)
    found.fit_defence(data.train)
    torch.manual_seed(5)
    for weight in model.classifier.parameters():
        torch.nn.init.normal_(weight)
    return found


def assert_all_alike(views: torch.Tensor) -> None:
    """Each text's logits are the first one's; a view that was not asked is nobody's."""
    assert torch.allclose(views[:, 1:], views[:, :1].expand_as(views[:, 1:]), atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", DEFENCES)
def test_invisible_text_changes_no_answer(name: str, tiny: Callable[[str], Path], data: Dataset) -> None:
    """All views, so that no vote hides a difference; noise that is drawn by the text is the same, too.

    Characters that the tokenizer drops; of defences that read word by word all that nobody sees.
    """
    classifier = asked(name, tiny("bert"), data)
    texts = unseen_texts() if name in READERS else with_all_unseen(DROPPED)
    assert_all_alike(classifier.logits([SEEN, *texts]))
    assert_all_alike(classifier.logits([("a plot", SEEN), *(("a plot", text) for text in texts[:4])]))


@pytest.mark.parametrize("name", READERS)
def test_who_reads_words_sees_none_in_what_cannot_be_seen(
    name: str, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    """Even of characters that a tokenizer has pieces for, as byte-level ones have for all."""
    assert_all_alike(asked(name, tiny("roberta"), data).logits([SEEN, *unseen_texts()]))


@pytest.mark.parametrize("name", READERS)
def test_nor_beside_quotation_marks_dashes_and_emoji(name: str, tiny: Callable[[str], Path], data: Dataset) -> None:
    text = "\u201cthe movie\u201d was a great \U0001f602 plot \u2014 \u6620"
    others = [text[:place] + nothing + text[place:] for nothing in ("\u200b", "\u200d\u2060", "\u3164")
              for place in range(len(text) + 1) if not text[place:place + 1].isspace()]
    assert_all_alike(asked(name, tiny("roberta"), data).logits([text, *others]))


@pytest.mark.parametrize("text", SPECIAL)
def test_special_tokens_written_out_stay_ordinary_characters(text: str, classifier: DefendedClassifier) -> None:
    encode = classifier.encode
    batch = encode([text])
    inside = batch.input_ids[0][batch.body[0]].tolist()
    specials = set(encode.tokenizer.all_special_ids) - {encode.tokenizer.unk_token_id}
    assert not specials & set(inside)
    assert int((~batch.body[0]).sum()) == 2, "only the tokens that the tokenizer itself puts at the ends are special"
    assert not batch.masks.any()


def test_special_tokens_written_out_are_not_counted_as_special(classifier: DefendedClassifier, data: Dataset) -> None:
    plain = classifier.encode(["the movie"]).input_ids.shape[1]
    hidden = classifier.encode(["the [PAD] <pad> movie"])
    assert hidden.input_ids.shape[1] > plain
    assert hidden.attention_mask.all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("before", ["", "\ud83d\ude00 ", "\ud800 ", "\U0001f600 ", FAMILY + " ", "e\u0301\u0301 ",
                                    "\ufeff"])
def test_spans_are_right_behind_odd_characters(
    family: str, before: str, tiny: Callable[[str], Path], data: Dataset,
) -> None:
    """Halves of a character written one after the other count as two in Python; spans must not slip."""
    text = f"{before}goodly movies"
    masked = defended(tiny(family), data, test_rate=1.0, keep_one=False).predict([text], explain=True).masked
    assert masked is not None
    said = "".join(one.text for one in masked[0] if one.start >= len(before))
    assert said.replace(" ", "") == "goodlymovies"
    for word in ("goodly", "movies"):
        start = text.index(word)
        assert any(one.start in (start, start - 1) for one in masked[0])
        assert any(one.end == start + len(word) for one in masked[0])


@pytest.mark.parametrize("wrong", [None, 5, 1.5, True, b"bytes", ["a", "b"], {"text": "a"}, ("a",), ("a", "b", "c"),
                                   ("a", None), object])
def test_what_is_no_text_is_refused_by_name(wrong: object, classifier: DefendedClassifier) -> None:
    for texts in ([wrong], ["good", wrong], [wrong] * 40):
        with pytest.raises(DataError, match=r"expected a text.*" + type(wrong).__name__):
            classifier.predict(texts)  # type: ignore[arg-type]


def test_a_bare_text_is_refused_with_the_remedy(classifier: DefendedClassifier) -> None:
    with pytest.raises(DataError, match=r"predict\(\[text\]\)"):
        classifier.predict("good movie")
    assert len(classifier("good movie")) == 1, "calling takes one text, as a pipeline does"


@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_single_texts_and_pairs_never_mix(batch_size: int | None, classifier: DefendedClassifier) -> None:
    with pytest.raises(DataError, match="mixed"):
        classifier.predict(["good", ("a plot that is longer", "and its second text")], batch_size=batch_size)
    with pytest.raises(DataError, match="mixed"):
        classifier.predict(["good"] * 33 + [("a plot that is longer", "and its second text")], batch_size=batch_size)


def test_hostile_pairs_get_an_answer(classifier: DefendedClassifier) -> None:
    texts = [text for text in hostile_texts() if len(text) < 10_000][::11]
    pairs = [(first, second) for first, second in zip(texts, reversed(texts), strict=True)]
    found = classifier.predict(pairs, explain=True)
    assert torch.isfinite(found.probabilities).all() and found.masked is not None
    for pair, masked in zip(pairs, found.masked, strict=True):
        for one in masked:
            assert one.text == pair[one.part][one.start:one.end] and one.start <= one.end <= len(pair[one.part])

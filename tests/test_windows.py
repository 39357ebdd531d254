# SPDX-License-Identifier: Apache-2.0
"""Long texts: those that are cut are told, and windows read them by a rule; what that does against padding, or not."""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dualmask import DefendedClassifier, defend
from dualmask.defences.base import Defence, Network
from dualmask.errors import DualmaskError, OptionError
from dualmask.long_texts import groups
from dualmask.models.encoders import load_encoder
from dualmask.prediction import predict_file
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.rewriting import Rewriting
from dualmask.text.stretches import Limits, stretched
from dualmask.windows import Windows, read_windows, told_of_cut

LENGTH = 16  # tokens, two of them special
PADDING = "fine " * 60
LONG = "the movie was a rare plot, and the actor was very good! " * 6


class Alarmed(Defence):
    """Stands for a network that has learned one word: "awful" makes a text bad, and nothing dilutes that."""

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        awful = (batch.input_ids == self.awful).any(dim=1).float()
        return torch.stack([6 * awful - 3, 3 - 6 * awful], dim=1)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        self.awful = encode(["awful"]).input_ids[0, 1]
        return super().inference_view(texts, numbers, encode, device)


class Diluted(Alarmed):
    """Stands for a network that padding dilutes: a text is bad if a quarter of its tokens are "awful"."""

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        share = (batch.input_ids == self.awful).sum(dim=1) / batch.lengths.clamp(min=1)
        bad = (share >= 0.25).float()
        return torch.stack([6 * bad - 3, 3 - 6 * bad], dim=1)


class Watchful(Alarmed):
    """The same as a detector: what is bad is suspicious."""

    def suspicion(self, logits: Tensor) -> Tensor:
        return logits[0, :, 0]


def classifier_of(
    tiny: Callable[[str], Path], defence: Defence, *, family: str = "bert", windows: Windows | str | None = None,
) -> DefendedClassifier:
    model, tokenizer = load_encoder(str(tiny(family)), ("bad", "good"))
    found = DefendedClassifier(model, tokenizer, defence, labels=("bad", "good"), max_length=LENGTH, windows=windows)
    found.network.eval()
    return found


def wrapped(tiny: Callable[[str], Path], name: str, family: str = "bert", **options: object) -> DefendedClassifier:
    model, tokenizer = load_encoder(str(tiny(family)), ("bad", "good"))
    return defend(model, tokenizer, ["the movie was good", "a bad plot"], defence=name, options=options,
                  max_length=LENGTH)


@pytest.fixture
def alarmed(tiny: Callable[[str], Path]) -> DefendedClassifier:
    return classifier_of(tiny, Alarmed())


# Padding


def test_nothing_hides_behind_the_cut_under_any_label_alone(alarmed: DefendedClassifier) -> None:
    """Of a network that a word alarms whatever stands beside it."""
    clean, insult = PADDING, f"{PADDING} awful"
    cut = alarmed.predict(["awful", clean, insult])
    assert cut.labels == ["bad", "good", "good"]
    assert torch.equal(cut.probabilities[1], cut.probabilities[2])  # identical, whatever stands behind
    assert cut.cut is not None and cut.cut.tolist() == [False, True, True]
    for rule, label in (("mean", "good"), ("surest", "good"), ("any:bad", "bad")):
        alarmed.windows = rule  # type: ignore[assignment]
        found = alarmed.predict(["awful", clean, insult])
        assert found.labels == ["bad", "good", label], rule
        assert found.cut is not None and not found.cut.any()
    assert torch.equal(found.probabilities[0], found.probabilities[2])  # of the window that decides, padding or not


def test_padding_dilutes_inside_windows_unless_these_are_short(tiny: Callable[[str], Path]) -> None:
    """Also of a text that fits: short windows read it in parts."""
    classifier = classifier_of(tiny, Diluted(), windows="any:bad")
    texts = ["awful", "fine fine fine fine awful fine fine fine fine", f"{PADDING} awful {PADDING}"]
    assert classifier.predict(texts).labels == ["bad", "good", "good"]
    classifier.windows = Windows("any:bad", length=5)  # three tokens of text and two special ones
    found = classifier.predict([*texts, "fine fine fine", "fine fine fine fine"])
    assert found.labels == ["bad", "bad", "bad", "good", "good"]
    assert found.passes is not None and found.passes.tolist() == [1, 3, 41, 1, 2]
    assert found.cut is not None and not found.cut.any()
    with pytest.raises(OptionError, match="17 tokens a window, and the model reads 16"):
        classifier.windows = Windows("any:bad", length=17)


def test_a_window_that_answers_the_label_goes_before_one_where_it_is_only_likelier() -> None:
    rows, labels = torch.tensor([[0.40, 0.45, 0.15], [0.35, 0.33, 0.32], [0.36, 0.32, 0.32]]).log(), ("spam", "x", "y")
    assert torch.equal(Windows("any:spam").together(rows, labels), rows[2])
    assert torch.equal(Windows("any:y").together(rows[:2], labels), rows[1])  # none answers it


def test_the_mean_is_that_of_probabilities_and_the_surest_window_decides(alarmed: DefendedClassifier) -> None:
    text = f"{PADDING} awful"
    alarmed.windows = Windows("mean")
    found = alarmed.predict([text])
    assert found.passes is not None
    count, (low, high) = int(found.passes[0]), torch.tensor([-3.0, 3.0]).softmax(dim=0).tolist()
    assert count == 6
    assert found.probabilities[0, 0] == pytest.approx(((count - 1) * low + high) / count, rel=1e-6)
    assert found.log_probabilities is not None
    assert found.log_probabilities.exp()[0].tolist() == pytest.approx(found.probabilities[0].tolist(), rel=1e-6)
    rows = torch.tensor([[0.0, 1.0], [0.0, 4.0], [5.0, 0.0], [4.9, 0.0]])
    labels = ("bad", "good")
    assert torch.equal(Windows("surest").together(rows, labels), rows[2])
    assert torch.equal(Windows("any:good").together(rows, labels), rows[1])
    assert torch.equal(Windows("any:bad").together(rows[:1].repeat(3, 1), labels), rows[0])


def test_windows_beyond_the_most_are_not_read_and_are_told(alarmed: DefendedClassifier) -> None:
    alarmed.windows = Windows("any:bad", most=3)
    found = alarmed.predict([f"{PADDING} awful", f"fine {'fine ' * 20} awful"])
    assert found.labels == ["good", "bad"]
    assert found.cut is not None and found.cut.tolist() == [True, False]
    assert found.passes is not None and found.passes.tolist() == [3, 2]
    assert alarmed.unread([f"{PADDING} awful", "awful"]) == [True, False]


# What is the same as without windows


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("name", ["plain", "ddm", "mi4d", "ddm-restore", "ranmask"])
def test_texts_that_fit_are_answered_bit_for_bit(tiny: Callable[[str], Path], name: str, family: str) -> None:
    classifier = wrapped(tiny, name, family, **({"votes": 5} if name == "ranmask" else {}))
    texts = ["good", "a bad", "", "\u200b", "x y"]
    explain = name != "ranmask"
    before = classifier.predict(texts, explain=explain)
    for rule in ("mean", "surest", "any:bad"):
        classifier.windows = rule  # type: ignore[assignment]
        after = classifier.predict(texts, explain=explain)
        assert torch.equal(before.probabilities, after.probabilities)
        assert before.log_probabilities is not None and after.log_probabilities is not None
        assert torch.equal(before.log_probabilities, after.log_probabilities)
        assert before.masked == after.masked


def test_a_window_is_answered_as_an_ordinary_text(tiny: Callable[[str], Path]) -> None:
    classifier = wrapped(tiny, "ddm")
    parts = stretched([LONG], classifier.encode, Limits(LENGTH - 2, 0.25, 64))[0].parts
    alone = classifier.predict([part.text for part in parts])
    classifier.windows = Windows("any:bad")
    found = classifier.predict([LONG, "good"])
    assert found.probabilities[0, 0] == pytest.approx(float(alone.probabilities[:, 0].max()), abs=1e-6)
    classifier.windows = Windows("mean")
    found = classifier.predict([LONG, "good"])
    assert found.probabilities[0].tolist() == pytest.approx(alone.probabilities.mean(dim=0).tolist(), abs=1e-6)


@pytest.mark.parametrize("rule", ["mean", "surest", "any:good"])
def test_answers_do_not_depend_on_order_or_company(
    tiny: Callable[[str], Path], rule: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    classifier = wrapped(tiny, "ddm")
    classifier.windows = rule  # type: ignore[assignment]
    texts = [LONG, "good", "a bad plot", PADDING, f"rare {LONG}", ""]
    found = classifier.predict(texts)
    back = classifier.predict(texts[::-1], batch_size=2)
    alone = torch.cat([classifier.predict([text]).probabilities for text in texts])
    assert found.passes is not None and back.passes is not None
    assert torch.allclose(found.probabilities, back.probabilities.flip(0), atol=1e-6)
    assert torch.allclose(found.probabilities, alone, atol=1e-6)
    assert found.passes.tolist() == back.passes.tolist()[::-1]
    monkeypatch.setattr("dualmask.long_texts.TOGETHER", 3)
    assert torch.allclose(found.probabilities, classifier.predict(texts).probabilities, atol=1e-6)


def test_windows_are_asked_about_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualmask.long_texts.TOGETHER", 5)
    assert list(groups([2, 3, 1, 9, 4])) == [[0, 1], [2], [3], [4]]


# Where texts are cut


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.9])
def test_stretches_fit_begin_and_end_at_words_and_leave_nothing_out(
    tiny: Callable[[str], Path], family: str, overlap: float,
) -> None:
    classifier = wrapped(tiny, "plain", family)
    encode, room = classifier.encode, LENGTH - 2
    for text in (LONG, PADDING, "a\n\nplot,  with \t scene " * 9, "x" * 90, "good " * room):
        found = stretched([text], encode, Limits(room, overlap, 1000))[0]
        spans = [(part.shifts[0], part.shifts[0] + len(str(part.text))) for part in found.parts]
        assert found.whole
        assert all(text[start:end] == part.text for (start, end), part in zip(spans, found.parts, strict=True))
        read = {place for start, end in spans for place in range(start, end)}
        assert all(place in read or letter.isspace() for place, letter in enumerate(text))
        cuts = [place for start, end in spans for place in (start, end) if 0 < place < len(text)]
        longest = max(len(word) for word in text.split())
        assert longest > room or all(text[place - 1].isspace() or text[place].isspace() for place in cuts)
        assert not encode([part.text for part in found.parts]).cut.any()  # type: ignore[union-attr]
        assert spans == sorted(set(spans))


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_without_overlap_the_tokens_are_those_of_the_text(tiny: Callable[[str], Path], family: str) -> None:
    """A word behind a space and one without are other tokens where bytes are read."""
    encode = wrapped(tiny, "plain", family).encode
    text = " ".join(["plot", "movie", "good", "a"] * 7)

    def tokens(given: Text) -> list[int]:
        batch = encode([given], max_length=1000)
        return batch.input_ids[batch.body].tolist()

    parts = stretched([text], encode, Limits(14, 0.0, 64))[0].parts[:-1]
    found = [token for part in parts for token in tokens(part.text)]
    assert parts and found == tokens(text)[:len(found)]


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5])
def test_pieces_of_a_word_that_have_more_tokens_by_themselves_are_shrunk(overlap: float) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[MASK]", "a", "##bc", "b", "##c", "fine"]
    core = Tokenizer(models.WordPiece({word: place for place, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # type: ignore[assignment]
    encode = Encode(PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"), max_length=8)
    word = "a" + "bc" * 45
    for text in (word, f"fine {word} fine"):
        found = stretched([text], encode, Limits(8, overlap, 100))[0]
        assert not encode([part.text for part in found.parts]).cut.any()  # type: ignore[union-attr]
        read = {place + part.shifts[0] for part in found.parts for place in range(len(part.text))}
        assert found.whole and all(place in read or text[place] == " " for place in range(len(text)))
        assert len(found.parts) <= 45 // (7 - int(8 * overlap)) + 3  # as few as eight with 7 tokens of the text each


def test_neighbours_share_words_and_the_last_stretch_is_as_long_as_others(alarmed: DefendedClassifier) -> None:
    text = " ".join(["a", "the", "plot", "movie", "x"] * 6)  # 30 words of a token each
    found = stretched([text], alarmed.encode, Limits(14, 0.5, 64))[0].parts
    assert [len(str(part.text).split()) for part in found] == [14, 14, 14, 14]
    assert [len(text[:part.shifts[0]].split()) for part in found] == [0, 7, 14, 16]


def test_of_a_pair_the_longer_text_is_cut_and_the_other_kept(alarmed: DefendedClassifier) -> None:
    room = LENGTH - 3
    for pair in (("a plot", LONG), (LONG, "a plot")):
        longer = int(pair[1] == LONG)
        parts = stretched([pair], alarmed.encode, Limits(room, 0.25, 64))[0].parts
        assert len(parts) > 3
        assert all(part.text[1 - longer] == "a plot" for part in parts)
        assert all(LONG[part.shifts[longer]:].startswith(part.text[longer]) for part in parts)
        assert not alarmed.encode([part.text for part in parts]).cut.any()  # type: ignore[union-attr]
    half = [("the plot was very very bad a", LONG)]  # seven tokens of thirteen
    for windows, cut in (("mean", True), ("mean,length=15", False)):
        alarmed.windows = windows  # type: ignore[assignment]
        assert alarmed.predict(half).cut.tolist() == [cut]  # type: ignore[union-attr]
    both = stretched([(LONG, f"{LONG} {LONG}")], alarmed.encode, Limits(room, 0.25, 64))[0].parts
    assert alarmed.encode([both[0].text]).cut.tolist() == [True]  # type: ignore[union-attr]
    alarmed.windows = "any:bad"  # type: ignore[assignment]
    assert alarmed.predict([("a plot", f"{PADDING} awful"), (f"{PADDING} awful", "x"), ("a", "b")]).labels == [
        "bad", "bad", "good"]


def test_the_room_is_what_the_defence_leaves(tiny: Callable[[str], Path]) -> None:
    classifier = wrapped(tiny, "mi4d", rate=0.5)
    assert classifier.defence.room(classifier.encode, 2) == 9  # and 5 masks
    text = "good " * 12
    assert classifier.unread([text, "good " * 9]) == [True, False]
    classifier.windows = "mean"  # type: ignore[assignment]
    assert classifier.unread([text]) == [False]


def test_invisible_text_takes_no_room_where_it_is_left_out(tiny: Callable[[str], Path]) -> None:
    hidden = " ".join("good" + "\u200b" * 30 for _ in range(3))
    classifier = wrapped(tiny, "ddm-restore", "roberta")
    classifier.windows = "any:bad"  # type: ignore[assignment]
    plain, spread = classifier.predict(["good good good"]), classifier.predict([hidden])
    assert spread.passes is not None and plain.passes is not None
    assert spread.passes.tolist() == plain.passes.tolist()
    long = stretched([f"{hidden} {hidden}"], classifier.encode, Limits(14, 0.25, 64, visible=True))[0]
    assert [str(part.text).count("good") for part in long.parts] == [3, 2, 2]


# What is marked


def test_marks_stand_at_their_places_and_none_twice(tiny: Callable[[str], Path]) -> None:
    classifier = wrapped(tiny, "ddm")
    classifier.windows = "mean"  # type: ignore[assignment]
    for text in (LONG, ("a rare plot", LONG)):
        spans = (classifier.predict([text], explain=True).masked or [[]])[0]
        parts = (text,) if isinstance(text, str) else text
        assert all(parts[span.part][span.start:span.end] == span.text for span in spans)
        places = [(span.part, place) for span in spans for place in range(span.start, span.end)]
        assert len(places) == len(set(places))
        assert max(span.start for span in spans) > len(LONG) // 2  # of later windows, too


def test_what_is_read_instead_is_told_of_every_window(tiny: Callable[[str], Path]) -> None:
    classifier = wrapped(tiny, "ddm-restore")
    text = f"{PADDING} g\u043eod {PADDING} b\u0430d"  # with Cyrillic letters
    assert [span.becomes for span in (classifier.predict([text], explain=True).masked or [[]])[0]] == []
    classifier.windows = "mean"  # type: ignore[assignment]
    spans = (classifier.predict([text], explain=True).masked or [[]])[0]
    assert [(text[span.start:span.end], span.becomes) for span in spans] == [("g\u043eod", "good"), ("b\u0430d", "bad")]


def test_the_most_suspicious_window_makes_a_text_suspicious(tiny: Callable[[str], Path]) -> None:
    detector = classifier_of(tiny, Watchful())
    texts = ["awful", f"{PADDING} awful", PADDING]
    cut = detector.predict(texts).suspicion
    detector.windows = "mean"  # type: ignore[assignment]
    read = detector.predict(texts).suspicion
    assert cut is not None and cut.tolist() == [3.0, -3.0, -3.0]
    assert read is not None and read.tolist() == [3.0, 3.0, -3.0]


# Settings


def test_windows_are_saved_and_folders_without_them_are_as_before(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    classifier = wrapped(tiny, "ddm")
    before = classifier.fingerprint()
    plain = json.loads((classifier.save(tmp_path / "plain") / "dualmask.json").read_text())
    assert "windows" not in plain
    classifier.windows = Windows("any:bad", overlap=0.5, most=7)
    assert classifier.fingerprint() != before
    classifier.save(tmp_path / "model")
    again = DefendedClassifier.load(tmp_path / "model", device="cpu")
    assert again.windows == Windows("any:bad", 0.5, 7)
    assert again.fingerprint() == classifier.fingerprint()
    assert torch.equal(again.predict([LONG]).probabilities, classifier.predict([LONG]).probabilities)
    assert "windows (rule: any:bad)" in (tmp_path / "model" / "README.md").read_text()
    assert DefendedClassifier.load(tmp_path / "model", device="cpu", windows=None).fingerprint() == before
    assert DefendedClassifier.load(tmp_path / "plain", device="cpu").windows is None
    other = DefendedClassifier.load(tmp_path / "plain", device="cpu", windows="surest,most=3")
    assert other.windows == Windows("surest", most=3)
    assert "length" not in other.windows.as_dict()  # as records and models of before have it
    other.windows = Windows("surest", length=8)
    other.save(tmp_path / "short")
    assert DefendedClassifier.load(tmp_path / "short", device="cpu").windows == Windows("surest", length=8)
    assert "Inputs longer than 8 tokens" in (tmp_path / "short" / "README.md").read_text()


def test_a_copy_and_the_bare_network_read_as_the_classifier_does(alarmed: DefendedClassifier) -> None:
    alarmed.windows = "any:bad"  # type: ignore[assignment]
    assert deepcopy(alarmed).predict([f"{PADDING} awful"]).labels == ["bad"]
    assert alarmed.undefended().windows == alarmed.windows
    bare = alarmed.predict([LONG], defended=False)
    assert bare.passes is not None and bare.passes[0] > 1
    assert alarmed(f"{PADDING} awful")[0]["label"] == "bad"  # type: ignore[call-overload,index]
    assert alarmed.accuracy([Example(f"{PADDING} awful", 0)]) == 1


@pytest.mark.parametrize(("given", "expected"), [
    ("none", None), ("mean", Windows()), ("any:a, b,most=3", Windows("any:a, b", most=3)),
    (" any:x , most = 9, overlap=0.5 ", Windows("any:x", 0.5, 9)),
    ("any:x,length=32", Windows("any:x", length=32)), (Windows("surest"), Windows("surest")),
    ("any:overlap", Windows("any:overlap"))])
def test_windows_are_read_as_they_are_typed(given: Windows | str, expected: Windows | None) -> None:
    assert read_windows(given) == expected


@pytest.mark.parametrize(("given", "told"), [
    ("median", "expected 'mean', 'surest' or 'any:LABEL'"), ("any:", "expected 'mean'"), ("any", "expected 'mean'"),
    ("mean,most=0", "most"), ("mean,most=2.5", "expected a rule"),
    ("mean,length=3", "length is 3; expected"), ("mean,length=long", "length=TOKENS"),
    ("mean,overlap=1", "share of a window"),
    ("mean,overlap=nan", "share of a window"), ("mean,size=3", "expected 'mean'"), ("", "expected 'mean'")])
def test_wrong_windows_are_refused_with_what_was_expected(given: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        read_windows(given)


def test_a_rule_about_an_unknown_label_is_refused(alarmed: DefendedClassifier, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="did you mean 'bad'"):
        alarmed.windows = "any:bat"  # type: ignore[assignment]
    assert alarmed.windows is None
    with pytest.raises(DualmaskError, match="median"):
        DefendedClassifier.load(tmp_path, windows="median")  # before anything is read


def test_what_is_told_of_cut_texts() -> None:
    assert told_of_cut(1, 5, 128) == ("1 of 5 texts is longer than the 128 tokens that the classifier reads; what lies "
                                      "behind is not read (--windows reads long texts in parts).")
    assert "the 64 windows of 128 tokens" in told_of_cut(2, 5, 128, Windows())
    short = Windows(length=32)
    assert "the 64 windows of 32 tokens" in told_of_cut(2, 5, 128, short)
    assert "shorter text" not in told_of_cut(2, 5, 128, short)
    assert "the shorter text of a pair takes more than half" in told_of_cut(2, 5, 128, short, pairs=True)


# Counting what is cut


@pytest.mark.parametrize("name", ["plain", "ddm", "ddm-restore", "ranmask", "certed", "rsmi"])
@pytest.mark.parametrize("by_word", [False, True])
def test_only_texts_that_are_not_read_whole_count_as_cut(
    tiny: Callable[[str], Path], name: str, by_word: bool,
) -> None:
    options = {"votes": 3} if name in ("ranmask", "certed") else {}
    options |= {"rate": 0.0} if name == "certed" else {}
    classifier = wrapped(tiny, name, **options, **({"unit": "word"} if by_word and name == "ddm" else {}))
    texts = ["good " * 14, "good " * 15, "\u200b " * 90 + "good", "", ("good " * 14) + "\u200b" * 50]
    found = classifier.predict(texts)
    assert found.cut is not None and found.cut.tolist() == [False, True, False, False, False]
    assert classifier.unread(texts) == found.cut.tolist()
    pairs = classifier.predict([("good " * 6, "bad " * 7), ("good " * 6, "bad " * 8)])
    assert pairs.cut is not None and pairs.cut.tolist() == [False, True]


def test_rows_that_are_made_some_at_a_time_are_counted_too(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dualmask.defences.voting.MOST_WORDS", 20)
    assert wrapped(tiny, "ranmask", votes=3).unread(["good " * 15, "good " * 14, "bad", "bad " * 15]) == [
        True, False, False, True]


def test_words_behind_those_that_were_put_together_count_as_cut(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only so many words as there are tokens are looked at; joined into fewer they do not fill the room."""
    classifier = wrapped(tiny, "ddm-restore")
    monkeypatch.setattr(Rewriting, "__call__", lambda self, text: "good")
    assert classifier.unread(["x " * LENGTH, "x " * (LENGTH + 1)]) == [False, True]


def test_a_file_s_cut_texts_are_counted(alarmed: DefendedClassifier, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"text\ngood\n{PADDING}\n{PADDING} awful\n")
    summary = predict_file(alarmed, tmp_path / "in.csv", tmp_path / "out.csv", progress=False)
    assert (summary.rows, summary.cut) == (3, 2)
    alarmed.windows = "any:bad"  # type: ignore[assignment]
    summary = predict_file(alarmed, tmp_path / "in.csv", tmp_path / "other.csv", progress=False)
    assert (summary.cut, summary.counts) == (0, {"good": 2, "bad": 1})

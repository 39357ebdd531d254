# SPDX-License-Identifier: Apache-2.0
"""Counts of words: what is counted, and that they survive saving, loading and moving."""

from copy import deepcopy
from math import log
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from dualmask.defences.base import Defence
from dualmask.errors import OptionError
from dualmask.text.frequencies import WordCounts

TEXTS = ["The movie, the MOVIE!", "a well-made plot; the café's İstanbul 映画"]


def fitted(texts: list[str | tuple[str, str]]) -> WordCounts:
    counts = WordCounts()
    counts.fit(texts)
    return counts


def test_words_count_in_any_case_and_most_frequent_come_first() -> None:
    counts = fitted([*TEXTS])
    assert list(counts.table()) == ["the", "movie", "a", "café's", "i\u0307stanbul", "plot", "well-made", "映画"]
    assert [counts(word) for word in ("the", "THE", "Movie", "plot", "well-made", "made", "İstanbul")] == [
        3, 3, 2, 1, 1, 0, 1]
    assert counts.phi("the") == pytest.approx(log(4)) and counts.phi("unheard-of") == 0.0


def test_order_of_the_texts_leaves_no_trace() -> None:
    one, other = fitted([*TEXTS]), fitted(TEXTS[::-1])
    assert torch.equal(one.letters, other.letters) and torch.equal(one.counts, other.counts)


def test_both_texts_of_a_pair_count() -> None:
    counts = fitted([("good plot", "plot twist"), ("good", "")])
    assert counts.table() == {"good": 2, "plot": 2, "twist": 1}


def test_empty_corpora_have_no_words() -> None:
    for counts in (WordCounts(), fitted([]), fitted(["", " \n", "?! \ud800"])):
        assert counts.table() == {} and counts("the") == 0 and counts.phi("the") == 0.0
        assert counts.percentile(0.5) == 0.0


def test_percentiles_are_over_the_vocabulary() -> None:
    counts = fitted(["a a a a a a a b b c"])  # phi: ln 2, ln 3, ln 8
    assert [counts.percentile(share) for share in (0, 0.5, 1)] == pytest.approx([log(2), log(3), log(8)])
    assert counts.percentile(0.25) == pytest.approx((log(2) + log(3)) / 2)
    with pytest.raises(OptionError, match="share is 90"):
        counts.percentile(90)


def test_fitting_again_begins_anew() -> None:
    counts = fitted(["old words"])
    assert counts("old") == 1
    counts.fit(["new words words"])
    assert (counts("old"), counts("new"), counts("words")) == (0, 1, 2)


class Counting(Defence):
    name = "counting"

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = WordCounts()


@pytest.mark.parametrize("texts", [TEXTS, []])
def test_a_defence_saves_and_restores_them(texts: list[str], tmp_path: Path) -> None:
    saved, loaded = Counting(), Counting()
    saved.frequencies.fit(texts)
    loaded.frequencies.fit(["something else"])
    assert loaded.frequencies("else") == 1
    save_file(saved.state_dict(), tmp_path / "defence.safetensors")
    loaded.restore(load_file(tmp_path / "defence.safetensors"))
    assert loaded.frequencies.table() == saved.frequencies.table()
    assert loaded.frequencies("else") == 0


def test_lookups_follow_buffers_that_are_loaded_in_place_or_moved() -> None:
    one, other = fitted(["ab ab cd"]), fitted(["xy xy xy zw"])
    assert one("ab") == 2
    one.load_state_dict(other.state_dict())  # of the same size, so that the tensors stay the same objects
    assert (one("ab"), one("xy")) == (0, 3)
    one.counts[0] = 7
    assert one("xy") == 7
    with torch.no_grad():
        moved = deepcopy(one).to(torch.float64)  # whole numbers stay whole
    assert moved("xy") == 7 and moved.counts.dtype == torch.long
    moved.letters = other.letters.clone()
    moved.counts = other.counts.clone()
    assert moved("xy") == 3 and one("xy") == 7


def test_buffers_made_in_inference_mode_serve() -> None:
    with torch.inference_mode():
        counts = fitted(["ab ab cd"])
    assert counts("ab") == 2

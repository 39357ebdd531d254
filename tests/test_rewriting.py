# SPDX-License-Identifier: Apache-2.0
"""Words exchanged for the head of their cluster: which stay; and accounts of what the network is shown."""

from time import process_time

import pytest

from dualmask.text.alternatives import LONGEST
from dualmask.text.clusters import Clusters
from dualmask.text.lexicon import Lexicon
from dualmask.text.protection import Protection
from dualmask.text.restoration import Restorer
from dualmask.text.rewriting import HIDDEN, Rewriting

REVIEWS = ["the movie was a good movie with a fine plot", "a brilliant film from start to finish , and a dull one",
           "this movie is an excellent , entertaining and beautiful story", "far from the best film of the year"] * 20
HEADS = {"movie": "film", "file": "language", "bn": "million", "la": "york", "una": "one",
         **dict.fromkeys("kxfubs", "q")}


class Table(Clusters):
    """Clusters that need no training."""

    def __init__(self) -> None:
        super().__init__(threshold=0.6, apart=0.2)

    def table(self) -> dict[str, str]:
        return HEADS


@pytest.fixture(scope="module")
def rewriting() -> Rewriting:
    lexicon = Lexicon()
    lexicon.fit(REVIEWS)
    return Rewriting(lexicon=lexicon, restorer=Restorer(lexicon), clusters=Table(), budget=1.0)


@pytest.mark.parametrize(("text", "read"), [
    ("a good movie, a good moive", "a good film, a good film"), ("a Movie/story", "a Film/story"),
    ("a #moive here", "a #movie here"), ("a #movie here", "a #movie here"),  # put right, not exchanged
    ("it cost $5k and 1bn", "it cost $5k and 1bn"), ("a 3x4 plot of the U.S. F-16", "a 3x4 plot of the U.S. F-16"),
    ("the my_movie_file here", "the my_movie_file here"), ("see http://ex.com/m\u043evie", "see http://ex.com/m\u043evie"),
    ("La pel\u00edcula es una obra maestra con actores incre\u00edbles y una m\u00fasica preciosa.",) * 2,
])
def test_only_words_of_english_texts_are_exchanged(rewriting: Rewriting, text: str, read: str) -> None:
    assert rewriting(text) == read


@pytest.mark.parametrize("text", ["a://b", "www.a", "mailto:b", "a@b.c", "co.uk/x", "@a", "#a", "ab.cd", "ab()"])
def test_each_kind_of_address_and_name_is_found(text: str) -> None:
    assert Protection(f"x {text} y").guards(2, 3) == [2]
    assert not Protection(f"x {text} y").guards(0, 2) and not Protection(f"x {text} y").guards(2 + len(text), 20)


def test_many_protected_words_take_no_square_of_time(rewriting: Rewriting) -> None:
    began = process_time()
    assert rewriting("@movie movie\n" * 8000) == "@movie film\n" * 8000
    assert process_time() - began < 4


def test_long_runs_of_letters_are_not_remembered(rewriting: Rewriting) -> None:
    run = "movie" * LONGEST
    rewriting(f"a movie, {run}")
    assert "movie" in rewriting._heads() and run not in rewriting._heads()


def test_the_account_is_of_what_is_shown(rewriting: Rewriting) -> None:
    text = f"a br{HIDDEN}illiant film"
    assert rewriting(text) == "a brilliant film"
    assert [(one.written, one.becomes) for one in rewriting.account(text)] == [(f"br{HIDDEN}illiant", "brilliant")]

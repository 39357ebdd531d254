# SPDX-License-Identifier: Apache-2.0
"""The synonym table: look-up, the shipped asset and its manifest, own vectors, and counter-fitting's equations."""

import hashlib
import json
import math
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from dualmask.errors import DataError, OptionError
from dualmask.text.synonyms import (
    ASSET,
    LEAST,
    Pairs,
    Synonyms,
    find_synonyms,
    load_vectors,
    nearest_pairs,
    normalised,
    packed,
    shipped_synonyms,
    unpacked,
)

sys.path.append(str(Path(__file__).parents[1] / "tools"))
import build_synonyms
from counter_fitting import (
    Constraints,
    Settings,
    add_pull,
    counter_fit,
    derived_antonyms,
    mean_pull,
    old_neighbours,
)

ASSETS = Path(str(resources.files("dualmask"))) / "assets"
MANIFEST = json.loads((ASSETS / "synonyms.manifest.json").read_text(encoding="utf-8"))
NONE = np.zeros((0, 2), dtype=np.int64)


def directions(*degrees: float) -> np.ndarray:
    return np.array([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees], dtype=np.float32)


def vector_file(folder: Path, *lines: str) -> Path:
    path = folder / "vectors.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def small_table() -> Synonyms:
    pairs = Pairs(np.array([0, 0, 1]), np.array([1, 3, 3]), np.array([0.75, 0.75, 0.5], dtype=np.float32))
    return Synonyms(["film", "movie", "the", "cinema"], pairs)


def test_neighbours_come_nearest_first_and_ties_by_word() -> None:
    table = small_table()
    assert table.neighbours("film") == [("cinema", 0.75), ("movie", 0.75)]
    assert table.neighbours("cinema") == [("film", 0.75), ("movie", 0.5)]
    assert table.neighbours("cinema", most=1) == [("film", 0.75)]
    assert table.neighbours("the") == table.neighbours("unheard") == []


def test_cosine_is_symmetric_and_tells_unknown_from_far() -> None:
    table = small_table()
    assert table.cosine("movie", "cinema") == table.cosine("cinema", "movie") == 0.5
    assert table.cosine("film", "the") == 0.0
    assert table.cosine("the", "the") == 1.0
    assert table.cosine("film", "unheard") is None
    assert table.cosine("unheard", "unheard") is None
    assert "film" in table and "Film" not in table and len(table) == 4


def test_packing_keeps_the_table() -> None:
    draw = np.random.default_rng(0)
    words = [f"w{number}" for number in range(700)]  # gaps need both bytes
    pairs = nearest_pairs(draw.normal(size=(700, 4)).astype(np.float32), most=5)
    content = packed(words, pairs, least=LEAST, step=1 / 200)
    assert content == packed(words, pairs, least=LEAST, step=1 / 200)
    table, whole = unpacked(content), Synonyms(words, pairs)
    for word in words:
        given, kept = dict(whole.neighbours(word, 700)), dict(table.neighbours(word, 700))
        assert given.keys() == kept.keys()
        assert all(abs(given[near] - kept[near]) <= 1 / 400 + 1e-6 for near in given)


def test_packing_refuses_what_it_cannot_hold() -> None:
    pairs = Pairs(np.array([0]), np.array([1]), np.array([0.4], dtype=np.float32))
    with pytest.raises(ValueError, match="256 steps"):
        packed(["a", "b"], pairs, least=0.5, step=1 / 200)


def test_nearest_pairs_agree_with_brute_force() -> None:
    vectors = normalised(np.random.default_rng(1).normal(size=(1100, 6)).astype(np.float32))  # several blocks
    found = nearest_pairs(vectors, most=3, least=0.6)
    cosine = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    expected = set()
    for row in range(len(vectors)):
        order = sorted((other for other in range(len(vectors)) if other != row), key=lambda other: -cosine[row, other])
        expected |= {(min(row, o), max(row, o)) for o in order[:3] if cosine[row, o] >= 0.6}
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == sorted(expected)
    assert np.allclose(found.cosines, cosine[found.first, found.second], atol=1e-5)


def test_shipped_asset_is_the_one_of_the_manifest() -> None:
    content = (ASSETS / ASSET).read_bytes()
    assert MANIFEST["bytes"] == len(content) <= 4_000_000
    assert MANIFEST["sha256"] == hashlib.sha256(content).hexdigest()
    assert MANIFEST["words"] == len(shipped_synonyms()) == 50_000
    assert MANIFEST["table"]["recall_in_vocabulary"] >= 0.6
    started = time.process_time()
    unpacked(content)
    assert time.process_time() - started < 1.5  # 0.1 s on an idle machine; this only catches a change of kind


def test_shipped_table_holds_synonyms_and_not_antonyms() -> None:
    table = find_synonyms("shipped")
    assert table is shipped_synonyms()
    near = [word for word, _ in table.neighbours("terrible")]
    assert {"dreadful", "horrible", "awful", "horrendous"} <= set(near) and len(near) <= 50
    opposites = [("good", "bad"), ("wonderful", "terrible"), ("best", "worst"), ("love", "hate"), ("great", "awful")]
    for one, other in opposites:
        assert other not in dict(table.neighbours(one)) and one not in dict(table.neighbours(other))


def test_shipped_table_is_symmetric_within_its_bounds() -> None:
    table = shipped_synonyms()
    for word in table.words[::500]:
        near = table.neighbours(word)
        assert near == sorted(near, key=lambda entry: (-entry[1], entry[0])) and len(near) <= 50
        for other, cosine in near:
            assert LEAST <= cosine <= 1 and table.cosine(word, other) == table.cosine(other, word) == cosine


@pytest.mark.slow
@pytest.mark.shared
def test_manifest_figures_hold(shared: Path) -> None:
    table = shipped_synonyms()
    reference = build_synonyms.reference_pairs(shared / "lexical" / build_synonyms.REFERENCE)
    assert build_synonyms.table_recall(table, reference) == MANIFEST["table"]
    assert build_synonyms.strictness(table, reference) == MANIFEST["at stricter cosines"]
    constraints = build_synonyms.read_constraints(shared / "lexical", list(table.words))
    assert build_synonyms.antonyms_left(table, constraints) == MANIFEST["antonyms"]
    assert MANIFEST["antonyms"]["listed pairs left"] <= 0.001 * MANIFEST["antonyms"]["listed pairs"]


def test_own_vectors(tmp_path: Path) -> None:
    path = vector_file(tmp_path, "film 1 0", "movie 0.6 0.8 ", "the -1 0", "nothing 0 0", "", "far 0.28 0.96")
    table = load_vectors(path)
    assert table.neighbours("movie") == [("far", pytest.approx(0.936)), ("film", pytest.approx(0.6))]
    assert table.neighbours("nothing") == table.neighbours("the") == []
    assert load_vectors(path, most=1).cosine("film", "far") == 0.0
    assert [word for word, _ in find_synonyms(str(path)).neighbours("film")] == ["movie"]
    assert load_vectors(path, least=0.7).neighbours("film") == []


def test_own_vectors_with_their_sizes_in_the_first_line(tmp_path: Path) -> None:
    assert load_vectors(vector_file(tmp_path, "2 3", "a 1 0 0", "b 1 1 0")).words == ("a", "b")


@pytest.mark.parametrize(("lines", "message"), [
    (["film 1 0", "movie 1"], "line 2 .*1 numbers after the word, expected 2"),
    (["2 2", "film 1 0", "movie 1 x"], "line 3 .*expected numbers"),
    (["film"], "line 1 .*expected at least one"),
    (["film 1 0", "film 0 1"], "line 2: the word 'film' was there before"),
    (["film 1 nan"], "line 1 .*finite"),
    ([], "holds no vectors"),
])
def test_bad_vector_files_are_named_by_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_vectors(vector_file(tmp_path, *lines))


def test_other_wrong_requests(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="expected 'shipped' or a file"):
        find_synonyms("shiped")
    with pytest.raises(DataError, match="can't be read"):
        load_vectors(tmp_path)
    binary = tmp_path / "vectors.bin"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        load_vectors(binary)
    with pytest.raises(OptionError, match="most >= 1"):
        load_vectors(binary, most=0)


def test_a_damaged_archive_is_refused() -> None:
    content = packed(["a", "b"], Pairs(np.array([0]), np.array([1]), np.array([1], dtype=np.float32)),
                     least=0.5, step=1 / 200)
    assert unpacked(content).neighbours("a") == [("b", 1.0)]
    with pytest.raises(Exception, match=r"."):
        unpacked(content[:len(content) // 2])


def test_importing_dualmask_does_not_load_numpy_for_this() -> None:
    code = "import dualmask, sys; sys.exit('dualmask.text.synonyms' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_pull_is_the_gradient_of_the_cosine() -> None:
    draw = np.random.default_rng(2)
    vectors = normalised(draw.normal(size=(2, 5)).astype(np.float32))
    total = np.zeros_like(vectors)
    add_pull(total, vectors, np.array([[0, 1]]), weight=2.0)

    def cosine(u: np.ndarray, w: np.ndarray) -> float:
        return float(u @ w / np.linalg.norm(u) / np.linalg.norm(w))

    u, w = vectors.astype(np.float64)
    for place in range(5):
        nudge = 1e-6 * np.eye(5)[place]
        assert total[0, place] == pytest.approx(2 * (cosine(u + nudge, w) - cosine(u - nudge, w)) / 2e-6, abs=1e-5)
        assert total[1, place] == pytest.approx(2 * (cosine(u, w + nudge) - cosine(u, w - nudge)) / 2e-6, abs=1e-5)


def test_a_word_moves_by_the_mean_over_its_active_pairs() -> None:
    # Synonyms at 60 degrees: the pull on the first is sin 60 straight up; antonyms at 60 degrees push the other way.
    vectors = directions(0, 60, -60)
    kept = NONE, np.zeros(0, dtype=np.float32)
    settings = Settings(antonym_weight=3, synonym_weight=1)
    constraints = Constraints(np.array([[0, 1]]), np.array([[0, 2]]), np.array([[0, 2]]))
    moved = mean_pull(vectors, constraints, kept, settings)
    up = math.sin(math.radians(60))
    assert moved[0] == pytest.approx([0, (1 * up + 3 * up) / 2], abs=1e-6)
    # Antonyms beyond the margin, at 90 degrees or more, and synonyms in one place are left alone.
    done = mean_pull(directions(0, 90, 90), Constraints(np.array([[1, 2]]), np.array([[0, 1]]), NONE), kept, settings)
    assert np.abs(done).max() < 1e-6


def test_old_neighbours_are_pulled_back_only_when_they_strayed() -> None:
    settings = Settings(preserve_weight=0.5)
    start = directions(0, 20, 60)  # cos 20 = 0.94 is within the radius of 0.2, cos 40 = 0.77 is not
    pairs, old = old_neighbours(start, settings)
    assert pairs.tolist() == [[0, 1]] and old == pytest.approx([math.cos(math.radians(20))])
    none = Constraints(NONE, NONE, NONE)
    assert np.abs(mean_pull(directions(0, 10, 60), none, (pairs, old), settings)).max() == 0
    strayed = mean_pull(directions(0, 30, 60), none, (pairs, old), settings)
    assert strayed[0] == pytest.approx([0, 0.5 * math.sin(math.radians(30))], abs=1e-6)
    assert np.abs(strayed[2]).max() == 0


def test_counter_fitting_agrees_with_loops_over_pairs() -> None:
    draw = np.random.default_rng(3)
    start = normalised(draw.normal(size=(6, 3)).astype(np.float32))
    constraints = Constraints(np.array([[0, 1], [0, 2]]), np.array([[0, 3], [4, 5]]), NONE)
    settings = Settings(rounds=4, radius=0.6)
    ours, (pairs, old) = counter_fit(start, constraints, settings), old_neighbours(start, settings)
    assert len(pairs)  # else the third loss is not tried
    vectors = start.astype(np.float64)
    for _ in range(settings.rounds):
        moves: list[list[np.ndarray]] = [[] for _ in vectors]
        rules = [(pair, -3.0, 0.0) for pair in constraints.antonyms.tolist()]
        rules += [(pair, 1.0, 1.0) for pair in constraints.synonyms.tolist()]
        rules += [(pair, 0.3, cosine) for pair, cosine in zip(pairs.tolist(), old.tolist(), strict=True)]
        for (one, other), weight, bound in rules:
            cosine = vectors[one] @ vectors[other]
            if math.copysign(1, weight) * (bound - cosine) > 1e-6:
                moves[one].append(weight * (vectors[other] - cosine * vectors[one]))
                moves[other].append(weight * (vectors[one] - cosine * vectors[other]))
        vectors = np.stack([v + 0.1 * np.mean(m, axis=0) if m else v for v, m in zip(vectors, moves, strict=True)])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-6)
    assert np.allclose(ours, vectors, atol=1e-5) and not np.allclose(ours, start, atol=0.05)


def test_antonyms_derived_through_synonyms() -> None:
    # good 0, fine 1, bad 2, poor 3: fine/bad, good/poor, fine/poor follow; a common synonym 6 of 4 and 5 stops it.
    found = derived_antonyms({(0, 1), (2, 3), (4, 6), (5, 6)}, {(0, 2), (4, 5)})
    assert found == {(0, 2), (1, 2), (0, 3), (1, 3), (4, 5)}


def test_rank_correlation_shares_ties(tmp_path: Path) -> None:
    assert build_synonyms.ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1, 3.5, 2]
    ratings = tmp_path / "ratings.txt"
    ratings.write_text("# a comment\na\tb\t9\na\tc\t1\na\td\t5\na\tunheard\t5\n", encoding="utf-8")
    unit = directions(0, 5, 80, 30)
    assert build_synonyms.simlex_correlation(ratings, ["a", "b", "c", "d"], unit) == (pytest.approx(1), 3)
    assert build_synonyms.simlex_correlation(ratings, ["a", "c", "b", "d"], unit) == (pytest.approx(-1), 3)

# SPDX-License-Identifier: Apache-2.0
"""Packed records: without the texts, in few bytes, and with every figure, test and doubt as before."""

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_report import cell, write
from typer.testing import CliRunner

from dualmask.cli import app
from dualmask.errors import DataError, OptionError
from dualmask.evaluation.packing import BETWEEN, edits, pack
from dualmask.evaluation.records import Cell, CellRecords, Mode, read_cells
from dualmask.reporting.comparison import compare
from dualmask.reporting.page import examples, html
from dualmask.reporting.report import build_report
from dualmask.reporting.report_latex import latex
from dualmask.reporting.report_markdown import markdown
from dualmask.results import AttackResult, as_line

SENTENCE = "the film that nobody saw was a quiet and rather lovely surprise for its small audience"
WORDS = SENTENCE.split()
NOT_THERE = {"mr.bert.ddm.pwws.adaptive.0.jsonl": "", "mr.bert.rsmi.pwws.adaptive.0.jsonl": "no memory"}
FACTS = {"training": {"preset": "recommended", "rows": {"test": 40}, "seconds": 80.0, "test_seconds": 0.4, "cost": {
    "forward_texts": 80, "backward_texts": 80, "examples": 20, "epochs": 4, "seconds_per_epoch": 20.0, "device": "H"}}}


def varied(records: CellRecords, seed: int) -> CellRecords:
    """Real sentences, changed here and there, with everything that a record may hold."""
    draws = random.Random(seed)
    results = []
    for one in records.results:
        words = random.Random(one.index).sample(WORDS, 10)
        changed = [f"{word}s" if draws.random() < 0.2 else word for word in words]
        after = draws.choice([None, " ".join(words), " ".join(changed), " ".join(changed) + " !"])
        results.append(replace(
            one, text=" ".join(words), adversarial=after, probability=round(draws.random(), 4), words=10,
            probability_after=round(draws.random(), 4), queries=draws.randrange(200), rows=draws.randrange(200),
            changed=draws.randrange(5), similarity=draws.choice([None, 0.8]), seconds=round(draws.random(), 4),
            undefended=draws.choice([0, 1]), hidden=draws.choice([None, (), ((0, 3, 0), (5, 9, 0))]),
            draws=(many := draws.randrange(3)), wrong_draws=draws.randrange(many + 1),
            suspicion=draws.choice([None, 0.25]), suspicion_after=draws.choice([None, 0.75]),
            reason="it broke" if one.outcome == "attack-error" else ""))
    return records._replace(results=results)


def cells() -> list[CellRecords]:
    made, modes = [], list[Mode](["adaptive", "transfer"])
    draws = random.Random(0)
    for number, (defence, attack, mode, seed) in enumerate(
            (defence, attack, mode, seed) for defence in ("plain", "ddm", "freelb++")
            for attack in ("textfooler", "deepwordbug") for mode in modes for seed in (0, 1)):
        outcomes = "".join(draws.choices("+-sqa", (8, 6, 2, 1, 1), k=40))
        about = {"defence": {"name": defence}, "about": FACTS, "samples": 40, "threshold": 0.5, "passes": "1"}
        made.append(varied(cell(outcomes, defence=defence, attack=attack, mode=mode, seed=seed, header=about), number))
    return made


def run_folder(folder: Path, made: Sequence[CellRecords]) -> Path:
    write(folder / "records", *made)
    asked = [*(one.cell.file_name for one in made), *NOT_THERE]
    (folder / "mine.cells").write_text("".join(f"{name}\n" for name in asked), encoding="utf-8")
    failed = replace(made[0].cell, defence="rsmi", attack="pwws", mode="adaptive", seed=0).as_dict()
    (folder / "failures.jsonl").write_text(as_line({"cell": failed, "reason": "no memory"}) + "\n", encoding="utf-8")
    return folder


def test_a_report_of_packed_records_is_that_of_the_run(tmp_path: Path) -> None:
    run, file = run_folder(tmp_path / "run", cells()), tmp_path / "mine.jsonl.gz"
    found = pack([run], file)
    assert (found.cells, found.records, found.size, found.problems) == (24, 960, file.stat().st_size, [])
    before, after = (build_report(read_cells(path)) for path in (run, file))
    assert markdown(before) == markdown(after) and latex(before) == latex(after)
    assert "no memory" in markdown(after) and "## Detection" in markdown(after) and after.missing == NOT_THERE
    page = html(after).replace(examples(after), "")
    assert page == html(before).replace(examples(before), "") and "no examples to show" in examples(after)
    assert 'class="specimen"' in examples(before)


def test_no_word_of_a_text_is_packed(tmp_path: Path) -> None:
    run, file = run_folder(tmp_path / "run", cells()), tmp_path / "mine.jsonl.gz"
    pack([run], file)
    content = gzip.decompress(file.read_bytes()).decode()
    assert [word for word in WORDS if len(word) > 4 and word in content] == []
    pack([run], file, words=True)
    content = gzip.decompress(file.read_bytes()).decode()
    assert '[["' not in content and ',"lovely","lovelys"]' in content
    texts = {str(one.text) for records in read_cells(run).cells for one in records.results}
    assert not any(text in content for text in texts)
    assert markdown(build_report(read_cells(run))) == markdown(build_report(read_cells(file)))


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    run, file, again = run_folder(tmp_path / "run", cells()), tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    for words in (True, False):
        pack([run], file, words=words)
        pack([file], again)  # packed once more
        assert file.read_bytes() == again.read_bytes()


def test_equal_columns_are_written_once(tmp_path: Path) -> None:
    """Texts, labels and lengths are those of every cell; a transferred text is its source's."""
    pack([run_folder(tmp_path / "run", cells())], tmp_path / "a.jsonl.gz")
    _, *lines = gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).decode().splitlines()
    tables = [json.loads(line) for line in lines[24:]]
    assert all(isinstance(tables[0][name], list) for name in ("text", "index", "label", "words"))
    assert all(table[name] == 0 for table in tables[1:] for name in ("text", "index", "label", "words"))
    assert "gradients" in tables[0] and "hidden_after" not in tables[0]  # what is as usual is left out


def test_of_two_runs_the_longer_cell_counts(tmp_path: Path) -> None:
    short, long = cell("+-+-", defence="ddm"), cell("+-+---", defence="ddm")
    folders = [write(tmp_path / name, *made) for name, made in (
        ("one", [short, cell("++", attack="pwws")]), ("two", [long]))]
    pack(folders, tmp_path / "both.jsonl.gz")
    found = {one.cell.attack: len(one.results) for one in read_cells(tmp_path / "both.jsonl.gz").cells}
    assert found == {"textfooler": 6, "pwws": 2}


def test_packed_runs_can_be_compared(tmp_path: Path) -> None:
    one, other = (write(tmp_path / name, cell(outcomes, defence=name)) for name, outcomes in (
        ("ddm", "+++++++-"), ("plain", "--------")))
    pack([one], tmp_path / "one.jsonl.gz")
    pack([other], tmp_path / "other.jsonl.gz")
    packed = compare(tmp_path / "one.jsonl.gz", tmp_path / "other.jsonl.gz").pairs[0].test
    assert packed and packed == compare(one, other).pairs[0].test
    assert packed == compare(one, tmp_path / "other.jsonl.gz").pairs[0].test, "a new run with a published one"
    moved = cell("--------", defence="plain")
    moved = moved._replace(results=[replace(result, text=f"other {result.index}") for result in moved.results])
    pack([write(tmp_path / "moved", moved)], tmp_path / "moved.jsonl.gz")
    for side in (tmp_path / "one.jsonl.gz", one):
        assert "are different texts" in compare(side, tmp_path / "moved.jsonl.gz").pairs[0].reason


@pytest.mark.parametrize(("before", "after", "expected"), [
    ("a good film", None, None), ("a good film", "a good film", []), ("a good film", "a bad flim", [1, 2]),
    ("a good film", "a very good film", [1]), ("a good film", "a good, film", [BETWEEN]),
    (("one text", "another"), ("one test", "another"), [1])])
def test_changes_are_kept_by_their_places(before: str, after: str | None, expected: list[int] | None) -> None:
    assert edits(before, after, words=False) == expected


@given(st.text(), st.text())
def test_a_change_is_always_seen(before: str, after: str) -> None:
    assert bool(edits(before, after, words=False)) == (before != after)
    assert bool(edits(before, after, words=True)) == (before != after)


def damaged(content: str) -> dict[str, str]:
    first, header, table = content.splitlines()
    return {"cut": "\n".join([first, header]), "no number": content.replace('"cells": 1', '"cells": "x"'),
            "other table": "\n".join([first, header, '{"index":[1]}', ""]),
            "no cell": "\n".join([first, table, table, ""]),
            "uneven": content.replace('"label":[0,', '"label":['),
            "endless": content.replace('"cells": 1', '"cells": Infinity'),
            "deep": "\n".join([first, header, "[" * 200_000 + "]" * 200_000, ""]),
            "much hidden": content.replace('"label":[', '"hidden":[20000,0,0,0],"label":['),
            "more hidden": content.replace('"label":[', f'"hidden":[{10**30},0,0,0],"label":[')}


def test_one_wrong_bit_never_changes_what_is_read(tmp_path: Path) -> None:
    file, draws = tmp_path / "mine.jsonl.gz", random.Random(0)
    pack([run_folder(tmp_path / "run", cells()[:2])], file)
    whole, before, refused = file.read_bytes(), read_cells(file), 0
    for place in draws.sample(range(8 * len(whole)), k=300):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        file.write_bytes(flipped)
        try:
            assert read_cells(file) == before, f"bit {place}"  # such as of the time in gzip's header
        except DataError as error:
            refused += str(file) in str(error)
    assert refused > 290


def test_what_is_missing_or_too_much_at_the_end_is_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl.gz"
    pack([write(tmp_path / "run", cell("+-+-"))], file)
    whole = file.read_bytes()
    content = gzip.decompress(whole)
    more = {"another member": whole + gzip.compress(b"{}\n"), "half a line": gzip.compress(content + b"{"),
            "the same again": whole + whole, "no member": whole + b"more",
            "a line more": gzip.compress(content + b"{}\n")}
    for name, odd in {**more, **{str(end): whole[:end] for end in (-1, -4, -8, -9, len(whole) // 2, 20)}}.items():
        file.write_bytes(odd)
        with pytest.raises(DataError, match=r"mine\.jsonl\.gz .*(pack the runs|copy|run the cell) ?.*again"):
            pytest.fail(f"{name}: {read_cells(file)}")
    for name in ("a.jsonl.gz", "b.jsonl.gz"):  # of one cell each, packed by hand
        content = (tmp_path / "run" / cell("+-+-").cell.file_name).read_bytes()
        (tmp_path / "run" / name).write_bytes(gzip.compress(content)[:-8 if name[0] == "b" else None])
    problem, = read_cells(tmp_path / "run").problems
    assert "b.jsonl.gz can't be unpacked to its end" in problem


@pytest.mark.parametrize("kind", ["cut", "no number", "other table", "no cell", "uneven", "endless", "deep",
                                  "much hidden", "more hidden"])
def test_damage_is_told(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "mine.jsonl.gz"
    pack([write(tmp_path / "run", cell("+-+-"))], file)
    file.write_bytes(gzip.compress(damaged(gzip.decompress(file.read_bytes()).decode())[kind].encode()))
    with pytest.raises(DataError, match=r"mine\.jsonl\.gz can't be read as packed records .* pack the runs again"):
        read_cells(file)


def test_a_line_that_fits_into_no_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.jsonl.gz"
    pack([write(tmp_path / "run", cell("+-+-"))], file)
    longest = max(map(len, gzip.decompress(file.read_bytes()).splitlines()))
    monkeypatch.setattr("dualmask.results.LONGEST", longest)
    assert len(read_cells(file).cells) == 1
    monkeypatch.setattr("dualmask.results.LONGEST", longest - 1)
    with pytest.raises(DataError, match="has a line longer than"):
        read_cells(file)


def test_names_that_are_no_cells_are_told_and_the_rest_counts(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl.gz"
    pack([write(tmp_path / "run", cell("+-+-"))], file)
    odd = {"missing": {"<script>": "", **NOT_THERE}, "short": {"a.b": 3}}
    first, rest = gzip.decompress(file.read_bytes()).decode().split("\n", 1)
    file.write_bytes(gzip.compress(f"{json.dumps({**json.loads(first), **odd})}\n{rest}".encode()))
    found = read_cells(file)
    assert found.missing == NOT_THERE and found.short == {} and "no memory" in markdown(build_report(found))
    told, = found.problems
    assert "mine.jsonl.gz: expected names of cells' files, found '<script>' (2 such)" in told


def test_a_pack_that_can_not_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    run, file = write(tmp_path / "run", cell("+-+-")), tmp_path / "out" / "mine.jsonl.gz"
    pack([run], file)
    before = file.read_bytes()
    write(run, cell("+-+-", defence="ddm"))
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OptionError, match=r"mine\.jsonl\.gz can't be written: the disk is full.* Make room"):
        pack([run], file)
    assert file.read_bytes() == before and list(file.parent.iterdir()) == [file]


def test_what_grids_ask_for_and_is_not_there_is_told(tmp_path: Path) -> None:
    """Whole cells, and texts of others; not of data that have no more."""
    few, all_of_data, whole = (cell("+-+-", defence=name, header={"samples": samples, "texts": 4})
                               for name, samples in (("few", 4), ("exhausted", 9), ("whole", 4)))
    absent = replace(few.cell, attack="pwws")
    wanted = {few.cell: 12, all_of_data.cell: 12, whole.cell: 4, absent: 12}
    file, again = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    pack([write(tmp_path / "run", few, all_of_data, whole)], file, asked=wanted)
    pack([file], again)  # not forgotten
    for path in (file, again):
        found = read_cells(path)
        assert found.missing == {absent.file_name: ""} and found.short == {few.cell.file_name: 12}
        page = markdown(build_report(found))
        assert "* mr, bert, few, adaptive, seed 0: textfooler; 4 of 12 texts are there.\n" in page
        assert "seed 0: pwws; not begun" in page and "exhausted, adaptive, seed" not in page
    longer = cell("+-" * 6, defence="few", header={"samples": 12, "texts": 12})
    pack([file, write(tmp_path / "more", longer)], again)
    assert read_cells(again).short == {}


def test_what_no_grid_asks_for_any_more_is_not_missed(tmp_path: Path) -> None:
    """Of packed files; a run's folder has the names of what was asked of it."""
    there = cell("+-+-", header={"samples": 4})
    old, new, run = (replace(there.cell, attack=name) for name in ("pwws", "pwws-0310", "bertattack"))
    file, again = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    pack([write(tmp_path / "run", there)], file, asked={there.cell: 9, old: 4})
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "records", replace_cell(there, replace(there.cell, attack="textbugger")))
    (tmp_path / "folder" / "grid.cells").write_text(f"{run.file_name}\n")
    pack([file, tmp_path / "folder"], again, asked={new: 4})
    found = read_cells(again)
    assert set(found.missing) == {new.file_name, run.file_name} and found.short == {}


def replace_cell(records: CellRecords, cell: Cell) -> CellRecords:
    return records._replace(cell=cell, header={**records.header, "cell": cell.as_dict()})


def test_pack_asks_grids_on_the_command_line(tmp_path: Path) -> None:
    grid = tmp_path / "some.toml"
    grid.write_text('name = "some"\ndata = [{name = "mr", source = "x.csv"}]\ndefences = ["plain"]\n'
                    'encoders = [{name = "bert", source = "minilm"}]\nattacks = ["textfooler", "pwws"]\nsamples = 30\n')
    (tmp_path / "x.csv").write_text("text,label\na,b\n")
    run, out = write(tmp_path / "run", cell("+-", header={"samples": 2})), tmp_path / "a.jsonl.gz"
    result = CliRunner().invoke(app, ["pack", str(run), "--out", str(out), "--grid", str(grid)])
    assert result.exit_code == 0, result.output
    found = read_cells(out)
    assert list(found.missing) == ["mr.bert.plain.pwws.adaptive.0.jsonl"]
    assert found.short == {"mr.bert.plain.textfooler.adaptive.0.jsonl": 30}


def test_pack_on_the_command_line(tmp_path: Path) -> None:
    run, file = run_folder(tmp_path / "run", cells()), tmp_path / "out" / "mine.jsonl.gz"
    found = CliRunner().invoke(app, ["pack", str(run), "--out", str(file)])
    assert found.exit_code == 0 and f"{file}: 24 cells, 960 records, 0.0" in found.stdout, found.output
    found = CliRunner().invoke(app, ["report", str(file), "--markdown"])
    assert found.exit_code == 0 and "2 cells that the grids ask for are not there" in found.stderr
    assert (file.parent / "report.md").read_text().startswith("# Robustness: mine\n")
    with pytest.raises(OptionError, match=r"NAME\.jsonl\.gz"):
        pack([run], tmp_path / "mine.json")


def test_records_keep_all_but_texts(tmp_path: Path) -> None:
    made = cells()[0]
    pack([write(tmp_path / "run", made)], tmp_path / "a.jsonl.gz")
    found, = read_cells(tmp_path / "a.jsonl.gz").cells
    assert found.header == made.header and found.packed and not made.packed
    bare = {"text": "", "adversarial": None, "hidden": None, "hidden_after": None}

    def rest(one: AttackResult) -> AttackResult:
        return replace(one, **bare)  # type: ignore[arg-type]

    assert [rest(one) for one in found.results] == [rest(one) for one in made.results]
    assert [len(one.hidden or ()) for one in found.results] == [len(one.hidden or ()) for one in made.results]

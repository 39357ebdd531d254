# SPDX-License-Identifier: Apache-2.0
"""How tables are read: remembered columns, encodings, empty texts, and what can be read only once."""

import os
import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest

from dualmask.answers import Item
from dualmask.errors import DataError, OptionError
from dualmask.prediction import parts_of
from dualmask.prediction_inputs import ANSWERED, stream_input, text_input
from dualmask.text.character_sets import check_encoding, has_plain_line_ends
from dualmask.text.columns import FIND, Columns, Found, find_columns
from dualmask.text.examples import Example, load_dataset, load_examples
from dualmask.text.input_choices import InputChoices, is_empty, learned_columns
from dualmask.text.lines import read_lines
from dualmask.text.streams import LineStream, is_stream
from dualmask.text.tables import iter_rows

CAFE = "text,label\nun café à 5 €,oui\nrien,non\n"


# Columns that a model was trained on


@pytest.mark.parametrize(("names", "learned", "given", "expected"), [
    (["body", "stars", "title"], Columns("title", "stars"), FIND, Found("title", "stars", None)),
    (["text", "label", "body", "stars"], Columns("body", "stars"), FIND, Found("body", "stars", None)),
    (["text", "label", "Body"], Columns("body", "stars"), FIND, Found("Body", "label", None)),
    (["text", "label"], Columns("body", "stars"), FIND, Found("text", "label", None)),
    (["text", "text_pair", "label"], Columns("text", "label"), FIND, Found("text", "label", None)),
    (["a", "b", "text", "label"], Columns("a", "label", "b"), FIND, Found("a", "label", "b")),
    (["a", "text", "label"], Columns("a", "label", "b"), FIND, Found("text", "label", None)),  # half a pair is none
    (["text", "label", "body"], Columns("body", "label"), Columns("text"), Found("text", "label", None)),
    (["text", "label", "stars"], Columns("text", "stars"), Columns(None, "label"), Found("text", "label", None)),
    (["text", "label"], Columns("body", "text"), Columns("text"), Found("text", "label", None)),
])
def test_learned_columns_go_before_usual_names_and_after_those_that_were_named(
    names: list[str], learned: Columns, given: Columns, expected: Found,
) -> None:
    assert find_columns(names, given, "here", labelled=True, learned=learned) == expected


def test_what_was_remembered_is_told_only_where_it_decided() -> None:
    told: list[str] = []
    choices = InputChoices(learned=Columns("body", "stars"), tell=told.append)
    assert choices.found(["text", "label"], "here", labelled=True) == ("text", "label", None) and not told
    assert choices.found(["body"], "here", labelled=False) == ("body", None, None) and not told
    choices.found(["body", "text", "stars"], "here", labelled=True)
    assert told == ["columns as the model was trained: text 'body', label 'stars' (others: --text-column, "
                    "--label-column)."]
    odd = InputChoices(learned=Columns("opinion"), tell=told.append)
    odd.found(["opinion", "x"], "here", labelled=False)
    assert told[1].startswith("columns as the model was trained: text 'opinion' (others: --text-column)")


def test_models_of_before_and_damaged_facts_remember_nothing() -> None:
    assert learned_columns({}) == learned_columns({"columns": None}) == learned_columns({"columns": [1]}) == FIND
    assert learned_columns({"columns": {"text": "a", "label": 3, "pair": None}}) == Columns("a")


# Encodings


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-32", "utf-8", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "txt"])
def test_rows_are_those_that_were_written(tmp_path: Path, encoding: str, ending: str) -> None:
    shown = ["un café à 5 €", "deux", "trois"]
    lines = {"csv": ["text", *shown], "tsv": ["text", *shown], "txt": shown,
             "jsonl": [f'{{"text": "{text}"}}' for text in shown]}[ending]
    (tmp_path / f"a.{ending}").write_bytes("\n".join(lines).encode(encoding))
    assert [row.text for row in iter_rows(tmp_path / f"a.{ending}", encoding=encoding)] == shown


def test_training_and_measuring_read_the_encoding_that_was_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(CAFE.encode("cp1252"))
    assert load_dataset(path, encoding="cp1252", test=path).train == [Example("un café à 5 €", 1), Example("rien", 0)]
    assert load_examples(path, labels=("non", "oui"), encoding="windows-1252")[0].text == "un café à 5 €"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train.csv").write_bytes(CAFE.encode("cp1252"))
    assert load_dataset(tmp_path / "folder", encoding="cp1252").train[0].text == "un café à 5 €"
    with pytest.raises(DataError, match=r"a\.csv, line 2: byte 0xe9 at offset 17 is not UTF-8.* --encoding cp1252 or"):
        load_dataset(path)


def test_a_file_in_another_encoding_than_was_said_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(CAFE.encode("utf-8-sig"))
    with pytest.raises(DataError, match=r"begins with the mark of UTF-8, and not with cp1252"):
        load_dataset(path, encoding="cp1252")
    path.write_bytes(CAFE.encode())
    with pytest.raises(DataError, match=r"a\.csv, line 2: byte 0xc3 at offset 17 is not ascii\. .*leave it out"):
        load_dataset(path, encoding="ascii")
    path.write_bytes(CAFE.encode("utf-16-le") + b"x")
    with pytest.raises(DataError, match=rf"a\.csv, after line 3: byte 0x78 at offset {2 * len(CAFE)} is not utf-16-le"):
        load_dataset(path, encoding="utf-16-le")
    path.write_bytes(CAFE.encode("utf-16"))
    with pytest.raises(DataError, match=r"the file is UTF-16, .* --encoding utf-16"):
        load_dataset(path)


def test_names_of_encodings(tmp_path: Path) -> None:
    assert check_encoding("UTF8") == check_encoding("utf-8-sig") == "utf-8" and check_encoding("L1") == "iso8859-1"
    assert has_plain_line_ends("cp1252") and not has_plain_line_ends("utf-16") and not has_plain_line_ends("cp037")
    for name, told in (("cp125", "did you mean 'cp1252'"), ("rot13", "usual ones are"), ("", "usual ones are"),
                       ("idna", "usual ones"), ("a\0b", "usual ones")):
        with pytest.raises(OptionError, match=told):
            InputChoices(encoding=name)
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": ["a"]}), tmp_path / "a.parquet")
    assert next(iter_rows(tmp_path / "a.parquet", encoding="utf8")).text == "a"
    with pytest.raises(OptionError, match="knows its own encoding"):
        next(iter_rows(tmp_path / "a.parquet", encoding="cp1252"))


# Empty texts


def test_rows_without_a_text_are_refused_skipped_or_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\n ,y\nb,y\n,x\nc,x\n")
    with pytest.raises(DataError, match=r"line 3: empty text in column 'text'.* --empty skip"):
        load_dataset(path)
    skipped, taken = load_dataset(path, empty="skip", test=path), load_dataset(path, empty="answer")
    assert [one.text for one in skipped.train] == ["a", "b", "c"] == [one.text for one in skipped.test or []]
    assert skipped.empty == 4 and taken.empty == 2 and len(taken.train) == 5
    assert [one.text for one in load_examples(path, labels=("x", "y"), empty="skip")] == ["a", "b", "c"]
    path.write_text("text,label\n,x\n ,y\n")
    with pytest.raises(DataError, match="every text of the train part is empty"):
        load_dataset(path, empty="skip")
    with pytest.raises(OptionError, match="empty 'drop' is unknown; choose one of answer, skip, refuse"):
        load_dataset(path, empty="drop")  # type: ignore[arg-type]


def test_a_pair_with_half_of_it_missing_is_empty() -> None:
    assert is_empty("") and is_empty(" \n") and is_empty(("a", "")) and not is_empty(("a", "b")) and not is_empty("a")
    with pytest.raises(DataError, match="text 2 of 2 is empty"):
        text_input(["a", " "], InputChoices())
    assert [item.text for item in text_input(["a", " "], ANSWERED).items] == ["a", " "]


# What can be read only once


class Pipe:
    """A pipe whose end to write to is in the test's hands."""

    def __init__(self) -> None:
        ends = os.pipe()
        self.stream, self.end = LineStream("the pipe", os.fdopen(ends[0], "rb", buffering=0), owned=True), ends[1]

        self.timer = threading.Timer(20, self.close)  # for a fault alone, which would wait for ever
        self.timer.start()

    def write(self, content: bytes) -> None:
        os.write(self.end, content)

    def close(self) -> None:
        self.timer.cancel()
        end, self.end = self.end, -1
        if end >= 0:
            os.close(end)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()
    made.stream.file.close()


def test_a_line_is_there_before_the_next_one_comes(pipe: Pipe) -> None:
    """Reading on would wait for ever: nobody writes more until the answer is there."""
    pipe.write(b"one\ntwo\nthr")
    lines = (Item({"text": line}, line) for line in read_lines(pipe.stream))
    parts = parts_of(lines, 10, pipe.stream.at_hand)
    assert [item.text for item in next(parts)] == ["one\n", "two\n"]
    pipe.write(b"ee\n")
    assert [item.text for item in next(parts)] == ["three\n"]
    pipe.write(b"four\nfive\nsix")
    pipe.close()
    assert [[item.text for item in part] for part in parts] == [["four\n", "five\n", "six"]]


def test_parts_are_no_longer_than_asked_for(pipe: Pipe) -> None:
    pipe.write(b"1\n2\n3\n4\n5\n")
    pipe.close()
    lines = (Item({}, line.strip()) for line in read_lines(pipe.stream))
    assert [[item.text for item in part] for part in parts_of(lines, 2, pipe.stream.at_hand)] == [
        ["1", "2"], ["3", "4"], ["5"]]


def test_what_comes_before_a_bad_row_is_answered(tmp_path: Path) -> None:
    def rows() -> Iterator[Item]:
        yield Item({}, "a")
        yield Item({}, "b")
        raise DataError("line 3 is bad")

    parts = parts_of(rows(), 10, None)
    assert [item.text for item in next(parts)] == ["a", "b"]
    with pytest.raises(DataError, match="line 3 is bad"):
        next(parts)


def test_long_lines_and_other_encodings_come_through_a_pipe(pipe: Pipe) -> None:
    content = "é" * 300_000 + "\nß\n"
    writer = threading.Thread(target=lambda: (sent(pipe, content.encode("utf-16")), pipe.close()))
    writer.start()
    assert list(read_lines(pipe.stream, "utf-16")) == ["é" * 300_000 + "\n", "ß\n"]
    writer.join()


def sent(pipe: Pipe, content: bytes) -> None:
    while content:
        content = content[os.write(pipe.end, content):]


def test_a_stream_of_memory_reads_like_a_pipe() -> None:
    stream = LineStream("memory", BytesIO(b"a\n" * 3 + b"x" * 100))
    assert stream.at_hand() and stream.readline(10) == b"a\n" and stream.readline(1) == b"a"
    assert stream.readline(10) == b"\n" and stream.read(1) == b"a" and stream.readline(10) == b"\n"
    assert stream.readline(40) == b"x" * 40 and stream.readline(1000) == b"x" * 60 and stream.readline(9) == b""
    assert stream.at_hand() and stream.read() == b""


def test_which_sources_can_be_read_only_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    os.mkfifo(tmp_path / "b.csv")
    assert is_stream("-") and is_stream(Path("/dev/stdin")) and is_stream(tmp_path / "b.csv")
    assert not is_stream(tmp_path / "a.csv") and not is_stream(tmp_path) and not is_stream(tmp_path / "c.csv")
    for name, told in (("c.csv.gz", "packed files can't be read"), ("c.parquet", "packed files")):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match=told):
            stream_input(tmp_path / name, ANSWERED, ragged=True)
    with pytest.raises(DataError, match=r"b\.csv is a pipe or a device"):
        load_dataset(tmp_path / "b.csv")


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Standard input with something in it."""
    class Given:
        def __init__(self, content: bytes) -> None:
            self.buffer = BytesIO(content)

    return lambda content: monkeypatch.setattr("sys.stdin", Given(content))


def test_rows_of_a_pipe_keep_their_columns(piped: Callable[[bytes], None]) -> None:
    rows = b'{"id": 1, "text": "a"}\n{"id": 2, "text": "b", "new": 3}\n'
    piped(rows)
    given = stream_input(Path("-"), InputChoices(kind="jsonl", empty="answer"), ragged=True)
    assert given.names() == ["id", "text"] and [item.values for item in given.items][1]["new"] == 3
    piped(rows)
    given = stream_input(Path("-"), InputChoices(kind="jsonl", empty="answer"), ragged=False)
    with pytest.raises(DataError, match=r"standard input, line 2: .* no column 'new'.*--format jsonl"):
        list(given.items)


def test_refusing_comes_before_the_first_answer(piped: Callable[[bytes], None]) -> None:
    piped(b"a\n\nb\n")
    with pytest.raises(DataError, match="standard input, line 2: empty text"):
        stream_input(Path("-"), InputChoices(kind="text"), ragged=True)
    piped(b"")
    with pytest.raises(DataError, match="standard input is empty, expected texts"):
        stream_input(Path("-"), ANSWERED, ragged=True)

# SPDX-License-Identifier: Apache-2.0
"""Reading labelled texts and rows: what comes out equals what was written, and every complaint can be acted on."""

import bz2
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dualmask.errors import DataError, OptionError, ResourceError
from dualmask.text.examples import (
    Columns,
    Dataset,
    Example,
    iter_rows,
    load_dataset,
    load_examples,
    rotten_tomatoes,
    split_stratified,
)
from dualmask.text.splits import hub_answers, may_be_on_hub

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
TWO = b"text,label\ngood film,1\nbad film,0\n"


@pytest.fixture
def write(tmp_path):
    def _write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write


def refused(function, *parts: str, error: type[Exception] = DataError) -> str:
    """The message of the error that the call must give, with every part in it."""
    with pytest.raises(error) as caught:
        function()
    message = str(caught.value)
    for part in parts:
        assert part in message, f"{part!r} not in {message!r}"
    return message


# --- formats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TWO),
        ("A.CSV", TWO),
        ("a.csv", TWO.replace(b"\n", b"\r\n")),
        ("a.csv", b"\xef\xbb\xbf" + TWO),  # a byte order mark is no part of the first column's name
        ("a.csv", TWO.replace(b",", b";")),
        ("a.csv", b"\n" + TWO + b"\n\n"),
        ("a.csv", TWO.rstrip()),
        ("a.tsv", TWO.replace(b",", b"\t")),
        ("a.jsonl", b'{"text": "good film", "label": 1}\n\n{"label": 0, "text": "bad film"}'),
        ("a.ndjson", b'{"text": "good film", "label": 1.0}\n{"text": "bad film", "label": "0"}\n'),
        ("a.json", b'\xef\xbb\xbf{"text": "good film", "label": 1}\n{"text": "bad film", "label": 0}\n'),
        ("a.csv.gz", gzip.compress(TWO, mtime=0)),  # its time of writing would make a name of its own in each process
        ("a.csv.bz2", bz2.compress(TWO)),
    ],
)
def test_every_format_gives_the_same_examples(write, name, content):
    dataset = load_dataset(write(name, content))
    assert dataset == Dataset(name.partition(".")[0], ("0", "1"), dataset.train, None, None)
    assert dataset.train == [Example("good film", 1), Example("bad film", 0)]


def test_parquet_with_and_without_class_names(tmp_path):
    import datasets
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"id": [7, 8, 9], "Text": ["a b", "c", "é"], "label": ["x", "y", "x"]})
    parquet.write_table(table, tmp_path / "plain.parquet", row_group_size=2)
    assert load_dataset(tmp_path / "plain.parquet").train == [Example("a b", 0), Example("c", 1), Example("é", 0)]
    rows = list(iter_rows(tmp_path / "plain.parquet"))
    assert [row.number for row in rows] == [1, 2, 3]
    assert rows[2].fields == {"id": 9, "Text": "é", "label": "x"}
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    named = datasets.Dataset.from_dict({"text": ["p", "n"], "label": [1, 0]}, features=datasets.Features(features))
    named.to_parquet(tmp_path / "named.parquet")
    assert load_dataset(tmp_path / "named.parquet").labels == ("neg", "pos")


def test_saved_data_set_keeps_class_names_and_leaves_out_withheld_labels(tmp_path):
    import datasets

    features = datasets.Features(
        {"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=["zebra", "ant"])}
    )

    def split(labels):
        texts = [f"text {index}" for index in range(len(labels))]
        return datasets.Dataset.from_dict({"sentence": texts, "label": labels}, features=features)

    saved = datasets.DatasetDict({"train": split([0, 1, 1]), "dev": split([1, 0]), "test": split([-1, -1])})
    saved.save_to_disk(tmp_path / "saved")
    dataset = load_dataset(tmp_path / "saved")
    assert (dataset.name, dataset.labels, dataset.test) == ("saved", ("zebra", "ant"), None)
    assert [example.label for example in dataset.train] == [0, 1, 1]
    assert dataset.validation == [Example("text 0", 1), Example("text 1", 0)]
    split([1, 0, 0]).save_to_disk(tmp_path / "one")
    assert load_dataset(str(tmp_path / "one")).train[0] == Example("text 0", 1)
    datasets.DatasetDict({"main": split([0, 1])}).save_to_disk(tmp_path / "odd")
    refused(lambda: load_dataset(tmp_path / "odd"), "odd", "no split named train", "main")
    split([0, 1, -1]).save_to_disk(tmp_path / "holes")
    refused(lambda: load_dataset(tmp_path / "holes"), "holes (train), row 3", "unknown label '-1'", "zebra, ant")
    (tmp_path / "one" / "state.json").write_text("{")
    refused(lambda: load_dataset(tmp_path / "one"), "one", "Save or copy it again")


def test_folder_parts_and_files_given_in_their_place(write, tmp_path):
    write("d/training.csv", TWO)
    write("d/Dev.jsonl", '{"text": "so", "label": 1}\n')
    write("d/test.tsv", "text\tlabel\nno\t0\n")
    write("d/LICENCE.txt", "free")
    dataset = load_dataset(tmp_path / "d")
    assert dataset.name == "d"
    assert dataset.validation == [Example("so", 1)]
    assert dataset.test == [Example("no", 0)]
    other = write("other.csv", "review,label\nyes,1\n")
    assert load_dataset(tmp_path / "d", test=other).test == [Example("yes", 1)]
    assert load_dataset(tmp_path / "d", validation=other).validation == [Example("yes", 1)]
    assert load_examples(tmp_path / "d", labels=("1", "0")) == [Example("no", 1)]


def test_control_characters_do_not_split_rows(write):
    text = "the end\u0085 \u0091of\u0092 it\u2028all\x0b\x0c\x1c"
    for name, content in (
        ("a.csv", f"text,label\n{text},1\nx,0\n"),
        ("a.jsonl", json.dumps({"text": text, "label": 1}, ensure_ascii=False) + '\n{"text": "x", "label": 0}\n'),
    ):
        assert load_dataset(write(name, content)).train == [Example(text, 1), Example("x", 0)]
    assert [row.text for row in iter_rows(write("a.txt", f"{text}\nx\n"))] == [text, "x"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40).filter(
    lambda text: text.strip()
)
FIX = [HealthCheck.function_scoped_fixture]


@settings(max_examples=150, deadline=None, suppress_health_check=FIX)
@given(st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), min_size=1, max_size=8), st.sampled_from([",", "\t"]))
def test_csv_round_trip_with_line_numbers(tmp_path, rows, delimiter):
    path = tmp_path / ("r.csv" if delimiter == "," else "r.tsv")
    lines, starts = io.StringIO(newline=""), []
    writer = csv.writer(lines, delimiter=delimiter)
    writer.writerow(["text", "text_pair", "label"])
    for text, pair, label in [*rows, ("one", "one", True), ("two", "two", False)]:
        starts.append(lines.getvalue().count("\n") + 1)
        writer.writerow([text, pair, int(label)])
    path.write_bytes(lines.getvalue().encode())
    expected = [Example((text, pair), int(label)) for text, pair, label in rows]
    assert load_dataset(path).train == [*expected, Example(("one", "one"), 1), Example(("two", "two"), 0)]
    assert [row.number for row in iter_rows(path)] == starts


@settings(max_examples=100, deadline=None, suppress_health_check=FIX)
@given(st.lists(TEXTS, min_size=1, max_size=8), st.booleans())
def test_json_lines_round_trip(tmp_path, texts, ascii_only):
    path = tmp_path / "r.jsonl"
    rows = [{"text": text, "label": index % 2} for index, text in enumerate([*texts, "one", "two"])]
    path.write_bytes("".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode())
    assert load_dataset(path).train == [Example(str(row["text"]), int(row["label"])) for row in rows]


@settings(max_examples=200, deadline=None, suppress_health_check=FIX)
@given(st.binary(max_size=200), st.sampled_from(["h.csv", "h.tsv", "h.jsonl", "h.txt", "h.parquet", "h.csv.gz"]))
def test_any_bytes_give_rows_or_a_named_error(tmp_path, content, name):
    path = tmp_path / name
    path.write_bytes((b"text,label\n" if name == "h.csv" else b"") + content)
    try:
        rows = list(iter_rows(path))
    except DataError as error:
        assert str(path) in str(error)
    else:
        assert rows


# --- columns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "columns", "text"),
    [
        ("id,Review , Target", Columns(), "b"),
        ("content,title,class", Columns(), "a"),
        ("text,sentence,label", Columns(), "a"),
        ("text,sentence,label", Columns(text="sentence"), "b"),
        ("x,y2,label", Columns(text="X"), "a"),
        ("premise,hypothesis,label", Columns(), ("a", "b")),
        ("hypothesis,premise,label", Columns(), ("b", "a")),
        ("premise,hypothesis,label", Columns(text="premise"), "a"),
        ("text,text_pair,label", Columns(), ("a", "b")),
        ("sentence,question,label", Columns(), ("b", "a")),
        ("text,reply,label", Columns(pair="reply"), ("a", "b")),
        ("x,reply,label", Columns(text="reply", pair="x"), ("b", "a")),
        ("question2,question1,label", Columns(pair="question2"), ("b", "a")),
        ("message,topic,label", Columns(label="label"), "a"),
    ],
)
def test_columns_found_by_name_or_given(write, header, columns, text):
    path = write("c.csv", f"{header}\na,b,1\na2,b2,0\n")
    assert load_dataset(path, columns=columns).train[0] == Example(text, 1)
    assert next(iter_rows(path, columns=columns)).text == text


def test_missing_columns_are_told_with_those_there_are(write):
    path = write("m.csv", "id,txet,label\n1,good,1\n2,bad,0\n")
    refused(lambda: load_dataset(path), f"{path}, line 1", "no text column", "id, txet, label", "--text-column")
    refused(lambda: load_dataset(path, columns=Columns(text="text")), "line 1", "no column 'text'", "id, txet, label",
            "Did you mean 'txet'?")  # fmt: skip
    refused(lambda: next(iter_rows(path)), f"{path}, line 1", "no text column")
    bare = write("n.csv", "text,kind\ngood,1\nbad,0\n")
    refused(lambda: load_dataset(bare), f"{bare}, line 1", "no label column", "text, kind", "--label-column")
    refused(lambda: load_dataset(bare, columns=Columns(label="kynd")), "Did you mean 'kind'?")
    refused(lambda: load_dataset(bare, columns=Columns(label="kind", pair="zz")), "no column 'zz'")
    lines = write("n.jsonl", '{"text": "a", "label": 1}\n{"txt": "b", "label": 0}\n')
    refused(lambda: load_dataset(lines), f"{lines}, line 2", "no 'text'", "txt, label", "Add it")
    refused(lambda: load_dataset(write("n.txt", "good\nbad\n")), "no label column", "text")
    twice = write("t.csv", "text,label,text\na,1,b\n")
    refused(lambda: load_dataset(twice), f"{twice}, line 1", "'text' occurs more than once", "Rename")


# --- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "names", "ids"),
    [
        (["1", "0", "1.0"], ("0", "1"), [1, 0, 1]),
        (["1", "-1", "+1"], ("-1", "1"), [1, 0, 1]),
        (["10", "9", "2"], ("2", "9", "10"), [2, 1, 0]),
        (["5", "1", "3"], ("1", "3", "5"), [2, 0, 1]),
        (["pos", " neg ", "pos"], ("neg", "pos"), [1, 0, 1]),
        (["b", "B", "a"], ("B", "a", "b"), [2, 0, 1]),
        (["10", "9", "x"], ("10", "9", "x"), [0, 1, 2]),
        (["4.5", "1.5", "4.5"], ("1.5", "4.5"), [1, 0, 1]),
    ],
)
def test_labels_become_ids_in_order(write, written, names, ids):
    dataset = load_dataset(write("l.csv", "text,label\n" + "".join(f"t,{label}\n" for label in written)))
    assert dataset.labels == names
    assert [example.label for example in dataset.train] == ids


def test_json_labels_of_other_types(write):
    rows = '{"text": "a", "label": true}\n{"text": "b", "label": false}\n'
    assert load_dataset(write("b.jsonl", rows)).labels == ("false", "true")
    path = write("c.jsonl", rows + '{"text": "c", "label": ["x", "y"]}\n')
    refused(lambda: load_dataset(path), f"{path}, line 3", "list", "one label")
    for bad, told in (("\\ud800x", "U+D800"), ("x\\u0000", "NUL")):  # no file could be written with them
        path = write("e.jsonl", rows + f'{{"text": "c", "label": "{bad}"}}\n')
        refused(lambda path=path: load_dataset(path), f"{path}, line 3", told, "'label'", "emove it")
    for nothing in ("null", '" "', "NaN"):
        path = write("d.jsonl", rows + f'{{"text": "c", "label": {nothing}}}\n')
        refused(lambda path=path: load_dataset(path), f"{path}, line 3", "no label", "delete the row")


def test_one_class_and_too_many_classes(write):
    path = write("o.csv", "text,label\na,1\nb,1.0\n")
    refused(lambda: load_dataset(path), str(path), "one class only", "line 2 to 3", "Add rows of another class")
    path = write("p.csv", "text,label\n" + "".join(f"t,label {index}\n" for index in range(150)))
    refused(lambda: load_dataset(path), str(path), "150 different labels", "Choose another label column")


def test_unknown_label_in_another_part(write, tmp_path):
    write("u/train.csv", "text,label\na,negative\nb,positive\n")
    path = write("u/test.csv", 'text,label\n"two\nlines",positive\nc,postive\n')
    refused(lambda: load_dataset(tmp_path / "u"), f"{path}, line 4", "'postive'", "negative, positive",
            "Did you mean 'positive'?", "Correct the label")  # fmt: skip
    refused(lambda: load_examples(path, labels=("negative", "positive")), f"{path}, line 4", "'postive'")
    assert load_examples(path, labels=("postive", "positive")) == [Example("two\nlines", 1), Example("c", 0)]
    refused(lambda: load_dataset(tmp_path / "u" / "train.csv", test=path), f"{path}, line 4")
    refused(lambda: load_examples(str(tmp_path / "u2"), labels=("a", "b")), "u2", "no such file")
    write("v/train.csv", "text,label\na,negative\nb,positive\n")
    refused(lambda: load_examples(tmp_path / "v", labels=("a", "b")), "no test part", "Name one labelled file")


# --- what can be wrong in a file -----------------------------------------------------------------------------------

BROKEN = {
    "latin-1": ("e.csv", "text,label\ngood,1\ncafé,0\n".encode("latin-1"), ["line 3", "0xe9", "offset 21", "UTF-8"]),
    "latin-1 after mark": ("e.csv", b"\xef\xbb\xbftext\xe9,label\n", ["line 1", "0xe9", "offset 7", "UTF-8"]),
    "latin-1 json": ("e.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', ["line 2", "0xff", "offset 24", "UTF-8"]),
    "utf-16": ("e.csv", "text,label\na,1\n".encode("utf-16"), ["line 1", "UTF-16", "Save it as UTF-8"]),
    "utf-16 without mark": ("e.csv", "text,label\n".encode("utf-16-le"), ["line 1", "NUL", "UTF-16"]),
    "nul": ("e.csv", b"text,label\nfine,1\nbro\0ken,0\n", ["line 3", "NUL", "offset 21", "Remove it"]),
    "nul in json": ("e.jsonl", b'{"text": "a\\u0000b"}\n', ["line 1", "NUL", "Remove it"]),
    "empty": ("e.csv", b"", ["is empty", "expected"]),
    "empty mark": ("e.csv", b"\xef\xbb\xbf", ["is empty", "header"]),
    "empty json": ("e.jsonl", b"\n \n", ["is empty", "one JSON object a line"]),
    "empty txt": ("e.txt", b"", ["is empty"]),
    "blank": ("e.csv", b"\n\n", ["is empty", "header"]),
    "header only": ("e.csv", b"text,label\n", ["no rows", "text, label", "Add rows"]),
    "no text": ("e.csv", b"text,label\na,1\n,0\n", ["line 3", "empty text", "'text'", "delete the row"]),
    "white text": ("e.csv", 'text,label\na,1\n" \u00a0\n",0\n'.encode(), ["line 3", "empty text"]),
    "no pair": ("e.csv", b"text,text_pair,label\na,,1\n", ["line 2", "empty text", "'text_pair'"]),
    "null text": ("e.jsonl", b'{"text": null, "label": 1}\n', ["line 1", "empty text"]),
    "blank line": ("e.txt", b"a\n\nb\n", ["line 2", "empty text"]),
    "fields": ("e.csv", b'text,label\n"a\nb",1\nhello, world,0\n', ["line 4", "3 fields", "header has 2", "Quote"]),
    "few fields": ("e.tsv", b"text\tlabel\nhello\n", ["line 2", "1 fields", "header has 2"]),
    "open quote": ("e.csv", b'text,label\na,1\n"b,0\nc,1\n', ["line 3", "never closed", "closing quote"]),
    "inner quote": ("e.csv", b'text,label\n"a "b" c",1\n', ["line 2", "double the quotes"]),
    "carriage return": ("e.csv", b"text,label\ra,1\rb,0\r", ["line 1", "carriage return", "line feeds"]),
    "bad json": ("e.jsonl", b'{"text": "a"}\n{"text": "a",}\n', ["line 2", "invalid JSON", "one object a line"]),
    "deep json": ("e.jsonl", b"[" * 200_000, ["line 1", "invalid JSON"]),
    "long number": ("e.jsonl", b'{"text": "a", "n": ' + b"1" * 5000 + b"}", ["line 1", "invalid JSON"]),
    "json list": ("e.json", b'[{"text": "a"}]', ["line 1", "a JSON list", "one object a line"]),
    "json string": ("e.jsonl", b'"a"\n', ["line 1", "a JSON str", "expected an object"]),
    "number as text": ("e.jsonl", b'{"text": 12, "label": 1}\n', ["line 1", "12 (int)", "expected text", "string"]),
    "half a character": ("e.jsonl", b'{"text": "a \\ud83d"}\n', ["line 1", "U+D83D", "surrogate", "remove it"]),
    "broken parquet": ("e.parquet", b"PAR1 and no more", ["not a complete Parquet file", "again"]),
    "broken gz": ("e.csv.gz", gzip.compress(TWO * 99)[:60], ["unreadable after line", "again"]),
    "not gz": ("e.csv.gz", TWO, ["unreadable after line 0", "again"]),
    "broken bz2": ("e.csv.bz2", bz2.compress(TWO)[:-12], ["unreadable after line", "again"]),
    "broken xz": ("e.csv.xz", TWO, ["unreadable after line", "again"]),
    "ending": ("e.xlsx", b"PK", ["'.xlsx'", ".csv .tsv .jsonl", ".parquet", ".txt"]),
    "no ending": ("e", b"PK", ["unsupported ending ''", ".csv"]),
    "packed parquet": ("e.parquet.gz", b"PK", ["'.parquet.gz'", "all but Parquet"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_file_names_file_line_and_remedy(write, case):
    name, content, parts = BROKEN[case]
    path = write(name, content)
    refused(lambda: list(iter_rows(path)), str(path), *parts)
    if name != "e.txt" and "label" in str(content):
        refused(lambda: load_dataset(path), str(path), *parts)


@pytest.mark.parametrize(
    ("name", "head", "tail", "parts"),
    [
        ("h.csv", b"text,label\nfine,1\n", b",0\n", ["line 3", "longer than 4 MiB", "Shorten"]),
        ("h.jsonl", b'{"text": "fine", "label": 1}\n{"text": "', b'", "label": 0}\n', ["line 2", "longer than 4 MiB"]),
        ("h.txt", b"fine\n", b"\n", ["line 2", "longer than 4 MiB", "Shorten"]),
    ],
)
def test_line_of_10_mb_is_refused_at_once(write, name, head, tail, parts):
    path = write(name, head + b"x" * 10_000_000 + tail)
    started = time.process_time()
    refused(lambda: list(iter_rows(path)), str(path), *parts)
    assert time.process_time() - started < 1


def test_long_texts_below_the_limit_pass_and_quotes_cannot_hide_longer_ones(write, tmp_path):
    limit = csv.field_size_limit()
    path = write("l.csv", "text,label\n" + "x" * 3_000_000 + ",1\nb,0\n")  # beyond the csv module's own limit
    assert len(load_dataset(path).train[0].text) == 3_000_000
    many = write("q.csv", 'text,label\na,1\n"' + "never closed\n" * 400_000)
    refused(lambda: load_dataset(many), f"{many}, line 3", "longer than 4 MiB", "Close its quote")
    assert csv.field_size_limit() == limit

    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"text": ["a", "x" * 5_000_000], "label": [0, 1]}), tmp_path / "l.parquet")
    refused(lambda: load_dataset(tmp_path / "l.parquet"), "l.parquet, row 2", "longer than 4 MiB", "Shorten")


def test_parquet_complaints_name_the_row(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    def saved(**columns):
        parquet.write_table(pa.table(columns), tmp_path / "p.parquet")
        return tmp_path / "p.parquet"

    refused(lambda: load_dataset(saved(text=["a", " "], label=[0, 1])), "p.parquet, row 2", "empty text")
    refused(lambda: load_dataset(saved(text=["a", None], label=[0, 1])), "p.parquet, row 2", "empty text")
    refused(lambda: load_dataset(saved(text=[1, 2], label=[0, 1])), "p.parquet, row 1", "1 (int)", "expected text")
    refused(lambda: load_dataset(saved(text=["a", "b"], label=[0, None])), "p.parquet, row 2", "no label")
    refused(lambda: load_dataset(saved(words=["a"], label=[0])), "p.parquet", "no text column", "words, label")
    refused(lambda: load_dataset(saved(text=pa.array([], pa.string()))), "p.parquet", "no rows")


@pytest.mark.parametrize("features", [
    b"garbage", b"\xff", b"[" * 5000, b"[]", b'{"info": {"features": 5}}', {"names": 5, "_type": "ClassLabel"},
    {"names": ["n", "n"], "_type": "ClassLabel"}, {"names": ["\ud800", "n"], "_type": "ClassLabel"}, ["ClassLabel"]])
def test_class_names_that_cannot_be_understood_are_none(tmp_path, features):
    import pyarrow as pa
    from pyarrow import parquet

    told = features if isinstance(features, bytes) else json.dumps({"info": {"features": {"label": features}}}).encode()
    table = pa.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata({b"huggingface": told})
    parquet.write_table(table, tmp_path / "p.parquet")
    assert load_dataset(tmp_path / "p.parquet").labels == ("0", "1")


def test_class_names_stand_beside_a_column_of_an_unknown_type(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    features = {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}, "new": {"_type": "OfTomorrow"}}
    table = pa.table({"text": ["a", "b"], "label": [0, 1], "new": [1, 2]})
    told = json.dumps({"info": {"features": features}}).encode()
    parquet.write_table(table.replace_schema_metadata({b"huggingface": told}), tmp_path / "p.parquet")
    assert load_dataset(tmp_path / "p.parquet").labels == ("neg", "pos")


@pytest.mark.parametrize("kind", ["text", "date", "zone"])
def test_an_unreadable_cell_is_named_where_it_is_needed(tmp_path, kind):
    import pyarrow as pa
    from pyarrow import parquet

    def latin():  # "a" and a byte that is not UTF-8, which pyarrow itself would refuse to write
        offsets = b"".join(number.to_bytes(4, "little") for number in (0, 1, 2))
        return pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"a\xff")])

    bad = {"text": latin, "date": lambda: pa.array([1, 2**62], pa.timestamp("us")),
           "zone": lambda: pa.array([None, 1], pa.timestamp("us", "Nowhere/Zone"))}[kind]()
    parquet.write_table(pa.table({"text": ["a", "b"], "label": [0, 1], "more": bad}), tmp_path / "p.parquet")
    assert len(load_dataset(tmp_path / "p.parquet").train) == 2
    parts = ("p.parquet, row 2", "column 'more'", "leave the column out")
    refused(lambda: list(iter_rows(tmp_path / "p.parquet")), *parts)
    for columns in (Columns(label="more"), Columns(text="more")) if kind == "text" else ():
        refused(lambda columns=columns: load_dataset(tmp_path / "p.parquet", columns=columns), *parts)


def test_missing_files_and_folders_without_training(write, tmp_path, monkeypatch):
    path = write("d/reviews.csv", TWO)
    refused(lambda: load_dataset(tmp_path / "d" / "revews.csv"), "no such file", "Did you mean 'reviews.csv'?")
    refused(lambda: load_dataset(tmp_path / "d" / "zz.csv"), "no such file", "holds: reviews.csv", "Check the path")
    refused(lambda: iter_rows(tmp_path / "no" / "zz.csv"), "no such file", f"{tmp_path / 'no'} does not exist")
    refused(lambda: iter_rows(tmp_path / "d"), "is a folder", "reviews.csv")
    refused(lambda: load_dataset(tmp_path / "d"), "no training file", "reviews.csv", "rename it")
    refused(lambda: load_dataset("x" * 5000 + ".csv"), "no such file")
    (tmp_path / "e").mkdir()
    refused(lambda: load_dataset(tmp_path / "e"), "no training file", "it is empty")
    write("f/train.csv", TWO)
    write("f/train.jsonl", "")
    refused(lambda: load_dataset(tmp_path / "f"), "train.csv and train.jsonl", "Remove one")
    monkeypatch.chdir(tmp_path)
    refused(lambda: load_dataset("d/revews"), "d/revews", "no such file", "Did you mean 'reviews.csv'?")
    assert load_dataset("d/reviews.csv").train == load_dataset(path).train


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(write):
    path = write("s.csv", TWO)
    path.chmod(0)
    refused(lambda: load_dataset(path), str(path), "unreadable")


# --- hub -----------------------------------------------------------------------------------------------------------


def test_what_looks_like_a_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    names = ("imdb", "stanfordnlp/imdb", "nyu-mll/glue:mrpc", "a/b-v1.0")
    assert [name for name in names if not may_be_on_hub(name)] == []
    paths = ("imdb.csv", "imdb.xlsx", "data/imdb", "./imdb", "../imdb", "/a/b", "a/b/c", "", "a b")
    assert [path for path in paths if may_be_on_hub(path)] == []


def test_unreachable_hub_is_told_within_seconds(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody answers
    started = time.monotonic()
    refused(lambda: load_dataset("rotten_tomatoes"), "'rotten_tomatoes'", "127.0.0.1:9", "can't be reached",
            "Did you mean 'rotten-tomatoes'?", "Give a file", error=ResourceError)  # fmt: skip
    assert time.monotonic() - started < 60  # the client by itself would try for minutes


@pytest.mark.parametrize(("status", "up"), [(200, True), (404, True), (503, False)])
def test_a_hub_that_refuses_is_up_and_a_broken_one_is_not(monkeypatch, status, up):
    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        assert hub_answers() is up


def test_offline_mode_asks_nobody(tmp_path):
    code = "from dualmask.text.examples import load_dataset\ntry:\n load_dataset('some-owner/some-set')\n"
    code += "except Exception as error:\n print(type(error).__name__, error)"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("ResourceError 'some-owner/some-set'"), done.stderr
    assert "at hand: rotten-tomatoes" in done.stdout


# --- streaming -----------------------------------------------------------------------------------------------------


def test_rows_carry_all_columns_as_they_are_typed(write):
    path = write("f.jsonl", '{"id": 3, "text": "né", "tags": ["a", "é"], "ok": true, "none": null}\n')
    (row,) = iter_rows(path)
    assert row.fields == {"id": 3, "text": "né", "tags": ["a", "é"], "ok": True, "none": None}
    path = write("g.csv", "id,text\n1,\n2,b\n")
    assert [(row.number, row.text) for row in iter_rows(path, allow_empty=True)] == [(2, ""), (3, "b")]


@pytest.mark.slow
def test_memory_stays_constant_over_200_000_rows(write):
    rows = 200_000
    lines = (f"{number},a review of some length {number},{number % 2}\n" for number in range(rows))
    path = write("big.csv", "id,text,label\n" + "".join(lines))
    stream = iter_rows(path)
    tracemalloc.start()
    try:
        count = sum(1 for _ in stream)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == rows
    assert path.stat().st_size > 7_000_000
    assert peak < 1_000_000


# --- splitting -----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=80), st.floats(0.01, 0.99), st.integers(0, 9))
def test_split_is_a_stratified_partition(labels, share, seed):
    examples = [Example(str(index), label) for index, label in enumerate(labels)]
    if max(Counter(labels).values()) < 2:
        with pytest.raises(DataError, match="no class has two"):
            split_stratified(examples, share, seed)
        return
    kept, held = split_stratified(examples, share, seed)
    assert sorted(kept + held) == sorted(examples)
    assert kept == sorted(kept, key=lambda example: int(example.text))
    for label, total in Counter(labels).items():
        out = sum(example.label == label for example in held)
        assert out == 0 if total == 1 else 1 <= out < total and abs(out - share * total) <= 1
    assert split_stratified(examples, share, seed) == (kept, held)


def test_split_depends_on_the_seed_and_refuses_impossible_shares():
    examples = [Example(str(index), index % 2) for index in range(100)]
    first, second = split_stratified(examples, 0.1, 1)[1], split_stratified(examples, 0.1, 2)[1]
    assert len(first) == len(second) == 10
    assert first != second
    for share in (0, 1, -0.1, float("nan")):
        refused(lambda share=share: split_stratified(examples, share, 1), "between 0 and 1", error=OptionError)


# --- data that may be at hand --------------------------------------------------------------------------------------


def shared(name: str) -> Path:
    if not (SHARED / name).is_dir():
        pytest.skip(f"no folder {name} in the data folder beside the checkout")
    return SHARED / name


@pytest.mark.shared
def test_shared_movie_reviews():
    dataset = load_dataset(shared("mr"))
    assert dataset.validation is not None
    assert dataset.test is not None
    assert [len(part) for part in (dataset.train, dataset.validation, dataset.test)] == [8530, 1066, 1066]
    assert Counter(example.label for example in dataset.train) == {0: 4265, 1: 4265}
    assert sum("\u0085" in example.text or "\u0091" in example.text for example in dataset.train) > 0


@pytest.mark.shared
def test_shared_news():
    dataset = load_dataset(shared("ag_news"))
    assert dataset.labels == ("0", "1", "2", "3")
    assert dataset.validation is None
    assert (len(dataset.train), len(dataset.test or [])) == (26918, 7600)


def test_reviews_of_the_packaged_corpus_without_the_package(write):
    rows = [("plot", "A plot.")] + [(("fresh", "rotten")[n % 2], f"Review number {n}!") for n in range(40)]
    rows += [("fresh", "review NUMBER 0"), ("fresh", "Review, number 2?")]
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows([("category", "text", "movie_name"), *((*row, "m") for row in rows)])
    dataset = rotten_tomatoes(write("rotten.csv.bz2", bz2.compress(lines.getvalue().encode())))
    parts = [dataset.train, dataset.validation or [], dataset.test or []]
    assert (dataset.labels, [len(part) for part in parts]) == (("rotten", "fresh"), [32, 4, 4])
    assert {example.text for part in parts for example in part} == {text for _, text in rows[1:41]}
    assert all(example.label == 1 - int(example.text.rstrip("!").split()[-1]) % 2 for part in parts for example in part)


def test_named_reviews_if_fetched():
    from dualmask import resources

    if resources.status("rotten-tomatoes").state != "cached":
        pytest.skip("rotten-tomatoes is not fetched: dualmask resources fetch rotten-tomatoes")
    dataset = load_dataset("rotten-tomatoes")
    parts = [dataset.train, dataset.validation or [], dataset.test or []]
    assert [len(part) for part in parts] == [10200, 1275, 1274]
    assert [Counter(example.label for example in part)[1] for part in parts] == [5894, 737, 736]
    bare = [{"".join(filter(str.isalnum, str(example.text).casefold())) for example in part} for part in parts]
    assert not (bare[0] & bare[1] or bare[0] & bare[2] or bare[1] & bare[2])
    assert load_examples("rotten-tomatoes", labels=("fresh", "rotten"))[0].label == 1 - parts[2][0].label


def test_a_folder_given_for_validation_gives_its_validation_part(tmp_path):
    for part, text in (("train", "t"), ("validation", "v"), ("test", "x")):
        (tmp_path / f"{part}.csv").write_text(f"text,label\n{text} a,n\n{text} b,p\n")
    (tmp_path / "other.csv").write_text("text,label\no a,n\no b,p\n")
    found = load_dataset(tmp_path / "other.csv", validation=tmp_path, test=tmp_path)
    assert [example.text for example in found.validation] == ["v a", "v b"]
    assert [example.text for example in found.test] == ["x a", "x b"]

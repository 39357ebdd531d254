# SPDX-License-Identifier: Apache-2.0
"""Data out of pinned files of repositories, an encoder that a tool makes; a loopback server stands for their host."""

import csv
import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import small_files
from typer.testing import CliRunner

from dualmask import resources
from dualmask.cli_bench import read_grids
from dualmask.cli_resources import app
from dualmask.errors import OptionError, ResourceError
from dualmask.evaluation.bench import plan_of, run_grid
from dualmask.evaluation.grid import Grid, read_grid
from dualmask.evaluation.material import Material, encoder_mark, load_data
from dualmask.evaluation.records import read_cells
from dualmask.evaluation.standing import differences, settings_of
from dualmask.packages import PinnedFile
from dualmask.published_data import (
    AG_NEWS,
    AG_NEWS_READERS,
    MR,
    REVIEWS,
    ag_news_runs,
    read_label_first_news,
    read_noisy_news,
    read_tabbed_news,
    read_text_first_news,
    read_titled_news,
    write_film_reviews,
    write_news,
)
from dualmask.repositories import RepositoryFile, RepositoryFiles
from dualmask.resources import RESOURCES, MadeByTool, Resource, fetch, status, verify
from dualmask.text.examples import load_dataset

ROOT = Path(__file__).parents[1]
COMMIT = "0123456789abcdef" * 2 + "01234567"
ROWS = b"text,label\na fine plot,1\na dull plot,0\n"
GRID = """
data = [{name = "films", source = "films", expected = {train = 2, validation = 0, test = 0}}]
encoders = [{name = "small", source = "minilm"}]
defences = ["plain"]
attacks = ["deepwordbug"]
"""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keep_first(inputs: Sequence[Path], folder: Path) -> None:
    shutil.copyfile(inputs[0], folder / "train.csv")


def films(**changes: object) -> Resource:
    """A resource of one file of one repository; what is pinned of that file may be wrong."""
    facts = {"repository": "owner/films", "commit": COMMIT, "path": "data/rows of films.csv", "size": len(ROWS),
             "sha256": sha256(ROWS), **changes}
    source = RepositoryFiles((RepositoryFile(**facts),), (PinnedFile("train.csv", len(ROWS), sha256(ROWS)),),
                             keep_first)
    return Resource("films", "data", "test", source, "MIT", source.size, sha256(ROWS))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the repositories' host serves; the cache is empty."""
    folder = tmp_path / "host"
    place = folder / "owner/films" / COMMIT / "data"
    place.mkdir(parents=True)
    (place / "rows of films.csv").write_bytes(ROWS)
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DUALMASK_REPOSITORIES", f"http://127.0.0.1:{server.server_address[1]}/")
        monkeypatch.setenv("DUALMASK_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield folder
        server.shutdown()


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts rows into the table."""
    def add(*rows: Resource) -> None:
        monkeypatch.setattr(resources, "RESOURCES", {**RESOURCES, **{row.name: row for row in rows}})
        for module in ("dualmask.evaluation.material", "dualmask.evaluation.grid", "dualmask.evaluation.sources"):
            monkeypatch.setattr(f"{module}.RESOURCES", resources.RESOURCES)
    return add


# Files of repositories


def test_pinned_files_are_fetched_once_and_verified(host: Path, use: Callable[..., None]) -> None:
    use(films())
    assert status("films").state == "not fetched"
    folder = fetch("films", progress=False)
    assert (folder / "train.csv").read_bytes() == ROWS and verify("films").state == "cached"
    shutil.rmtree(host)
    assert fetch("films", progress=False) == folder  # nothing is asked for again
    (folder / "train.csv").write_bytes(ROWS.replace(b"fine", b"dull"))
    assert verify("films").state == "corrupt"


@pytest.mark.parametrize(("changes", "told"), [
    ({"sha256": "0" * 64}, "other content than the pinned"),
    ({"size": len(ROWS) - 1}, "other content than the pinned"),
    ({"size": len(ROWS) + 1}, "other content than the pinned"),
    ({"path": "data/absent.csv"}, "the server answered 404"),
])
def test_what_was_not_pinned_is_refused(
    host: Path, use: Callable[..., None], tmp_path: Path, changes: dict[str, object], told: str,
) -> None:
    use(films(**changes))
    pattern = r"'films': .* of the repository owner/films at 01234567 can't be had"
    with pytest.raises(ResourceError, match=pattern) as got:
        fetch("films", progress=False)
    assert told in str(got.value) and "DUALMASK_REPOSITORIES" in str(got.value)
    assert not (tmp_path / "cache" / "films").exists()


def test_a_full_disk_is_not_blamed_on_the_network(host: Path, use: Callable[..., None], tmp_path: Path) -> None:
    use(films())
    with small_files(len(ROWS) // 2), pytest.raises(ResourceError, match=r"can't be stored in .*: make room") as got:
        fetch("films", progress=False)
    assert "network" not in str(got.value) and not (tmp_path / "cache" / "films").exists()
    assert (fetch("films", progress=False) / "train.csv").read_bytes() == ROWS


def test_data_put_together_wrongly_are_refused(host: Path, use: Callable[..., None], tmp_path: Path) -> None:
    good = films()
    assert isinstance(good.source, RepositoryFiles)
    wrong = RepositoryFiles(good.source.inputs, (PinnedFile("train.csv", len(ROWS), "0" * 64),), keep_first)
    use(Resource("films", "data", "test", wrong, "MIT", wrong.size))
    with pytest.raises(ResourceError, match=r"'train\.csv', put together from repository owner/films, is not what was"):
        fetch("films", progress=False)
    assert not (tmp_path / "cache" / "films").exists()


def test_a_host_that_cannot_be_reached_is_named(
    use: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(films())
    monkeypatch.setenv("DUALMASK_CACHE", str(tmp_path))
    monkeypatch.setenv("DUALMASK_REPOSITORIES", "http://127.0.0.1:9")
    with pytest.raises(ResourceError, match=r"can't be had from http://127\.0\.0\.1:9 .*refused.* Check the network"):
        fetch("films", progress=False)


def test_an_answer_cut_short_is_asked_for_again(
    use: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class Cutting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(ROWS)))
            self.end_headers()
            self.wfile.write(ROWS if len(asked) > 1 else ROWS[:10])
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    use(films())
    with ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DUALMASK_CACHE", str(tmp_path))
        monkeypatch.setenv("DUALMASK_REPOSITORIES", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert (fetch("films", progress=False) / "train.csv").read_bytes() == ROWS
        server.shutdown()
    assert asked == [f"/owner/films/{COMMIT}/data/rows%20of%20films.csv"] * 2


# MR and AG News


def test_film_reviews_are_split_as_the_hub_has_them(tmp_path: Path) -> None:
    for name, word in (("pos", "good"), ("neg", "bad")):
        lines = [f"{word} {number} caf\xe9 \x96 \x85 " for number in range(REVIEWS)]
        (tmp_path / name).write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    (tmp_path / "out").mkdir()
    write_film_reviews([tmp_path / "pos", tmp_path / "neg"], tmp_path / "out")
    found = {}
    for part in ("train", "validation", "test"):
        with (tmp_path / "out" / f"{part}.csv").open(encoding="utf-8", newline="") as stream:
            found[part] = list(csv.DictReader(stream))
    assert {part: len(rows) for part, rows in found.items()} == {"train": 8530, "validation": 1066, "test": 1066}
    assert found["validation"][0] == {"text": "good 4265 caf\xe9 \x96", "label": "1"}
    assert found["test"][-1] == {"text": "bad 5330 caf\xe9 \x96", "label": "0"}


def test_every_source_of_news_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text('label,gt,text,group\n2,1,"Cost \\$5\\now  here",A\n', encoding="utf-8")
    assert read_noisy_news(path) == [("Cost $5 now here", "1")]
    path.write_text('A "b" c\tSci/Tech\n"He said ""no"""\tWorld\n\n', encoding="utf-8")
    assert read_tabbed_news(path) == [('A "b" c', "3"), ('He said "no"', "0")]
    path.write_text('"a, b",2\nlonely\n', encoding="utf-8")
    assert read_text_first_news(path) == [("a, b", "2")]
    path.write_text('2,"a, b"\n', encoding="utf-8")
    assert read_label_first_news(path) == [("a, b", "2")]
    path.write_text('"3","A title","and ""more"" of it"\n', encoding="utf-8")
    assert read_titled_news(path) == [('A title and "more" of it', "2")]


def test_rows_of_news_are_all_there_and_none_twice() -> None:
    runs = ag_news_runs()
    places = [(source, first + step) for source, first, count in runs for step in range(count)]
    assert len(places) == len(set(places)) == 26_918
    assert {source for source, _ in places} == set(range(len(AG_NEWS_READERS)))
    assert len(AG_NEWS.inputs) == len(AG_NEWS_READERS) + 1


def test_news_are_put_together_by_the_list_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dualmask.published_data.AG_NEWS_READERS", (read_text_first_news, read_label_first_news))
    (tmp_path / "list").write_text("# a comment\n1:1+1 0:0+2\n1:0+1\n", encoding="utf-8")
    monkeypatch.setattr("dualmask.published_data.AG_NEWS_ROWS", tmp_path / "list")
    (tmp_path / "one").write_text("a,0\nb,1\n")
    (tmp_path / "two").write_text("2,c\n3,d\n")
    (tmp_path / "test").write_text("1,e,f\n")
    (tmp_path / "out").mkdir()
    write_news([tmp_path / "one", tmp_path / "two", tmp_path / "test"], tmp_path / "out")
    assert (tmp_path / "out" / "train.csv").read_text() == "text,label\nd,3\na,0\nb,1\nc,2\n"
    assert (tmp_path / "out" / "test.csv").read_text() == "text,label\ne f,0\n"


@pytest.mark.shared
def test_what_is_pinned_is_what_was_measured(shared: Path) -> None:
    """The folders that the records were made with have just the pinned files' bytes."""
    for name, source in (("mr", MR), ("ag_news", AG_NEWS)):
        for file in source.files:
            data = (shared / "data" / name / file.name).read_bytes()
            assert (len(data), sha256(data)) == (file.size, file.sha256), (name, file.name)


# Grids


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def test_a_grid_takes_other_sources_by_name(
    host: Path, use: Callable[..., None], grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(films())
    monkeypatch.setattr("dualmask.evaluation.sources.NAMED", ("films",))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.csv").write_bytes(ROWS)
    monkeypatch.chdir(tmp_path)
    asked, = read_grids([str(grid)], ["films=mine"])
    assert [one.name for one in asked.data] == ["films"]
    assert len(load_dataset(asked.data[0].source).train) == 2
    assert read_grids([f"{grid}::plain"], [])[0].data[0].source == "films"
    with pytest.raises(OptionError, match=r"--source film=\.\.\.: no grid has .* did you mean 'films'"):
        read_grids([str(grid)], ["film=mine"])
    with pytest.raises(OptionError, match="--source mine: expected NAME=WHERE"):
        read_grids([str(grid)], ["mine"])


def test_other_data_than_the_grid_means_are_refused(grid: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.csv").write_bytes(ROWS + b"one more,1\n")
    entry = read_grid(grid, sources={"films": str(tmp_path / "mine")}).data[0]
    with pytest.raises(OptionError, match=r"holds other data than the grid means by 'films' \(train: 3, expected 2\)"):
        load_data(entry)
    grid.write_text(GRID.replace("expected = {train", "expected = {tran"))
    with pytest.raises(OptionError, match=r"data\[0\]\.expected: unknown key 'tran': did you mean 'train'\?"):
        read_grid(grid)


def test_an_encoder_that_is_not_made_is_told_before_anything_is_trained(
    use: Callable[..., None], grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Resource("made", "encoder", "test", MadeByTool("minilm", "tools/x.py", "docs/x.md"), "MIT", 1, "0" * 64)
    use(made)
    monkeypatch.setenv("DUALMASK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rows.csv").write_bytes(ROWS)
    asked: Grid = read_grid(grid, sources={"films": str(tmp_path / "rows.csv"), "small": "made"})
    with pytest.raises(ResourceError, match=r"'made': it can't be downloaded.* It is made from minilm by tools/x\.py"
                                            r".* --source made=minilm"):
        run_grid(asked, tmp_path / "out")
    assert not (tmp_path / "out" / "models").exists()
    assert CliRunner().invoke(app, ["verify", "made"]).stderr == "To repair: python tools/x.py\n"
    folder = tmp_path / "cache" / "made"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    assert fetch("made") == folder and status("made").state == "cached"
    assert verify("made").detail == "other weights than those that were measured"
    assert encoder_mark("made") == encoder_mark(str(folder)).replace(str(folder), "made") != "made"


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_every_grid_can_be_read_in_a_clone(path: Path, tmp_path: Path) -> None:
    """Without any folder beside it; data that were measured are told by their rows."""
    shutil.copyfile(path, tmp_path / path.name)
    grid = read_grid(tmp_path / path.name)
    for one in (*grid.data, *grid.encoders):
        assert one.source in RESOURCES, one
    for data in grid.data:
        assert set(data.expected) == ({"train", "validation", "test", "hash"} if data.source != "rotten-tomatoes" else
                                      set())


@pytest.mark.shared
@pytest.mark.parametrize("name", ["mr", "ag_news"])
def test_grids_expect_the_rows_that_were_measured(shared: Path, name: str) -> None:
    grid = read_grid(ROOT / "experiments" / f"{name}.toml", sources={name: str(shared / "data" / name)})
    assert load_data(grid.data[0]).test


@pytest.mark.slow
def test_published_rows_are_measured_again_with_their_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of the first seed; of one the attack was followed by no new draws."""
    monkeypatch.setattr("dualmask.evaluation.standing.material_settings", lambda *_: {})  # data need not be at hand
    plan, material = plan_of([read_grid(ROOT / "experiments" / "published.toml")]), Material()
    cells = {records.cell: records for records in read_cells(ROOT / "results" / "paper_table.jsonl.gz").cells}
    found = set()
    for job in plan.jobs:
        for task in [one for one in job.tasks if one.cell in cells]:
            header = cells[task.cell].header
            told = differences(header, {**settings_of(job, task, material), "samples": header["samples"]})
            assert told == ("draws: 0 there, 10 now" if task.cell.defence == "ddm-random" else "")
            found.add(task.cell.defence)
    assert found == {cell.defence for cell in cells if cell.seed == 0}


# The encoder


def test_articles_are_those_of_the_pinned_commit(tmp_path: Path) -> None:
    """Whatever was committed since, or changed in the checkout."""
    code = """if True:
        import sys
        from pathlib import Path
        import build_encoder
        place = build_encoder.wikipedia_checkout(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
        print(build_encoder.read_articles(place))
    """
    origin = tmp_path / "origin"
    (origin / "text" / "AA").mkdir(parents=True)

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(origin), "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
                              check=True, capture_output=True, text=True).stdout.strip()

    def read(commit: str) -> subprocess.CompletedProcess[str]:
        given = [sys.executable, "-c", code, str(tmp_path / "clone"), str(origin), commit]
        return subprocess.run(given, cwd=ROOT / "tools", capture_output=True, text=True)

    git("init", "--quiet")
    words = " ".join(str(number) for number in range(25))
    for text in (words, "later"):
        page = f'<doc id="1">\nTitle\n\n{text}\n</doc>\n<doc id="2">\nShort\n</doc>\n'
        (origin / "text" / "AA" / "wiki_00").write_text(page)
        git("add", ".")
        git("commit", "--quiet", "-m", text[:5])
    first = git("rev-parse", "HEAD~1")
    assert read(first).stdout == f"{[f'Title {words}']}\n"
    (tmp_path / "clone" / "text" / "AA" / "wiki_00").write_text("changed")
    assert read(first).stdout == f"{[f'Title {words}']}\n"
    failed = read("0" * 40)
    assert failed.returncode == 1 and "git -C" in failed.stderr and "--no-wikipedia" in failed.stderr


def test_the_encoder_is_trained_saved_and_told(tiny: Callable[..., Path], tmp_path: Path) -> None:
    """In a process of its own: tools are no part of the package."""
    code = """if True:
        import json, sys
        from pathlib import Path
        import build_encoder
        texts = {"film reviews": ["a fine plot and a good actor ."] * 90, "AG News": ["the plot was dull ."] * 90}
        given = ["--base", sys.argv[1], "--steps", "12", "--batch", "4", "--device", "cpu", "--out", sys.argv[2],
                 "--learning-rate", "0.01"]
        build_encoder.WINDOW = 24
        print(json.dumps(build_encoder.build(build_encoder.arguments(given), texts)))
    """
    out = tmp_path / "made"
    done = subprocess.run([sys.executable, "-c", code, str(tiny("bert")), str(out)], cwd=ROOT / "tools", check=True,
                          capture_output=True, text=True)
    facts = json.loads(done.stdout.splitlines()[-1])
    losses = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("step")]
    assert len(losses) == 12 and min(losses) < losses[0] and facts["steps"] == 12
    assert facts["texts"] == {"film reviews": 90, "AG News": 90} and 0 <= facts["found of hidden tokens"]["top1"] <= 1
    told = json.loads((out / "how.json").read_text())
    assert told["sha256"] == sha256((out / "model.safetensors").read_bytes()) and told["made from"] == str(tiny("bert"))
    from dualmask.models.language_models import load_masked_language_model

    assert load_masked_language_model(str(out)).mask_id >= 0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]

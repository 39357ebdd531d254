# SPDX-License-Identifier: Apache-2.0
"""The documents say what is so: their code runs, their commands parse, their links and tables are right."""

import csv
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any, get_type_hints

import pytest
import typer.main
from conftest import reviews

import dualmask
import dualmask.resources
from dualmask.attacks import build_attack
from dualmask.cli import app
from dualmask.defences import DEFENCES, build_defence, preset_training
from dualmask.defences.ddm import DDM, DDMOptions
from dualmask.defences.ddm_restore import DDMRestoreOptions
from dualmask.evaluation.records import CellRecords, read_cells
from dualmask.options import TrainingOptions, converted, make_options, parse_assignments
from dualmask.reporting.comparison import compare
from dualmask.reporting.entries import training_facts
from dualmask.reporting.report import Report
from dualmask.resources import RESOURCES
from dualmask.text.examples import Dataset
from dualmask.training import train
from dualmask.windows import Windows

ROOT = Path(__file__).parents[1]
SOURCE = Path(dualmask.__file__).parent
DOCUMENTS = [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md",
                               *sorted((ROOT / "docs").glob("*.md"))) if path.exists()]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FENCE = re.compile(r"(?P<exempt><!-- no-run -->\s*)?^```(?P<language>[\w-]*)[^\n]*\n(?P<code>.*?)^```", re.M | re.S)
OPTIONS = {f.name: (kind, get_type_hints(kind)[f.name]) for kind in (DDMOptions, TrainingOptions) for f in fields(kind)}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, *languages: str) -> list[str]:
    """Code blocks in these languages that are not exempt."""
    found = FENCE.finditer(path.read_text(encoding="utf-8"))
    return [block["code"] for block in found if block["language"] in languages and not block["exempt"]]


def prose(path: Path) -> str:
    """A document without its code blocks."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next of any level."""
    return re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a Markdown table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


DDM_PAGE = (ROOT / "docs" / "ddm.md").read_text(encoding="utf-8")


# Examples


EXPECTED = {
    "train_from_csv.py": ["labels: negative, positive", "with the defence on", "the mvoie was very great"],
    "collator_with_trainer.py": ["[CLS] [MASK] [MASK] the movie was very bad [SEP]", "16 steps", "'label':"],
    "defend_a_model.py": ["defence off:", "defence on:", "read otherwise: 'mvoie' as "],
    "attack_a_classifier.py": ["the classifier:", " queries ", "the function:", "succeeded"],
    "pipeline_style.py": ["every label:", "'mvoie', characters 4 to 9: "],
}


@pytest.mark.slow
def test_examples_run(tiny: Callable[[str], Path]) -> None:
    """All of them together, because each spends most of its time on imports."""
    assert {path.name for path in EXAMPLES} == set(EXPECTED)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    started = {path.name: subprocess.Popen(
        [sys.executable, str(path), str(tiny("bert"))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment) for path in EXAMPLES}
    try:
        for name, process in started.items():
            output, errors = process.communicate(timeout=150)
            assert process.returncode == 0, f"{name}: {errors}"
            assert [part for part in EXPECTED[name] if part not in output] == [], f"{name}: {output}"
    finally:
        for process in started.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_examples_are_short_and_say_how_to_run_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0")
    assert f"python {named(path)} [ENCODER]" in text and '"minilm"' in text


# Code in documents


@pytest.fixture(scope="module")
def wide(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder with positions for the default length."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    folder = tmp_path_factory.mktemp("wide")
    AutoTokenizer.from_pretrained(tiny("bert")).save_pretrained(folder)
    config = AutoConfig.from_pretrained(tiny("bert"))
    config.max_position_embeddings = 192
    AutoModel.from_config(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def trained(wide: Path, data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents") / "model"
    train(data, encoder=wide, defence="ddm", training={"epochs": 1}, out=folder, progress=False)
    return folder


@pytest.fixture
def reader(wide: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader's folder: small data, a trained model, and tiny stand-ins for what would be fetched."""
    for name, labels, column in (("reviews", ("bad", "good"), "label"), ("test", ("bad", "good"), "label"),
                                 ("rotten-tomatoes", ("rotten", "fresh"), "category")):
        texts = {str(example.text): labels[example.label] for example in reviews(240, seed=len(name))}
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", column), *texts.items()])
    shutil.copytree(trained, tmp_path / "model")
    resolve = dualmask.resources.resolve

    def stand_in(name: str, *, kind: str, progress: bool = True) -> Path:
        if name not in RESOURCES:
            return resolve(name, kind=kind, progress=progress)
        return wide if kind == "encoder" else tmp_path / f"{name}.csv"

    monkeypatch.setattr(dualmask.resources, "resolve", stand_in)
    monkeypatch.setitem(vars(dualmask), "resolve", stand_in)
    monkeypatch.chdir(tmp_path)
    known = dict(DEFENCES)
    yield
    DEFENCES.clear()
    DEFENCES.update(known)


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path, "python", "py")], ids=named)
@pytest.mark.usefixtures("reader")
def test_python_in_documents_runs(path: Path, wide: Path) -> None:
    """The blocks of a document run one after the other in one namespace, like a reader's session."""
    namespace: dict[str, object] = {"__name__": "document"}
    if re.search(r'out="model/?"', "".join(blocks(path, "python", "py"))):
        shutil.rmtree("model")  # the document makes its own
    for number, code in enumerate(blocks(path, "python", "py"), start=1):
        for name, resource in RESOURCES.items():  # as a reader who calls transformers directly would need it
            if resource.kind == "encoder":
                code = code.replace(f'from_pretrained("{name}"', f'from_pretrained("{wide}"')
        exec(compile(code, f"{named(path)}, Python block {number}", "exec"), namespace)


def test_few_blocks_are_exempt() -> None:
    exempt = [block for path in DOCUMENTS for block in FENCE.finditer(path.read_text(encoding="utf-8"))
              if block["exempt"]]
    assert len(exempt) <= 3
    assert all(block["language"] in ("python", "py") for block in exempt), "only Python blocks are run at all"


# Commands in documents


def shell_lines(path: Path) -> Iterator[str]:
    """Commands in shell blocks, without prompts, continuation lines joined."""
    for code in blocks(path, "sh", "bash", "shell", "console"):
        for line in code.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ ")


def words_of(line: str) -> list[str]:
    """A command's words, up to a pipe or a redirection, without the comment behind it."""
    words = shlex.split(line, comments=True)
    ends = [place for place, word in enumerate(words) if word in ("|", ">", ">>", "&&", "||", ";", "&")]
    return words[:min(ends, default=len(words))]


COMMANDS = [(path, words) for path in DOCUMENTS for line in shell_lines(path)
            if (words := words_of(line))[:1] == ["dualmask"]]
MENTIONS = [(path, span) for path in DOCUMENTS for span in re.findall(r"`(dualmask [^`\n]+)`", prose(path))]


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that is meant and the arguments that are left for it."""
    command: Any = typer.main.get_command(app)
    left = words[1:]
    while left and not left[0].startswith("-") and getattr(command, "commands", None):
        assert left[0] in command.commands, f"there is no command '{' '.join(words)}'"
        command, left = command.commands[left[0]], left[1:]
    return command, left


@pytest.mark.parametrize(("path", "words"), COMMANDS, ids=[" ".join(words) for _, words in COMMANDS])
def test_commands_in_documents_parse(path: Path, words: list[str]) -> None:
    command, arguments = find_command(words)
    if {"--help", "--version"} & set(arguments):
        return
    given = command.make_context(command.name, list(arguments), resilient_parsing=False).params
    if "encoder" in given:  # a resource, or what can be seen to be a path, a hub id or a placeholder
        assert given["encoder"] in RESOURCES or re.search(r"[/.A-Z]", given["encoder"]), given["encoder"]
    if "attack" in given:
        options = parse_assignments(given["option"] or [])
        build_attack(given["attack"] or "textfooler", preset=given["preset"], options=options)
    elif given.get("under"):
        build_defence(given["under"], preset=given["preset"], options=parse_assignments(given["option"] or []))
    elif "defence" in given:
        build_defence(given["defence"], preset=given["preset"], options=parse_assignments(given["option"] or []))
        preset_training(given["defence"], given["preset"], parse_assignments(given["settings"] or []))


@pytest.mark.parametrize(("path", "span"), MENTIONS, ids=[span for _, span in MENTIONS])
def test_commands_in_sentences_exist(path: Path, span: str) -> None:
    command, arguments = find_command(span.split())
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    assert {word.partition("=")[0] for word in arguments if word.startswith("-")} <= known


def test_make_targets_in_documents_exist() -> None:
    if not (ROOT / "Makefile").exists():
        pytest.skip("there is no Makefile")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    lines = [line for path in DOCUMENTS for line in [*shell_lines(path), *re.findall(r"`(make [\w-]+)`", prose(path))]]
    assert {match[1] for line in lines if (match := re.match(r"make ([\w-]+)", line))} <= targets


def test_files_that_commands_run_exist() -> None:
    lines = [line for path in DOCUMENTS for line in shell_lines(path)]
    scripts = [word for line in lines if line.startswith("python ") for word in words_of(line) if word.endswith(".py")]
    assert scripts and all((ROOT / script).is_file() for script in scripts), scripts


# Links


def slugs(path: Path) -> set[str]:
    """Anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        assert found.exists(), f"{named(path)} links to {target}"
        assert not anchor or found.suffix != ".md" or anchor in slugs(found), f"{named(path)} links to {target}"


# The page on DDM


def test_every_option_of_ddm_is_explained() -> None:
    for option in fields(DDMOptions):
        assert re.search(rf"`{option.name}[`=]", DDM_PAGE), option.name


def answers() -> list[list[str]]:
    return rows(section(DDM_PAGE, "Every open question and its answer"))


def mentioned(cell: str) -> list[tuple[str, str]]:
    """Options in a table's cell as (name, value), value empty where there is none."""
    return re.findall(r"`([a-z_]+)(?:=([^`]+))?`", cell)


def test_every_question_is_answered_once() -> None:
    assert [row[0] for row in answers()] == [str(number) for number in range(1, 34)]
    assert all(len(row) == 4 and all(row) for row in answers())


@pytest.mark.parametrize("row", answers(), ids=[row[0] for row in answers()])
def test_the_defaults_in_the_table_are_those_of_the_code(row: list[str]) -> None:
    defaults = {DDMOptions: build_defence("ddm").options, TrainingOptions: preset_training("ddm", "recommended")}
    for name, value in mentioned(row[2]):
        if name in OPTIONS:
            kind, hint = OPTIONS[name]
            assert value and converted(value, hint) == getattr(defaults[kind], name), name
        else:
            assert name in RESOURCES, name


@pytest.mark.parametrize("row", answers(), ids=[row[0] for row in answers()])
def test_what_changes_a_default_exists(row: list[str]) -> None:
    known = {*OPTIONS, *DDM.presets, *RESOURCES}
    for name, value in mentioned(row[3]):
        assert name in known, name
        if value:
            make_options(OPTIONS[name][0], {name: value})


def test_all_values_of_an_option_stand_in_the_table() -> None:
    """Nothing that can be chosen is hidden: every value of every option with a list of choices."""
    text = "\n".join(" ".join(row) for row in answers()) + section(DDM_PAGE, "Scorers")
    for name, (kind, hint) in OPTIONS.items():
        if kind is DDMOptions and name != "scorer" and hasattr(hint, "__args__") and hint != tuple[str, ...]:
            for value in hint.__args__:
                assert not isinstance(value, str) or f"`{name}={value}`" in text, f"{name}={value}"
    for value in OPTIONS["scorer"][1].__args__:
        assert f"**`{value}`**" in section(DDM_PAGE, "Scorers"), value


def test_the_presets_are_told_as_they_are() -> None:
    presets = list(DDM.presets)
    told = {row[0].strip("`"): row[1:] for row in rows(section(DDM_PAGE, "Presets"))}
    actual = {preset: {**vars(build_defence("ddm", preset=preset).options), **vars(preset_training("ddm", preset))}
              for preset in presets}
    differing = {name for name in OPTIONS if len({str(actual[preset][name]) for preset in presets}) > 1}
    assert set(told) == differing
    for name, cells in told.items():
        values = [converted(cell, OPTIONS[name][1]) for cell in cells]
        assert values == [actual[preset][name] for preset in ("recommended", "paper", "release")], name


def test_the_figures_are_those_of_the_records() -> None:
    command = "python benchmarks/clean_accuracy.py table results/clean_accuracy.jsonl"
    arguments = [sys.executable, *command.split()[1:]]
    printed = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    quoting = [path for path in DOCUMENTS if command in path.read_text(encoding="utf-8")]
    assert printed and ROOT / "docs" / "ddm.md" in quoting
    assert [named(path) for path in quoting if printed not in path.read_text(encoding="utf-8")] == []


def test_figures_in_sentences_stand_in_the_table() -> None:
    """A mean that a sentence quotes with its deviation, or as an accuracy in points, is a cell of the table."""
    text = section(DDM_PAGE, "What masking costs on clean text")
    table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    told = text.replace(table, "") + section(DDM_PAGE, "Why our defaults deviate")
    pairs = re.findall(r"\b\d\d\.\d ± \d\.\d", " ".join(told.split()))
    assert pairs and [pair for pair in pairs if pair not in table] == []
    means = set(re.findall(r"\b([5-9]\d\.\d)\b", text.replace(table, "")))
    elsewhere = {"92.8", "85.7"}  # the paper's own
    assert means - elsewhere <= set(re.findall(r"\b(\d\d\.\d)\b", table))


def test_the_speed_of_attacks_is_what_was_recorded() -> None:
    """The last record of each kind against the table."""
    records = [json.loads(line) for line in (ROOT / "results" / "benchmarks.jsonl").read_text().splitlines() if line]
    last = {(record["benchmark"], record.get("attack")): record for record in records}
    peers = [last["attack_speed peer", name]["times_faster"] for name in ("deepwordbug", "bertattack")]
    lockstep, growth = last["attack_speed lockstep", "deepwordbug"], last["attack_speed growth", "deepwordbug"]
    told = [row[1].split()[0] for row in rows(section((ROOT / "docs" / "attacks.md").read_text(), "Speed"))]
    expected = [f"{ratio:g}x" for peer in peers for ratio in peer.values()] + [f"{lockstep['times_faster']:g}x"]
    expected += [f"{100 * lockstep['forward_share']:.0f}", f"{growth['seconds_for_a_query_many_over_few']:.2f}x"]
    assert told == expected


def test_the_speed_of_reports_is_what_was_recorded() -> None:
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    found = [record for line in lines if (record := json.loads(line))["benchmark"] == "report_speed"][-1]
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert f"a report of {found['records']:,} records" in page and f"| {found['total']:.1f} s | under 20 s |" in page
    assert found["total"] < 20 and not found["torch_loaded"]


def test_what_knowing_the_defence_brings_is_what_was_recorded() -> None:
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    found = [record for line in lines if (record := json.loads(line))["benchmark"] == "aware_attacks"][-1]["attacks"]
    page = section((ROOT / "docs" / "attacks.md").read_text(encoding="utf-8"), "Attacks that know the defence")
    told = {row[0].strip("`"): row[1:] for row in rows(page) if len(row) == 6 and row[0] != "attack"}
    assert set(told) == set(found)
    for name, (accuracy, queries, changed, similarity, few) in told.items():
        usual, limited = found[name]["usual"], found[name].get("few_words")
        assert accuracy == f"{100 * usual['held'] / usual['texts']:.1f} %" and queries == f"{usual['queries']:.0f}"
        assert changed == f"{100 * usual['changed']:.1f} %" and similarity == f"{usual['similarity']:.3f}"
        assert few == (f"{100 * limited['held'] / limited['texts']:.1f} %" if limited else "-")
        assert f"{usual['texts']} reviews" in page and f"{usual['clean']} right before" in page


def test_figures_of_defences_are_what_was_recorded() -> None:
    page = (ROOT / "docs" / "defences.md").read_text(encoding="utf-8").split("\n## Figures\n")[1]
    file = ROOT / "results" / "defences.jsonl"
    grids = [json.loads(line)["grid"] for line in file.read_text(encoding="utf-8").splitlines()]
    printed = [line for grid in grids for line in subprocess.run(
        [sys.executable, "benchmarks/defences.py", "table", str(file), grid], cwd=ROOT, capture_output=True, text=True,
        check=True).stdout.splitlines()]
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert len(tables) > 30 and tables == [line for line in printed if line.startswith("|")]


def test_what_is_told_of_votes_and_certificates_is_what_was_recorded() -> None:
    page = " ".join((ROOT / "docs" / "defences.md").read_text(encoding="utf-8").split("\n## Figures\n")[1].split())
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    votes = {one["data"]: one for one in records if one["benchmark"] == "voting"}
    shares = {name: f"{100 * one['share_of_passes']:.1f} %" for name, one in votes.items() if one["same_labels"]}
    assert f"{shares['mr']} of the passes on film reviews and {shares['ag_news']} on AG News" in page
    small, large = sorted((one for one in records if one["benchmark"] == "certified"), key=lambda one: one["texts"])
    right, proved = (100 * count / large["texts"] for count in (large["right"], large["certified"][0]))
    guess = sum(2 * count >= large["texts"] for count in large["heuristic"]) - 1
    assert f"{right:.1f} % are right, {proved:.1f} % are right and certified" in page
    assert f"against {large['median']} or more words" in page and f"says {guess}." in page
    told = f"({100 * small['right'] / small['texts']:.1f} %, {small['median']} words, {small['texts']} texts)"
    assert told in page


def loaded_tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@cache
def measured_report() -> Report:
    """Of all packed records; to read them takes longer than what is asked of them."""
    found: Report = loaded_tool("results_page").measured_report()
    return found


def published() -> list[CellRecords]:
    return [run.records for one in measured_report().entries for run in one.runs]


@pytest.mark.slow
def test_the_page_on_theory_is_what_was_measured() -> None:
    """Tables, sentences and plots follow from the recorded quantities."""
    tool = loaded_tool("theory_page")
    for path, text in tool.contents(ROOT / "results" / "theory.jsonl.gz").items():
        assert path.read_text(encoding="utf-8") == text, f"{named(path)}: run tools/theory_page.py"


@pytest.mark.slow
def test_the_measured_results_follow_from_the_packed_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page, the LaTeX, the plots and the table on the front page."""
    tool = loaded_tool("results_page")
    monkeypatch.setattr(tool, "measured_report", lambda root: measured_report())
    found = tool.contents()
    if not found:
        pytest.skip("results has no packed records yet")
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, f"{named(path)}: run make results"


DDM_PARTS = ("plain", "ddm", "ddm (test_rate=0.2)", "ddm (test_rate=0.3)", "ddm (test_rate=0.4)", "ddm (paper)",
             "ddm (test_rate=0)", "ddm (train_rate=0)", "ddm (place=random)", "ddm (mask_position=normal)",
             "ddm (ordinary=shifted)", "ddm (scorer=random)")


def test_what_was_found_is_in_the_records() -> None:
    """The table of the page, cell by cell; of all other figures, that a page made from records has them."""
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    report = measured_report()
    found = {(one.key.data, one.key.defence, one.key.mode, one.key.attack): one.robust for one in report.entries
             if one.key.scores == "raw"}
    attacks = ("bertattack", "deepwordbug", "pwws", "textbugger", "textfooler")
    told = {}
    for name, *figures in rows(section(page, "Does DDM hold when the attack may ask it?")):
        data, defence, way = name.replace("`", "").replace("AG News", "ag_news").replace("MR", "mr").split(", ")
        for attack, figure in zip(attacks, figures, strict=True):
            told[data, defence, "adaptive" if way == "asked" else "transfer", attack] = figure
    assert len(told) == 35 and told == {place: f"{100 * found[place].mean:.1f}" for place in told}
    clean = {one.key.defence: one.clean for one in report.entries if one.key.data == "mr" and one.clean
             and (one.key.mode, one.key.scores) == ("adaptive", "raw") and one.key.attack in attacks}
    worst = {one.defence: one.robust for one in report.worst if (one.data, one.scope) == ("mr", "adaptive")}
    parts = rows(section(page, "Which part of DDM helps?"))
    assert len(parts) == len(DDM_PARTS)
    for defence, (_, *figures) in zip(DDM_PARTS, parts, strict=True):
        shares = [clean[defence], *(found["mr", defence, "adaptive", attack] for attack in attacks), worst[defence]]
        assert figures == [f"{100 * share.mean:.1f}" for share in shares], defence
    pages = "".join((ROOT / name).read_text(encoding="utf-8") for name in (
        "results/README.md", "docs/defences.md", "docs/theory.md"))
    assert set(re.findall(r"\b\d+\.\d\b", page)) <= set(re.findall(r"\b\d+\.\d\b", pages))


def test_what_is_said_of_attacks_that_see_or_know_more_is_in_the_records() -> None:
    page = " ".join((ROOT / "docs" / "restore.md").read_text(encoding="utf-8").split())
    every = [*published(), *read_cells(ROOT / "results" / "white_box.jsonl.gz").cells]
    left = {}
    for one in (one for one in every if one.cell.seed == 0):
        held = mean(str(result.outcome) in ("failed", "unconfirmed") for result in one.results)
        left[one.cell.data, one.cell.defence, one.cell.attack, one.cell.mode, one.cell.scores] = f"{100 * held:.1f}"

    def both(defence: str, attack: str, scores: str = "raw") -> str:
        return " and ".join(left[data, defence, attack, "adaptive", scores] for data in ("mr", "ag_news"))

    for attack, name in (("bertattack", "BERT-Attack leaves"), ("pwws", "PWWS"), ("textfooler", "TextFooler")):
        seen = both("restore-vote", attack, scores="calibrated")
        assert f"{name} {seen} instead of {both('restore-vote', attack)}" in page
    assert f"leaves {both('ddm-restore', 'hotflip')} (seed 0" in page
    aware = {(data, defence, attack): figure for (data, defence, attack, mode, _), figure in left.items()
             if mode == "defence-aware"}
    assert (f"`outsider` leaves {aware['mr', 'ddm-restore', 'outsider']} of film reviews in one pass "
            f"and {aware['ag_news', 'ddm-restore', 'outsider']} of AG News") in page
    assert f"and {aware['mr', 'restore-vote', 'outsider']} and {aware['ag_news', 'restore-vote', 'outsider']}" in page
    assert (f"`misprint` leaves {aware['mr', 'restore-vote', 'misprint']} of the vote on film reviews and "
            f"{aware['mr', 'ddm-restore', 'misprint']} of one pass") in page


def test_searches_that_gave_up_are_as_many_as_is_said() -> None:
    """Of rows whose search ended where the mean of draws was wrong."""
    given_up = {one.cell.defence: sum(result.outcome == "unconfirmed" for result in one.results) for one in published()
                if (one.cell.data, one.cell.attack, one.cell.mode) == ("mr", "textfooler", "adaptive")}
    page = " ".join((ROOT / "docs" / "findings.md").read_text(encoding="utf-8").split())
    assert f"on {given_up['adfar']} and {given_up['shield']} of the 200 texts under TextFooler" in page


def test_published_transfer_counts_the_own_answers_of_defences_that_draw_from_the_text() -> None:
    shown = [one for cell in published() for one in cell.results
             if cell.cell.mode == "transfer" and cell.header["noise"] == "text" and one.outcome != "skipped"]
    assert len(shown) > 1000
    assert all((one.predicted != one.label) == (one.outcome == "succeeded") for one in shown)


@pytest.mark.slow
def test_a_row_measured_again_came_out_as_is_said() -> None:
    page = " ".join((ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8").split())
    found = compare(ROOT / "results" / "rerun.jsonl.gz", ROOT / "results" / "paper_table.jsonl.gz")
    tests = {pair.attack: pair.test for pair in found.pairs if pair.test}
    names = ("BERT-Attack", "DeepWordBug", "PWWS", "TextBugger", "TextFooler")
    assert sorted(tests) == [name.lower().replace("-", "") for name in names]
    values = [f"{100 * tests[attack].difference.value:+.1f}" for attack in sorted(tests)]
    told = [f"{name} {value}" for name, value in zip(names, values, strict=True)]
    assert f": {', '.join(told)} points, none beyond chance" in page
    assert all(test.texts == 200 and not test.significant for test in tests.values())


def test_what_the_vote_holds_with_its_draws_held_still_was_measured() -> None:
    page = " ".join((ROOT / "docs" / "restore.md").read_text(encoding="utf-8").split())
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    measured = [one for line in lines if (one := json.loads(line))["benchmark"] == "held_still"]
    ours = [one for one in measured if one["defence"] == "ddm-restore"]
    swaps = {(one["attack"], one["options"]["vote_swaps"]): one for one in ours if one["texts"] == 40}
    found = {attack: one for (attack, share), one in swaps.items() if share == "0.7"}
    first, second = (list(found[name]["left"].values()) for name in ("bertattack", "textfooler"))
    assert (f"BERT-Attack leaves {first[0]} of one pass, {first[1]} of the vote and {first[2]} of the vote held still, "
            f"TextFooler {second[0]}, {second[1]} and {second[2]} (") in page
    safer, masks = (one["left"] for one in measured if one["defence"] in ("safer", "ranmask"))
    assert (f"BERT-Attack leaves {safer['vote']} of `safer` and {safer['vote, draws held still']} with its draws held "
            f"still, {masks['vote']} and {masks['vote, draws held still']} of `ranmask`.") in page
    assert all(f"`{one['encoder']}`, {one['training_texts']:,} training texts and {one['texts']} validation texts of MR"
               in page for one in swaps.values())
    still = {attack: [swaps[attack, share]["left"]["vote, draws held still"] for share in ("0.3", "0.5", "0.7")]
             for attack in found}
    told = {attack: f"{few}, {half} and {most}" for attack, (few, half, most) in still.items()}
    assert (f"BERT-Attack leaves {told['bertattack']} with three, five and seven in ten words exchanged, TextFooler "
            f"{told['textfooler']}, and {first[0]} and {second[0]} of one pass") in page
    (one, vote, still_now), (other, others, still_too) = (again["left"].values() for again in ours
                                                          if again["texts"] == 100)
    findings = " ".join((ROOT / "docs" / "findings.md").read_text(encoding="utf-8").split())
    assert (f"BERT-Attack leaves {one} of one pass, {vote} of the vote and {still_now} held still, TextFooler {other}, "
            f"{others} and {still_too}.") in page
    assert (f"BERT-Attack leaves {one} of one pass, {vote} of the vote and {still_now} of the vote held still, "
            f"TextFooler {other}, {others} and {still_too}.") in findings


def test_what_ttso_keeps_with_calibrated_scores_is_in_the_records() -> None:
    page = " ".join((ROOT / "docs" / "findings.md").read_text(encoding="utf-8").split())
    cells = {one.cell.attack: one for one in read_cells(ROOT / "results" / "ttso.jsonl.gz").cells}
    assert all((one.cell.data, one.cell.scores, len(one.results)) == ("mr", "calibrated", 200)
               for one in cells.values())
    held = {attack: {result.index: result for result in one.results
                     if str(result.outcome) in ("failed", "unconfirmed")} for attack, one in cells.items()}
    names = ("BERT-Attack", "DeepWordBug", "PWWS", "TextBugger", "TextFooler")
    told = [f"{len(held[name.lower().replace('-', '')]) / 2} under {name}" for name in names]
    every = set.intersection(*(set(one) for one in held.values()))
    assert f"it keeps as much: {', '.join(told)}, and {len(every) / 2} in the worst case" in page
    results = [result for one in held.values() for result in one.values()]
    still = sum(result.probability == result.probability_after for result in results)
    assert f"On {still} of {len(results)} texts that held" in page
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    left = {one["attack"]: one["left"] for line in lines if (one := json.loads(line))["benchmark"] == "every_digit"}
    assert (f"TextFooler leaves {left['textfooler']}, BERT-Attack {left['bertattack']}, DeepWordBug "
            f"{left['deepwordbug']} (`python benchmarks/every_digit.py") in page


def test_what_is_left_by_those_who_see_the_gradient_was_measured() -> None:
    page = " ".join((ROOT / "docs" / "restore.md").read_text(encoding="utf-8").split())
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    found, = (one for line in lines if (one := json.loads(line))["benchmark"] == "white_box")
    left = found["left"]
    assert (f"FGPM leaves {left['fgpm, free']}, HotFlip, which keeps to the part of speech, {left['hotflip, free']}, "
            f"and TextFooler itself {left['textfooler']};") in page
    assert f"they leave {left['fgpm']} and {left['hotflip']} (" in page
    assert (f"`{found['encoder']}`, {found['training_texts']:,} training texts and {found['texts']} validation texts "
            f"of MR, {found['right']} right before;") in page


def test_how_many_words_the_vote_exchanges_was_measured() -> None:
    page = (ROOT / "docs" / "restore.md").read_text(encoding="utf-8")
    found = read_cells(ROOT / "results" / "votes.jsonl.gz").cells
    table = rows(page.split("How many words should views of the vote exchange?")[1].split("###")[0])
    for name, row in zip(("ddm-restore", "vote-30", "vote-50", "vote-70"), table, strict=True):
        cells = {one.cell.attack: one for one in found if one.cell.defence == name}
        held = [mean(str(result.outcome) in ("failed", "unconfirmed") for result in cells[attack].results)
                for attack in ("textfooler", "bertattack", "deepwordbug", "textbugger")]
        accuracy = float(str(training_facts(cells["textfooler"].header)["validation_accuracy"]))
        assert row[1:] == [f"{100 * share:.1f}" for share in (accuracy, *held)]
    told = []
    for name in ("vote-30", "vote-70"):
        held_on, = ([result for result in one.results if str(result.outcome) in ("failed", "unconfirmed")]
                    for one in found if (one.cell.defence, one.cell.attack) == (name, "bertattack"))
        told.append((sum(one.probability == one.probability_after == 1 for one in held_on), len(held_on)))
    (agreed, of), (less, fewer) = told
    assert (f"on {agreed} of the {of} texts that hold under BERT-Attack all views agree to the end "
            f"({less} of {fewer} with") in page


def test_what_is_said_of_clean_texts_under_the_vote_is_in_the_records() -> None:
    """On whole test parts: the table's own figures stand on the attacked texts alone."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for one in measured_report().entries:
        for run in one.runs:
            accuracy = training_facts(run.records.header)["test_accuracy"]
            found.setdefault((one.key.data, one.key.defence), {})[run.seed] = 100 * accuracy  # type: ignore[operator]
    one_pass, vote = ([f"{mean(found[data, name].values()):.1f}" for data in ("mr", "ag_news")]
                      for name in ("ddm-restore", "ddm-restore (vote, vote_swaps=0.7)"))
    page = " ".join((ROOT / "docs" / "restore.md").read_text(encoding="utf-8").split())
    assert f"one pass has {one_pass[0]} (MR) and {one_pass[1]} (AG News), the vote {vote[0]} and {vote[1]}." in page


def test_a_page_has_a_place_for_measured_results() -> None:
    tool, page = loaded_tool("results_page"), (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    assert page.count(tool.BEGIN) == 1 and page.count(tool.END) == 1 and page.index(tool.BEGIN) < page.index(tool.END)


def theory_record(kind: str, encoder: str | None = None) -> dict[str, Any]:
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    found: list[dict[str, Any]] = [one for line in lines if (one := json.loads(line))["benchmark"] == f"theory {kind}"]
    return next(one for one in reversed(found) if encoder in (None, one.get("encoder")))


def test_what_is_said_of_the_theorem_was_counted() -> None:
    found, page = theory_record("statements"), (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    assert f"from {found['triples']:,} drawn triples" in page
    assert found["condition without Delta_2"] == found["condition"]
    table = [row[1:] for row in rows(section(page, "The success condition").split("Two triples")[0])]
    assert [[int(one.replace(",", "")) for cell in row for one in re.findall(r"\d[\d,]*", cell)] for row in table] == [
        [found["paper: E_m > E_mr"], found["condition"], found["uniform: E_m > E_mr"]],
        [found["paper: E_mr > E_r"], found["uniform: E_mr > E_r"]],
        [found["paper: E_m <= E_mr > E_r"], found["paper: E_m <= E_mr"], found["uniform: E_m <= E_mr > E_r"],
         found["uniform: E_m <= E_mr"]],
        [found["ordering under the paper's law without the condition"], found["ordering under the paper's law"]]]
    speed = theory_record("speed")
    assert f"| {speed['seconds']:.1f} s | under 10 s |" in (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    assert speed["seconds"] < 10 and speed["threads"] == "1" and speed["triples"] == 10**6 and speed["dimension"] == 64


def test_how_often_the_condition_holds_was_measured() -> None:
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    tables = [theory_record("embeddings", encoder)["replacements"] for encoder in ("minilm", "gte-small-mlm")]
    expected = [*theory_record("drawn")["dimensions"].values(),
                *(words[replacement] for words in tables for replacement in ("random", "nearest"))]
    told = [row[1:] for row in rows(section(page, "How often it holds"))]
    assert told == [[f"{100 * one[name]:.1f} %" for name in ("condition", "paper", "uniform", "masked_closer")]
                    for one in expected]


@pytest.mark.slow
def test_what_the_page_concludes_was_measured() -> None:
    """The figures in the sentences that people wrote, and what they claim without a figure."""
    from dualmask.reporting.theory_tables import everything
    from dualmask.theory.quantities import read_quantities
    from dualmask.theory.recovery import FOOLED, MASKED, SEEN
    from dualmask.theory.summary import summarise

    summary = summarise(read_quantities(ROOT / "results" / "theory.jsonl.gz"))
    page = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    short, practice = page.split("## Setting")[0], section(page, "What it means in practice")
    whole = everything(summary)
    held = [round(row.condition.value * row.words) for row in whole.values()]
    groups = {(row.layer, row.group): row for row in summary.rows}
    words, last = whole[0].words, whole[11]
    assert list(whole) == [0, 6, 11] and held[:2] == [0, 0] and summary.header["other_answers"] == 0
    assert f"of {summary.header['texts']} none is other than the run recorded" in page
    told = {name: [f"{one.value:.2f}" for row in whole.values() if (one := row.auroc[name])] for name in last.auroc}
    assert len(set(told["counts"])) == 1
    for part in (f"met by {held[2]} of {words:,} changed words at the last layer and by none",
                 f"with an AUROC of {told['condition'][2]}. ", f"reaches {told['rule'][2]} there",
                 f"without geometry, {told['counts'][0]}."):
        assert part in short.replace("\n  ", " "), part
    paper, recovered = ([f"{100 * one.value:.1f} %" for one in several] for several in (
        [row.paper for row in whole.values()],
        [last.recovered, groups[11, MASKED].recovered, groups[11, SEEN].recovered]))
    fooled = {name: f"{one.value:.2f}" for name in ("rule", "condition") if (one := groups[11, FOOLED].auroc[name])}
    for part in (f"Of {words:,} changed words {held[2]} does so at the last layer",
                 f"{paper[0]} at the embeddings, {paper[1]} at layer 6, {paper[2]} at the last",
                 f"gets {recovered[0]} of these labels right", f"{told['condition'][2]} for the condition and "
                 f"{told['paper'][2]} for the ordering under the paper's law", f"Our rule's {told['rule'][2]} there, "
                 f"{told['rule'][1]} in the middle and {told['rule'][0]} at the embeddings",
                 f"it has {fooled['rule']} at the last layer, the condition {fooled['condition']}.",
                 f"tell {told['counts'][0]}, at no layer",
                 f"masked {recovered[1]} are recovered, with one that stayed seen {recovered[2]}"):
        assert part in practice.replace("\n  ", " "), part
    assert groups[11, MASKED].recovered.low < groups[11, SEEN].recovered.high
    weights: Any = summary.header["rules"]
    inputs = weights["11"]["rule"]["inputs"]
    assert inputs["log |v_r|"]["weight"] < 0 < inputs["l_ar"]["weight"]


def test_the_counterexamples_are_those_of_the_code() -> None:
    from dualmask.theory import exact_conditions, ordering, success_condition

    page = section((ROOT / "docs" / "theory.md").read_text(encoding="utf-8"), "The success condition")
    for *vectors, e_m, e_mr, e_r, fails in rows(page.split("Two triples")[1]):
        a, m, r = ([float(one) for one in vector.strip("()").split(", ")] for vector in vectors)
        found = ordering(a, m, r)
        assert [e_m, e_mr, e_r] == [f"{one:.4f}" for one in (found.e_m, found.e_mr_uniform, found.e_r)]
        name = {"E_m <= E_mr": "u1", "E_mr <= E_r": "u2"}[fails]
        assert success_condition(a, m, r).holds and not exact_conditions(a, m, r).hold(name)


def printed_by(command: str) -> str:
    return subprocess.run([sys.executable, *command.split()[1:]], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.strip()


@pytest.mark.slow
def test_the_training_of_restoring_is_chosen_by_the_records() -> None:
    page, command = (ROOT / "docs" / "restore.md").read_text(encoding="utf-8"), "python benchmarks/stages.py {} {}"
    records = "results/choice.jsonl"
    assert printed_by(command.format("table", records)) in page and command.format("choose", records) in page
    ranked = [line.split(maxsplit=1) for line in printed_by(command.format("choose", records)).splitlines()]
    best, *_, last = (score for score, _ in ranked[:4])
    scores = {name: score for score, name in ranked}
    half = [scores[name] for name in ("strangers, in half of the texts", "worst swaps in half of the texts")]
    assert f"({best} to {last} points in all)" in page and f"half of the texts is worse ({' and '.join(half)})" in page
    assert f"sparing ({scores['strangers, in three of four texts, unsure ones spared']})" in page
    assert "strangers, in three of four texts" in [name for _, name in ranked[:4]], "presets, but for sparing"
    assert (DDMRestoreOptions().worst_share, DDMRestoreOptions().strange_rate) == (0.75, 0.3)
    told, (small, *_) = " ".join(page.split()), map(json.loads, (ROOT / "results" / "choice_minilm.jsonl").open())
    assert DDMRestoreOptions().worst_sure == 0.7 and "less than 0.7 (`worst_sure`)" in told
    assert DDMRestoreOptions().worst_known == 0.8 and "until eight in ten training texts" in told
    assert f"until eight in ten are right ({scores['unsure ones spared until eight in ten are right']})" in told
    assert (f"it has {small['clean']} on clean film reviews and keeps {small['textfooler']} under TextFooler and "
            f"{small['bertattack']} under BERT-Attack") in told


def test_the_stages_of_restoring_are_those_of_the_records() -> None:
    command = "python benchmarks/stages.py table results/stages.jsonl"
    printed = printed_by(command)
    page = (ROOT / "docs" / "restore.md").read_text(encoding="utf-8")
    assert command in page and printed in page
    known = re.findall(r'^    "(.*?)": \("', (ROOT / "benchmarks" / "stages.py").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"^\| (\w.*?) \| \d", printed, re.M)) <= set(known)


def test_what_is_told_of_restoring_is_what_was_recorded() -> None:
    page = (ROOT / "docs" / "restore.md").read_text(encoding="utf-8")
    lines = (ROOT / "results" / "restoration.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    edits = {(one["attack"], one["edit"], one["data"]): " / ".join(f"{value:.1f}" for value in (
        one["as before"], one["mask"], one["other word"] + one["as edited"]))
        for one in records if one["part"] == "edits" and one["words"] == "other words"}
    told = [row for row in rows(section(page, "Restoring")) if row[0] != "attack"]
    assert len(told) == 9 and [row[2:] for row in told] == [
        [edits[row[0].strip("`"), row[1], data] for data in ("mr", "ag_news")] for row in told]
    words = " ".join(page.split())
    for data, name in (("mr", "(MR)"), ("ag_news", "(AG News)")):
        clean, worst, spent = (next(one for one in records if (one["data"], one["part"]) == (data, part) and one.get(
            "count from", "all") == "all") for part in ("clean", "worst", "time"))
        assert f"{clean['touched, percent']:.2f} % {name}" in words and clean["touched, percent"] < 3
        assert f"{worst['some edit read as another word']:.1f} % {name}" in words
        assert f"{worst['edits undone']:.1f} %" in words and spent["fit, s"] + spent["first use, s"] < 10
        assert f"{spent['fit, s'] + spent['first use, s']:.1f}" in words
    tested = {one["data"]: one["touched, percent"] for one in records if one["part"] == "clean test"}
    assert f"it is {tested['mr']:.2f} % and {tested['ag_news']:.2f} %" in words and max(tested.values()) < 3
    lines = (ROOT / "results" / "benchmarks.jsonl").read_text(encoding="utf-8").splitlines()
    last = {one["benchmark"]: one for line in lines if (one := json.loads(line))}
    kinds = last["misreadings"]["kinds"]
    for threads in (1, 2):
        found = next(one for line in reversed(lines) if (one := json.loads(line))["benchmark"] == "restored_prediction"
                     and one["threads"] == threads)
        assert found["clean_over_bare"] < found["limit"] and f"{found['clean_over_bare']:.2f} times" in words
    accent, tag, swap, joined = (f"{100 * kinds[name]['otherwise']:.1f} %" for name in (
        "swapped, accent", "swapped, #tag", "swapped", "joined"))
    assert f"{accent} and {tag} of them" in words and f"against {swap}" in words and f"in {joined} of" in words


def test_what_is_told_of_disguises_is_what_was_recorded() -> None:
    page = section((ROOT / "docs" / "restore.md").read_text(encoding="utf-8"), "Disguises")
    lines = (ROOT / "results" / "obfuscation.jsonl").read_text(encoding="utf-8").splitlines()
    records = {(one["disguise"], one["data"], one["obfuscation"]): one for one in map(json.loads, lines)}
    told = rows(page)
    assert len(told) == len({kind for kind, *_ in records}) - 1 and "python benchmarks/obfuscation.py TRAIN.csv" in page
    for kind, _, *cells in told:
        found = [records[kind, data, obfuscation] for data in ("mr", "ag_news") for obfuscation in (False, True)]
        assert cells == [" / ".join(f"{value:.1f}" for value in (
            one["as before"], one["mask"], one["other word"] + one["as edited"])) for one in found]
    after, before = ([records["none", data, obfuscation]["touched, percent"] for data in ("mr", "ag_news")]
                     for obfuscation in (True, False))
    assert (f"{after[0]:.2f} % (MR) and {after[1]:.2f} % (AG News) are touched with it, {before[0]:.2f} % and "
            f"{before[1]:.2f} % without") in " ".join(page.split())
    assert all(new - old <= 0.05 for new, old in zip(after, before, strict=True))


def test_the_quality_of_resources_is_that_of_the_manifests() -> None:
    page = section((ROOT / "docs" / "attacks.md").read_text(encoding="utf-8"), "What it runs on")
    told = {row[0]: row[2] for row in rows(page) if len(row) > 2}
    assets = {name: json.loads((SOURCE / "assets" / f"{name}.manifest.json").read_text()) for name in (
        "synonyms", "masked_lm", "tagger")}
    vectors, words = assets["synonyms"]["vectors"], told["synonyms"]
    for name in ("glove", "glove and minilm, counter-fitted"):
        assert f"{vectors[name]['SimLex-999 Spearman']:.2f}" in words
    assert f"{100 * assets['synonyms']['table']['recall']:.0f} %" in words
    found = assets["masked_lm"]["held_out_accuracy"]["test, chosen tokens all [MASK]"]
    assert f"{100 * found['top1']:.1f} %" in told["language model"]
    assert f"{100 * found['top5']:.1f} %" in told["language model"]
    accuracy = json.dumps(assets["tagger"]["accuracy in percent"])
    figures = re.findall(r"(\d\d\.\d) %", told["tagger"])
    assert len(figures) == 3 and set(figures) <= {f"{value:.1f}" for value in numbers(accuracy)}


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+\.\d+", text)]


def test_counts_in_sequence_are_textattacks() -> None:
    """What the page says about the benchmark's run in sequence, against the record."""
    records = [json.loads(line) for line in (ROOT / "results" / "benchmarks.jsonl").read_text().splitlines() if line]
    record = [one for one in records if "ours_in_sequence" in one][-1]
    ours, theirs = record["ours_in_sequence"], record["textattack-0.3.11"]["as_shipped"]
    kinds = ("queries", "succeeded", "failed", "skipped")
    assert [ours[kind] for kind in kinds] == [theirs[kind] for kind in kinds]
    page = " ".join((ROOT / "docs" / "attacks.md").read_text(encoding="utf-8").split())
    assert f"ours asks {ours['queries']} queries, fools {ours['succeeded']} texts and fails on {ours['failed']}" in page


# The map


def test_every_module_is_on_the_map() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    modules = [path.relative_to(SOURCE).with_suffix("") for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
    told = {name for row in rows(section(page, "Modules")) for name in re.findall(r"`([\w.]+)`", row[0])}
    assert told == {".".join(module.parts) for module in modules}


def test_the_layers_are_those_that_are_checked() -> None:
    from test_contracts import LAYERS

    block, = FENCE.finditer(section((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), "Layers"))
    assert [tuple(line.split(", ")) for line in block["code"].splitlines()] == LAYERS


def test_the_hooks_are_told() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = [row[0].strip("`") for row in rows(section(page, "The hooks"))]
    assert told == ["adapt", "fit", "augment", "is_ready", "training_view", "loss", "harden", "learn", "tune",
                    "inference_view", "answer", "wanted", "combine", "suspicion", "account", "origins", "radius"]
    assert all(callable(getattr(DEFENCES["plain"], name)) for name in told)


# What must not stand in any file


def project_files() -> list[Path]:
    """Files that are or would be committed."""
    try:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True,
                                text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


# in pieces, so that this file doesn't contain what it looks for
PLACES = re.compile(r"(?<![\w.~$}])/" + r"(?:work|root|home|Users)/[\w.]")
REGISTRIES = re.compile("|".join(["py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.(?:org|com)",
                                  "ana" + r"conda\.(?:org|com)", r"https?://[\w.-]+/[^\s\"']*" + "simple/?[\"'\\s]"]))


def test_no_file_names_a_place_on_our_machines_or_a_registry() -> None:
    found = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{named(path)}: {match[0]}" for kind in (PLACES, REGISTRIES) for match in kind.finditer(text)]
    assert found == []


def test_the_search_for_places_and_registries_finds_some() -> None:
    assert PLACES.search("see /" + "root/x") and PLACES.search("'/" + "home/me'") and not PLACES.search("a/work/b")
    assert REGISTRIES.search("https://files.python" + "hosted.org/x")
    assert REGISTRIES.search("'https://mirror.example" + "/simple'")


def test_records_are_json_lines() -> None:
    for path in (ROOT / "results").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").split("\n"):
            assert not line or isinstance(json.loads(line), dict)


def test_what_padding_does_to_windows_is_what_was_recorded() -> None:
    lines = (ROOT / "results" / "padding.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    page = section((ROOT / "docs" / "long_texts.md").read_text(encoding="utf-8"), "What windows do not give")
    assert rows(page) == [
        [str(one["length"]), f"{one['evaded']} of {one['trials']}", *map(str, (one["clean"], *one["recalls"].values()))]
        for one in records]
    assert {(one["rule"], one["encoder"], one["max_length"], one["texts"], one["cut"]) for one in records} == {
        ("any:rotten", "minilm", 64, 200, 0)}
    assert "200 clean texts" in page and "`minilm` of 64 tokens under `any:rotten`" in page


def test_how_much_windows_read_is_what_they_read() -> None:
    """The first one reads its room, and each other one three quarters of it more."""
    told = " ".join((ROOT / "docs" / "long_texts.md").read_text(encoding="utf-8").split())
    most, read = Windows().most, []
    for length in (128, 16):
        room = length - 2
        read.append(room + (most - 1) * (room - int(Windows().overlap * room)))
    assert f"so that {most} windows of 128 tokens read about {round(read[0], -2):,} tokens" in told
    assert f"and of 16 tokens about {round(read[1], -1)}" in told


def test_the_pictures_of_the_front_page_are_one_in_two_colours() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    pictures = [(ROOT / "docs" / "pictures" / f"predict-{name}.svg").read_text(encoding="utf-8")
                for name in ("light", "dark")]
    shown = ["".join(re.findall(r">([^<]+)</text>", picture)) for picture in pictures]
    assert shown[0] == shown[1] and "wrost" in shown[0] and "lifeless" in shown[0] and pictures[0] != pictures[1]
    for name, picture in zip(("light", "dark"), pictures, strict=True):
        assert f"docs/pictures/predict-{name}.svg" in page
        assert set(re.findall(r"https?://[^\"'\s)]+", picture)) == {"http://www.w3.org/2000/svg"}, "nothing is fetched"

# SPDX-License-Identifier: Apache-2.0
"""Grids: every mistake told at once and at its place; what a grid stands for, and in which order."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from dualmask.attacks import ATTACKS, aware_of, build_attack
from dualmask.defences import DEFENCES, build_defence, preset_training
from dualmask.errors import OptionError
from dualmask.evaluation.grid import LISTS, Grid, read_grid
from dualmask.evaluation.material import Material
from dualmask.evaluation.plan import make_plan
from dualmask.evaluation.standing import settings_of
from dualmask.reporting.reported import load_reported

Write = Callable[[str], Path]
ROOT = Path(__file__).parents[1]
SMALL = """
data = ["rotten-tomatoes"]
defences = ["plain", "ddm"]
attacks = ["textfooler", "deepwordbug"]
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "my.grid.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def mistakes(path: Path) -> list[str]:
    with pytest.raises(OptionError) as error:
        read_grid(path)
    first, *lines = str(error.value).split("\n  ")
    assert str(path) in first and ("a mistake" in first if len(lines) == 1 else f"{len(lines)} mistakes" in first)
    return lines


# Reading


def test_a_short_grid_has_defaults(write: Write) -> None:
    grid = read_grid(write(SMALL))
    assert (grid.name, grid.samples, grid.seeds, grid.modes, grid.scores) == (
        "my-grid", 1000, (0,), ("adaptive",), ("raw",))
    assert [(one.name, one.source) for one in (*grid.data, *grid.encoders)] == [
        ("rotten-tomatoes", "rotten-tomatoes"), ("minilm", "minilm")]
    assert [(one.name, one.defence, one.preset) for one in grid.defences] == [
        ("plain", "plain", "recommended"), ("ddm", "ddm", "recommended")]
    assert [one.preset for one in grid.attacks] == [next(iter(ATTACKS[name].presets))
                                                    for name in ("textfooler", "deepwordbug")]
    assert grid.text == SMALL
    assert read_grid(write(f"\ufeff{SMALL}")) == grid  # with the mark that some editors put first


@pytest.mark.parametrize("value", ["[" * 5000, "1" * 5000])
def test_values_that_cannot_be_read_are_told(write: Write, value: str) -> None:
    with pytest.raises(OptionError, match=r"my\.grid\.toml can't be read.*nest less deeply"):
        read_grid(write(f"{SMALL}seeds = {value}"))


def test_the_long_form_says_everything(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "mine.csv").write_text("text,label\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    grid = read_grid(write("""
        name = "all"
        samples = 7
        sample_seed = 3
        attack_seed = 4
        seeds = [5, 1]
        modes = ["transfer", "adaptive"]
        scores = ["raw", "calibrated"]
        measure = "none"
        attacks = [{name = "tf", attack = "TextFooler", options = {queries = 50, max_share = "none"}, samples = 5},
                   {name = "bertattack"}]
        encoders = ["owner/Model-v1.5@main", {name = "e", source = "minilm"}]
        data = ["texts/mine.csv",
                {name = "few", source = "rotten-tomatoes", train = 40, text_column = "t", training = {epochs = 3}}]
        [training]
        epochs = 9
        max_length = 64
        [[defences]]
        name = "ddm-paper"
        defence = "DDM"
        preset = "paper"
        options = {test_rate = 0.1}
        training = {epochs = 2}
        samples = 6
        eot = 1
        """))
    assert (grid.samples, grid.sample_seed, grid.attack_seed, grid.seeds, grid.measure) == (7, 3, 4, (5, 1), "none")
    assert grid.modes == ("transfer", "adaptive") and grid.scores == ("raw", "calibrated")
    defence, = grid.defences
    job = next(job for job in make_plan(grid).jobs if job.data.name == "few" and job.defence is defence)
    told = preset_training("ddm", "paper", {"epochs": 3, "max_length": 64, "seed": 5})  # the data's own before all
    assert job.training == told
    assert (defence.name, defence.defence, defence.preset) == ("ddm-paper", "ddm", "paper")
    assert defence.training == {"epochs": 2, "max_length": 64} and defence.options == {"test_rate": 0.1}
    assert (defence.samples, defence.eot) == (6, 1)
    assert [grid.samples_of(defence, attack) for attack in grid.attacks] == [5, 6]
    assert [(one.name, one.attack, one.samples) for one in grid.attacks] == [
        ("tf", "textfooler", 5), ("bertattack", "bertattack", None)]
    assert [(one.name, one.source) for one in grid.encoders] == [
        ("Model-v1-5", "owner/Model-v1.5@main"), ("e", "minilm")]
    mine, few = grid.data
    assert (mine.name, Path(mine.source)) == ("mine", Path("../texts/mine.csv"))  # from where we are
    assert (few.train, few.validation, few.test, few.text_column) == (40, None, None, "t")


@pytest.mark.parametrize("name", ["none", "use", "minilm", "mpnet", "owner/model", "."])
def test_texts_are_compared_by_any_encoder(write: Write, name: str) -> None:
    assert read_grid(write(f'{SMALL}measure = "{name}"')).measure == name


def test_a_slip_in_the_name_of_the_measure_is_told_before_anything_is_trained(write: Write) -> None:
    assert mistakes(write(f'{SMALL}measure = "minlm"')) == [
        "measure: 'minlm' is no sentence encoder: did you mean 'minilm'? Give one of these, a folder, or owner/name of "
        "a hub."]


def test_all_mistakes_are_told_at_once_with_places_and_suggestions(write: Write) -> None:
    found = mistakes(write("""
        nme = "x"
        text = "not for you"
        samples = "many"
        seeds = [0, 1, 1]
        modes = ["adaptive", "transfr"]
        scores = []
        draws = -1
        defences = ["plain", "dmd", "plain", {preset = "paper"},
            {defence = "ddm", preset = "papr", options = {test_rat = 0.3}, training = {epoch = 3}},
            {name = "two", defence = "ddm", options = {test_rate = 7}}, {name = "three.4", defence = "ddm"}]
        attacks = ["textfoler", 5, {name = "deepwordbug", samples = 0, options = {queries = true}, colour = "red"}]
        encoders = ["minlm", {name = "a", source = "../nowhere"}]
        data = [{name = "d", source = "rotten-tomato", train = 1, part = "validaton"},
            {name = "e", training = {epoch = 3}}]
        [training]
        epochs = 0
        seed = 4
        batch_size = "three"
        optimiser = "adm"
        """))
    expected = {
        "nme": "did you mean 'name'?", "text": "unknown key", "samples": "expected a whole number, got 'many'",
        "seeds": "1 is there 2 times", "modes[1]": "did you mean 'transfer'?", "scores": "at least one",
        "draws": "at least 0, got -1",
        "defences[1]": "unknown defence 'dmd': did you mean 'ddm'?", "defences": "plain is there 2 times",
        "defences[3]": "defence is missing", "defences[4].preset": "did you mean 'paper'?",
        "defences[4].options.test_rat": "did you mean 'test_rate'?",
        "defences[4].training.epoch": "did you mean 'epochs'?", "defences[5].options": "test_rate is 7",
        "defences[6].name": "can't be part of a file's name", "attacks[0]": "did you mean 'textfooler'?",
        "attacks[1].attack": "expected text, got 5", "attacks[2].samples": "at least 1, got 0",
        "attacks[2].options.queries": "expected a whole number, got True", "attacks[2].colour": "unknown key",
        "encoders[0].source": "did you mean 'minilm'?", "encoders[1].source": "nowhere does not exist",
        "data[0].source": "did you mean 'rotten-tomatoes'?", "data[0].train": "at least 2, got 1",
        "data[0].part": "did you mean 'validation'?",
        "data[1]": "source is missing", "data[1].training.epoch": "did you mean 'epochs'?",
        "training.seed": "the list 'seeds'",
        "training.batch_size": "expected a whole number, got 'three'", "training": "epochs is 0",
        "training.optimiser": "did you mean 'adam'?",
    }
    told = dict(line.split(": ", 1) for line in found)
    assert told.keys() == expected.keys() and len(told) == len(found)
    assert {place: text for place, text in expected.items() if text not in told[place]} == {}


@pytest.mark.parametrize(("text", "place"), [
    ("a = [1,\n2", "at line 2, column 2, the end"), ("data = 'x'\nb c = 1", "at line 2, column 3"),
    ("name = 'x", "at line 1, column 10")])
def test_what_is_no_toml_names_line_and_column(write: Write, text: str, place: str) -> None:
    with pytest.raises(OptionError, match=place):
        read_grid(write(text))


def test_other_files_are_told(write: Write, tmp_path: Path) -> None:
    write(SMALL)
    with pytest.raises(OptionError, match=r"does not exist.*There: my\.grid\.toml"):
        read_grid(tmp_path / "mr.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(OptionError, match="byte 8: not UTF-8"):
        read_grid(tmp_path / "latin.toml")


@pytest.mark.parametrize(("text", "expected"), [
    ("", {"data: missing", "defences: missing", "attacks: missing"}),
    ("data = []\ndefences = 'ddm'\nattacks = ['pwws']", {"data: expected a list", "defences: expected a list"}),
    ("data = [[]]\ndefences = ['ddm']\nattacks = ['pwws']", {"data[0].source: expected text"}),
    ("training = 3\ndata=['rotten-tomatoes']\ndefences=['ddm']\nattacks=['pwws']", {"training: expected a table"}),
    ("modes = ['defence-aware']\ndata = ['rotten-tomatoes']\ndefences = ['ddm']\nname = 'a/b'", {"name: 'a/b'"})])
def test_what_is_missing_or_of_another_kind(write: Write, text: str, expected: set[str]) -> None:
    found = mistakes(write(text))
    assert len(found) == len(expected) and all(any(line.startswith(start) for line in found) for start in expected)


# The plan


def small(write: Write, **changes: object) -> Grid:
    return replace(read_grid(write(SMALL)), **changes)  # type: ignore[arg-type]


def test_the_order_is_seeds_first_and_plain_before_what_is_compared_with_it(write: Write) -> None:
    grid = small(write, seeds=(0, 1), modes=("adaptive", "transfer"))
    plan = make_plan(replace(grid, defences=grid.defences[::-1], data=(
        grid.data[0], replace(grid.data[0], name="other"))))
    assert [job.name for job in plan.jobs] == [
        f"{data}.minilm.{defence}.{seed}" for seed in (0, 1) for data in ("rotten-tomatoes", "other")
        for defence in ("plain", "ddm")]
    assert [(task.cell.mode, task.cell.attack) for task in plan.jobs[1].tasks] == [
        (mode, attack) for mode in ("adaptive", "transfer") for attack in ("textfooler", "deepwordbug")]
    done = set()
    for task in plan.tasks:  # nothing comes before what it needs
        assert task.source is None or task.source in done
        done.add(task.cell)
    assert len(done) == len(plan.tasks) and plan.notes == ()


def test_transfer_needs_the_plain_classifier(write: Write) -> None:
    grid = small(write, modes=("transfer", "transfer-successful"))
    plan = make_plan(replace(grid, defences=grid.defences[1:], training={"epochs": 3}))
    plain, ddm = plan.jobs
    assert plain.defence.training == {"epochs": 3}
    assert {task.cell.mode for task in plain.tasks} == {"adaptive"} and len(plain.tasks) == 2
    assert {task.cell.mode for task in ddm.tasks} == {"transfer", "transfer-successful"}
    assert all(task.source == replace(task.cell, defence="plain", mode="adaptive") for task in ddm.tasks)
    assert len(plan.notes) == 1 and "no plain classifier" in plan.notes[0]
    plan = make_plan(grid)  # plain is there, but was not to be attacked by itself
    assert len(plan.jobs[0].tasks) == 6 and "attacked by itself" in plan.notes[0]


def test_scores_are_seen_where_the_classifier_is_asked(write: Write) -> None:
    plan = make_plan(small(write, modes=("adaptive", "transfer"), scores=("calibrated",)))
    plain, ddm = ([(task.cell.mode, task.cell.scores) for task in job.tasks[::2]] for job in plan.jobs)
    assert ddm == [("adaptive", "calibrated"), ("transfer", "raw")]
    assert plain == [("adaptive", "raw"), *ddm]  # what is shown to others was made with raw scores
    assert "attacked by itself" in plan.notes[0]


def test_draws_are_held_still_where_there_are_some(write: Write) -> None:
    votes = '"ddm", {name = "vote", defence = "ddm-restore", preset = "vote"}, "ranmask"]'
    grid = replace(read_grid(write(SMALL.replace('"ddm"]', votes))), scores=("raw", "still"), modes=("adaptive",))
    plan = make_plan(grid)
    found = {job.defence.name: {task.cell.scores for task in job.tasks} for job in plan.jobs}
    assert found == {"plain": {"raw"}, "ddm": {"raw"}, "vote": {"raw", "still"}, "ranmask": {"raw", "still"}}
    assert plan.notes == ("Nothing is drawn by plain, ddm: no cells with draws held still.",)
    assert next(task.cell.file_name for task in plan.tasks if task.cell.scores == "still").endswith(".0.still.jsonl")


def test_defence_aware_cells_have_attacks_that_know_the_defence(write: Write) -> None:
    known = aware_of("ddm")
    assert len(known) >= 2
    plan = make_plan(small(write, modes=("defence-aware",)))
    assert [task.cell.attack for task in plan.tasks] == known and plan.jobs[0].defence.name == "ddm"
    assert plan.notes == ("No attack knows the mechanism of plain: no defence-aware cells.",)
    listed = read_grid(write(SMALL.replace('"deepwordbug"', f'{{name = "knows", attack = "{known[1]}"}}')))
    plan = make_plan(replace(listed, modes=("adaptive", "defence-aware")))
    assert [(task.cell.attack, task.cell.mode) for task in plan.jobs[1].tasks] == [
        ("textfooler", "adaptive"), ("knows", "defence-aware")]
    assert [task.cell.attack for task in plan.jobs[0].tasks] == ["textfooler"]
    assert "Not run: knows" in make_plan(listed).notes[0]


def test_only_some_cells_with_what_they_need(write: Write) -> None:
    plan = make_plan(small(write, modes=("adaptive", "transfer"), seeds=(0, 1)), only="ddm.textfooler.transfer.1")
    assert [task.cell.file_name for task in plan.tasks] == [
        "rotten-tomatoes.minilm.plain.textfooler.adaptive.1.jsonl",
        "rotten-tomatoes.minilm.ddm.textfooler.transfer.1.jsonl"]
    with pytest.raises(OptionError, match=r"no cell's name contains 'ddm\.textfoler'.*textfooler\.adaptive\.0"):
        make_plan(small(write), only="ddm.textfoler")
    several = make_plan(small(write, seeds=(0, 1)), only="plain.textfooler.adaptive.1,ddm.textfooler")
    assert [task.cell.file_name for task in several.tasks] == [
        "rotten-tomatoes.minilm.ddm.textfooler.adaptive.0.jsonl",
        "rotten-tomatoes.minilm.plain.textfooler.adaptive.1.jsonl",
        "rotten-tomatoes.minilm.ddm.textfooler.adaptive.1.jsonl"]


# The grids that come along


def test_quick_is_the_one_that_ships() -> None:
    path = ROOT / "experiments" / "quick.toml"
    assert path.is_symlink() and path.resolve() == ROOT / "src" / "dualmask" / "assets" / "quick.toml"
    grid = read_grid(path)
    assert [one.name for one in grid.defences] == ["plain", "hardened", "ddm"]
    assert grid.modes == ("adaptive", "transfer")
    assert {one.attack for one in grid.attacks} == {"deepwordbug", "textbugger", "textfooler"}
    assert grid.samples >= 40 and len(make_plan(grid).tasks) == 18


@pytest.mark.parametrize("name", ["mr", "ag_news"])
def test_the_experiments_are_whole(name: str) -> None:
    grid = read_grid(ROOT / "experiments" / f"{name}.toml")
    assert grid.name == name and len(grid.seeds) == 5 and grid.samples == 1000
    assert {"adaptive", "transfer", "defence-aware"} <= set(grid.modes)
    assert len({task.cell for task in make_plan(grid).tasks}) == len(make_plan(grid).tasks) > 300


TIERS = ("paper_1_breadth", "paper_2_depth", "paper_3_full", "paper_mpnet")
SCORES = "paper_4_scores"  # the first tier's rows again, with more in sight


def test_the_tiers_of_the_table_go_from_breadth_to_depth() -> None:
    grids = {name: read_grid(ROOT / "experiments" / f"{name}.toml") for name in TIERS}
    assert [(len(grid.seeds), grid.samples) for grid in grids.values()] == [(1, 200), (3, 500), (5, 1000), (1, 500)]
    assert all(grid.name == name and set(grid.modes) == {"adaptive", "transfer", "defence-aware"}
               and len(grid.attacks) == 5 for name, grid in grids.items())
    first, *_, last = grids.values()
    assert {one.defence for one in first.defences} == set(DEFENCES) and last.encoders[0].source == "mpnet"
    for one in first.defences:
        defence = build_defence(one.defence, preset=one.preset, options=one.options)
        assert first.samples_of(one, first.attacks[0]) == (100 if defence.views > 4 else 200), one.name
    again = read_grid(ROOT / "experiments" / f"{SCORES}.toml")
    assert (again.scores, again.data, again.encoders, again.samples) == (
        ("calibrated", "still"), first.data, first.encoders, first.samples)
    assert all(one in first.defences for one in again.defences) and again.attacks == first.attacks


@pytest.mark.parametrize("name", [*TIERS, SCORES, "mr", "ag_news", "restore", "smoothing", "votes", "rankings"])
def test_rows_of_a_table_have_one_budget_of_epochs_and_one_selection(name: str) -> None:
    """Whatever their presets say."""
    found: dict[str, set[tuple[object, ...]]] = {}
    for job in make_plan(read_grid(ROOT / "experiments" / f"{name}.toml")).jobs:
        how = job.training
        found.setdefault(job.data.name, set()).add((how.epochs, how.patience, how.keep, how.robust_texts))
    for data, ways in found.items():
        assert ways == {(3 if data.startswith("ag_news") else 10, 0, "robust", 100)}


def test_a_cell_of_several_tiers_has_the_same_settings_in_each() -> None:
    """But for the number of texts, which never falls: so a tier goes on where another was."""
    found: dict[str, dict[str, object]] = {}
    material = Material()
    for name in TIERS:
        grid = read_grid(ROOT / "experiments" / f"{name}.toml")
        for job in make_plan(grid).jobs:
            for task in job.tasks:
                settings = settings_of(job, task, material)
                before = found.setdefault(task.cell.file_name, settings)
                assert {**before, "samples": 0} == {**settings, "samples": 0}, task.cell.file_name
                assert before["samples"] <= settings["samples"], task.cell.file_name  # type: ignore[operator]
                found[task.cell.file_name] = settings


@pytest.mark.parametrize(("name", "epochs"), [("training_mr", {10}), ("training_ag_news", {4})])
def test_presets_of_releases_select_as_these_did_and_the_other_rows_alike(name: str, epochs: set[int]) -> None:
    rows = {job.defence.name: job for job in make_plan(read_grid(ROOT / "experiments" / f"{name}.toml")).jobs}
    assert {one: rows[one].training.keep for one in ("fat", "adfar", "floodingx") if one in rows} == dict.fromkeys(
        {"fat", "adfar", "floodingx"} & rows.keys(), "last")
    own = [job for job in rows.values() if job.defence.preset == "recommended"]
    assert len(own) >= 3 and {(job.training.patience, job.training.keep) for job in own} == {(0, "robust")}
    assert {job.training.epochs for job in own} == epochs
    if name == "training_mr":
        assert rows["fat"].training.epochs == 30
        assert all(len(DEFENCES[job.defence.defence].presets) == 1 for job in own if job.defence.defence not in (
            "ddm", "ddm+freelb++"))


BESIDE = sorted({path.stem for path in (ROOT / "experiments").glob("*.toml")} - {"votes", "theory", "published"})


@pytest.mark.parametrize("name", BESIDE)
def test_what_stands_beside_reported_figures_has_the_profile_of_their_time(name: str) -> None:
    """In columns that no record of another profile has; votes and theory have no reported figure beside them,
    and published repeats what was measured with the newer one."""
    reported = load_reported()
    grid, attacks = read_grid(ROOT / "experiments" / f"{name}.toml"), {one.attack for one in reported.cells}
    assert any(reported.name_of(one.name) in ("mr", "ag_news") for one in grid.data) and reported.profile
    found = [one for one in grid.attacks if one.attack in {*attacks, "pwws"} and one.preset != "textdefender-2021"]
    first_looks = name in ("quick", "smoothing_quick")  # of which nothing was published with another profile
    assert found and all(one.preset == reported.profile.preset for one in found)
    assert all(first_looks or one.name not in ATTACKS for one in found)
    for one in found:
        made = build_attack(one.attack, preset=one.preset, options=one.options)
        assert not reported.profile.apart(one.attack, made.options_as_dict())


def test_each_ranking_is_run_beside_words_by_chance() -> None:
    grid = read_grid(ROOT / "experiments" / "rankings.toml")
    pairs = {(one.attack, one.preset, dict(one.options).get("ranking", "usual")) for one in grid.attacks}
    assert pairs == {(name, "textattack-0.3.10", ranking) for name in (
        "deepwordbug", "textbugger", "pwws", "textfooler", "bertattack") for ranking in ("usual", "random")}
    assert all(build_attack(one.attack, preset=one.preset, options=one.options) for one in grid.attacks)


def test_a_defence_may_be_for_some_of_the_data(write: Write, tmp_path: Path) -> None:
    (tmp_path / "other.csv").touch()
    text = SMALL.replace('["rotten-tomatoes"]', '["rotten-tomatoes", "other.csv"]')
    plan = make_plan(read_grid(write(text.replace('"ddm"]', '{name = "ddm", data = ["other"]}]'))))
    assert [job.name for job in plan.jobs] == [
        "rotten-tomatoes.minilm.plain.0", "other.minilm.plain.0", "other.minilm.ddm.0"]
    assert mistakes(write(text.replace('"ddm"]', '{name = "ddm", data = ["othr"]}]'))) == [
        "defences, ddm.data: unknown data 'othr': did you mean 'other'?"]


def test_a_defence_may_take_the_network_of_another(write: Write) -> None:
    entry = '"ddm", {name = "low", defence = "ddm", network = "ddm", options = {test_rate = 0.05}}]'
    *_, own, low = make_plan(read_grid(write(SMALL.replace('"ddm"]', entry)))).jobs
    assert own.models == ("rotten-tomatoes.minilm.ddm.0",) and low.models == (*own.models, low.name)
    assert low.training == own.training and low.base == own.defence and own.base is None
    for wrong in ('"dmd"', '"fgws"', '"low"', '"ddm", training = {epochs = 2}'):
        text = SMALL.replace('"ddm"]', entry.replace('network = "ddm"', f"network = {wrong}"))
        told, = mistakes(write(text))
        assert told.startswith("defences, low.network: ") and "a network of its own and the same training" in told
        assert ("did you mean 'ddm'?" in told) == ("dmd" in wrong)


def test_a_defence_may_be_put_around_the_network_of_the_plain_entry(write: Write) -> None:
    entry = '"ddm", {name = "hardened", defence = "ddm-restore", preset = "restore", network = "plain"}]'
    jobs = make_plan(read_grid(write(SMALL.replace('"ddm"]', entry)))).jobs
    hardened = next(job for job in jobs if job.defence.name == "hardened")
    plain = next(job for job in jobs if job.defence.name == "plain")
    assert hardened.base == plain.defence and hardened.training == plain.training
    assert hardened.models == (plain.name, hardened.name)
    told, = mistakes(write(SMALL.replace('"ddm"]', '"ddm", {name = "hard", defence = "freelb", network = "plain"}]')))
    assert told.startswith("defences, hard.network: ") and "acts while a classifier is trained" in told


def test_defences_that_vote_get_fewer_texts() -> None:
    grid = read_grid(ROOT / "experiments" / "smoothing.toml")
    for one in grid.defences:
        defence = build_defence(one.defence, preset=one.preset, options=one.options)
        assert grid.samples_of(one, grid.attacks[0]) == (500 if defence.noise == "none" else 100)


def test_every_defence_is_in_an_experiment() -> None:
    grids = [read_grid(ROOT / "experiments" / f"{name}.toml") for name in (
        "smoothing", "training_mr", "training_ag_news", "restore")]
    assert {one.defence for grid in grids for one in grid.defences} == {*DEFENCES, "ddm+freelb++"}


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    keys = re.findall(r"^\| `(\w+)` \| (.*?) \|", page.split("## Grids")[1].split("An entry of")[0], re.M)
    told = dict(keys)
    assert set(told) == {f.name for f in fields(Grid)} - {"text", "only"}
    defaults = {f.name: f.default for f in fields(Grid)}
    for name in ("samples", "sample_seed", "attack_seed", "eot", "draws"):
        assert told[name] == str(defaults[name])
    assert told["measure"] == f'`"{defaults["measure"]}"`'
    for name, kind in LISTS.items():
        row, = re.findall(rf"^\| `{name}` \| (`name`.*) \|$", page, re.M)
        assert re.findall(r"`(\w+)`", row) == [f.name for f in fields(kind)]


def test_grids_on_the_page_can_be_read(write: Write, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
    short, long = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "reviews.csv").touch()
    assert len(make_plan(read_grid(write(short))).tasks) == 24
    assert [line.split(": ")[0] for line in mistakes(write(long))] == ["encoders[0].source"]  # it lies elsewhere

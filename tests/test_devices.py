# SPDX-License-Identifier: Apache-2.0
"""Where networks run: one choice for all that a command loads, refused before anything is loaded."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from dualmask.cli import app
from dualmask.devices import CHOSEN, check_device, check_one_device, default_device, device_chosen
from dualmask.errors import OptionError
from dualmask.text.examples import Dataset
from dualmask.training import make_accelerator, train


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)


def test_a_device_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_device(None) is None and check_device("auto") is None and check_device(" CPU ") == "cpu"
    with pytest.raises(OptionError, match=r"device 'gpu' is unknown; choose cpu, cuda"):
        check_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert check_device("cuda:1") == "cuda:1"
    with pytest.raises(OptionError, match=r"has 2 of them: choose from cuda:0 to cuda:1"):
        check_device("cuda:2")


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match=r"'cuda:1' was asked for, but .*leave it out, or take --device cpu"):
        check_device("cuda:1")


def test_a_choice_holds_for_all_that_is_loaded_and_is_over_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert default_device() == "cuda"
    with device_chosen("cpu"):
        assert default_device() == os.environ[CHOSEN] == "cpu"
        with device_chosen("auto"):
            assert default_device() == "cpu", "who chose first has chosen"
        with device_chosen("cuda"):
            assert default_device() == "cuda"
        assert default_device() == "cpu"
    assert default_device() == "cuda" and CHOSEN not in os.environ


def test_training_goes_where_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library remembers its device for a whole process; that of an earlier training is not this one's."""
    make_accelerator()
    with device_chosen("cpu"):
        monkeypatch.setenv(CHOSEN, "meta")  # stands for a GPU
        from dualmask.devices import forget_other_device

        forget_other_device("meta")
        assert make_accelerator().device.type == "meta"
    monkeypatch.delenv(CHOSEN, raising=False)
    forget_other_device("cpu")
    assert make_accelerator().device.type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_processes_that_train_together_have_a_device_each(monkeypatch: pytest.MonkeyPatch) -> None:
    check_one_device(2)
    monkeypatch.setenv(CHOSEN, "cuda:0")
    check_one_device(1)
    with pytest.raises(OptionError, match="each on a GPU of its own"):
        check_one_device(2)


def test_training_in_python_takes_a_device(tiny: Callable[[str], Path], data: Dataset) -> None:
    settings = {"epochs": 1, "max_length": 48}
    made = train(data, encoder=tiny("bert"), training=settings, defence="plain", device="cpu", progress=False)
    assert made.device.type == "cpu" and CHOSEN not in os.environ
    with pytest.raises(OptionError, match="device 'gpu' is unknown"):
        train(data, encoder=tiny("bert"), device="gpu", progress=False)


@pytest.mark.parametrize("arguments", [
    ["train", "d.csv", "--out", "m"], ["predict", "m", "x"], ["attack", "m", "d.csv"], ["certify", "m", "d.csv"],
    ["bench", "g.toml"], ["quickstart"], ["theory", "m", "r.jsonl"],
])
def test_each_command_that_loads_a_model_refuses_a_wrong_device_first(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the model nor the data are there: the device is told before they are looked for."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*arguments, "--device", "gpu"])
    assert isinstance(result.exception, OptionError) and "device 'gpu' is unknown" in str(result.exception)
    assert not list(tmp_path.iterdir()) and CHOSEN not in os.environ


def subcommands() -> list[list[str]]:
    commands = [[str(command.name or command.callback.__name__)] for command in app.registered_commands
                if command.callback is not None]
    groups = [[str(group.name), str(command.name)] for group in app.registered_groups
              for command in group.typer_instance.registered_commands]  # type: ignore[union-attr]
    return [[], *commands, *groups, ["resources"]]


@pytest.mark.parametrize("command", subcommands(), ids=" ".join)
def test_help_has_a_short_name_everywhere(command: list[str]) -> None:
    short, whole = (CliRunner().invoke(app, [*command, flag]) for flag in ("-h", "--help"))
    assert short.exit_code == 0 and short.output == whole.output and "Usage" in short.output

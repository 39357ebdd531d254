# SPDX-License-Identifier: Apache-2.0
"""The package as it is shipped: the wheel's content, and how little importing it costs."""

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "datasets", "accelerate", "pyarrow", "numpy", "huggingface_hub", "safetensors")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git tracks or would track, so that nothing else in the folder slips in."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: no list of the files that belong to the project")
    for name in filter(None, listed.stdout.split("\n")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source], check=True,
                   capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("dualmask/")}
    package = ROOT / "src" / "dualmask"
    expected = {f"dualmask/{path.relative_to(package)}" for path in package.rglob("*")
                if path.is_file() and "__pycache__" not in path.parts}
    assert held == expected


@pytest.mark.slow
def test_the_wheel_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "site", wheel],
                   check=True, capture_output=True)
    code = ("import dualmask, dualmask.masking.candidates as c; print(dualmask.__file__); "
            "print(len(c.function_words())); print(dualmask.DEFENCES['ddm'].name)")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True,
                           check=True).stdout.split()
    assert found[0].startswith(str(tmp_path / "site"))
    assert int(found[1]) > 150
    assert found[2] == "ddm"


HELP = "import sys, dualmask.cli as c\nsys.argv = ['dualmask', '--help']\ntry: c.main()\nexcept SystemExit: pass"


@pytest.mark.parametrize("code", ["import dualmask", "import dualmask.cli", HELP])
def test_importing_touches_nothing_heavy(code: str) -> None:
    """Milliseconds vary from machine to machine; which modules are loaded does not."""
    report = f"{code}\nimport sys; print('HEAVY', sorted(set(sys.modules) & set({HEAVY!r})))"
    found = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True).stdout
    assert "HEAVY []" in found


def test_public_names_exist_and_are_few() -> None:
    import dualmask

    assert len(dualmask.__all__) <= 24
    for name in dualmask.__all__:
        assert getattr(dualmask, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dualmask.nothing


def test_the_command_runs_as_a_module() -> None:
    told = subprocess.run([sys.executable, "-m", "dualmask", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("dualmask ")


def test_what_a_machine_without_network_needs_comes_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import air_gap

    assert len(air_gap.pinned(air_gap.PACKAGES)) == len(air_gap.PACKAGES), "constraints.txt has them all"
    (lib := tmp_path / "wheels").mkdir()
    (lib / "some.py").write_text("x = 1\n")
    (data := tmp_path / "shared" / "data").mkdir(parents=True)
    (data / "texts.csv").write_bytes(os.urandom(3 << 20))
    monkeypatch.setattr(air_gap, "unpacked_wheels", lambda *_: lib)
    settings = ["--python", "3.12", "--resources", "--size", "1", "--out", str(tmp_path / "parts")]
    monkeypatch.setattr(sys, "argv", ["air_gap.py", *settings, str(data)])
    air_gap.main()
    parts = sorted((tmp_path / "parts").iterdir())
    assert [part.stat().st_size for part in parts[:-1]] == [1 << 20] * 3 and parts[-1].stat().st_size < 1 << 20
    assert capsys.readouterr().out.count("1.0 MiB") == 3
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
        archive.extractall(tmp_path / "there", filter="data")
    assert (tmp_path / "there" / "shared" / "data" / "texts.csv").read_bytes() == (data / "texts.csv").read_bytes()
    assert (tmp_path / "there" / "lib" / "some.py").exists()
    with pytest.raises(SystemExit):
        air_gap.main()
    assert "exists; give a new folder" in capsys.readouterr().err

# SPDX-License-Identifier: Apache-2.0
"""Saved classifiers: a folder of safetensors and JSON, never pickle, checked on reading."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dualmask import __version__
from dualmask.checksums import SEAL, file_hash, seal_holds, sealed
from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES
from dualmask.errors import DualmaskError, ModelFileError, OptionError, ResourceError
from dualmask.models.encoders import LOADING_ERRORS, load_tokenizer, quiet_transformers, read_network
from dualmask.options import saved_options
from dualmask.output_lock import locks_output
from dualmask.resources import RESOURCES
from dualmask.system_errors import explain_os_error, told_reason
from dualmask.text.markdown import one_line
from dualmask.windows import Windows

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

FORMAT = 2
UNSEALED = 1  # the format of before, whose descriptions have no checksum
DESCRIPTION, DEFENCE_WEIGHTS, CARD = "dualmask.json", "defence.safetensors", "README.md"
WORK = ".saving-"  # what a folder in the folder is called while it is written
NEEDED = {"config.json", DEFENCE_WEIGHTS}
CARD_OPENING = "---\nlibrary_name: dualmask\n"


@dataclass(frozen=True, kw_only=True)
class Description:
    """What `dualmask.json` says."""

    format: int = FORMAT
    dualmask: str = __version__
    defence: str
    options: dict[str, object]
    labels: list[str]
    max_length: int
    sha256: dict[str, str]  # of every other file that the classifier needs
    training: dict[str, object] = field(default_factory=dict)
    windows: dict[str, object] | None = None  # how long texts are read; left out where they are cut, as before
    checksum: str = ""  # of the description itself


@locks_output("folder")
def save(classifier: DefendedClassifier, folder: Path) -> Path:
    """Write the folder, or say why it can't be."""
    from safetensors import SafetensorError

    try:
        return write_folder(classifier, folder)
    except (OSError, SafetensorError) as error:
        told = explain_os_error(error, "written", folder)
        raise ResourceError(f"{told} It takes room for twice the model.") from error


def write_folder(classifier: DefendedClassifier, folder: Path) -> Path:
    """Everything is written beside what is there, then moved, the description last, which has each other part's hash.

    So an earlier model stays until all of the new one is on the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    former = former_parts(folder)
    for leftover in folder.glob(f"{WORK}*"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with TemporaryDirectory(dir=folder, prefix=WORK) as made, quiet_transformers():
        work = Path(made)
        hashes = write_parts(classifier, work)
        description = Description(
            defence=classifier.defence.name, options=classifier.defence.options_as_dict(),
            labels=list(classifier.labels), max_length=classifier.encode.max_length, sha256=hashes,
            training=classifier.facts, windows=None if classifier.windows is None else classifier.windows.as_dict())
        told = {name: value for name, value in asdict(description).items() if name != "windows" or value is not None}
        (work / DESCRIPTION).write_bytes(sealed(told).encode("utf-8"))
        card = has_own_card(folder)
        if card:
            (work / CARD).write_text(model_card(classifier), encoding="utf-8")
        (folder / DESCRIPTION).unlink(missing_ok=True)
        for name in former.difference(hashes):  # or it would be read with what is new
            (folder / name).unlink(missing_ok=True)
        for name in [*hashes, *([CARD] if card else []), DESCRIPTION]:
            (work / name).chmod(0o644)  # safetensors writes files that only their owner may read
            (work / name).replace(folder / name)
    return folder


def write_parts(classifier: DefendedClassifier, work: Path) -> dict[str, str]:
    """The network, its tokenizer and what the defence has learned, with their hashes by name."""
    from safetensors.torch import save_file

    state = {name: tensor.contiguous().cpu() for name, tensor in classifier.defence.state_dict().items()}
    classifier.model.save_pretrained(work)
    classifier.encode.tokenizer.save_pretrained(work)
    save_file(state, work / DEFENCE_WEIGHTS)
    return {path.name: file_hash(path) for path in sorted(work.iterdir()) if path.is_file()}


def has_own_card(folder: Path) -> bool:
    """Whether the page of a folder is ours to write; somebody else's is left alone."""
    card = folder / CARD
    return not card.exists() or card.read_text(encoding="utf-8", errors="replace").startswith(CARD_OPENING)


def former_parts(folder: Path) -> set[str]:
    """The files of a model that a folder holds already."""
    try:
        names = json.loads((folder / DESCRIPTION).read_bytes())["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()
    return {name for name in names if Path(name).name == name} if isinstance(names, dict) else set()


def load(source: str | Path, *, options: Mapping[str, object] | None = None) -> DefendedClassifier:
    """Read a saved folder, or a hub repository that holds one; `options` take the place of saved ones."""
    if str(source) in RESOURCES and not Path(source).exists():
        raise ModelFileError(f"'{source}' is a resource ({RESOURCES[str(source)].kind}), not a trained classifier: "
                             "train one, e.g. 'dualmask train rotten-tomatoes --out model', and give its folder.")
    folder = Path(source) if Path(source).exists() else downloaded(str(source))
    description = read_description(folder)
    for name, expected in description.sha256.items():
        check_file(folder / name, expected)
    try:
        kind = DEFENCES.find(description.defence)
    except OptionError:
        raise ModelFileError(f"{folder} was saved with the defence '{description.defence}', which this version ("
                             f"{__version__}) doesn't know; dualmask {description.dualmask} wrote it.") from None
    if options:  # a mistake in these is the caller's
        saved_options(kind.Options, {**description.options, **options})
    try:
        defence = kind(saved_options(kind.Options, {**description.options, **(options or {})}))
        classifier = DefendedClassifier(
            read_model(folder), load_tokenizer(folder), defence, labels=description.labels,
            max_length=description.max_length, facts=description.training, windows=saved_windows(description))
        defence.restore(read_weights(folder / DEFENCE_WEIGHTS))
    except ResourceError:
        raise  # something beside the folder is missing, and the error says what
    except (*LOADING_ERRORS, DualmaskError) as error:
        raise ModelFileError(f"{folder} can't be read as a saved classifier ({told_reason(error)}); "
                             "copy the whole folder again.") from error
    classifier.network.eval()
    return classifier


def saved_windows(description: Description) -> Windows | None:
    if description.windows is None:
        return None
    try:
        return Windows(**description.windows)  # type: ignore[arg-type]
    except TypeError as error:
        raise ModelFileError(f"windows are {description.windows!r:.80}: {error}") from None


def read_description(folder: Path) -> Description:
    """The parsed description; any sign that it is not ours is an error of its own."""
    path = folder / DESCRIPTION
    if not path.is_file():
        there = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) if folder.is_dir() else "it is a file"
        raise ModelFileError(f"{folder} holds no {DESCRIPTION}, so it is no saved dualmask classifier, or its saving "
                             f"was cut short (there: {there or 'nothing'}). To put a defence around a plain model use "
                             "'dualmask harden' (dualmask.harden()).")
    content = path.read_bytes()
    try:
        values = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not valid JSON ({error}); save or copy the model again.") from error
    if isinstance(values, dict) and isinstance(values.get("format"), int) and values["format"] > FORMAT:
        raise ModelFileError(f"{path} has format {values['format']}; this version reads up to {FORMAT}: "
                             "update dualmask.")
    if problem := _wrong(values):
        raise ModelFileError(f"{path}: {problem}; save or copy the model again.")
    if (values["format"] > UNSEALED or SEAL in values) and not seal_holds(content, values.get(SEAL)):
        raise ModelFileError(
            f"{path} is not as it was saved: its checksum does not fit. If it was damaged, copy the folder again. "
            "If it was edited, put back what it was; to change an option, load the model with another one and save it: "
            "DefendedClassifier.load(FOLDER, options={'NAME': VALUE}).save(OTHER_FOLDER).")
    return Description(**values)


def _wrong(values: object) -> str:
    """What is wrong with the parsed description, if anything."""
    if not isinstance(values, Mapping):
        return "expected an object"
    kinds = {"format": int, "dualmask": str, "defence": str, "options": dict, "labels": list, "max_length": int,
             "sha256": dict, "training": dict}
    if missing := sorted(set(kinds) - set(values)):
        return f"lacks {', '.join(missing)}"
    if unknown := sorted(set(values) - {f.name for f in fields(Description)}):
        return f"has unknown entries {', '.join(unknown)}"
    if wrong := [f"{name} is {values[name]!r:.40}" for name, kind in kinds.items()
                 if not isinstance(values[name], kind) or isinstance(values[name], bool)]:
        return "; ".join(wrong)
    if not isinstance(values.get("windows", {}), dict):
        return f"windows is {values['windows']!r:.40}"
    if values["format"] < UNSEALED:
        return f"format is {values['format']}"
    for name, texts in (("labels", values["labels"]), ("sha256", values["sha256"].values())):
        if odd := [text for text in texts if not isinstance(text, str)]:
            return f"{name} has {odd[0]!r:.40} where a text was expected"
    hashed = set(values["sha256"])
    plain = all(Path(name).name == name for name in hashed)
    weights = any(name.startswith("model") and name.endswith(".safetensors") for name in hashed)
    whole = plain and weights and hashed >= NEEDED
    return "" if whole else "sha256 must name the weights and the other files beside it"


def check_file(path: Path, expected: str) -> None:
    if not path.is_file():
        raise ModelFileError(f"{path} is missing; copy the whole folder again.")
    if (found := file_hash(path)) != expected:
        raise ModelFileError(f"{path} is truncated or belongs to another model: its sha256 is {found[:12]}..., "
                             f"{DESCRIPTION} says {expected[:12]}...; copy the whole folder again.")


def read_model(folder: Path) -> "PreTrainedModel":
    from transformers import AutoModelForSequenceClassification

    model, report = read_network(AutoModelForSequenceClassification, folder, output_loading_info=True)
    wrong = {key: found for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if (found := report.get(key))}
    if wrong:
        raise ModelFileError(f"weights and config.json don't fit each other: {wrong}")
    return model  # type: ignore[no-any-return]


def read_weights(path: Path) -> dict[str, "Tensor"]:
    from safetensors.torch import load_file

    return load_file(path)


def downloaded(repository: str) -> Path:
    from dualmask.resources import hub_snapshot

    try:
        return hub_snapshot(repository)
    except ResourceError as error:
        raise ModelFileError(f"'{repository}' is no folder on this machine; check the path. Nor could it be loaded "
                             f"from the hub: {error}") from error


def push(classifier: DefendedClassifier, repository: str, *, private: bool) -> str:
    from huggingface_hub import HfApi

    with TemporaryDirectory() as folder:
        save(classifier, Path(folder))
        try:
            HfApi().create_repo(repository, private=private, exist_ok=True)
            commit = HfApi().upload_folder(repo_id=repository, folder_path=folder, commit_message="Add the classifier")
            return str(commit)
        except Exception as error:  # the client's own and those of the library it speaks through
            raise ResourceError(f"'{repository}' could not be uploaded: {error}. Check the name, your network and your "
                                "login ('hf auth login'); nothing was changed locally.") from error


def told_of_length(classifier: DefendedClassifier) -> str:
    length, windows = classifier.encode.max_length, classifier.windows
    if windows is None:
        return f"Inputs are cut at {length} tokens."
    return (f"Inputs longer than {windows.length or length} tokens are read in at most {windows.most} overlapping "
            f"windows (rule: {windows.rule}); plain transformers cuts them.")


def model_card(classifier: DefendedClassifier) -> str:
    """A README for the saved folder; every figure in it was measured by the training run."""
    card, facts = classifier.defence.card(), classifier.facts
    lines = [
        CARD_OPENING + "pipeline_tag: text-classification",
        f"tags: [dualmask, adversarial-robustness, {card.name}]", "---", "",
        f"# Text classifier defended by {card.name}", "", f"{card.summary}.", "",
        *(f"* {heading}: {text}" for heading, text in card.sections.items()), "",
        one_line(f"Labels: {', '.join(classifier.labels)}."),
        one_line(told_of_length(classifier)), "",
        "## Use", "", "```python", "from dualmask import DefendedClassifier", "",
        'classifier = DefendedClassifier.load("this-folder")', 'classifier.predict(["some text"]).labels', "```", "",
        "`AutoModelForSequenceClassification.from_pretrained` opens the same folder, without the defence.", "",
        *set_up_lines(classifier), "## Training", "", "```json", json.dumps(facts, indent=2), "```", "",
        "Clean accuracy says nothing about robustness: attack the classifier before you rely on it.", ""]
    return "\n".join(lines)


def set_up_lines(classifier: DefendedClassifier) -> list[str]:
    """Of a defence around a network that was trained without it: that it is so, its options, and what it brought."""
    told = classifier.facts.get("hardened")
    if not isinstance(told, Mapping):
        return []
    options = ", ".join(f"{name}={value}" for name, value in classifier.defence.options_as_dict().items())
    lines = ["## Set-up", "",
             "The network was trained elsewhere, without this defence, and its weights are unchanged: what is said "
             f"above of training was not done. Preset {classifier.facts.get('preset')}: {one_line(options)}.", ""]
    clean, attacks = told.get("clean"), told.get("attacks")
    if isinstance(clean, Mapping):
        lines += ["| texts | no defence | hardened |", "|---|---|---|",
                  f"| left alone | {clean['before']} of {clean['texts']} | {clean['after']} of {clean['texts']} |"]
    if isinstance(attacks, list):
        lines += [f"| attacked by {found['attack']} | {found['before']} of {found['texts']} | {found['after']} of "
                  f"{found['texts']} |" for found in attacks]
    return [*lines, ""]

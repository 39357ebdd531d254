# SPDX-License-Identifier: Apache-2.0
"""Any classifier as one of ours: a saved dualmask model, or a plain Hugging Face one with the plain defence."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualmask.errors import EncoderError, ModelFileError, OptionError, ResourceError
from dualmask.models.encoders import (
    LOADING_ERRORS,
    check_config,
    check_weights,
    load_tokenizer,
    longest_input,
    prepare,
    read_network,
)
from dualmask.resources import RESOURCES, hub_snapshot

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from dualmask.classifier import DefendedClassifier

OURS, THEIRS = "dualmask.json", "config.json"  # what tells a saved dualmask model from a plain classifier
USUAL_LENGTH = 512  # tokens that are read of a text unless told otherwise: what such classifiers are asked with
LEAST_LENGTH = 4
HEAD = "ForSequenceClassification"
ONE_CLASS = ("regression", "multi_label_classification")  # heads whose answers are no shares of classes


def load_classifier(
    source: str | Path, *, device: str | None = None, max_length: int | None = None,
) -> "DefendedClassifier":
    """A saved dualmask model, or a plain Hugging Face classifier as one with the plain defence.

    source: a folder or a hub id. max_length: tokens read of a text by a plain classifier; 512, or as many as it has
    positions for, unless given. A dualmask model keeps its own. No code of the source is run, and no pickle opened.
    """
    from dualmask.classifier import DefendedClassifier
    from dualmask.devices import default_device

    folder = classifier_folder(source)
    if (folder / OURS).exists():
        if max_length is not None:
            raise OptionError(f"max_length={max_length} was given for {source}, a saved dualmask model, which keeps "
                              "the length that it was trained with; leave max_length out.")
        return DefendedClassifier.load(folder, device=device)
    return plain_classifier(folder, source=str(source), max_length=max_length).to(device or default_device())


def classifier_folder(source: str | Path) -> Path:
    """Where a source lies on this machine: the folder itself, or a hub repository's copy, fetched if need be."""
    folder = Path(source)
    if folder.exists():
        if (folder / OURS).exists() or (folder / THEIRS).is_file():
            return folder
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) if folder.is_dir() else "it is a file"
        raise ModelFileError(f"{source} is no classifier: expected a folder with {OURS} (a saved dualmask model) or "
                             f"{THEIRS} (a Hugging Face classifier); there: {there or 'nothing'}.")
    if str(source) in RESOURCES:
        raise ModelFileError(f"'{source}' is a resource ({RESOURCES[str(source)].kind}), not a trained classifier: "
                             "train one, e.g. 'dualmask train rotten-tomatoes --out model', and give its folder.")
    try:
        return hub_snapshot(str(source))
    except ResourceError as error:
        raise ModelFileError(f"'{source}' is no folder on this machine; check the path. Nor could it be loaded "
                             f"from the hub: {error}") from error


def plain_classifier(folder: Path, *, source: str, max_length: int | None) -> "DefendedClassifier":
    """The folder of another program, as a classifier of ours whose defence does nothing."""
    from dualmask.classifier import DefendedClassifier
    from dualmask.defences.base import Defence

    labels = class_names(classifier_config(folder, source=source), source=source)
    model = plain_network(folder, source=source)
    prepare(model)
    tokenizer = load_tokenizer(folder)
    length = usual_length(model, tokenizer) if max_length is None else max_length
    name = Path(source).name if Path(source).exists() else source  # where it lies here is of no use elsewhere
    facts = {"encoder": name, "defence": Defence.name, "trained_elsewhere": True}
    classifier = DefendedClassifier(model, tokenizer, Defence(), labels=labels, max_length=length, facts=facts)
    classifier.network.eval()
    return classifier


def classifier_config(folder: Path, *, source: str) -> "PreTrainedConfig":
    """A folder's configuration, refused where it has no head that chooses a class or would run code of its own."""
    from transformers import AutoConfig

    try:
        check_config(folder)
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except LOADING_ERRORS as error:
        raise EncoderError(f"{source} can't be loaded as a text classifier: {error}") from error
    if not any(str(kind).endswith(HEAD) for kind in config.architectures or ()):
        named = ", ".join(map(str, config.architectures or ())) or "none"
        raise EncoderError(f"{source} is an encoder without a classifier's head: no architecture of its ends in "
                           f"{HEAD} (config.json names {named}); train one with 'dualmask train'.")
    check_weights(folder)
    return config


def class_names(config: "PreTrainedConfig", *, source: str) -> tuple[str, ...]:
    """What a plain classifier calls its classes, in its order; it must choose one of at least two."""
    settings: Any = config
    if settings.num_labels < 2:
        raise EncoderError(f"{source} answers with a single number ({settings.num_labels} class in config.json's "
                           "id2label), a regression or a yes-or-no score; expected a head with one number for each of "
                           "at least two classes. Train it anew with num_labels=2.")
    if settings.problem_type in ONE_CLASS:
        raise EncoderError(f"{source} was trained for {settings.problem_type} (problem_type in config.json), where a "
                           "text has a number or several labels at once; expected a head that chooses one class "
                           "(single_label_classification).")
    places = sorted(settings.id2label)
    names = tuple(str(settings.id2label[place]) for place in places)
    if places != list(range(settings.num_labels)) or len(set(names)) < len(names):
        raise EncoderError(f"{source} calls its classes {settings.id2label} (id2label in config.json); expected the "
                           f"numbers 0 to {settings.num_labels - 1} with a name of its own for each.")
    return names


def plain_network(folder: Path, *, source: str) -> "PreTrainedModel":
    """The network with its trained head, out of safetensors."""
    from transformers import AutoModelForSequenceClassification

    try:
        model, report = read_network(AutoModelForSequenceClassification, folder, output_loading_info=True)
    except LOADING_ERRORS as error:
        raise EncoderError(f"{source} can't be loaded as a text classifier: {error}") from error
    if lacking := sorted(map(str, [*report.get("missing_keys", ()), *report.get("mismatched_keys", ())])):
        raise EncoderError(f"{source} lacks trained weights for {', '.join(lacking[:4])}, which would be drawn at "
                           "random; expected the whole classifier, head and all. Copy it again, or save it with "
                           "save_pretrained().")
    return model  # type: ignore[no-any-return]


def usual_length(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> int:
    """As many tokens as its own users give it, but no more than the network or its tokenizer takes."""
    told = tokenizer.model_max_length  # huge where nobody said anything
    return min(USUAL_LENGTH, longest_input(model), max(LEAST_LENGTH, told))

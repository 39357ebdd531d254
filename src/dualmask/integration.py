# SPDX-License-Identifier: Apache-2.0
"""For people with their own training code: a collator for Hugging Face's Trainer, and `defend` for a trained model."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dualmask.classifier import DefendedClassifier
from dualmask.defences import DEFENCES, build_defence
from dualmask.defences.base import Defence
from dualmask.defences.combination import Combined
from dualmask.errors import DataError, EncoderError, OptionError
from dualmask.masking.budget import mask_budget
from dualmask.masking.insertion import insert_masks
from dualmask.models.encoders import check_length, model_inputs, prepare
from dualmask.text.encoding import batch_of_ids
from dualmask.text.examples import Example, Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class MaskInsertionCollator:
    """Pads tokenised rows and inserts DDM's training masks, M = ceil(|x| budget) after [CLS].

    Give the `model` that is trained, so that masks get the zero position embedding of the paper; without it they get
    ordinary positions, as any other token. Trainer evaluates through the same collator: judge the trained model with
    `defend`, which masks as at inference.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", budget: float = 0.3, *, model: "PreTrainedModel | None" = None,
    ) -> None:
        if tokenizer.mask_token_id is None:
            raise EncoderError(f"the tokenizer {type(tokenizer).__name__} has no mask token to insert; take an encoder "
                               "that was trained with one, such as bert-base-uncased.")
        self.tokenizer, self.budget, self.model = tokenizer, budget, model
        if model is None:
            warnings.warn("without model=..., inserted masks get ordinary position embeddings, not zero.", stacklevel=2)
        else:
            prepare(model)

    def __call__(self, features: Sequence[Mapping[str, object]]) -> dict[str, Tensor]:
        batch = batch_of_ids(self.tokenizer, features)
        counts = mask_budget(batch.lengths, self.budget)
        batch = insert_masks(batch, counts, int(self.tokenizer.mask_token_id), ordinary="kept",
                             pad_id=int(self.tokenizer.pad_token_id or 0))
        if self.model is None:
            inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
            if "token_type_ids" in features[0]:
                inputs["token_type_ids"] = batch.token_type_ids
        else:
            check_length(self.model, batch.input_ids.shape[1])
            inputs = model_inputs(self.model, replace(batch, mask_position="zero"))
        label = next((name for name in ("label", "labels", "label_ids") if name in features[0]), None)
        if label is not None:
            inputs["labels"] = torch.tensor([row[label] for row in features])
        return inputs


def defend(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", train_texts: Sequence[Text], *,
    defence: str = "ddm-restore", preset: str | None = None, options: Mapping[str, object] | None = None,
    max_length: int = 128, validation: Sequence[tuple[Text, int]] = (),
) -> DefendedClassifier:
    """Wrap a fine-tuned classifier: its defence learns from `train_texts` what it must know at inference.

    preset: that which the defence recommends around a network that is trained already, unless given.
    validation: texts with their classes that the model was not trained on, for defences that set thresholds on them.
    """
    if isinstance(train_texts, str) or not len(train_texts):
        raise DataError("defend needs the texts that the model was trained on, as a list; "
                        "word frequencies are counted there.")
    chosen = preset or DEFENCES.find(defence).preset_around_trained
    return wrap_network(
        model, tokenizer, build_defence(defence, preset=chosen, options=options),
        labels=[str(label) for _, label in sorted((model.config.id2label or {}).items())], max_length=max_length,
        facts={"defended_after_training": True, "preset": chosen}, texts=[Example(text, 0) for text in train_texts],
        validation=[Example(text, label) for text, label in validation])


def wrap_network(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", guard: Defence, *, labels: Sequence[str],
    max_length: int, facts: Mapping[str, object], texts: Sequence[Example], validation: Sequence[Example],
) -> DefendedClassifier:
    """Put a defence around a network whose weights stay as they are; the defence learns from `texts`."""
    check_wrapping(guard, held_out=bool(validation))
    classifier = DefendedClassifier(model, tokenizer, guard, labels=labels, max_length=max_length, facts=facts)
    if any(True for _ in guard.parameters()):
        raise OptionError(f"the defence '{guard.name}' has parts that learn while the classifier does, so that it "
                          "can't be wrapped around one that is trained; train one with dualmask.train(defence=...).")
    classifier.fit_defence(texts)
    classifier.network.eval()
    if validation:
        classifier.tune_defence(validation)
    return classifier


def parts_of(guard: Defence) -> Sequence[Defence]:
    return guard.each if isinstance(guard, Combined) else [guard]


def sets_thresholds(guard: Defence) -> bool:
    """Whether a defence needs held-out texts with their labels."""
    return any(type(part).tune is not Defence.tune for part in parts_of(guard))


def check_wrapping(guard: Defence, *, held_out: bool) -> None:
    """Refuse what a trained classifier can't be given afterwards."""
    parts = parts_of(guard)
    acting = [part for part in parts if type(part).inference_view is not Defence.inference_view
              or type(part).answer is not Defence.answer]
    if not acting and guard.name != Defence.name:
        raise OptionError(f"the defence '{guard.name}' acts while a classifier is trained and does nothing for one "
                          "that is; train one with dualmask.train(defence=...).")
    tuned = [part.name for part in parts if type(part).tune is not Defence.tune]
    if tuned and not held_out:
        raise OptionError(f"the defence '{tuned[0]}' sets thresholds on held-out texts; give some with their classes: "
                          "validation=[(text, class number), ...].")

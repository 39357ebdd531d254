# SPDX-License-Identifier: Apache-2.0
"""Masked language models, for scorers that ask how likely a token is."""

from typing import TYPE_CHECKING

import torch

from dualmask.errors import EncoderError
from dualmask.models.encoders import LOADING_ERRORS, load_tokenizer, quiet_transformers

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def load_language_model(name: str, *, vocabulary: int) -> tuple["PreTrainedModel", int]:
    """A masked language model in evaluation mode and its mask id; refused if its head or its vocabulary doesn't fit."""
    from transformers import AutoModelForMaskedLM

    from dualmask.resources import resolve

    folder = resolve(name, kind="encoder")
    try:
        with quiet_transformers():
            model, report = AutoModelForMaskedLM.from_pretrained(
                folder, dtype=torch.float32, output_loading_info=True, use_safetensors=True)
    except LOADING_ERRORS as error:
        raise EncoderError(f"'{name}' can't be loaded as a masked language model: {error}") from error
    tokenizer = load_tokenizer(folder)
    if report["missing_keys"]:
        raise EncoderError(f"'{name}' has no masked-language-model head: its weights lack "
                           f"{sorted(report['missing_keys'])[0]}. Give a masked language model.")
    if model.config.vocab_size != vocabulary or tokenizer.mask_token_id is None:
        raise EncoderError(f"'{name}' has {model.config.vocab_size} tokens and the encoder {vocabulary}; "
                           "the language model must share the encoder's tokenizer.")
    for weight in model.parameters():
        weight.requires_grad_(False)
    return model.eval(), int(tokenizer.mask_token_id)

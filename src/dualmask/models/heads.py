# SPDX-License-Identifier: Apache-2.0
"""The encoder's own head, asked apart from the encoder."""

from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def head_logits(model: "PreTrainedModel", states: Tensor, attention_mask: Tensor) -> Tensor:
    """What the model's head makes of last hidden states (rows, length, size): (rows, classes).

    In training without the dropout that some families have between encoder and head.
    """
    whole = cast(Any, model)
    match model.config.model_type:
        case "bert":
            states = whole.bert.pooler(states)
        case "deberta" | "deberta-v2":
            states = whole.pooler(states)
        case "distilbert":
            states = whole.pre_classifier(states[:, 0]).relu()
        case "modernbert":
            states = whole.head(states[:, 0] if model.config.classifier_pooling == "cls" else
                                (states * attention_mask[..., None]).sum(dim=1) / attention_mask.sum(1, keepdim=True))
    return cast(Tensor, whole.classifier(states))  # the other families' heads take the first token by themselves

# SPDX-License-Identifier: Apache-2.0
"""How the loss changes with each token's embedding."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dualmask.text.encoding import Batch

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def embedding_gradient(model: "PreTrainedModel", batch: Batch, labels: Tensor | None = None) -> Tensor:
    """d (sum of the rows' cross-entropies) / d word embeddings, (rows, length, size).

    labels: (rows,); without them those that the model gives. Works where gradients are switched off, and leaves none.
    """
    from dualmask.models.encoders import logits

    with torch.enable_grad():
        embeddings: Tensor = model.get_input_embeddings()(batch.input_ids).detach().requires_grad_()
        answer = logits(model, batch, embeddings=embeddings)
        labels = answer.argmax(dim=1) if labels is None else labels
        loss = torch.nn.functional.cross_entropy(answer, labels, reduction="sum")
        gradient: Tensor = torch.autograd.grad(loss, embeddings)[0]
    return gradient

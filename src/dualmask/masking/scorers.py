# SPDX-License-Identifier: Apache-2.0
"""How suspicious is a token? Each scorer answers for a whole batch, (rows, length), higher = more suspicious."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn

from dualmask.errors import DualmaskError, OptionError
from dualmask.masking.gradients import embedding_gradient
from dualmask.masking.words import (
    first_of_each,
    first_pieces,
    keys_of_words,
    lettered_tokens,
    looked_up,
    word_keys,
)
from dualmask.seeds import Noise, scrambled
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Unseen = Literal["first", "once", "fragmented"]
ScorerName = Literal["frequency", "word-frequency", "general", "surprisal", "gradient", "random"]


class Scorer(nn.Module):
    """Base of all scorers; what they learn from the training texts is kept in buffers."""

    by_word: ClassVar[bool] = False  # needs word numbers in the batch
    noise: ClassVar[Noise] = "none"

    def fit(self, texts: Sequence[Text], encode: Encode) -> None:
        """Learn from the training texts."""

    def redraw(self, number: int, *, same: bool = False) -> None:
        """For noise: take the draws of this number from now on, 0 those of the start; same: for all texts."""

    def adapt(self, model: "PreTrainedModel") -> None:
        """Meet the classifier whose input is scored."""

    def forward(self, batch: Batch) -> Tensor:
        raise NotImplementedError


class TokenFrequency(Scorer):
    """FGWS's phi = ln(1 + count in the training texts), rarest first; the paper's literal text reads `reverse`."""

    counts: Tensor

    def __init__(self, *, unseen: Unseen = "first", truncated: bool = False, reverse: bool = False) -> None:
        super().__init__()
        self.unseen, self.truncated, self.sign = unseen, truncated, 1.0 if reverse else -1.0
        self.register_buffer("counts", torch.zeros(0, dtype=torch.long))

    def fit(self, texts: Sequence[Text], encode: Encode) -> None:
        counts = torch.zeros(encode.vocabulary_size, dtype=torch.long)
        for batch in encode.corpus(texts, truncated=self.truncated):
            counts += torch.bincount(batch.input_ids[batch.body], minlength=len(counts))
        self.counts = counts

    def forward(self, batch: Batch) -> Tensor:
        return self.sign * phi(self.counts[batch.input_ids], self.unseen)


class WordFrequency(Scorer):
    """The same over whole words: a misspelt word is unseen even where its pieces are frequent."""

    by_word = True
    keys: Tensor
    values: Tensor

    def __init__(self, *, unseen: Unseen = "first", truncated: bool = False, reverse: bool = False) -> None:
        super().__init__()
        self.unseen, self.truncated, self.sign = unseen, truncated, 1.0 if reverse else -1.0
        self.register_buffer("keys", torch.zeros(0, dtype=torch.long))
        self.register_buffer("values", torch.zeros(0, dtype=torch.long))

    def fit(self, texts: Sequence[Text], encode: Encode) -> None:
        seen = [word_keys(batch)[first_pieces(batch)]
                for batch in encode.corpus(texts, words=True, truncated=self.truncated)]
        self.keys, self.values = torch.unique(torch.cat(seen), return_counts=True)

    def forward(self, batch: Batch) -> Tensor:
        scores = self.sign * phi(looked_up(self.keys, self.values, keys := word_keys(batch)), self.unseen)
        if self.unseen == "fragmented":  # among unseen words those in more pieces first: typos shatter, names less
            pieces = (batch.words[:, :, None] == batch.words[:, None, :]).sum(dim=2)
            scores = scores + torch.where(looked_up(self.keys, self.values, keys) == 0, pieces / 1000, 0.0)
        return scores


class GeneralFrequency(Scorer):
    """Rarity in English at large (wordfreq's Zipf scale, 0 to 8), by whole words; unknown words count as 0.

    Words without a letter (punctuation, numbers) are not in such a list and say nothing: they come last.
    """

    by_word = True
    keys: Tensor
    values: Tensor
    lettered: Tensor  # (vocabulary,) bool

    def __init__(self, *, reverse: bool = False) -> None:
        super().__init__()
        self.sign = 1.0 if reverse else -1.0
        self.register_buffer("keys", torch.zeros(0, dtype=torch.long))
        self.register_buffer("values", torch.zeros(0))
        self.register_buffer("lettered", torch.zeros(0, dtype=torch.bool))

    def fit(self, texts: Sequence[Text], encode: Encode) -> None:
        """Turn the word list into a table over this tokenizer's pieces, so that scoring needs no strings."""
        try:
            from wordfreq import cB_to_freq, freq_to_zipf, get_frequency_list
        except ImportError as error:
            raise DualmaskError("the scorer 'general' needs a package that is not installed: run "
                                "pip install 'wordfreq>=3.1'.") from error
        keys, values = [], []
        for centibels, bucket in enumerate(get_frequency_list("en", "best")):
            if bucket:
                keys.append(keys_of_words(bucket, encode))
                values.append(torch.full(keys[-1].shape, freq_to_zipf(cB_to_freq(-centibels))))
        # the list falls in frequency, so the first entry of a key is its highest
        self.keys, self.values = first_of_each(torch.cat(keys), torch.cat(values))
        self.lettered = lettered_tokens(encode)

    def forward(self, batch: Batch) -> Tensor:
        zipf = looked_up(self.keys, self.values, word_keys(batch))
        word = batch.words.clamp(min=0)
        pieces = self.lettered[batch.input_ids].long() * batch.body
        letters = torch.zeros_like(word).scatter_reduce(1, word, pieces, "amax")
        return self.sign * torch.where(letters.gather(1, word) > 0, zipf, -self.sign * 8.0)


class Surprisal(Scorer):
    """-log p(token | the rest) under a masked language model.

    Every `stride`-th token is masked in one pass, so a text takes `stride` passes; with a stride as long as the text,
    each token is judged with all others in sight.
    """

    def __init__(self, *, language_model: str | None, stride: int = 8) -> None:
        super().__init__()
        if not language_model:
            raise OptionError("the scorer 'surprisal' needs language_model=...: a folder or hub id of a masked "
                              "language model that shares the encoder's tokenizer.")
        if stride < 1:
            raise OptionError(f"stride is {stride}; expected 1 or more.")
        self.language_model, self.stride = language_model, stride
        self._loaded: tuple[PreTrainedModel, int] | None = None  # in a tuple: no part of this module's weights

    def adapt(self, model: "PreTrainedModel") -> None:
        from dualmask.models.language_models import load_language_model

        self._loaded = load_language_model(self.language_model, vocabulary=model.config.vocab_size)

    @torch.no_grad()
    def forward(self, batch: Batch) -> Tensor:
        if self._loaded is None:
            raise DualmaskError("the scorer 'surprisal' was not given a model; call adapt() first.")
        model, mask_id = self._loaded
        model.to(batch.device)  # type: ignore[arg-type]
        columns = torch.arange(batch.input_ids.shape[1], device=batch.device)
        scores = torch.zeros(batch.input_ids.shape, device=batch.device)
        for turn in range(min(self.stride, len(columns))):
            hidden = batch.body & (columns % self.stride == turn)
            answer = model(input_ids=batch.input_ids.masked_fill(hidden, mask_id),
                           attention_mask=batch.attention_mask).logits
            true = torch.nn.functional.cross_entropy(answer.transpose(1, 2), batch.input_ids, reduction="none")
            scores = torch.where(hidden, true, scores)
        return scores


class GradientNorm(Scorer):
    """|| d loss(predicted label) / d embedding ||: tokens that the prediction hangs on (as in RSMI)."""

    def __init__(self) -> None:
        super().__init__()
        self._model: tuple[PreTrainedModel, ...] = ()  # in a tuple: no part of this module's weights

    def adapt(self, model: "PreTrainedModel") -> None:
        self._model = (model,)

    def forward(self, batch: Batch) -> Tensor:
        if not self._model:
            raise DualmaskError("the scorer 'gradient' was not given a model; call adapt() first.")
        return embedding_gradient(self._model[0], batch).square().sum(dim=2).sqrt()


class RandomScore(Scorer):
    """Noise derived from (seed, text, place): the control for every other scorer, the same in any batch."""

    noise = "text"

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self.seed, self.number, self.same = seed, 0, False

    def redraw(self, number: int, *, same: bool = False) -> None:
        self.number, self.same = number, same

    def forward(self, batch: Batch) -> Tensor:
        places = scrambled(batch.positions + 1)
        text = (scrambled(batch.input_ids) * places).masked_fill(~batch.body, 0).sum(dim=1, keepdim=True)
        start = (text * 0 if self.same else text) + self.seed + (self.number << 32)  # draw 0 is the seed's own
        return (scrambled(scrambled(start) ^ places) & 0xFFFFFF).float() / 2.0**24


def phi(counts: Tensor, unseen: Unseen) -> Tensor:
    return counts.clamp(min=1 if unseen == "once" else 0).float().log1p()


def build_scorer(
    name: ScorerName, *, unseen: Unseen = "first", truncated: bool = False, reverse: bool = False,
    language_model: str | None = None, stride: int = 8, seed: int = 0,
) -> Scorer:
    """A scorer by name; each takes of the settings what concerns it."""
    match name:
        case "frequency":
            return TokenFrequency(unseen=unseen, truncated=truncated, reverse=reverse)
        case "word-frequency":
            return WordFrequency(unseen=unseen, truncated=truncated, reverse=reverse)
        case "general":
            return GeneralFrequency(reverse=reverse)
        case "surprisal":
            return Surprisal(language_model=language_model, stride=stride)
        case "gradient":
            return GradientNorm()
        case "random":
            return RandomScore(seed=seed)

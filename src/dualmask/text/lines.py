# SPDX-License-Identifier: Apache-2.0
"""Lines out of text files, packed or not, one at a time, with what can be wrong in their bytes told by line."""

import lzma
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Iterator
from gzip import BadGzipFile
from pathlib import Path
from typing import IO, cast

from dualmask.errors import DataError
from dualmask.system_errors import explain_os_error
from dualmask.text.character_sets import UTF8, has_plain_line_ends
from dualmask.text.streams import PIECE, LineStream

MAX_TEXT = 4 * 2**20  # bytes in a line, characters in a text; beyond it a line end or a closing quote is missing
PACKED_ENDINGS = (".gz", ".bz2", ".xz")
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, BadGzipFile)  # what unpacking raises beside any OSError
BYTE_ORDER_MARK = "\ufeff"


def read_lines(source: Path | LineStream, encoding: str = UTF8) -> Iterator[str]:
    """Lines ended by a line feed and by nothing else: texts may hold U+0085, which ``str.splitlines`` would cut at."""
    number = 0
    reader = byte_lines if has_plain_line_ends(encoding) else wide_lines
    try:
        with unpacked(source) as stream:
            for line in reader(stream, str(source), encoding):
                number += 1
                yield line
    except (OSError, *DAMAGED) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(explain_os_error(error, "read", f"{source}, line {number + 1}," if number else str(source))
                            ) from error
        raise DataError(f"{source}: unreadable after line {number} ({error}). Copy or pack the file again.") from error
    if not number and isinstance(source, LineStream):
        raise DataError(f"{source} is empty, expected texts; pipe some in, give them in quotes, or name a file with "
                        "--file.")
    if not number:
        raise DataError(f"{source} is empty, expected rows of text. Was it written or copied to its end?")


def unpacked(source: Path | LineStream) -> IO[bytes] | LineStream:
    """The bytes of a file, or what is packed in it; its ending tells."""
    if isinstance(source, LineStream):
        return source
    packing = source.suffix.lower()
    if packing == ".gz":
        import gzip

        return cast("IO[bytes]", gzip.open(source))
    if packing == ".bz2":
        import bz2

        return bz2.open(source)
    return lzma.open(source) if packing == ".xz" else source.open("rb")


def byte_lines(stream: IO[bytes] | LineStream, name: str, encoding: str) -> Iterator[str]:
    """Lines that end with the byte of a line feed, each decoded by itself, so that a wrong byte is told by its line."""
    number, offset = 0, 0
    while line := stream.readline(MAX_TEXT + 1):
        number += 1
        yield _decoded(line, f"{name}, line {number}", offset, encoding)
        offset += len(line)


def wide_lines(stream: IO[bytes] | LineStream, name: str, encoding: str) -> Iterator[str]:
    """Lines of a character set whose line feeds are no single bytes, such as UTF-16."""
    decoder, rest, number, offset = getincrementaldecoder(encoding)(), "", 0, 0
    while True:
        piece = stream.read(PIECE)
        offset += len(piece)
        try:
            rest += decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            raise _undecodable(f"{name}, after line {number}", error, offset - len(error.object), encoding) from error
        *lines, rest = rest.split("\n")
        for line in (*(f"{line}\n" for line in lines), *([rest] if rest and not piece else [])):
            number += 1
            _check_length(line, f"{name}, line {number}")
            yield line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        _check_length(rest, f"{name}, line {number + 1}")
        if not piece:
            return


def _decoded(line: bytes, at: str, offset: int, encoding: str) -> str:
    """One line as text; ``offset`` is where it begins in the (unpacked) file."""
    if offset == 0 and encoding == UTF8 and line.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        raise DataError(f"{at}: the file is UTF-16, expected UTF-8. Save it as UTF-8 ('CSV UTF-8' in Excel), or say so "
                        "with --encoding utf-16 (encoding='utf-16').")
    if offset == 0 and line.startswith(BOM_UTF8):
        if encoding != UTF8:
            raise DataError(f"{at}: the file begins with the mark of UTF-8, and not with {encoding}, as --encoding "
                            "says. Leave --encoding out.")
        line, offset = line[len(BOM_UTF8) :], len(BOM_UTF8)
    _check_length(line, at)
    if (nul := line.find(b"\0")) >= 0:
        raise DataError(
            f"{at}: NUL byte at offset {offset + nul}. Remove it; if there are many, the file is UTF-16 (--encoding "
            "utf-16-le) or no text at all: save it as UTF-8."
        )
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(at, error, offset, encoding) from error


def _check_length(line: str | bytes, at: str) -> None:
    if len(line) > MAX_TEXT:
        raise DataError(
            f"{at}: longer than {MAX_TEXT // 2**20} MiB. Shorten the text or cut it into several rows; if the file "
            "should have more lines, save it with line feeds as line ends."
        )


def _undecodable(at: str, error: UnicodeDecodeError, offset: int, encoding: str) -> DataError:
    """The byte that no text in this encoding has, where it is, and which encodings are the usual others."""
    wrong = f"{at}: byte 0x{error.object[error.start]:02x} at offset {offset + error.start} is not "
    if encoding == UTF8:
        return DataError(f"{wrong}UTF-8. Save the file as UTF-8, or say in which encoding it is, e.g. with --encoding "
                         "cp1252 or --encoding latin-1.")
    return DataError(f"{wrong}{encoding}. Say with --encoding in which encoding the file is; leave it out for UTF-8.")

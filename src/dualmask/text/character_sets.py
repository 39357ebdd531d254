# SPDX-License-Identifier: Apache-2.0
"""The character sets of text files: their names, and whether lines can be told apart before they are decoded."""

import codecs
from functools import lru_cache

from dualmask.errors import OptionError, did_you_mean

UTF8 = "utf-8"
USUAL = ("ascii", "big5", "cp1250", "cp1251", "cp1252", "euc-kr", "gb18030", "iso-8859-1", "iso-8859-15", "koi8-r",
         "latin-1", "mac-roman", "shift-jis", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "windows-1252")
NO_FILES = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")  # Python's own, for other ends


@lru_cache
def check_encoding(name: str) -> str:
    """Python's own name of a character set; utf-8-sig is utf-8, whose mark at the beginning is never a part of a text.
    """
    try:
        found = codecs.lookup(name.strip())
    except (LookupError, ValueError):
        raise unknown_encoding(name) from None
    known = found.name.replace("_", "-")
    if not found._is_text_encoding or known in NO_FILES:
        raise unknown_encoding(name)
    return UTF8 if known == "utf-8-sig" else known


def unknown_encoding(name: str) -> OptionError:
    shown = did_you_mean(name, USUAL).replace("; known:", "; usual ones are")
    return OptionError(f"encoding '{name}' is unknown{shown} It names how characters are written in the files that "
                       "are read; leave it out for UTF-8.")


def has_plain_line_ends(encoding: str) -> bool:
    """Whether a line feed is the byte 10, and no other character has that byte in it."""
    return not encoding.startswith(("utf-16", "utf-32")) and "\n".encode(encoding) == b"\n"

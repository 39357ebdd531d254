# SPDX-License-Identifier: Apache-2.0
"""What must stay as it is written: addresses, and names of files, hosts, functions, people and topics."""

import re
from bisect import bisect_right

# Of hosts that stand without http://: other endings may be those of words ("com.edy/drama")
_ENDINGS = "com|org|net|edu|gov|info|io|co|tv|ly|be|eu|us|uk|ca|au|nz|de|fr|nl|it|es|ch|pl|se|jp|cn|ru|in|br"
_ADDRESSES = "|".join((
    r"(?<!\w)\w{1,32}://\S+", r"www\.\S+", r"(?<!\w)mailto:\S+", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.\w+",
    rf"(?<![\w.@/-])(?:[\w-]{{1,63}}\.)+(?:{_ENDINGS})/[^\s/]\S*"))
_NAMES = r"[@#]\w+|(?<![\w.])[^\W\d_]\w{0,64}(?:\.[^\W\d_]\w{1,64})+(?![\w.])|(?<!\w)\w{1,64}\(\)"
ADDRESS, PROTECTED = re.compile(_ADDRESSES, re.I), re.compile(f"{_ADDRESSES}|{_NAMES}", re.I)

_TRACE = re.compile(r"[@#/]|\(\)|[.:]\S")  # that all of them leave: most texts have none


class Protection:
    """Where such things stand in a text: found once, since one long text may have thousands of words to ask about."""

    def __init__(self, text: str, pattern: re.Pattern[str] = PROTECTED) -> None:
        spans = [match.span() for match in pattern.finditer(text)] if _TRACE.search(text) else []
        self.starts, self.ends = [start for start, _ in spans], [end for _, end in spans]

    def guards(self, start: int, end: int) -> list[int]:
        """Where those begin that overlap these characters."""
        first = bisect_right(self.ends, start)
        found = []
        while first < len(self.starts) and self.starts[first] < end:
            found.append(self.starts[first])
            first += 1
        return found

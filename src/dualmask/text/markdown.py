# SPDX-License-Identifier: Apache-2.0
"""Texts of others inside Markdown: read as they are written, without links, pictures or HTML of their own."""

import re

from dualmask.text.differences import SHOWN

TAG = re.compile(r"<(?=[A-Za-z/!?])")  # all that Markdown takes for HTML, and no comparison
LINK = re.compile(r"\](?=[(\[:])")  # what makes a link or a picture of a bracket


def one_line(text: str) -> str:
    """A line that neither ends early nor brings marks of its own: messages may hold anything."""
    return LINK.sub("&#93;", text.translate(SHOWN).replace("<", "&lt;"))


def table_cell(text: str) -> str:
    """A cell of a table, which neither ends early nor brings HTML; its bold type stays."""
    plain = text.replace("\n", " ").translate(SHOWN).replace("\\", "\\\\").replace("|", "\\|")
    return LINK.sub("&#93;", TAG.sub("&lt;", plain))

# SPDX-License-Identifier: Apache-2.0
"""Templates with a gap in them, and words that may fill it, as tokens."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dualmask.errors import OptionError
from dualmask.text.encoding import Encode

if TYPE_CHECKING:
    from tokenizers import Encoding

GAP, TEXT = "[MASK]", "{}"  # in a template, whatever the tokenizer calls its mask


class Prompt(NamedTuple):
    """A template as tokens, the gap as the mask."""

    before: list[int]  # the text
    behind: list[int]


def check_template(template: str) -> None:
    if template.count(GAP) != 1 or template.count(TEXT) != 1:
        raise OptionError(f"the template '{template}' must have one {GAP}, and one {TEXT} where the text goes.")


def read_template(template: str, encode: Encode) -> Prompt:
    before, behind = (list(_tokens(side, encode)) for side in template.split(TEXT))
    return Prompt(before, behind)


def _tokens(side: str, encode: Encode) -> Iterator[int]:
    """What stands on one side of the text; a word in the gap brings the space before it along."""
    for number, piece in enumerate(encode.pieces([part.rstrip() for part in side.split(GAP)], max_length=1 << 20)):
        yield from [encode.mask_id] * bool(number)
        yield from _body(piece)


def _body(piece: "Encoding") -> list[int]:
    return [token for token, special in zip(piece.ids, piece.special_tokens_mask, strict=True) if not special]


def label_words(labels: Sequence[str], entries: Sequence[str], encode: Encode) -> list[tuple[int, int]]:
    """Each label word's token and its label's number; entries read label=word/word, other labels are their own words.

    Entries for labels that are not there are passed over: a list may serve data that call their labels differently.
    """
    given = {label: words.split("/") for label, _, words in (entry.rpartition("=") for entry in entries)}
    found = [(_token(word, label, encode), number) for number, label in enumerate(labels)
             for word in given.get(label) or re.findall(r"[^\W_]+", label.lower()) or [label]]
    if len({token for token, _ in found}) < len(found):
        raise OptionError(f"two label words of {', '.join(labels)} are the same token, which would stand for two "
                          "labels or twice for one; give others, e.g. words=LABEL=WORD,LABEL=WORD.")
    return found


def _token(word: str, label: str, encode: Encode) -> int:
    """The one token that a word is written with, inside a text or else at its beginning."""
    for piece in encode.pieces([f" {word}", word]):
        match _body(piece):
            case [token] if token != encode.tokenizer.unk_token_id:
                return token
    raise OptionError(f"'{word}', which stands for the label '{label}', is not one token of this encoder; give a word "
                      f"that is: words={label}=WORD.")

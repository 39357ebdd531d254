# SPDX-License-Identifier: Apache-2.0
"""`dualmask choose`: which defence for me? By questions, by flags, or the whole table."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.console import Console


class Against(StrEnum):
    misspelling, synonyms, both, any = "misspelling", "synonyms", "both", "any"


class Wishes(NamedTuple):
    against: str
    train: bool | None
    guarantee: bool
    one_pass: bool
    detect: bool


def choose(
    *,
    against: Annotated[Against | None, typer.Option(
        help="What is to be held off: misspelling, synonyms, both, or any attack (judged by the worst case, within "
             "chance).")] = None,
    train: Annotated[bool | None, typer.Option(
        "--train/--no-train", help="Whether the network can be trained; both ways are shown unless given.")] = None,
    guarantee: Annotated[bool, typer.Option(
        "--guarantee", help="Ask for answers with a certificate that a few changed words cannot alter them.")] = False,
    one_pass: Annotated[bool, typer.Option(
        "--one-pass", help="Take only what answers in one pass through the network.")] = False,
    detect: Annotated[bool, typer.Option(
        "--detect", help="Flag adversarial texts rather than answer them rightly.")] = False,
) -> None:
    """Recommend a defence for a threat, by measured figures; asks in a terminal, else prints the whole table."""
    from rich.console import Console

    from dualmask.choice_display import LAST, choice_blocks, show_recommendation
    from dualmask.recommendations import recommend

    console = Console()
    unasked = against is None and train is None and not (guarantee or one_pass or detect)
    if unasked and not can_ask(console):
        for block in choice_blocks():
            console.print(block)
    else:
        given = Wishes(against.value if against else "any", train, guarantee, one_pass, detect)
        for found in recommend(**(asked() if unasked else given)._asdict()):
            show_recommendation(console, found)
    console.print(LAST, highlight=False)


def can_ask(console: "Console") -> bool:
    """Whether somebody sits there who reads the questions and can answer."""
    return sys.stdin.isatty() and console.is_terminal


def asked() -> Wishes:
    """Answers to a few questions; Enter takes the one in brackets."""
    from rich.prompt import Confirm, Prompt

    against = Prompt.ask("What is to be held off?", choices=[one.value for one in Against], default="any")
    train = Confirm.ask("Can you train the network?", default=False)
    wanted = Prompt.ask("What do you need: right answers, a guarantee, or flags on such texts?",
                        choices=["answers", "guarantee", "flags"], default="answers")
    one_pass = wanted == "answers" and Confirm.ask("Must an answer take one pass only?", default=False)
    return Wishes(against, train, wanted == "guarantee", one_pass, wanted == "flags")

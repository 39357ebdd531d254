# SPDX-License-Identifier: Apache-2.0
"""What a run of `dualmask theory` found, as lines of JSON: the table's rows and our rule at each layer."""

from collections.abc import Mapping
from typing import NamedTuple

from dualmask.results import as_line
from dualmask.theory.quantities import Quantities
from dualmask.theory.recovery import INPUTS, NAMES, Row, fitted, table
from dualmask.theory.rule import LEAST

TABLES = "table"  # what the header says that its lines are
SHARES = ("condition", "paper", "uniform", "masked_closer", "recovered")


class Summary(NamedTuple):
    """The table, and how it came about."""

    header: Mapping[str, object]  # that of the quantities, and 'rules': ours by layer, fitted to all texts
    rows: list[Row]


def summarise(found: Quantities) -> Summary:
    rows = table(found.words)
    kinds = {word.text: word.recovered for word in found.words}.values()
    enough = min(sum(kinds), len(kinds) - sum(kinds)) >= LEAST
    rules = {str(layer): {name: rule.as_dict(NAMES[INPUTS[name]]) for name, rule in fitted(found.words, layer).items()}
             for layer in found.words[0].layers} if enough else {}
    return Summary({**found.header, "holds": TABLES, "words": len(found.words), "rules": rules}, rows)


def lines_of(summary: Summary) -> str:
    return "".join(f"{as_line(one)}\n" for one in (summary.header, *map(as_record, summary.rows)))


def as_record(row: Row) -> dict[str, object]:
    return {**row._asdict(), **{name: list(getattr(row, name)) for name in SHARES},
            "auroc": {name: None if one is None else list(one) for name, one in row.auroc.items()}}

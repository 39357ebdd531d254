# SPDX-License-Identifier: Apache-2.0
"""What the rows of a report are called: the defence, its preset and what differs from that, as records tell it.

Grids give rows names of their own, which stay in records and on the disk; `dualmask list` does not know them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from dualmask.evaluation.records import CellRecords
from dualmask.presets import USUAL, known_presets, nearest_preset, option_changes, row_name

Place = tuple[str, str, str]  # data, encoder and the row as its grid names it


def place_of(records: CellRecords) -> Place:
    cell = records.cell
    return cell.data, cell.encoder, cell.defence


def row_names(cells: Iterable[CellRecords]) -> dict[Place, str]:
    """Of every row. Where two of one table would have one name, the grid's stands behind it in square brackets."""
    first: dict[Place, CellRecords] = {}
    for records in cells:
        first.setdefault(place_of(records), records)
    names = {place: name_of_row(records, first) for place, records in first.items()}
    times = Counter((*place[:2], name) for place, name in names.items())
    return {place: name if times[(*place[:2], name)] == 1 or name == place[2] else f"{name} [{place[2]}]"
            for place, name in names.items()}


def name_of_row(records: CellRecords, others: Mapping[Place, CellRecords]) -> str:
    """The grid's name where records tell neither a preset nor options of a defence that is known."""
    defence, preset, changes = made_of(records)
    if not defence:
        return records.cell.defence
    return row_name(defence, preset, changes, around=taken_from(records, others))


def taken_from(records: CellRecords, others: Mapping[Place, CellRecords]) -> str:
    """The defence that a row's network was trained with, where it is another row's and another defence."""
    network = str(told(told(records.header.get("about")).get("training")).get("network") or "")
    other = others.get((*place_of(records)[:2], network))
    trained_with = str(told(other.header.get("defence")).get("name") or "") if other else ""
    return "" if trained_with == told(records.header.get("defence")).get("name") else trained_with


def made_of(records: CellRecords) -> tuple[str, str, dict[str, object]]:
    """A row's defence, preset and what differs from that; no defence where that is not known."""
    given = told(records.header.get("defence"))
    defence = str(given.get("name") or "")
    presets = known_presets(defence)
    options = {name: value for name, value in given.items() if name != "name"}
    preset = str(told(told(records.header.get("about")).get("training")).get("preset") or "")
    silent = not options and not preset and bool(presets) and bool(presets[USUAL].options)
    if not presets or silent:
        return "", "", {}
    preset = preset if preset in presets else nearest_preset(defence, options)
    return defence, preset, option_changes(defence, preset, options)


def told(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}

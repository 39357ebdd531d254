# SPDX-License-Identifier: Apache-2.0
"""Rows of the asset of measured figures from lines of counts: defences put around an unchanged network, cells whose
records were not kept, and certificates."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dualmask.errors import DataError
from dualmask.evaluation.statistics import mcnemar
from dualmask.measured_figures import PLAIN, Certified, MeasuredRow, MeasuredShare
from dualmask.presets import USUAL, known_presets, nearest_preset, option_changes, row_name
from dualmask.reporting.comparison import LEVEL
from dualmask.reporting.measured_rows import attack_words, points

EARLIER = "counts of an earlier run, whose records were not kept"
NOTHING_AROUND = "nothing"  # what the benchmark calls the network as it is


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON Lines; none where there is no such file."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise DataError(f"{path} can't be read ({error}); expected a JSON object on each line.") from None


def counted(held: int, texts: int, *, redrawn: int | None = None, plain: int | None = None) -> MeasuredShare:
    """plain: how many of the same texts the plain classifier holds."""
    return MeasuredShare(percent=points(held / texts), texts=texts,
                         redrawn=None if redrawn is None else points(redrawn / texts),
                         plain=None if plain is None else points(plain / texts))


# Around an unchanged network


def hardened_rows(path: Path) -> list[MeasuredRow]:
    """What `benchmarks/hardening.py` printed; the network as it is comes first of its data and encoder."""
    rows = [hardened_row(path, given) for given in read_lines(path)]
    rows.sort(key=lambda row: (row.data, row.encoder, row.name != PLAIN, row.name))
    bare = {(row.data, row.encoder): row for row in rows if row.name == PLAIN}
    return [beside_plain(row, bare.get((row.data, row.encoder))) for row in rows]


def hardened_row(path: Path, given: Mapping[str, Any]) -> MeasuredRow:
    try:
        bare = given["name"] == NOTHING_AROUND
        defence, preset = (PLAIN, USUAL) if bare else (given["defence"], given.get("preset") or USUAL)
        if preset not in known_presets(defence):
            raise DataError(f"{path} has the defence '{defence}' with the preset '{preset}', which 'dualmask list' "
                            "does not know; run benchmarks/hardening.py again.")
        return MeasuredRow(
            name=row_name(defence, preset), defence=defence, preset=preset, data=given["data"],
            encoder=given["encoder"], trained=False, source=path.name,
            clean=counted(given["clean"]["right"], given["clean"]["texts"]),
            attacks={attack: counted(one["held"], one["texts"]) for attack, one in given["attacks"].items()},
            answer_times=given.get("seconds_per_text"),
            passes=str(known_presets(defence)[preset].options.get("votes", 1)))
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise DataError(f"{path} has a row without {error}; run benchmarks/hardening.py again.") from None


def beside_plain(row: MeasuredRow, bare: MeasuredRow | None) -> MeasuredRow:
    """With the time of an answer in that of the bare network, and whether figures differ from its beyond chance."""
    if bare is None or bare is row:
        return replace(row, answer_times=1.0 if bare and row.answer_times else None)
    ratio = round(row.answer_times / bare.answer_times, 1) if row.answer_times and bare.answer_times else 0.0
    return replace(row, attacks={attack: share_beside(one, bare.attacks.get(attack))
                                 for attack, one in row.attacks.items()},
                   clean=share_beside(row.clean, bare.clean) if row.clean else None,
                   answer_times=ratio if ratio >= 1 else None)  # no defence saves time: the machine was busy


def share_beside(one: MeasuredShare, bare: MeasuredShare | None) -> MeasuredShare:
    """With what the bare network keeps of as many texts, which are then the same: one seed draws them."""
    same = bare.percent if bare and bare.basis == one.basis else None
    return replace(one, apart=apart(one, bare), plain=same)


def apart(one: MeasuredShare, other: MeasuredShare | None) -> bool | None:
    """Whether a paired test tells two counts of the same texts apart, however these fell: as few texts as can be are
    taken as held by both, which speaks most against a difference."""
    if other is None or one.texts != other.texts:
        return None
    first, second = (round(share.percent / 100 * share.texts) for share in (one, other))
    left, right = ([place < held for place in range(one.texts)] for held in (first, second))
    return mcnemar(left, right[::-1]) < LEVEL


# Cells of which counts are left


def counted_rows(path: Path, grids: Path, known: Iterable[MeasuredRow]) -> list[MeasuredRow]:
    """Rows of `results/defences.jsonl` that no records tell of."""
    there = {(row.data, row.encoder, row.name) for row in known}
    found = []
    for line in (line for line in read_lines(path) if line.get("benchmark") == "defences"):
        made = grid_rows(grids / f"{line['grid']}.toml")
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for cell in (cell for cell in line["cells"] if cell["mode"] == "adaptive"):
            groups.setdefault((cell["data"], cell["encoder"], cell["defence"]), []).append(cell)
        bare = {plain_place(cell): cell for (_, _, name), cells in groups.items() if name == PLAIN for cell in cells}
        for (data, encoder, name), cells in groups.items():
            row = counted_row(data, encoder, made.get(name, (name, USUAL, {})), cells, bare=bare, source=path.name)
            if (data, encoder, row.name) not in there and row.defence != PLAIN:
                there.add((data, encoder, row.name))
                found.append(row)
    return found


def grid_rows(path: Path) -> dict[str, tuple[str, str, Mapping[str, object]]]:
    """By a grid's name of a row its defence, preset and options."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["defences"]
    made: list[dict[str, Any]] = [{"name": one} if isinstance(one, str) else one for one in entries]
    found: dict[str, tuple[str, str, Mapping[str, object]]] = {}
    for one in made:
        found[one["name"]] = one.get("defence", one["name"]), one.get("preset", USUAL), one.get("options", {})
    return found


def grid_row_names(path: Path) -> dict[str, str]:
    """By a grid's name of a row what tables call it."""
    return {name: row_name(defence, preset, option_changes(defence, preset, options))
            for name, (defence, preset, options) in grid_rows(path).items()}


def counted_row(
    data: str, encoder: str, made: tuple[str, str, Mapping[str, object]], cells: Sequence[Mapping[str, Any]], *,
    bare: Mapping[tuple[object, ...], Mapping[str, Any]], source: str,
) -> MeasuredRow:
    """bare: cells of the plain classifier, by what it was attacked on."""
    defence, preset, options = made
    changes = option_changes(defence, preset, options)
    largest = max(cells, key=lambda cell: int(cell["texts"]))
    attacks, aware = ({attack_words(cell["attack"], "adaptive", cell["scores"]): counted(
        cell["held"], cell["texts"], redrawn=cell["held"] + cell["undone"] if cell.get("undone") else None,
        plain=bare.get(plain_place(cell), {}).get("held"))
        for cell in cells if (cell["scores"] == "raw") is usual} for usual in (True, False))
    return MeasuredRow(name=row_name(defence, preset, changes), defence=defence, preset=preset, changes=changes,
                       data=data, encoder=encoder, clean=counted(largest["right"], largest["texts"], plain=bare.get(
                           plain_place(largest), {}).get("right")), attacks=attacks,
                       aware=aware, passes=str(options.get("votes", "")), doubts=(EARLIER,), source=source)


def plain_place(cell: Mapping[str, Any]) -> tuple[object, ...]:
    """On which texts by which attack: a grid draws as many texts of one data set alike."""
    return tuple(cell[name] for name in ("data", "encoder", "attack", "scores", "seed", "texts"))


# Certificates


def with_certificates(rows: Sequence[MeasuredRow], path: Path, data: Mapping[str, str]) -> list[MeasuredRow]:
    """The rows, with what `results/benchmarks.jsonl` says was certified. data: names by what records call them.

    A row is the certificate's if it is of the same defence with the same options but for the number of votes, which
    a certificate draws itself; of several certificates of a row the one over most texts counts.
    """
    found = list(rows)
    told = [line for line in read_lines(path) if line.get("benchmark") == "certified" and line["data"] in data]
    for line in sorted(told, key=lambda line: int(line["texts"])):
        name, preset, changes = certified_row(line["defence"])
        for place, row in enumerate(found):
            same = {key: value for key, value in row.changes.items() if key != "votes"} == changes
            if (row.defence, row.preset, row.data) == (name, preset, data[line["data"]]) and same:
                found[place] = replace(row, certificate=Certified(
                    texts=line["texts"], right=points(line["right"] / line["texts"]),
                    certified=tuple(points(one / line["texts"]) for one in line["certified"])))
    return found


def certified_row(given: Mapping[str, object]) -> tuple[str, str, dict[str, object]]:
    options = {name: value for name, value in given.items() if name not in ("name", "votes")}
    defence = str(given["name"])
    preset = nearest_preset(defence, options)
    return defence, preset, option_changes(defence, preset, options)


def data_names(cells: Iterable[tuple[str, Mapping[str, object]]]) -> Iterator[tuple[str, str]]:
    """From the data's names and the headers of records: what these call the texts, and the name."""
    for name, header in cells:
        if isinstance(told := header.get("data"), str):
            yield told, name

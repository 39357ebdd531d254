# SPDX-License-Identifier: Apache-2.0
"""What `dualmask theory` found, as tables and in sentences; both come from the figures, so they can't disagree."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dualmask.text.markdown import one_line, table_cell
from dualmask.theory.recovery import BOTH, COUNTS, EVERY, INPUTS, MASKED, NAMES, RULE, SEEN, Figure, Row
from dualmask.theory.rule import LEAST
from dualmask.theory.summary import Summary

CAUTION = ("The theorem is about distances of [CLS], not about decisions. 'Our rule' is a diagnostic, fitted to these "
           "records and cross-validated by text, no theorem; 'counts' are how many words were changed and which share "
           "of them was masked.")
RATES: Mapping[str, str] = {"condition": "condition", "paper": "ordering, paper", "uniform": "ordering, uniform",
                            "masked_closer": "E_m <= E_r"}
CHANCES: Mapping[str, str] = {**RATES, RULE: "our rule", COUNTS: "counts alone", BOTH: "our rule and counts"}
HOLDS, TELLS = "words for which it holds, in percent", "AUROC for recovery of the label"


class Lines(NamedTuple):
    """A table."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def overviews(summary: Summary) -> tuple[Lines, Lines]:
    """All words with intervals, a column for each layer: how often what holds, and how well it tells recovery."""
    whole = everything(summary)
    head = tuple(f"layer {layer_name(layer, summary.header)}" for layer in whole)
    return (
        Lines(HOLDS, ("", *head), [(told, *(percentage(getattr(row, name)) for row in whole.values()))
                                   for name, told in RATES.items()]),
        Lines(TELLS, ("", *head), [(told, *(chance(row.auroc.get(name)) for row in whole.values()))
                                   for name, told in CHANCES.items()]))


def rate_table(rows: Sequence[Row]) -> Lines:
    """How often what holds, of changed words; and of texts, how often the label comes back."""
    head = ("words of", "words", "texts", *RATES.values(), "recovered")
    return Lines("words for which it holds, texts recovered, in percent", head, [
        (row.group, f"{row.words:,}", f"{row.texts:,}",
         *(percentage(getattr(row, name)) for name in (*RATES, "recovered"))) for row in rows])


def chance_table(rows: Sequence[Row]) -> Lines:
    """How well each quantity tells texts that are recovered from others."""
    return Lines(TELLS, ("words of", *CHANCES.values()), [
        (row.group, *(chance(row.auroc.get(name)) for name in CHANCES)) for row in rows])


def weights(summary: Summary) -> Lines | None:
    """Of our rule, one column for each layer; none where nothing was fitted."""
    rules = mapping(summary.header.get("rules"))
    if not rules:
        return None
    inputs = {layer: mapping(mapping(mapping(rules[str(layer)])[RULE])["inputs"]) for layer in layers(summary)}
    return Lines("weights of our rule, inputs in standard deviations",
                 ("", *(f"layer {layer_name(layer, summary.header)}" for layer in inputs)),
                 [(name, *(f"{mapping(one[name])['weight']:+.2f}" for one in inputs.values()))
                  for name in NAMES[INPUTS[RULE]]])


def percentage(figure: Figure) -> str:
    return f"{100 * figure.value:.1f} ({100 * figure.low:.1f} to {100 * figure.high:.1f})"


def chance(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"


def layers(summary: Summary) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in summary.rows:
        found.setdefault(row.layer, []).append(row)
    return found


def everything(summary: Summary) -> dict[int, Row]:
    """By layer the row of all words."""
    return {row.layer: row for row in summary.rows if row.group == EVERY}


def layer_name(layer: int, header: Mapping[str, object]) -> str:
    names = {0: "0, the embeddings"}
    if isinstance(count := header.get("layer_count"), int) and count > 1:
        names[count - 1] = f"{count - 1}, the last"
    return names.get(layer, str(layer))


def facts(summary: Summary) -> Iterator[tuple[str, str]]:
    """What the figures are about; without it they can't be quoted."""
    header, row = summary.header, next(iter(everything(summary).values()))
    defence, trained, left = (mapping(header.get(name)) for name in ("defence", "trained", "left_out"))
    origin = (f"{trained['encoder']}, trained on {trained.get('rows')} rows of {trained.get('data')} with "
              f"{trained.get('defence')}, preset {trained.get('preset')}, seed {trained.get('seed')}"
              if trained.get("encoder") else "one that doesn't say how it was trained")
    yield "classifier", f"{origin}; asked with {defence.get('name')} on {header.get('device')}"
    yield "texts", (f"{header.get('texts')} attacked texts ({header.get('attacks')}) that the classifier has right "
                    "before the attack")
    yield "measured", f"{row.words:,} changed words of {row.texts:,} texts"
    yield "left out", ", ".join(f"{name}: {count}" for name, count in left.items()) or "nothing"
    yield "other answers than recorded", f"{header.get('other_answers')} of {header.get('texts')}"
    yield "label recovered", f"in {percentage(row.recovered)} % of texts"
    yield "s contracted by", ("the layer's own attention" if header.get("weights") == "attention"
                              else "uniform weights: this family does not tell its attention")


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def findings(summary: Summary) -> list[str]:
    """The figures in sentences."""
    whole = everything(summary)
    held = {layer: round(row.condition.value * row.words) for layer, row in whole.items()}
    found = ["The theorem's condition holds for " + ", ".join(
        f"{count:,} of {whole[layer].words:,} words at layer {layer}" for layer, count in held.items()) + "."]
    few = few_texts(next(iter(whole.values())))
    for kind, side in (("Better", 1), ("Worse", -1)) if not few else ():
        if told := [f"{name} at layer {places}" for key, name in CHANCES.items()
                    if (places := beyond_chance(whole, key, side))]:
            found.append(f"{kind} than a coin at telling which texts are recovered: {'; '.join(told)}.")
    if few:
        found.append(few)
    elif all(row.auroc.get(RULE) is None for row in whole.values()):
        found.append(f"Nothing was fitted: that takes {LEAST} texts that are recovered, and as many that are not.")
    first = {row.group: row.recovered for row in next(iter(layers(summary).values()))}
    if MASKED in first and SEEN in first:
        found.append(f"The label is recovered in {percentage(first[MASKED])} % of texts with an attacked word that was "
                     f"masked, and in {percentage(first[SEEN])} % of those with one that was seen.")
    return found


def few_texts(row: Row) -> str:
    """Empty, or why nothing is said about what tells recovery: intervals drawn from a handful of texts mislead."""
    recovered = round(row.recovered.value * row.texts)
    if min(recovered, row.texts - recovered) >= LEAST:
        return ""
    return (f"Nothing was fitted, and none of this shows what tells recovery: that takes {LEAST} texts that are "
            f"recovered, here {recovered:,}, and as many that are not, here {row.texts - recovered:,}.")


def beyond_chance(whole: Mapping[int, Row], name: str, side: int) -> str:
    """The layers at which a quantity's interval lies above one half, or below it."""
    scores = {layer: figure for layer, row in whole.items() if (figure := row.auroc.get(name)) is not None}
    places = [str(layer) for layer, one in scores.items() if (one.low > 0.5 if side > 0 else one.high < 0.5)]
    return " and ".join(filter(None, (", ".join(places[:-1]), *places[-1:])))


def markdown(summary: Summary) -> str:
    """What was measured, the overviews and sentences; then every row, with a column for the layer."""
    parts = ["\n".join(one_line(f"* {name}: {told}") for name, told in facts(summary))]
    for lines in (*overviews(summary), weights(summary)):
        parts += [f"{lines.title[0].upper()}{lines.title[1:]}:", ruled(lines.head, lines.rows)] if lines else []
    parts.append("\n".join(f"* {sentence}" for sentence in findings(summary)))
    for kind in (rate_table, chance_table):
        made = {layer: kind(rows) for layer, rows in layers(summary).items()}
        title, head, _ = next(iter(made.values()))
        rows = [(str(layer), *row) for layer, one in made.items() for row in one.rows]
        parts.append(f"<details><summary>By attack, and by what was masked: {title}</summary>\n\n"
                     f"{ruled(('layer', *head), rows)}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def ruled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [[table_cell(cell) for cell in line] for line in (head, ("---",) * len(head), *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)

# SPDX-License-Identifier: Apache-2.0
"""Which defence for me? Rules are a table here; every figure beside them is looked up in what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from dualmask.errors import OptionError, did_you_mean
from dualmask.measured_figures import PLAIN, MeasuredRow, MeasuredShare, find_row, measured_rows
from dualmask.presets import USUAL, known_presets, row_name

Wanted = Literal["answers", "guarantee", "detection"]
Threat = Literal["misspelling", "synonyms", "both", "any"]
THREATS: tuple[Threat, ...] = get_args(Threat)
THREAT_ATTACKS: dict[Threat, tuple[str, ...]] = {  # by which figures a threat is judged
    "misspelling": ("deepwordbug", "textbugger"),
    "synonyms": ("textfooler", "pwws", "bertattack"),
    "both": ("deepwordbug", "textbugger", "textfooler", "pwws", "bertattack"),
    "any": ("deepwordbug", "textbugger", "textfooler", "pwws", "bertattack"),
}
DATA, ENCODER = "mr", "gte-small-mlm"  # whose figures are shown, of defences that were trained
HARDEN, TRAIN = "dualmask harden MODEL DATA --out hardened/", "dualmask train DATA --out model/"
WORST = "worst case"
ALL = "all of them together"  # a text holds only if each of them failed on it
HARDEST = 2  # attacks that are named as those that beat a defence
NO_ONE_PASS = "One pass was asked for, but no {} here is had in one."
CERTIFY = "dualmask certify model/ TEST --samples 100"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """For whom which defence, and why; of several that fit the first counts."""

    wanted: Wanted
    against: tuple[Threat, ...] = THREATS
    train: bool
    one_pass: tuple[bool, ...] = (False, True)
    defence: str
    preset: str = USUAL
    data: str = DATA  # whose figures are looked up
    plainly_trained: bool = False  # its training is the plain one, so that figures of a trained network hold for any
    runner_up: tuple[str, str] | None = None  # defence and preset that come next, to be shown beside
    then: tuple[str, ...] = ()  # commands after the first one
    why: str
    beware: str = ""  # what the figures do not say


RULES = (
    Rule(wanted="guarantee", against=("synonyms",), train=True, defence="safer", then=(CERTIFY,),
         why="Each answer is a vote over random synonyms, and a lopsided vote proves that no change of so many words "
             "within its own table alters it.",
         beware="The certificate is about synonyms of its own table in the same case, about no other words, and takes "
                "1,100 passes a text."),
    Rule(wanted="guarantee", train=True, defence="ranmask", preset="certify", data="ag_news", then=(CERTIFY,),
         why="Each answer is a vote over views with nine in ten words masked, and a lopsided vote proves that no "
             "replacement of so many words alters it.",
         beware="Such views cost clean accuracy, the certificate is about a few replaced words, not about inserted "
                "ones or white space, and takes 1,100 passes a text."),
    Rule(wanted="guarantee", train=False, defence="ranmask", preset="certify", data="ag_news",
         then=("dualmask certify model/ TEST --under ranmask --preset certify --samples 100",),
         why="A certificate can be made around any network with a mask token, by a vote over views with nine in ten "
             "words masked.",
         beware="A network that was not trained on such views knows little about them, and what is proved then was "
                "not measured. Train it so if you can."),
    Rule(wanted="detection", train=True, defence="adfar",
         why="Of the two detectors that were measured it flags more adversarial texts on average, with fewer false "
             "alarms.",
         beware="It was trained on TextFooler's texts, and no attack tried to stay unseen: who asks for the flag can "
                "learn to avoid it."),
    Rule(wanted="detection", train=False, defence="fgws", plainly_trained=True,
         why="It flags texts whose answer changes when rare words become frequent synonyms, and needs no training of "
             "the network, only labelled held-out texts to set its threshold.",
         beware="No attack tried to stay unseen, and misspelt words that have no synonyms go unnoticed."),
    Rule(wanted="answers", against=("misspelling",), train=False, defence="ddm-restore", preset="restore",
         why="Misspelt words are put right before the network, which stays as it is, reads them.",
         beware="It puts spelling right and does nothing about synonyms."),
    Rule(wanted="answers", train=False, one_pass=(True,), defence="ddm-restore",
         why="Misspelt words are put right and the network, which stays as it is, reads the mean of a word's synonyms; "
             "one pass for an answer."),
    Rule(wanted="answers", train=False, defence="ddm-restore", preset="vote",
         why="Ten views of a text whose words are put right and exchanged for synonyms vote; the network stays as it "
             "is."),
    Rule(wanted="answers", against=("misspelling",), train=True, defence="ddm-restore",
         runner_up=("ddm-restore", "vote"),
         why="Misspelt words are put right, the unknown masked, and the network is trained to do without them; one "
             "pass for an answer."),
    Rule(wanted="answers", against=("synonyms",), train=True, one_pass=(True,), defence="ddm-restore",
         runner_up=("ttso", USUAL),
         why="Over the attacks by synonyms and both data sets nothing that answers in one pass keeps more on average; "
             "of film reviews the next keeps more under two of the three, for the price of the plain classifier."),
    Rule(wanted="answers", train=True, one_pass=(True,), defence="ddm-restore", runner_up=("ttso", USUAL),
         why="Of all that answer in one pass it keeps the most under these attacks together, on average over both "
             "data sets; of film reviews the next comes within chance of it in the worst case."),
    Rule(wanted="answers", train=True, defence="ddm-restore", preset="vote", runner_up=("safer", USUAL),
         why="Ten views whose words are put right and exchanged for synonyms vote; nothing that was measured keeps "
             "more under attacks by synonyms, and in the worst case."),
)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is left under an attack, or in the worst case, in percent."""

    attack: str
    plain: MeasuredShare | None  # of the same texts and seeds where these are known, else of plain's own
    defended: MeasuredShare

    @property
    def same_texts(self) -> bool:
        """Whether both figures stand on as many texts and seeds."""
        return self.plain is None or self.plain.basis == self.defended.basis

    @property
    def within_chance(self) -> bool:
        """Whether a test found no difference; false where none was made."""
        return self.defended.apart is False


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What to type, why, and what was measured; `row` is None where nothing was."""

    wanted: Wanted
    against: Threat
    train: bool
    defence: str
    preset: str
    commands: tuple[str, ...]  # to type
    why: str
    beware: str
    row: MeasuredRow | None
    plain: MeasuredRow | None  # on the same data and encoder
    kept: tuple[Kept, ...]  # under the threat's attacks, then in the worst case
    beaten_by: tuple[tuple[str, MeasuredShare], ...]  # what leaves least of it, the worst first
    runner_up: MeasuredRow | None = None  # what comes next, on the same data and encoder

    @property
    def name(self) -> str:
        return row_name(self.defence, self.preset)

    @property
    def clean(self) -> Kept | None:
        """What is right of texts that nobody changed."""
        row = self.row
        return kept_of("clean", row.clean, self.plain.clean if self.plain else None) if row and row.clean else None

    @property
    def votes(self) -> str:
        """Passes for an answer by the preset, where it was measured with another number of them; else nothing."""
        if self.row is None or "votes" not in self.row.changes:
            return ""
        return str(known_presets(self.defence)[self.preset].options["votes"])


def recommend(
    against: str = "any", *, train: bool | None = None, guarantee: bool = False, one_pass: bool = False,
    detect: bool = False, rows: Sequence[MeasuredRow] | None = None,
) -> tuple[Recommendation, ...]:
    """The defence for a threat, by what was measured: one for each way, without training first, where `train` is None.

    against: misspelling, synonyms, both or any. guarantee: answers with a certificate. detect: flag rather than
    answer. rows: figures to look up; those that ship with the package unless given.
    """
    if against not in THREATS:
        raise OptionError(f"unknown threat '{against}'{did_you_mean(against, THREATS)} Expected one of "
                          f"{', '.join(THREATS)}.")
    if guarantee and detect:
        raise OptionError("a guarantee and a detector were both asked for; no defence has both, so choose one of them.")
    threat: Threat = against
    wanted: Wanted = "guarantee" if guarantee else "detection" if detect else "answers"
    known = measured_rows() if rows is None else rows
    found = (recommended(rule_for(wanted, threat, way, one_pass), threat, known)
             for way in ((False, True) if train is None else (train,)))
    return tuple(map(told_of_passes, found)) if one_pass and wanted != "answers" else tuple(found)


def told_of_passes(found: Recommendation) -> Recommendation:
    """With a word on what was asked for and can't be had."""
    lacking = NO_ONE_PASS.format("guarantee" if found.wanted == "guarantee" else "detector")
    return replace(found, beware=f"{lacking} {found.beware}")


def rule_for(wanted: Wanted, against: Threat, train: bool, one_pass: bool) -> Rule:
    return next(rule for rule in RULES if (rule.wanted, rule.train) == (wanted, train) and against in rule.against
                and one_pass in rule.one_pass)


def recommended(rule: Rule, against: Threat, rows: Sequence[MeasuredRow]) -> Recommendation:
    around = not (rule.train or rule.plainly_trained)  # a network that stays as it is

    first = next((row for row in rows if not row.trained), None)  # such networks were measured on data of their own
    data, encoder = (first.data, first.encoder) if around and first else (rule.data, ENCODER)

    def found(defence: str, preset: str) -> MeasuredRow | None:
        return find_row(rows, defence, preset, data=data, encoder=encoder, trained=not around)

    row, plain = found(rule.defence, rule.preset), found(PLAIN, USUAL)
    return Recommendation(
        wanted=rule.wanted, against=against, train=rule.train, defence=rule.defence, preset=rule.preset,
        commands=commands_of(rule), why=rule.why, beware=rule.beware, row=row, plain=plain,
        kept=tuple(kept_under(THREAT_ATTACKS[against], row, plain)) if row and rule.wanted != "detection" else (),
        beaten_by=hardest(row, detects=rule.wanted == "detection") if row else (),
        runner_up=found(*rule.runner_up) if rule.runner_up else None)


def commands_of(rule: Rule) -> tuple[str, ...]:
    """What makes it and, where there is more to do, what comes then."""
    if rule.wanted == "guarantee" and not rule.train:
        return rule.then
    return f"{TRAIN if rule.train else HARDEN} --defence {rule.defence} --preset {rule.preset}", *rule.then


def kept_under(attacks: Sequence[str], row: MeasuredRow, plain: MeasuredRow | None) -> list[Kept]:
    own = plain.attacks if plain else {}
    found = [kept_of(attack, row.attacks[attack], own.get(attack)) for attack in attacks if attack in row.attacks]
    return [*found, *([kept_of(WORST, row.worst, plain.worst if plain else None)] if row.worst else [])]


def kept_of(attack: str, defended: MeasuredShare, own: MeasuredShare | None) -> Kept:
    """own: what plain keeps of its own texts."""
    return Kept(attack=attack, plain=defended.of_plain(own), defended=defended)


def hardest(row: MeasuredRow, *, detects: bool = False) -> tuple[tuple[str, MeasuredShare], ...]:
    """The attacks that leave least, or of whose texts the fewest are flagged; then the worst case over all of them."""
    found = row.flagged if detects else {**row.attacks, **row.aware}
    first = sorted(found.items(), key=lambda one: one[1].percent)[:HARDEST]
    worst = None if detects else row.every or row.worst
    return (*first, *([(ALL, worst)] if worst else []))

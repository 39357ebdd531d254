# SPDX-License-Identifier: Apache-2.0
"""Classification by filling a gap: the masked-language-model head instead of a new one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor

from dualmask.cards import Paper, Preset
from dualmask.defences.base import Defence, Family, Network
from dualmask.errors import DualmaskError, OptionError
from dualmask.masking.insertion import Place, insert_masks
from dualmask.models.first_token import every_token
from dualmask.models.word_head import word_head
from dualmask.text.encoding import Batch, Encode
from dualmask.text.examples import Example, Text
from dualmask.text.prompts import Prompt, check_template, label_words, read_template

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SIDES: tuple[Place, Place] = ("start", "before-sep")  # where a prompt's two parts go
PUBLISHED: Mapping[str, object] = {"learning_rate": 1e-5, "batch_size": 8, "epochs": 20, "patience": 10}


@dataclass(frozen=True, kw_only=True)
class MVPOptions:
    """What is asked, and which words stand for the labels."""

    templates: tuple[str, ...] = (
        "Category : [MASK] : {}", "{} [MASK]", "This is a [MASK] text : {}", "{} The text is [MASK]")
    words: tuple[str, ...] = ()  # label=word or label=word/word; a label without an entry is its own word
    training: Literal["all", "one"] = "all"  # templates of a text in one step: all, or one drawn

    def __post_init__(self) -> None:
        if not self.templates:
            raise OptionError("no templates were given; expected one at least, e.g. '{} It was [MASK]'.")
        for template in self.templates:
            check_template(template)
        if wrong := [one for one in self.words if not all(one.rpartition("=")[::2])]:
            raise OptionError(f"'{wrong[0]}' is no label word; expected label=word, or label=word/word for several.")


class MVP(Defence):
    """Model-tuning via prompts: a template with a gap is put beside the text, and label words compete to fill it.

    Paper: Raman, Maini, Kolter, Lipton, Pruthi, Model-tuning Via Prompts, EMNLP 2023.
    Idea: a new head on [CLS] pulls the encoder away from what it has learned; the head it was trained with does not.
    Acts at: training_view and inference_view (templates), answer (a class's score is its best word's logit at [MASK];
    the mean over the templates), adapt (the head; the encoder's own classification head is frozen, since unused: with
    the defence off no accuracy is defined).
    Deviations: the head is the masked language model's where the encoder's folder has one; else a new one, random but
    for the word embeddings, so that half of the idea is lost. Label words are the words of the labels' names unless
    given, and one that isn't a single token is refused, not dropped. Texts keep their case. The general templates and
    our usual training settings are ours; presets 'ag-news' and 'sst-2' have the published ones (four templates, 1e-5,
    batches of 8, up to 20 epochs) and words for labels that are called by numbers. Two of the four for AG News begin
    with [SEP] as released; here a template holds no special token but its gap.
    Relations: the paper's MVP+Adv, one l2 step of length 1, is nearest to mvp+fat with step_size=1. RanMASK and DDM
    hide words behind the same [MASK].
    """

    name: ClassVar[str] = "mvp"
    family: ClassVar[Family] = "regularisation"
    passes: ClassVar[str] = "4"
    trains_head: ClassVar[bool] = False
    paper: ClassVar[Paper | None] = Paper(
        "Model-tuning Via Prompts Makes NLP Models Adversarially Robust", "Raman, Maini, Kolter, Lipton, Pruthi",
        "EMNLP 2023", "arXiv:2303.07320")
    Options = MVPOptions
    presets: ClassVar = {
        "recommended": Preset({}, {}),
        "ag-news": Preset(
            {"templates": ("A [MASK] news : {}", "{} This topic is about [MASK]", "Category : [MASK] : {}",
                           "{} The category of this news is [MASK]"),
             "words": ("World=politics", "Sci/Tech=technology", "0=politics", "1=sports", "2=business",
                       "3=technology")}, PUBLISHED),
        "sst-2": Preset(
            {"templates": ("Sentiment of the statement is [MASK] . {}", "{} [MASK]", "This is a [MASK] statement {}",
                           "{} The statement is [MASK]"), "words": ("0=negative", "1=positive")}, PUBLISHED),
    }
    options: MVPOptions
    tokens: Tensor  # (words,): every label word
    classes: Tensor  # (words,): the label that it stands for

    def __init__(self, options: object | None = None) -> None:
        super().__init__(options)
        self.register_buffer("tokens", torch.zeros(0, dtype=torch.long))
        self.register_buffer("classes", torch.zeros(0, dtype=torch.long))

    @property
    def views(self) -> int:
        return len(self.options.templates)

    def adapt(self, model: "PreTrainedModel") -> None:
        super().adapt(model)
        self.head = word_head(model)
        used = {weight for name, weight in model.base_model.named_parameters() if not name.startswith("pooler.")}
        for weight in model.parameters():
            weight.requires_grad_(weight in used)  # processes that train together wait for every gradient they expect

    def fit(self, examples: Sequence[Example], encode: Encode) -> None:
        names = [name for _, name in sorted((self.model.config.id2label or {}).items())]
        self.tokens, self.classes = torch.tensor(label_words(names, self.options.words, encode)).unbind(dim=1)

    def training_view(
        self, texts: Sequence[Text], labels: Sequence[int], encode: Encode, generator: torch.Generator,
    ) -> Batch:
        """All texts with the first template, all with the second, ..., one label to each text."""
        if self.options.training == "one":
            drawn = torch.randint(self.views, (len(texts),), generator=generator).tolist()
            return self.asked(texts, drawn, encode).with_labels(labels)
        numbers = [number for number in range(self.views) for _ in texts]
        return self.asked(list(texts) * self.views, numbers, encode).with_labels(labels)

    def inference_view(
        self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode, device: torch.device,
    ) -> Batch:
        return self.asked(texts, numbers, encode).to(device)

    def room(self, encode: Encode, specials: int) -> int:
        return self.prompts(encode)[1] - specials

    def prompts(self, encode: Encode) -> tuple[list[Prompt], int]:
        """The templates, and the tokens that the longest of them leaves for the text and the special ones."""
        prompts = [read_template(template, encode) for template in self.options.templates]
        return prompts, encode.max_length - max(len(prompt.before + prompt.behind) for prompt in prompts)

    def asked(self, texts: Sequence[Text], numbers: Sequence[int], encode: Encode) -> Batch:
        """Each text inside its template; where both are too long the text is cut, by the same for all templates."""
        prompts, room = self.prompts(encode)
        if room < 4:
            raise OptionError(f"the templates leave {room} of max_length={encode.max_length} tokens for the text; "
                              "expected 4 at least: give shorter ones, or a greater max_length.")
        batch = encode(texts)
        if batch.input_ids.shape[1] > room:
            batch = encode(texts, max_length=room)
        for side, place in enumerate(SIDES):
            counts = torch.tensor([len(prompts[number][side]) for number in numbers])
            batch = insert_masks(batch, counts, encode.mask_id, pad_id=encode.pad_id, place=place)
        new = torch.tensor([token for number in numbers for side in prompts[number] for token in side])
        ids = batch.input_ids.masked_scatter(batch.masks, new)
        return replace(batch, input_ids=ids, masks=batch.masks & (ids == encode.mask_id), mask_position="normal")

    def answer(self, network: Network, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        """Of each class the best word's score in the gap; in training, the mean over a text's templates."""
        if not len(self.tokens):
            raise DualmaskError("the defence 'mvp' knows no label words yet; call fit() first.")
        with every_token():
            states = network(batch, embeddings, states=True)  # (rows, length, size)
        gaps = states[torch.arange(len(batch), device=batch.device), batch.masks.int().argmax(dim=1)]
        scores: Tensor = self.head(gaps, self.tokens, self.table)
        found = scores.new_full((len(batch), int(self.model.config.num_labels or 0)), -torch.inf)
        found = found.scatter_reduce(1, self.classes.expand_as(scores), scores, "amax")
        return found if batch.labels is None else found.view(-1, len(batch.labels), found.shape[1]).mean(dim=0)

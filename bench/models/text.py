"""Between text and token ids: prompts into the model, completions out of it, and whether tokenizer and model fit."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from jinja2 import TemplateError

from bench.ground.errors import UserError
from bench.models import templates

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TEMPLATE_ERRORS = (TemplateError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
TURN = "What is 2 + 2?"  # anything that no template writes itself


def encode_prompt(tokenizer: "PreTrainedTokenizerBase", prompt: str) -> list[int]:
    """Token ids of a user message in the chat template (of the bare text where the tokenizer has none).

    An end token that the tokenizer appends is left out: what follows it would be another text.

    Raises:
        UserError: the template fails.
    """
    if tokenizer.chat_template is None:
        return without_end(tokenizer, prompt)
    try:
        return cast("list[int]", apply_template(tokenizer, [("user", prompt)], tokenize=True))
    except TEMPLATE_ERRORS as error:
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(
            f"the model's chat template fails on a user message, {prompt[:30]!r} ({why}): give the tokenizer a "
            "template that takes one, or none"
        ) from error


def without_end(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    """Ids of a bare text with what the tokenizer puts in front, and no end token behind that the text does not have."""
    ids = cast("list[int]", tokenizer(text)["input_ids"])
    bare = cast("list[int]", tokenizer(text, add_special_tokens=False)["input_ids"])
    appended = len(ids) > max(1, len(bare)) and ids[-1] == tokenizer.eos_token_id and ids[-1 - len(bare) : -1] == bare
    return ids[:-1] if appended else ids


def decode_completion(tokenizer: "PreTrainedTokenizerBase", prompt_ids: Sequence[int], ids: Sequence[int]) -> str:
    """The text that `ids` add to the prompt's, spaces in front included: a decoder drops those at a text's start."""
    alone = _decode(tokenizer, ids)
    if not prompt_ids or not ids:
        return alone
    before = _decode(tokenizer, prompt_ids[-1:])
    whole = _decode(tokenizer, [prompt_ids[-1], *ids])
    return whole[len(before) :] if whole.startswith(before) else alone


def eos_ids(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """Every id that ends a completion: the generation settings' (one or several) and the tokenizer's."""
    configured: Any = getattr(model.generation_config, "eos_token_id", None)
    ids = set(
        cast("list[int]", configured if isinstance(configured, list) else [] if configured is None else [configured])
    )
    if isinstance(tokenizer.eos_token_id, int):
        ids.add(tokenizer.eos_token_id)
    return sorted(ids)


def check_tokenizer(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", location: str) -> None:
    """Refuse a tokenizer of another model, and tell of turns that would not end.

    Raises:
        UserError: it has tokens that the model has no embedding for (a token for padding apart, which none is given).
    """
    encode_prompt(tokenizer, TURN)
    rows = cast("Any", model.get_input_embeddings()).weight.shape[0]
    spare = {i for name in ("pad_token_id", "unk_token_id") if isinstance(i := getattr(tokenizer, name), int)}
    beyond = sorted((i, token) for token, i in tokenizer.get_vocab().items() if i >= rows and i not in spare)
    if beyond:
        raise UserError(
            f"--model {location}: its tokenizer has {len(beyond)} tokens, {beyond[0][1]!r} the first, beyond the "
            f"model's {rows} embeddings: take the tokenizer that the model was trained with, or resize its embeddings"
        )
    turn = end_of_turn(tokenizer)
    if turn is not None and turn not in eos_ids(model, tokenizer):
        token = tokenizer.convert_ids_to_tokens(turn)
        print(
            f"--model {location}: its chat template ends a turn with {token!r}, which ends no completion here: "
            f"eos_token_id in its generation_config.json leaves {turn} out",
            file=sys.stderr,
        )


def end_of_turn(tokenizer: "PreTrainedTokenizerBase") -> int | None:
    """The special token that the chat template puts right behind an assistant's answer, where it puts one."""
    if tokenizer.chat_template is None:
        return None
    try:
        text = cast("str", apply_template(tokenizer, [("user", "a"), ("assistant", TURN)], tokenize=False))
    except TEMPLATE_ERRORS:
        return None  # made for prompts alone
    _, answered, behind = text.rpartition(TURN)
    ids = cast("list[int]", tokenizer(behind.lstrip(), add_special_tokens=False)["input_ids"]) if answered else []
    special = {*tokenizer.all_special_ids, *cast("Any", tokenizer).added_tokens_decoder}
    return ids[0] if ids and ids[0] in special else None


def apply_template(tokenizer: "PreTrainedTokenizerBase", turns: Sequence[tuple[str, str]], *, tokenize: bool) -> Any:  # noqa: ANN401
    """Turns as (role, text) in the chat template, as text or as ids; with a user's turn last it asks for an answer."""
    return tokenizer.apply_chat_template(
        [{"role": role, "content": text} for role, text in turns],
        chat_template=templates.fixed(tokenizer),
        add_generation_prompt=turns[-1][0] == "user",
        tokenize=tokenize,
        return_dict=False,
    )


def _decode(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

#!/usr/bin/env python3
"""Writes tests/chat/golden.json: conversations as transformers' apply_chat_template renders them.

The templates in tests/chat/templates are the project's own, in the styles of well-known families. Made with transformers
5.23.0, jinja2 3.1.6 and tokenizers 0.23.3. A case is [template, conversation, tools, add_generation_prompt, text], with text
null where the template raises; under "assistant", [template, conversation, [[begin, end], …]] in bytes of the text, of
templates with generation blocks.
"""

import json
import pathlib

import jinja2
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "chat"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CALL = {"type": "function", "function": {"name": "bytes_of", "arguments": {"parameters": 7000000000, "dtype": "fp16"}}}
CONVERSATIONS = {
    "one question": [turn("user", "How much memory do 7 billion parameters need?")],
    "answered": [turn("user", "Hi"), turn("assistant", "Hello!")],
    "system": [turn("system", "Be brief."), turn("user", "Why?"), turn("assistant", "Because.")],
    "three turns": [turn("system", "You count."), turn("user", "1"), turn("assistant", "2"), turn("user", "3"),
                    turn("assistant", "4"), turn("user", "5"), turn("assistant", "6")],
    "open end": [turn("user", "a"), turn("assistant", "b"), turn("user", "c")],
    "blanks": [turn("system", "  s  "), turn("user", "  two blanks \n"), turn("assistant", "\n\n end\t ")],
    "empty": [turn("user", ""), turn("assistant", "")],
    "unicode": [turn("user", "Grüße, 世界 😀 \u00a0x"), turn("assistant", "Ça va? \"quoted\" <b>&amp;</b> \\n")],
    "looks like tags": [turn("user", "{{ messages }} {% if x %} <|im_end|> [/INST]"), turn("assistant", "</s> }}")],
    "null content": [turn("user", "Call it."), turn("assistant", None, tool_calls=[CALL]), turn("tool", "14 GB"),
                     turn("assistant", "14 GB.")],
    "several calls": [turn("system", "Use tools."), turn("user", "Both?"),
                      turn("assistant", "Looking.", tool_calls=[CALL, CALL]), turn("tool", "1"), turn("tool", "2"),
                      turn("assistant", "Done.")],
    "thinking": [turn("user", "Hard?"), turn("assistant", "No.", reasoning_content="Let me see."), turn("user", "Sure?"),
                 turn("assistant", "<think>\nhm\n</think>\n\nYes.")],
    "parts": [turn("user", [{"type": "text", "text": "What is "}, {"type": "text", "text": "this?"}]),
              turn("assistant", [{"type": "text", "text": "That."}])],
    "wrong order": [turn("user", "a"), turn("user", "b")],
    "assistant first": [turn("assistant", "a"), turn("user", "b")],
    "late system": [turn("user", "a"), turn("system", "b"), turn("assistant", "c")],
    "unknown role": [turn("user", "a"), turn("critic", "b")],
}
TOOLS = [{"type": "function", "function": {
    "name": "bytes_of", "description": "Bytes of a model's \"weights\" <per type>",
    "parameters": {"type": "object", "properties": {"parameters": {"type": "integer"}, "dtype": {"enum": ["fp32", "fp16"]}},
                   "required": ["parameters"]}}}]


def tokenizer_of(template):
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), chat_template=template, **SPECIAL)


def render(tokenizer, messages, tools, prompts):
    try:
        return tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=prompts, tokenize=False)
    except (jinja2.exceptions.TemplateError, TypeError):
        return None


def assistant_ranges(template, messages):
    messages = [{k: v for k, v in message.items() if v is not None} for message in messages]
    texts, ranges = render_jinja_template(conversations=[messages], chat_template=template,
                                          return_assistant_tokens_mask=True, **SPECIAL)
    size = lambda characters: len(texts[0][:characters].encode())
    return [[size(begin), size(end)] for begin, end in ranges[0]]


def main():
    cases, assistant = [], []
    for path in sorted((FOLDER / "templates").glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        tokenizer = tokenizer_of(template)
        for name, messages in CONVERSATIONS.items():
            for tools in (None, TOOLS):
                for prompts in (False, True):
                    text = render(tokenizer, messages, tools, prompts)
                    cases.append([path.stem, name, tools is not None, prompts, text])
            if "generation %}" in template and render(tokenizer, messages, None, False) is not None:
                assistant.append([path.stem, name, assistant_ranges(template, messages)])
    dump = lambda value: json.dumps(value, ensure_ascii=False)
    lines = lambda rows: "[\n" + ",\n".join(map(dump, rows)) + "\n]"
    (FOLDER / "golden.json").write_text(
        f'{{"special_tokens": {dump(SPECIAL)},\n"tools": {dump(TOOLS)},\n"conversations": {dump(CONVERSATIONS)},\n'
        f'"cases": {lines(cases)},\n"assistant": {lines(assistant)}}}\n', encoding="utf-8")


main()

#!/usr/bin/env python3
"""Conversations as transformers tokenizes and masks them, for tests/data/conversation_test.cpp.

usage: .deps/peer/bin/python scripts/golden/conversations.py

Writes tests/data/golden/conversations/: a small byte-level BPE tokenizer trained on the texts below, a template in the style of
ChatML with {% generation %} blocks, and expected.jsonl: for each conversation the ids of apply_chat_template and the mask of
return_assistant_tokens_mask, for each conversational prompt with its completion the mask by TRL's rule (the tokens after those of
the prompt with its generation prompt).
"""
import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

FOLDER = Path(__file__).resolve().parents[2] / "tests/data/golden/conversations"
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ '<|start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}")
CONVERSATIONS = [
    [("user", "How much is 2 GiB?"), ("assistant", "2,147,483,648 bytes.")],
    [("system", "Answer in a word."), ("user", "Größe?"), ("assistant", "groß 🙂"), ("user", " again "), ("assistant", "")],
    [("user", "line\nbreaks\n\n"), ("assistant", "\n  indented\n"), ("user", "so"), ("assistant", "it is")],
    [("user", "nobody answers")],
    [("assistant", "I begin."), ("user", "日本語"), ("assistant", "はい、<|end|> inside")],
]


def messages_of(turns):
    return [{"role": role, "content": content} for role, content in turns]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [content for turns in CONVERSATIONS for _, content in turns] + ["user assistant system bytes answer"] * 4
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|begin|>", "<|start|>", "<|end|>"], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin|>", eos_token="<|end|>", chat_template=TEMPLATE)


def main():
    tokenizer = train()
    tokenizer.save_pretrained(FOLDER)
    whole, completions = [], []
    for turns in CONVERSATIONS:
        encoded = tokenizer.apply_chat_template(messages_of(turns), return_dict=True, return_assistant_tokens_mask=True)
        whole.append({"line": {"messages": messages_of(turns)}, "ids": encoded["input_ids"], "mask": encoded["assistant_masks"]})
        if turns[-1][0] != "assistant" or len(turns) < 2:
            continue
        prompt = tokenizer.apply_chat_template(messages_of(turns[:-1]), add_generation_prompt=True, return_dict=True)["input_ids"]
        ids = encoded["input_ids"]
        assert ids[:len(prompt)] == prompt
        completions.append({"line": {"prompt": messages_of(turns[:-1]), "completion": messages_of(turns[-1:])}, "ids": ids,
                            "mask": [0] * len(prompt) + [1] * (len(ids) - len(prompt))})
    with open(FOLDER / "expected.jsonl", "w", encoding="utf-8") as file:
        for key, cases in (("assistant_only_loss", whole), ("completion_only_loss", completions)):
            for case in cases:
                print(json.dumps({"key": key, **case}, ensure_ascii=False), file=file)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Small data files that mean something in other tools' words, for tests/data/line_keys_test.cpp.

usage: python scripts/golden/data_files.py     (with transformers, trl 1.16 and torch for the CPU)

Writes tests/data/golden/data_files.jsonl. Each case is one line of a data file with the config's keys beside it, and says what
becomes of it: "ids" and "labels" where it is obeyed, as TRL's SFTTrainer prepares the line, or an equal one in TRL's own words
("as"), or as transformers' tokenizer tells where TRL has no such key; "told" or "refused", words that the reader must say. The
tokenizer is the small one of scripts/golden/conversations.py.
"""
import json
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer

ROOT = Path(__file__).resolve().parents[2] / "tests/data/golden"
TOKENIZER = AutoTokenizer.from_pretrained(ROOT / "conversations")
PLAIN = TOKENIZER.chat_template
# Reads what PLAIN does not: tools, calls, thoughts, a variable.
RICH = (
    "{{ bos_token }}{% if style %}{{ style }}{% endif %}{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}"
    "{% for message in messages %}{{ '<|start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}{% generation %}"
    "{% if message.reasoning_content %}{{ '(' + message.reasoning_content + ')' }}{% endif %}{{ message['content'] }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name + call.function.arguments | tojson }}{% endfor %}"
    "{{ '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}")
# Knows the user and the assistant alone.
POOR = ("{% for message in messages %}{% if message.role in ['user', 'assistant'] %}{{ message.content + '<|end|>' }}{% endif %}"
        "{% endfor %}")
IGNORED = -100
EVERY = {"assistant_only_loss": True}
SPLIT = {"split_special_tokens": True}


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def turns(*contents):
    return [says(("user", "assistant")[i % 2], content) for i, content in enumerate(contents)]


def alpaca(instruction, given=""):
    if given:
        return ("Below is an instruction that describes a task, paired with an input that provides further context. Write a response "
                f"that appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n### Input:\n{given}\n\n### Response:")
    return ("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
            f"### Instruction:\n{instruction}\n\n### Response:")


def trl(line, template=PLAIN, **options):
    """ids and labels that SFTTrainer trains on."""
    TOKENIZER.chat_template = template
    config = LlamaConfig(vocab_size=len(TOKENIZER), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
    with tempfile.TemporaryDirectory() as folder:
        arguments = SFTConfig(output_dir=folder, report_to="none", use_cpu=True, bf16=False, **options)
        trainer = SFTTrainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=Dataset.from_list([line]),
                             processing_class=TOKENIZER)
        row = trainer.train_dataset[0]
    return {"ids": row["input_ids"], "labels": row["labels"]}


def silenced(messages, silent, every):
    """The same as transformers masks the messages, without the answers whose numbers are given."""
    TOKENIZER.chat_template = PLAIN
    encoded = TOKENIZER.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    labels, answer, before = [], -1, 0
    for token, bit in zip(encoded["input_ids"], encoded["assistant_masks"]):
        answer += bit and not before
        counts = answer not in silent if bit else not every
        labels.append(token if counts else IGNORED)
        before = bit
    return {"ids": encoded["input_ids"], "labels": labels}


def attended(line):
    """What a model reads and learns of a padded line: transformers' collators and models leave the rest out."""
    labels = line.get("labels", line["input_ids"])
    kept = [i for i, bit in enumerate(line["attention_mask"]) if bit]
    return {"ids": [line["input_ids"][i] for i in kept], "labels": [labels[i] for i in kept]}


def split_text(text):
    return TOKENIZER(text, split_special_tokens=True)["input_ids"]


def split_messages(messages):
    """Every special token of the template stands between texts, so that these are tokenized apart."""
    ids = [TOKENIZER.bos_token_id]
    start, end = TOKENIZER.convert_tokens_to_ids(["<|start|>", "<|end|>"])
    for message in messages:
        ids += [start, *split_text(message["role"] + "\n" + message["content"]), end, *split_text("\n")]
    return {"ids": ids, "labels": ids}


def split_pair(prompt, completion):
    ids, alone = split_text(prompt + completion) + [TOKENIZER.eos_token_id], split_text(prompt)
    assert ids[:len(alone)] == alone
    return {"ids": ids, "labels": [IGNORED] * len(alone) + ids[len(alone):]}


CALL = [{"type": "function", "function": {"name": "weather", "arguments": {"in": "Rome"}}}]
TOOLS = [{"type": "function", "function": {"name": "weather"}}]
FOUR = turns("How much?", "two", "again?", "three")
SHAREGPT = [{"from": "human", "value": "How much?"}, {"from": "gpt", "value": "two"}, {"from": "human", "value": "again?"},
            {"from": "gpt", "value": "three"}]


def with_keys(items, **keys):
    """Of each key a value for each item; None: none."""
    return [{**item, **{key: values[i] for key, values in keys.items() if values[i] is not None}} for i, item in enumerate(items)]


def cases():
    def trl_as(name, line, same=None, template=PLAIN, told=None, trl_options=None, **options):
        shown = {} if trl_options is None else trl_options
        return {"name": name, "line": line, "options": options, "template": template, "told": told,
                **trl(same or line, template, **{**options, **shown})}

    def given(name, line, expected, told=None, template=PLAIN, **options):
        return {"name": name, "line": line, "options": options, "template": template, "told": told, **expected}

    def told(name, line, *words, template=PLAIN, **options):
        return {"name": name, "line": line, "options": options, "template": template, "told": list(words)}

    def refused(name, line, words, template=PLAIN, **options):
        return {"name": name, "line": line, "options": options, "template": template, "refused": words}

    pair, chat_pair = {"prompt": "How much?", "completion": " two bytes"}, {"prompt": FOUR[:1], "completion": FOUR[1:2]}
    yield trl_as("TRL: text", {"text": "two bytes"})
    yield trl_as("TRL: prompt and completion", pair)
    yield trl_as("TRL: prompt and completion, all of it", pair, completion_only_loss=False)
    yield trl_as("TRL: prompt and completion of messages", chat_pair)
    yield trl_as("TRL: messages", {"messages": FOUR})
    yield trl_as("TRL: messages, the assistant's words", {"messages": FOUR}, **EVERY)
    yield trl_as("TRL: prompt with an answer, the assistant's words of the completion", {"prompt": FOUR[:3], "completion": FOUR[3:]},
                 **EVERY)
    # TRL leaves the names of those who speak as they are; a template knows them by their roles.
    yield trl_as("ShareGPT: conversations", {"conversations": SHAREGPT}, same={"messages": FOUR})
    yield trl_as("TRL: variables of the template", {"messages": FOUR, "chat_template_kwargs": {"style": "brief"}}, template=RICH)
    yield trl_as("TRL: tools as text", {"messages": FOUR, "tools": json.dumps(TOOLS)}, template=RICH, **EVERY)
    yield trl_as("OpenAI: calls and tools", {"messages": [FOUR[0], says("assistant", "", tool_calls=CALL), says("tool", "rain", tool_call_id="1"),
                                                          FOUR[1]], "tools": TOOLS, "parallel_tool_calls": False}, template=RICH,
                 same={"messages": [FOUR[0], says("assistant", "", tool_calls=CALL), says("tool", "rain"), FOUR[1]], "tools": TOOLS}, **EVERY)
    yield trl_as("DeepSeek: thoughts", {"messages": [FOUR[0], says("assistant", "two", reasoning_content="one and one")]},
                 template=RICH, **EVERY)
    yield trl_as("LLaMA-Factory: system beside conversations", {"conversations": SHAREGPT, "system": "Answer in a word."},
                 same={"messages": [says("system", "Answer in a word."), *FOUR]}, **EVERY)
    yield trl_as("Anthropic: system beside messages", {"messages": FOUR, "system": "Answer in a word."},
                 same={"messages": [says("system", "Answer in a word."), *FOUR]})
    yield trl_as("system beside a prompt of messages", {**chat_pair, "system": "Answer in a word."},
                 same={"prompt": [says("system", "Answer in a word."), FOUR[0]], "completion": FOUR[1:2]})
    yield trl_as("Alpaca", {"instruction": "Count.", "output": "two"}, same={"prompt": alpaca("Count."), "completion": "two"})
    yield trl_as("LLaMA-Factory: alpaca with columns that hold nothing",
                 {"instruction": "Count.", "input": "bytes", "output": "two", "system": "", "history": [], "tools": None, "images": None},
                 same={"prompt": alpaca("Count.", "bytes"), "completion": "two"})

    weights = with_keys(FOUR, weight=[None, 0, None, 1])
    yield given("OpenAI: weight 0, the assistant's words", {"messages": weights}, silenced(FOUR, {0}, True), **EVERY)
    yield given("OpenAI: weight 0, all words", {"messages": weights}, silenced(FOUR, {0}, False))
    yield given("Mistral: weight 0 of the last answer", {"messages": with_keys(FOUR, weight=[None, 1, None, 0])}, silenced(FOUR, {1}, True),
                **EVERY)
    yield given("Fireworks: weight 0 of all messages but one", {"messages": with_keys(FOUR, weight=[0, 0, 0, 1.0]), "weight": 1},
                silenced(FOUR, {0}, True), **EVERY)
    yield given("Together: weight 1", {"messages": with_keys(FOUR, weight=[1, 1, 1, 1])}, silenced(FOUR, set(), False))
    yield given("Axolotl: train false", {"messages": with_keys(FOUR, train=[False, False, False, True])}, silenced(FOUR, {0}, True), **EVERY)
    yield given("Axolotl: training of turns", {"conversations": with_keys(SHAREGPT, training=[None, True, None, False])},
                silenced(FOUR, {1}, True), **EVERY)
    yield given("Axolotl: train of turns", {"conversations": with_keys(SHAREGPT, train=[None, False, None, None])},
                silenced(FOUR, {0}, True), **EVERY)
    yield given("Axolotl: training of messages, all words", {"messages": with_keys(FOUR, training=[True, True, None, False])},
                silenced(FOUR, {1}, False))
    yield given("ShareGPT: weight of turns", {"conversations": with_keys(SHAREGPT, weight=[None, 0, None, None])},
                silenced(FOUR, {0}, False))
    masked = silenced(FOUR, {0}, True)
    yield given("weights in a prompt and its completion", {"prompt": with_keys(FOUR[:1], weight=[0]),
                                                            "completion": with_keys(FOUR[1:], weight=[0, None, 1])}, masked, **EVERY)

    ids = TOKENIZER("How much is 2 GiB?")["input_ids"]
    n = len(ids)
    some, ones = [0] * 3 + [1] * (n - 3), [1] * n
    yield trl_as("TRL: input_ids", {"input_ids": ids})
    yield trl_as("TRL: input_ids and labels", {"input_ids": ids, "labels": [IGNORED] * 3 + ids[3:]})
    yield trl_as("Axolotl: input_ids, attention_mask, labels", {"input_ids": ids, "attention_mask": ones, "labels": [IGNORED] * 3 + ids[3:]})
    right = {"input_ids": ids + [0] * 4, "attention_mask": ones + [0] * 4}
    yield given("datasets: padded on the right", right, attended(right))
    left = {"input_ids": [0] * 4 + ids, "attention_mask": [0] * 4 + ones, "labels": [IGNORED] * 5 + ids[1:],
            "position_ids": [1] * 4 + list(range(n)), "token_type_ids": [0] * (n + 4), "special_tokens_mask": [1] * 4 + [0] * n, "length": n + 4}
    yield given("transformers: padded on the left, with all that a tokenizer returns", left, attended(left))
    yield trl_as("TRL: completion_mask", {"input_ids": ids, "completion_mask": some}, trl_options={"completion_only_loss": True})
    yield trl_as("TRL: completion_mask, all of it", {"input_ids": ids, "completion_mask": some}, completion_only_loss=False)
    yield trl_as("TRL: assistant_masks", {"input_ids": ids, "assistant_masks": [*some[:-1], 0], "seq_lengths": [n]})
    yield trl_as("TRL: both masks", {"input_ids": ids, "completion_mask": some, "assistant_masks": [*ones[:-2], 0, 0]},
                 trl_options={"completion_only_loss": True})
    yield trl_as("TRL: labels beside masks that say the same", {"input_ids": ids, "labels": [IGNORED] * 3 + ids[3:], "completion_mask": some})
    padded = {"input_ids": ids + [0] * 4, "attention_mask": [bool(bit) for bit in ones + [0] * 4], "completion_mask": some + [0] * 4}
    yield given("masks of true and false, padded", padded, {"ids": ids, "labels": [IGNORED] * 3 + ids[3:]})

    trick = "so<|end|>\n<|start|>assistant\nyes <|begin|>"
    asked = turns(trick, "no")
    known = ["have the text of special tokens, which becomes these tokens", "<|begin|>, <|end|>, <|start|>"]
    yield trl_as("special tokens in a user's words become special", {"messages": asked}, told=known, **EVERY)
    yield trl_as("special tokens in a text become special", {"text": trick}, told=known)
    yield trl_as("special tokens in a prompt become special", {"prompt": trick, "completion": " no"}, told=known)
    whole = split_text(trick) + [TOKENIZER.eos_token_id]
    yield given("transformers: split_special_tokens of a text", {"text": trick}, {"ids": whole, "labels": whole}, **SPLIT)
    yield given("transformers: split_special_tokens of a prompt", {"prompt": trick, "completion": " no<|end|>!"},
                split_pair(trick, " no<|end|>!"), **SPLIT)
    yield given("split_special_tokens of messages leaves the template its own", {"messages": asked}, split_messages(asked), **SPLIT)

    yield told("datasets: columns that no tool here reads", {"text": "two", "source": "web", "id": 7, "__index_level_0__": 3, "meta": None},
               "have keys that no format here reads: __index_level_0__, id, source, first in line 1")
    yield told("another format's keys where one is named", {"text": "two", "instruction": "Count.", "output": "two"},
               "no format here reads: instruction, output", dataset_format="text")
    yield told("calls that a template never writes", {"messages": [FOUR[0], says("assistant", "", tool_calls=CALL)], "tools": TOOLS},
               "the chat template never writes, so that nothing of it is learned: tool_calls, tools", "text or answer is empty")
    yield told("a system message that a template never writes", {"messages": [says("system", "Be brief."), *FOUR]},
               "never writes, so that nothing of it is learned: system messages", template=POOR)
    yield told("a tool's answer that a template never writes", {"messages": [FOUR[0], says("tool", "rain"), FOUR[1]]},
               "nothing of it is learned: tool messages", template=POOR)
    yield told("OpenAI: names and thoughts that a template never writes", {"messages": with_keys(
        FOUR, name=["Ada", None, None, None], reasoning_content=[None, "hm", None, None], thinking=[None, None, None, "hm"],
        reasoning=[None, None, None, "so"])}, "nothing of it is learned: name, reasoning, reasoning_content, thinking")
    yield told("Mistral: a message's key that is for a service", {"messages": with_keys(FOUR, prefix=[None, True, None, False], date=[5] * 4)},
               "no format here reads: messages[].date")
    yield told("a turn's key that nobody reads", {"conversations": with_keys(SHAREGPT, id=[1, 2, 3, 4])},
               "no format here reads: conversations[].id")
    yield told("an empty answer behind an end token", {"messages": turns("How much?", "two", "again?", "")}, "text or answer is empty", **EVERY)
    yield told("an empty completion", {"prompt": "How much?", "completion": ""}, "text or answer is empty")
    yield told("an empty target", {"input_ids": ids + [2], "labels": [IGNORED] * n + [2]}, "text or answer is empty")
    yield told("targets that are the user's words", {"messages": FOUR}, "of the targets are not the assistant's, in 1 conversation")

    yield refused("a share of a weight", {"messages": with_keys(FOUR, weight=[None, 0.5, None, 1])}, "messages[1].weight: expected 0 or 1, got 0.5")
    yield refused("a weight in words", {"messages": with_keys(FOUR, weight=[None, "0", None, 1])}, "messages[1].weight: expected 0 or 1")
    yield refused("train in words", {"messages": with_keys(FOUR, train=[None, "no", None, None])}, "messages[1].train: expected true or false")
    yield refused("the user's words shall not count", {"messages": with_keys(FOUR, weight=[0, 1, 0, 1])},
                  "messages[0] shall not count for the loss, but is a message of the user; set assistant_only_loss: true")
    yield refused("Axolotl: the user's words shall count", {"messages": with_keys(FOUR, train=[True, None, None, None])},
                  "messages[0] shall count for the loss, but is a message of the user", **EVERY)
    yield refused("Axolotl: parts of a message", {"messages": with_keys(FOUR, train_detail=[None, [{"begin_offset": 0}], None, None])},
                  "messages[1].train_detail: parts of a message cannot be left out")
    yield refused("Axolotl: parts of a turn", {"conversations": with_keys(SHAREGPT, training_detail=[None, [{"begin_offset": 0}], None, None])},
                  "conversations[1].training_detail: parts of a message cannot be left out")
    yield refused("OpenAI: function_call", {"messages": [FOUR[0], says("assistant", "", function_call={"name": "weather"})]},
                  "messages[1].function_call: is the older form of tool_calls")
    yield refused("OpenAI: functions", {"messages": FOUR, "functions": [{"name": "weather"}]}, "functions: is the older form of tools")
    yield refused("Fireworks: a line's weight", {"messages": FOUR, "weight": 0.5}, "weight: expected 1, got 0.5")
    yield refused("LLaMA-Factory: alpaca's system", {"instruction": "Count.", "output": "two", "system": "Be brief."},
                  "system: the words of Stanford Alpaca have no place for it; write the line as messages")
    yield refused("LLaMA-Factory: alpaca's history", {"instruction": "Count.", "output": "two", "history": [["a", "b"]]},
                  "history: alpaca's lines are single questions")
    yield refused("system beside a prompt that is text", {**pair, "system": "Be brief."}, "system: a prompt that is text has no place for it")
    yield refused("tools beside a prompt that is text", {**pair, "tools": TOOLS}, "tools: a prompt that is text has no place for it")
    yield refused("two systems", {"messages": [says("system", "Be long."), *FOUR], "system": "Be brief."},
                  "has system, and messages[0] is a system message too")
    yield refused("LLaMA-Factory: preferences", {"conversations": SHAREGPT[:3], "chosen": SHAREGPT[1], "rejected": SHAREGPT[3]},
                  "chosen: makes it preference data")
    yield refused("LLaMA-Factory: a verdict", {"messages": FOUR, "kto_tag": True}, "kto_tag: makes it preference data")
    yield refused("TRL: images", {"messages": FOUR, "images": ["a.png"]}, "images: are no text")
    yield refused("transformers: documents", {"messages": FOUR, "documents": [{"text": "a"}]}, "documents: are read inside chat_template_kwargs")
    yield refused("an attention mask with holes", {"input_ids": ids, "attention_mask": [1, 0] + ones[2:]}, "attention_mask: expected ones, then zeros")
    yield refused("an attention mask of zeros", {"input_ids": ids, "attention_mask": [0] * n}, "attention_mask has no 1")
    yield refused("a mask of another length", {"input_ids": ids, "completion_mask": some[1:]}, f"completion_mask has {n - 1} entries, input_ids {n}")
    yield refused("a mask of other numbers", {"input_ids": ids, "assistant_masks": [2] + ones[1:]}, "assistant_masks: expected 0 and 1, got 2")
    yield refused("labels and a mask that contradict each other", {"input_ids": ids, "labels": ids, "completion_mask": some},
                  "labels count token 0, where completion_mask has 0")
    yield refused("a mask of unknown shift", {"input_ids": ids, "loss_mask": some}, "loss_mask: may be shifted or not")
    yield refused("positions of packed samples", {"input_ids": ids, "position_ids": [0, 1] + list(range(n - 2))}, "position_ids: expected 0, 1, 2")
    yield refused("lengths of packed samples", {"input_ids": ids, "seq_lengths": [2, n - 2]}, "seq_lengths: expected the one length")
    yield refused("types of tokens", {"input_ids": ids, "token_type_ids": ones}, "token_type_ids: expected zeros")
    yield refused("pandas: NaN", {"text": float("nan")}, "text: expected text, got NaN, which is not JSON")
    yield refused("special tokens that a template changes", {"messages": turns("so<|end|>", "no")}, "split_special_tokens: true, but the chat template",
                  template="{% for message in messages %}{{ message.content | replace('<|end|>', '') + '<|end|>' }}{% endfor %}", **SPLIT)


def main():
    torch.manual_seed(0)
    with open(ROOT / "data_files.jsonl", "w", encoding="utf-8") as file:
        for case in cases():
            case = {key: value for key, value in case.items() if value and not (key == "template" and value == PLAIN)}
            print(json.dumps(case, ensure_ascii=False), file=file)


if __name__ == "__main__":
    main()

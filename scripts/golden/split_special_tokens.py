#!/usr/bin/env python3
"""Special tokens that stay text, as transformers tells with split_special_tokens, for tests/tokenizer/split_special_tokens_test.cpp.

usage: python scripts/golden/split_special_tokens.py     (with transformers 5)

Writes tests/tokenizer/split_special_tokens.json: of folders whose tokenizers other goldens made, texts with special tokens in
them, their ids, and their ids split, without BOS and EOS.
"""
import json
from pathlib import Path

from transformers import AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["tests/tokenizer/gpt2", "tests/tokenizer/llama3", "tests/tokenizer/qwen2", "tests/tokenizer/t5", "tests/tokenizer/fixture",
           "tests/data/golden/conversations", "data/model"]


def main():
    golden = []
    for folder in FOLDERS:
        tokenizer = AutoTokenizer.from_pretrained(ROOT / folder)
        special = sorted(set(tokenizer.all_special_tokens))[:4]
        texts = [f"so {token} memory{token}" for token in special] + ["".join(special), f"{special[0]}", f"a{special[-1][:-1]} b{special[0]} \n c"]
        for text in texts:
            found, split = (tokenizer(text, add_special_tokens=False, split_special_tokens=splits)["input_ids"] for splits in (False, True))
            golden.append({"folder": folder, "text": text, "found": found, "split": split})
    (ROOT / "tests/tokenizer/split_special_tokens.json").write_text(
        "[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in golden) + "\n]\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/tokenizer/fixture/ (a small SentencePiece model with Hugging Face's files) and golden.json: ids of odd texts.

The ids are those of the slow LlamaTokenizer (legacy=False) of transformers 4.57.1, the last line that has one, with
sentencepiece 0.2.1. Needs: pip install transformers==4.57.1 sentencepiece==0.2.1 protobuf
"""

import json
import pathlib
import random
import tempfile

import sentencepiece
from transformers import LlamaTokenizer

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "tokenizer"
FIXTURE = FOLDER / "fixture"
SUBJECTS = "memory weights gradients optimizer activations tokens numbers layers attention adapters".split()
VERBS = "needs holds stores copies reads frees doubles halves keeps counts".split()
OBJECTS = "bytes gigabytes parameters states matrices buffers batches rows positions ids".split()


def corpus():
    """Sentences about memory, made by chance, with digits and a few letters beyond ASCII."""
    draw = random.Random(1)
    for _ in range(4000):
        yield (
            f"{draw.choice(SUBJECTS).capitalize()} {draw.choice(VERBS)} {draw.randrange(100000)} {draw.choice(OBJECTS)}, "
            f"and {draw.choice(SUBJECTS)} {draw.choice(VERBS)} the {draw.choice(OBJECTS)} of every {draw.choice(SUBJECTS)}."
        )
    yield from ["é ü ß ø ñ naïve café Größe", "( ) [ ] { } < > / = + - * \" ' : ; ! ? # % & _ | ~ ^ @"] * 20


def train():
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "model"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=corpus(), model_prefix=str(prefix), model_type="bpe", vocab_size=800,
            character_coverage=1.0, byte_fallback=True, split_digits=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=1,
            allow_whitespace_only_pieces=True, minloglevel=2,
        )
        FIXTURE.mkdir(parents=True, exist_ok=True)
        (FIXTURE / "tokenizer.model").write_bytes(prefix.with_suffix(".model").read_bytes())
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    decoder = {"0": "<unk>", "1": "<s>", "2": "</s>", "800": "<pad>", "801": "[INST]"}
    config = {
        "add_bos_token": True,
        "add_eos_token": False,
        "added_tokens_decoder": {
            number: {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                     "special": text != "[INST]"}
            for number, text in decoder.items()
        },
        "legacy": False,
        "tokenizer_class": "LlamaTokenizer",
        **special,
    }
    for name, value in (("tokenizer_config.json", config), ("special_tokens_map.json", special)):
        (FIXTURE / name).write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def texts():
    yield from [
        "", " ", "  ", "\n", "\t\n", "memory", " memory", "  memory", "memory ", "memory  needs   2 bytes",
        "Memory needs 16 bytes, 1234567890.", "a\nb\n\nc", "\nmemory", "▁memory", "memory▁needs", "▁▁", "é", "Größe",
        "naïve café", "日本語 メモリ", "🙂 smile", "🙂", "\u200b", "\u00a0x", "\x00", "a\x00b", "e\u0301",
        "<s>", "</s>", "<s>memory", "memory</s>", "memory </s>", "</s>memory", "</s> memory", "<s> memory</s>",
        "<unk>", "x<unk>y", "<pad>", "a<pad>b", "[INST] count the bytes [/INST]", "[INST][INST]", " [INST]", "<s", "s>",
        "<0x41>", "<0xE2><0x96>", "The 3 layers hold 12.5 gigabytes (1e-5).", "((()))", "\"'\"", "\r\n", "x" * 40,
        "memory" * 7, "𝕏 weights", "ﬁ", "ＡＢＣ", "Ω≈ç√", "\ufeffmemory", "end.\n",
    ]
    draw = random.Random(2)
    alphabet = ["memory", "weights", " ", " ", "  ", "\n", "7", "42", "é", "🙂", "▁", "</s>", "[INST]", "<", ">", "s", "ß", ",", "the"]
    for _ in range(150):
        yield "".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 9)))


def decode(tokenizer, ids):
    # transformers 4 adds or drops blanks beside added tokens that are not special; such texts are not compared.
    return None if 801 in ids else tokenizer.decode(ids, skip_special_tokens=True)


def main():
    train()
    tokenizer = LlamaTokenizer.from_pretrained(FIXTURE)
    cases = []
    for text in texts():
        ids = tokenizer.encode(text, add_special_tokens=False)
        cases.append({"text": text, "ids": ids, "decoded": decode(tokenizer, ids)})
    with open(FOLDER / "golden.json", "w", encoding="utf-8") as file:
        json.dump({"generator": "scripts/golden/tokenizer.py", "cases": cases}, file, indent=0)
        file.write("\n")
    print(len(cases), "cases;", (FIXTURE / "tokenizer.model").stat().st_size, "bytes of model")


if __name__ == "__main__":
    main()

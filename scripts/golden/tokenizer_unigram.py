#!/usr/bin/env python3
"""Writes tests/tokenizer/t5/, a folder as FLAN-T5's with a small Unigram model trained on the project's own texts, and what
Hugging Face makes of adversarial strings by it.

transformers' T5Tokenizer gives the same ids from spiece.model and from tokenizer.json, and so does tokenizers from the latter;
that is checked here. Variants of the file's other parts, as converters of other years wrote them, come with a hash of all ids.
Needs what tokenizer_json.py needs, and: pip install transformers==5.24.0 sentencepiece==0.2.3 protobuf
"""

import copy
import io
import json
import random
import shutil
import tempfile

import sentencepiece
import tokenizer_json as strings
from tokenizers import Tokenizer
from transformers import T5Tokenizer

FOLDER = strings.FOLDER / "t5"
SENTINELS = 100
MARK = "\u2581"


def train():
    """spiece.model, with T5's special tokens and its table of characters."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=strings.corpus(), model_writer=model, model_type="unigram", vocab_size=1000,
        normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1, minloglevel=2)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "spiece.model").write_bytes(model.getvalue())


def write_json(name, value):
    (FOLDER / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def write_config():
    special = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>",
               "additional_special_tokens": [f"<extra_id_{number}>" for number in range(SENTINELS)]}
    write_json("special_tokens_map.json", special)
    write_json("tokenizer_config.json", {**special, "extra_ids": SENTINELS, "legacy": True, "model_max_length": 512,
                                         "tokenizer_class": "T5Tokenizer"})


def from_model_alone():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("spiece.model", "tokenizer_config.json", "special_tokens_map.json"):
            shutil.copy(FOLDER / name, folder)
        return T5Tokenizer.from_pretrained(folder)


def texts():
    yield from [
        "", " ", "  ", "\n", "\t\n ", "memory", " memory", "  memory", "memory ", "memory  needs   2 bytes", "a\nb\r\nc\td", MARK,
        MARK * 3, "a" + MARK + "b", MARK + " " + MARK + "x", "日本語 メモリ", "記憶体は大きい。", "e\u0301 é", "\u0301", "Ａ\u0301x",
        "Ａ\u0301\u0301", "ＡＢＣ　１２３", "ﬁ ﷺ ㍿", "🙂", "🙂🙂 smile🙂", "👩‍👩‍👧", "\u200b", "a\u200bb", "\u00a0x", "\x00", "a\x00b",
        "<extra_id_0>", "a <extra_id_0> b", "a<extra_id_99>b", "<extra_id_0><extra_id_1>", "<extra_id_100>", "<extra_id_0", "</s>",
        "x</s> y", "</s></s>", "<pad>a", "<unk>", "x<unk>y", "Ω≈ç√", "ⅷ ½ ①", "translate English to German: The house is wonderful.",
        "\u1100\u1161\u11a8", "क़\u0301", "\u2028a\u2029b", "a\u0085b", "\ufeffmemory", "x" * 200, "gradients" * 50,
    ]
    draw = random.Random(3)
    parts = ["memory", "weights", "the", " ", " ", "  ", "\n", "7", "é", "e\u0301", "🙂", MARK, "</s>", "<extra_id_3>", "<", "Ａ",
             "\u0301", "日", "ß", ",", "\u3000", "ﷺ", "\u200b"]
    for _ in range(300):
        yield "".join(draw.choice(parts) for _ in range(draw.randrange(1, 10)))


def long_texts():
    """Part, how often it is repeated: texts of a megabyte, with and without borders."""
    yield from [("memory, gradient é Ａ 日本\n", 30000), ("gradientsofmemory", 20000), ("🙂", 50000), ("🙂a", 50000), (" ", 100000),
                ("e\u0301", 100000), ("\u0301", 100000)]


def variants():
    """Other parts of tokenizer.json; the table of characters is put into "Precompiled"."""
    def sequence(kind, *parts):
        return {"type": "Sequence", kind: list(parts)}

    def metaspace(**keys):
        return {"type": "Metaspace", "replacement": MARK, **keys}

    precompiled, strip = {"type": "Precompiled"}, {"type": "Strip", "strip_left": False, "strip_right": True}
    blanks = {"type": "Replace", "pattern": {"Regex": " {2,}"}}
    older = sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace(add_prefix_space=True))
    converted = sequence("normalizers", precompiled, strip, {**blanks, "content": MARK})
    yield {"normalizer": precompiled, "pre_tokenizer": older, "decoder": metaspace(str_rep=MARK, add_prefix_space=True)}
    yield {"normalizer": converted, "pre_tokenizer": metaspace(prepend_scheme="always", split=True)}
    yield {"normalizer": sequence("normalizers", precompiled, {**blanks, "content": " "}),
           "pre_tokenizer": metaspace(prepend_scheme="first", split=False)}
    yield {"normalizer": sequence("normalizers", {"type": "NFC"}, {"type": "Strip", "strip_left": True, "strip_right": True},
                                  {"type": "Replace", "pattern": {"String": "e"}, "content": "é "}),
           "pre_tokenizer": metaspace(prepend_scheme="always")}
    yield {"normalizer": None, "pre_tokenizer": metaspace(prepend_scheme="never", split=False),
           "decoder": metaspace(prepend_scheme="never")}
    yield {"normalizer": None, "pre_tokenizer": sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace(
        prepend_scheme="never"))}


def filled(part, precompiled):
    """With the table in place of a bare "Precompiled"."""
    if isinstance(part, dict):
        return precompiled if part.get("type") == "Precompiled" else {key: filled(value, precompiled) for key, value in part.items()}
    return [filled(value, precompiled) for value in part] if isinstance(part, list) else part


def main():
    train()
    write_config()
    from_model = from_model_alone()
    data = json.loads(from_model.backend_tokenizer.to_str())
    write_json("tokenizer.json", data)
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    groups = json.loads((strings.FOLDER / "adversarial.json").read_text())
    made = [strings.make_bytes(groups, index).decode("utf-8", errors="replace") for index in range(strings.STRINGS)]

    from_both, cases = T5Tokenizer.from_pretrained(FOLDER), []
    for text in [*texts(), *made]:
        ids = tokenizer.encode(text).ids
        assert from_model(text)["input_ids"] == from_both(text)["input_ids"] == ids, text
        assert from_model.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids), text
        assert ids.pop() == from_model.eos_token_id
        if len(cases) < 360:
            cases.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)})

    long = [{"part": part, "times": times, "hash": f"{strings.hash_of(tokenizer.encode(part * times, add_special_tokens=False).ids):016x}"}
            for part, times in long_texts()]
    varied = []
    for parts in variants():
        other = copy.deepcopy(data)
        other.update(filled(parts, data["normalizer"]))
        variant, ids_hash, decoded_hash = Tokenizer.from_str(json.dumps(other)), strings.fnv(b""), strings.fnv(b"")
        for text in made:
            ids = variant.encode(text, add_special_tokens=False).ids
            ids_hash = strings.fnv(strings.hash_of(ids).to_bytes(8, "little"), ids_hash)
            decoded_hash = strings.fnv(variant.decode(ids).encode() + b"\xff", decoded_hash)
        varied.append({"parts": parts, "ids": f"{ids_hash:016x}", "decoded": f"{decoded_hash:016x}"})
    strings.write_ids(FOLDER, tokenizer, groups, "scripts/golden/tokenizer_unigram.py", texts=cases, long=long, variants=varied)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/tokenizer/{gpt2,llama3,qwen2}/ (small tokenizer.json files of those patterns, trained on the project's own
texts) and what Hugging Face's tokenizers makes of 10,000 adversarial strings each.

The strings are made by chance from adversarial.json, by a generator that tests/tokenizer/adversarial.h has too; only a hash
of each string's ids is kept, and all of the first ones. Characters newer than Unicode 14 are left out, as Debian 12's Oniguruma
does not know them, and marks that Hugging Face's NFC does not know. Needs: Python 3.11 (Unicode 14), pip install tokenizers==0.23.3
"""

import json
import pathlib
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "tokenizer"
STRINGS, SHOWN, MERGES = 10000, 120, 500
MASK = (1 << 64) - 1
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


class SplitMix64:
    """lib/base/split_mix.h."""

    def __init__(self, state):
        self.state = state

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = self.state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK
        return mixed ^ mixed >> 31

    def below(self, bound):
        draw = self.next()
        while draw < ((1 << 64) - bound) % bound:
            draw = self.next()
        return draw % bound


def ranges(*categories):
    """Code points of these general categories, as [first, last]."""
    found = []
    for code in range(0x110000):
        if not unicodedata.category(chr(code)).startswith(categories):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def orders_as_unicode(mark):
    """Whether Hugging Face's tables, which are older than Unicode 14, know where this mark belongs among others."""
    texts = ["a" + pair for other in "\u0301\u0323\u0334\u0345" for pair in (mark + other, other + mark)]
    return all(normalizers.NFC().normalize_str(text) == unicodedata.normalize("NFC", text) for text in texts)


def known_marks():
    found, left_out = [], []
    for first, last in ranges("M"):
        for code in range(first, last + 1):
            if not orders_as_unicode(chr(code)):
                left_out.append(f"U+{code:04X}")
            elif found and found[-1][1] == code - 1:
                found[-1][1] = code
            else:
                found.append([code, code])
    print("marks left out:", *left_out)
    return found


def adversarial():
    """What strings are made of: groups of texts, and groups of code points."""
    texts = [
        "memory weights gradient The optimizer holds GiB of a I x nn zzz bytes_per token's Größe naïve".split(),
        [" ", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\u000b",
         "\u0085", "\u200a", "\u1680", "\u180e", "\u200b", "\ufeff", "\u202f"],
        ["'s", "'S", "'\u017f", "'ll", "'LL", "'lL", "'l", "'re", "'Re", "'vE", "'ve", "'d", "'M", "'t", "\u2019s", "'", "''s",
         "'r", "'\u00df", "'\ufb06", "'K", "'\u212a"],
        ["0", "7", "12", "123", "1234", "1234567", "3.14", "1e-5", "\u0663", "\u00bd", "\u2167", "\U0001d7d8", "\u4e00", "\u00b2"],
        [".", ",", "...", "!?", "(", ")", "[]", "{}", "://", "--", "\u2014", "\u2026", "$", "#", "_", "__", "\\", "\"", "`", "%", "@",
         "\u3002", "\uff0c", "\u00ab"],
        ["\U0001f642", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3",
         "\u2764\ufe0f", "\u263a", "\U0001f3f4\U000e0067\U000e0062\U000e007f"],
        ["e\u0301", "\u00e9", "a\u0323\u0302", "a\u0302\u0323", "\u1ead", "\u212b", "A\u030a", "\u1100\u1161\u11a8", "\uac00\u11a8", "\uac01",
         "\u0915\u093c", "\u0958", "\u09c7\u09be", "\u0b47\u0b56", "\u0344", "\u0f73", "\u2126", "\uf900", "\u0301", "\u0301\u0323",
         "o\u0302\u0301\u031b\u0323", "\u0627\u0653", "\U0001109a\U000110ba", "\u0dd9\u0dcf\u0dca", "cafe\u0301"],
        ["\u0000", "\u0001", "\u001b[0m", "\u007f", "\u0008", "\u00ad", "\u200d", "\u200e", "\ufffd", "\uffff", "\ue000", "\U0010ffff"],
        ["<|endoftext|>", "<|begin_of_text|>", "<|im_start|>", "<|im_end|>", "<|im_", "<|", "|>", "<tool_call>", "<mask>", "[W]",
         "<left>", "<right>", "k\u1ecd", "ko\u0323"],
        ["\u043f\u0430\u043c\u044f\u0442\u044c", "\u03bc\u03bd\u03ae\u03bc\u03b7", "\u8bb0\u5fc6", "\u30e1\u30e2\u30ea", "\ub3d9\ubb3c", "\u0630\u0627\u0643\u0631\u0629", "\u05d6\u05d9\u05db\u05e8\u05d5\u05df", "\u0e04\u0e27\u0e32\u0e21",
         "\u0938\u094d\u092e\u0943\u0924\u093f"],
    ]
    codes = [ranges("L"), known_marks(), ranges("N"), ranges("Z", "Cc"), ranges("P"), ranges("S"), ranges("Cf"), [[0x20, 0x7E]]]
    return {"texts": texts, "codes": codes}


def make_bytes(groups, index):
    draw = SplitMix64(20261121 + index)
    parts = []
    for _ in range(1 + draw.below(24)):
        group = draw.below(len(groups["texts"]) + len(groups["codes"]))
        if group < len(groups["texts"]):
            choices = groups["texts"][group]
            part = choices[draw.below(len(choices))]
        else:
            choices = groups["codes"][group - len(groups["texts"])]
            first, last = choices[draw.below(len(choices))]
            part = chr(first + draw.below(last - first + 1))
        parts.append(part * (1 + draw.below(12) if draw.below(8) == 0 else 1))
    data = bytearray("".join(parts).encode())
    if draw.below(8) == 0:
        for _ in range(1 + draw.below(3)):
            place = draw.below(len(data))
            data[place] = draw.below(256)
    return bytes(data)


def corpus():
    for name in ("prose", "train"):
        for number, line in enumerate(open(ROOT / "data" / f"{name}.jsonl", encoding="utf-8")):
            if number % 10 == 0:
                yield " ".join(json.loads(line).values())
    draw = random.Random(1)
    scripts = [(0x430, 0x44F), (0x3B1, 0x3C9), (0x4E00, 0x4E40), (0x3042, 0x3080), (0xAC00, 0xAC40), (0x627, 0x64A), (0x5D0, 0x5EA)]
    for _ in range(1500):
        first, last = draw.choice(scripts)
        words = ["".join(chr(int(draw.triangular(first, last, first))) for _ in range(draw.randrange(1, 6))) for _ in range(8)]
        yield " ".join(words) + draw.choice([".\n", "!\r\n", "\n\n", "\u3002", " \U0001f642\n"])
    yield from ["e\u0301 a\u0302\u0323 \u00e9 caf\u00e9 naïve Größe don't we'll I'VE 's 123 4567 \t\t  \n\n  if (x == 0) { return; }"] * 40


def train(pre_tokenizer, normalizer=None, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=256 + MERGES, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  special_tokens=[], show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "add_prefix_space": False}


def llama3():
    tokenizer = train(split(LLAMA3), ignore_merges=True)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"])
    tokenizer.add_tokens([AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True),
                          AddedToken("[W]", single_word=True), AddedToken("<mask>", lstrip=True, rstrip=True, special=True)])
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer, {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}


def qwen2():
    tokenizer = train(split(QWEN2), normalizers.NFC())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("ko\u0323", normalized=True, single_word=True)])
    return tokenizer, {"add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def hash_of(ids):
    return fnv(b"".join(id.to_bytes(4, "little") for id in ids))


def byte_offsets(text, offsets):
    begins = [0]
    for character in text:
        begins.append(begins[-1] + len(character.encode()))
    return [begins[first] for first, _ in offsets]


def write_golden(name, make, groups):
    tokenizer, config = make()
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    data = json.loads(tokenizer.to_str())
    if name == "gpt2":  # the older spelling of merges
        data["model"]["merges"] = [" ".join(merge) for merge in data["model"]["merges"]]
    (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_ids(folder, Tokenizer.from_file(str(folder / "tokenizer.json")), groups, "scripts/golden/tokenizer_json.py")


def has_places(tokenizer, text):
    """Whether Hugging Face's offsets say where tokens begin: where a character was rewritten, fathom's do more exactly."""
    if (json.loads(tokenizer.to_str())["post_processor"] or {}).get("trim_offsets"):
        return False  # blanks are left out of tokens there
    if tokenizer.normalizer is None:
        return True
    return isinstance(tokenizer.normalizer, normalizers.Precompiled) and tokenizer.normalizer.normalize_str(text) == text


def write_ids(folder, tokenizer, groups, generator, knows=None, **more):
    """knows: whether Hugging Face's tables know the characters of a text; others have the hash 0."""
    hashes, cases, decoded_hash = bytearray(), [], fnv(b"")
    for index in range(STRINGS):
        raw = make_bytes(groups, index)
        text = raw.decode("utf-8", errors="replace")
        if knows is not None and not knows(text):
            hashes += bytes(8)
            continue
        encoding = tokenizer.encode(text, add_special_tokens=False)
        hashes += hash_of(encoding.ids).to_bytes(8, "little")
        decoded = tokenizer.decode(encoding.ids, skip_special_tokens=True)
        decoded_hash = fnv(decoded.encode() + b"\xff", decoded_hash)
        if len(cases) < SHOWN:
            case = {"ids": encoding.ids, "decoded": decoded}
            if index != len(cases):
                case["string"] = index
            if text.encode() == raw and has_places(tokenizer, text):
                case["begins"] = byte_offsets(text, encoding.offsets)
            cases.append(case)
    (folder / "hashes.bin").write_bytes(hashes)
    golden = {"generator": generator, "decoded": f"{decoded_hash:016x}", "cases": cases, **more}
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(folder.name, tokenizer.get_vocab_size(), "tokens")


def main():
    groups = adversarial()
    (FOLDER / "adversarial.json").write_text(json.dumps(groups, separators=(",", ":")) + "\n")
    for name, make in (("gpt2", gpt2), ("llama3", llama3), ("qwen2", qwen2)):
        write_golden(name, make, groups)


if __name__ == "__main__":
    main()

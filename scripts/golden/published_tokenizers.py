#!/usr/bin/env python3
"""Writes tests/tokenizer/published/: tokenizers in the forms in which models are published, with small vocabularies trained on
the project's own texts, and what Hugging Face's tokenizers makes of 2,000 adversarial strings each.

A form is the pipeline of the published tokenizer.json, its special and added tokens with their flags, and its
tokenizer_config.json; docs/models.md says which model has which. Forms that end in _saved are what transformers 5 writes
(save_pretrained) of the same. Needs: Python 3.11, pip install tokenizers==0.23.3 transformers==5.24.0
"""

import base64
import json
import pathlib
import shutil
import tempfile
import unicodedata

import tokenizer_json as golden
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = golden.FOLDER / "published"
MARK = "\u2581"
MERGES, LETTERS = 300, 160
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
NEVER = [0xC0, 0xC1, *range(0xF5, 0x100)]  # bytes that UTF-8 does not have
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def train_characters(specials, cut_words=True):
    """A BPE over characters with byte fallback, as SentencePiece's are converted to."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(MARK, "always", split=cut_words)
    first = [*specials, *BYTES]
    trainer = trainers.BpeTrainer(vocab_size=len(first) + LETTERS + MERGES, limit_alphabet=LETTERS, special_tokens=first,
                                  show_progress=False)
    tokenizer.train_from_iterator(golden.corpus(), trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in specials])
    return tokenizer


def template(tokenizer, first, **more):
    return processors.TemplateProcessing(single=f"{first} $A", pair=f"{first} $A {first} $B",
                                         special_tokens=[(first, tokenizer.token_to_id(first))], **more)


def blanks_decoder(strip):
    return decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                              *([decoders.Strip(" ", 1, 0)] if strip else [])])


def llama2(specials=("<unk>", "<s>", "</s>")):
    tokenizer = train_characters(specials)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = blanks_decoder(strip=True)
    tokenizer.post_processor = template(tokenizer, "<s>")
    return tokenizer, {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True, "add_eos_token": False,
                       "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None,
                       "sp_model_kwargs": {}, "clean_up_tokenization_spaces": False}


def phi3():
    tokenizer, config = llama2()
    data = json.loads(tokenizer.to_str())
    data["added_tokens"][2].update(rstrip=True, special=False)  # </s>
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
    for token in ("assistant", "placeholder1", "system", "end", "user"):
        tokenizer.add_special_tokens([AddedToken(f"<|{token}|>", normalized=False, special=True, rstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    return tokenizer, {**config, "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "add_bos_token": False}


def codellama():
    tokenizer, config = llama2()
    infill = [f"{MARK}<PRE>", f"{MARK}<MID>", f"{MARK}<SUF>", f"{MARK}<EOT>"]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in infill])
    names = dict(zip(("prefix_token", "middle_token", "suffix_token", "eot_token"), infill))
    return tokenizer, {**config, **names, "tokenizer_class": "CodeLlamaTokenizer", "fill_token": "<FILL_ME>",
                       "additional_special_tokens": infill}


def mistral3():
    """Mistral 7B v0.3: control tokens behind </s>, and Metaspace in place of a normalizer."""
    tokenizer, config = llama2(("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[control_8]"))
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(MARK, "first", split=False)
    return tokenizer, config


def gemma(turns):
    specials = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<unused0>", *turns)
    tokenizer = train_characters(specials, cut_words=False)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in ("\n\n", "\n\n\n", MARK * 2, MARK * 3, "<table>")])
    tokenizer.normalizer = normalizers.Replace(" ", MARK)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = blanks_decoder(strip=False)
    tokenizer.post_processor = template(tokenizer, "<bos>")
    return tokenizer, {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "add_eos_token": False,
                       "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>",
                       "additional_special_tokens": list(turns), "sp_model_kwargs": {}, "use_default_system_prompt": False,
                       "spaces_between_special_tokens": False, "clean_up_tokenization_spaces": False}


def gemma3():
    tokenizer, config = gemma(("<start_of_turn>", "<end_of_turn>", "<start_of_image>"))
    del config["additional_special_tokens"]
    return tokenizer, {**config, "boi_token": "<start_of_image>", "extra_special_tokens": {"boi_token": "<start_of_image>"}}


def without_bytes(tokenizer, missing):
    """The same vocabulary without the tokens of these bytes, which no merge has."""
    data = json.loads(tokenizer.to_str())
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    spelled = {byte: letter for byte, letter in zip(byte_values(letters), letters)}
    gone = {spelled[byte] for byte in missing}
    kept = [token for token, _ in sorted(data["model"]["vocab"].items(), key=lambda item: item[1]) if token not in gone]
    data["model"]["vocab"] = {token: number for number, token in enumerate(kept)}
    return Tokenizer.from_str(json.dumps(data))


def byte_values(letters):
    return [ord(letter) if ord(letter) < 0x100 else substitutes()[ord(letter) - 0x100] for letter in letters]


def substitutes():
    """What U+0100 and what follows stand for (GPT-2's bytes_to_unicode)."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    return [byte for byte in range(256) if byte not in visible]


def train_bytes(pre_tokenizer, normalizer=None):
    return golden.train(pre_tokenizer, normalizer)


def olmoe():
    """OLMoE: GPT-NeoX's vocabulary, with runs of blanks as added tokens, without bytes that UTF-8 does not have."""
    tokenizer = train_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True), normalizers.NFC())
    tokenizer = without_bytes(tokenizer, NEVER)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|padding|>"])
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in (4, 3, 2)])
    tokenizer.add_tokens([AddedToken("|||IP_ADDRESS|||", normalized=True)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer, {"tokenizer_class": "GPTNeoXTokenizer", "add_bos_token": False, "add_eos_token": False,
                       "add_prefix_space": False, "bos_token": None, "eos_token": "<|endoftext|>", "pad_token": "<|padding|>",
                       "unk_token": None, "clean_up_tokenization_spaces": False}


def granite3():
    """Granite 3: StarCoder's vocabulary, digits one by one, without bytes that UTF-8 does not have and F1."""
    tokenizer = train_bytes(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]))
    tokenizer = without_bytes(tokenizer, [*NEVER, 0xF1])
    tokenizer.add_special_tokens(["<|end_of_text|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<reponame>",
                                  "<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    end = "<|end_of_text|>"
    return tokenizer, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "bos_token": end, "eos_token": end,
                       "unk_token": end, "pad_token": end, "clean_up_tokenization_spaces": True,
                       "additional_special_tokens": ["<|start_of_role|>", "<|end_of_role|>", "<|tool_call|>"]}


def command_r():
    """Command R7B: NFC, digits one by one, names of tokens between brackets."""
    tokenizer = train_bytes(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False)]), normalizers.NFC())
    tokenizer.add_special_tokens(["<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>"])
    tokenizer.add_tokens([AddedToken(f"<|{token}|>", normalized=False, special=token == "END_OF_TURN_TOKEN")
                          for token in ("START_OF_TURN_TOKEN", "END_OF_TURN_TOKEN", "USER_TOKEN", "CHATBOT_TOKEN")])
    tokenizer.post_processor = template(tokenizer, "<BOS_TOKEN>")
    return tokenizer, {"tokenizer_class": "CohereTokenizer", "add_bos_token": True, "add_eos_token": False,
                       "add_prefix_space": False, "bos_token": "<BOS_TOKEN>", "eos_token": "<|END_OF_TURN_TOKEN|>",
                       "pad_token": "<PAD>", "unk_token": None, "legacy": True, "use_default_system_prompt": False,
                       "sp_model_kwargs": {}, "spaces_between_special_tokens": False, "clean_up_tokenization_spaces": False}


def olmo2():
    """OLMo 2 and 3 (dolma2): what the pattern does not match is removed, which is nothing."""
    tokenizer = train_bytes(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(golden.LLAMA3), "removed", invert=True),
                                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    for token in ("<|extra_id_0|>", "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
                  "|||PHONE_NUMBER|||", "|||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||", "<|im_start|>", "<|im_end|>", "<|extra_id_1|>",
                  "<|endofprompt|>", "<|pad|>"):
        plain = "extra" in token or token.startswith("|||")
        tokenizer.add_tokens([AddedToken(token, normalized=False, special=not plain)])
    end = "<|endoftext|>"
    return tokenizer, {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "bos_token": end, "eos_token": end,
                       "unk_token": end, "pad_token": "<|pad|>", "clean_up_tokenization_spaces": False}


def add_specials(tokenizer, names):
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])


def glm4():
    """GLM-4: the template puts [gMASK] and <sop> in front, the tokenizer nothing."""
    tokenizer = golden.train(golden.split(golden.LLAMA3), ignore_merges=True)
    roles = ("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
    specials = ("<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", *roles)
    add_specials(tokenizer, specials)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False)])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False, "remove_space": False,
                       "padding_side": "left", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
                       "additional_special_tokens": list(specials), "clean_up_tokenization_spaces": False,
                       "model_input_names": ["input_ids", "attention_mask"]}


def cwm():
    """Code World Model: Llama 3's pattern, with tokens of its own for turns and for traces of programs."""
    tokenizer = golden.train(golden.split(golden.LLAMA3), ignore_merges=True)
    first = {0: "begin_of_text", 1: "end_of_text", 4: "pad", 6: "start_header_id", 7: "end_header_id", 8: "eom_id", 9: "eot_id"}
    add_specials(tokenizer, [f"<|{first.get(number, f'reserved_special_token_{number}')}|>" for number in range(10)])
    add_specials(tokenizer, [f"<|{name}|>" for name in (
        "frame_sep", "action_sep", "return_sep", "call_sep", "line_sep", "exception_sep", "arg_sep", "trace_context_start",
        "reasoning_thinking_start", "reasoning_thinking_end")])
    begin = "<|begin_of_text|>"
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template(tokenizer, begin)])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": begin, "eos_token": "<|end_of_text|>",
                       "pad_token": "<|pad|>", "clean_up_tokenization_spaces": True,
                       "model_input_names": ["input_ids", "attention_mask"]}


def qwen35():
    """Qwen3.5: marks belong to the words that they stand in."""
    tokenizer = train_bytes(golden.split(QWEN35), normalizers.NFC())
    words = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
             "<|image_pad|>", "<|video_pad|>")
    add_specials(tokenizer, words)
    for token in ("<tool_call>", "</tool_call>", "<think>", "</think>"):
        tokenizer.add_tokens([AddedToken(token, normalized=False)])
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return tokenizer, {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "add_prefix_space": False,
                       "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None,
                       "errors": "replace", "split_special_tokens": False, "clean_up_tokenization_spaces": False}


def gpt_oss():
    """gpt-oss (o200k_harmony): words in mixed case are split, and a contraction belongs to its word."""
    tokenizer = golden.train(golden.split(O200K), ignore_merges=True)
    names = {199998: "startoftext", 199999: "endoftext", 200002: "return", 200003: "constrain", 200005: "channel",
             200006: "start", 200007: "end", 200008: "message", 200012: "call", 200018: "endofprompt"}
    add_specials(tokenizer, [f"<|{names.get(number, f'reserved_{number}')}|>" for number in range(199998, 200019)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|startoftext|>",
                       "eos_token": "<|return|>", "pad_token": "<|endoftext|>", "clean_up_tokenization_spaces": False,
                       "model_input_names": ["input_ids", "attention_mask"]}


def write_tekken(file):
    """Mistral's own file, small: tokens by rank, and control tokens, whose ids come before theirs. Tokens are those of a coarser
    pattern, words in mixed case and numbers, so that ids tell where this one splits."""
    vocabulary = train_bytes(golden.split(golden.LLAMA3)).get_vocab()
    tokens = [bytes(byte_values(token)) for token in sorted(vocabulary, key=vocabulary.get)]
    tokens[:256] = sorted(tokens[:256])
    control = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
               "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
               "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]")
    file.write_text(json.dumps({
        "config": {"pattern": TEKKEN, "num_vocab_tokens": len(tokens), "default_vocab_size": len(tokens) + 22,
                   "default_num_special_tokens": 22, "version": "v13"},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                  for rank, token in enumerate(tokens)],
        "special_tokens": [{"rank": rank, "token_str": token, "is_control": True} for rank, token in enumerate(control)]}))


def ministral3():
    """Ministral 3: what transformers 5 makes of Mistral's own file, with <pad> named as its converter of the model does."""
    from transformers.integrations.mistral import convert_tekken_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_tekken(folder / "tekken.json")
        tokenizer = convert_tekken_tokenizer(str(folder / "tekken.json"))
        tokenizer.add_special_tokens({"pad_token": "<pad>"})
        tokenizer.save_pretrained(folder / "saved")
        config = json.loads((folder / "saved/tokenizer_config.json").read_text(encoding="utf-8"))
        return Tokenizer.from_file(str(folder / "saved/tokenizer.json")), config


def ministral():
    """Ministral 8B, as Mistral Nemo: the same vocabulary, with <s> in front."""
    tokenizer, _ = ministral3()
    tokenizer.post_processor = template(tokenizer, "<s>")
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True, "add_eos_token": False,
                       "add_prefix_space": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                       "clean_up_tokenization_spaces": False, "model_input_names": ["input_ids", "attention_mask"]}


def codet5():
    """CodeT5 and RoBERTa: <s> and </s> around a text by RobertaProcessing, a mask that takes the blank before it in."""
    tokenizer = train_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", tokenizer.token_to_id("</s>")),
                                                            ("<s>", tokenizer.token_to_id("<s>")), True, False)
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def compatible():
    """NFKC and Punctuation, which no family of docs/models.md has."""
    splits = [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Split(Regex("[A-Z]"), "merged_with_next"),
              pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    tokenizer = train_bytes(pre_tokenizers.Sequence(splits), normalizers.NFKC())
    tokenizer.add_special_tokens(["<EOT>"])
    return tokenizer, {"eos_token": "<EOT>"}


FORMS = {"llama2": llama2, "phi3": phi3, "codellama": codellama, "mistral3": mistral3,
         "gemma2": lambda: gemma(("<start_of_turn>", "<end_of_turn>")), "gemma3": gemma3, "olmoe": olmoe, "granite3": granite3,
         "command_r": command_r, "olmo2": olmo2, "glm4": glm4, "cwm": cwm, "ministral": ministral, "ministral3": ministral3,
         "codet5": codet5, "qwen35": qwen35, "gpt_oss": gpt_oss, "compatible": compatible}
SAVED = ("llama2", "phi3", "codellama", "mistral3", "gemma2")
OLD_MERGES = ("llama2", "codellama", "phi3", "olmoe", "olmo2")  # "a b"


def knows_compatible(text):
    """Hugging Face's tables are older than Unicode 14, and those of punctuation older than Unicode 9."""
    normal = unicodedata.normalize("NFKC", text)
    splits = pre_tokenizers.Punctuation()
    signs = {letter for letter in normal if unicodedata.category(letter).startswith("P")}
    return normalizers.NFKC().normalize_str(text) == normal and all(
        len(splits.pre_tokenize_str(f"a{sign}b")) == 3 for sign in signs)


def write_form(name, tokenizer, config, groups):
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    data = json.loads(tokenizer.to_str())
    if name in OLD_MERGES:
        data["model"]["merges"] = [" ".join(merge) for merge in data["model"]["merges"]]
        if name != "olmoe":
            del data["model"]["ignore_merges"]  # younger than these files
    (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    golden.write_ids(folder, Tokenizer.from_file(str(folder / "tokenizer.json")), groups,
                     "scripts/golden/published_tokenizers.py", knows_compatible if name == "compatible" else None)


def write_saved(name, groups):
    """What transformers 5 saves of a form; the ids are those that it gives, which tokenizers gives of the saved file."""
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as saved:
        AutoTokenizer.from_pretrained(FOLDER / name).save_pretrained(saved)
        folder = FOLDER / f"{name}_saved"
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(pathlib.Path(saved) / file, folder / file)
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    golden.write_ids(folder, Tokenizer.from_file(str(folder / "tokenizer.json")), groups,
                     "scripts/golden/published_tokenizers.py")


def main():
    golden.STRINGS, golden.SHOWN = 2000, 20
    groups = json.loads((golden.FOLDER / "adversarial.json").read_text(encoding="utf-8"))
    for name, make in FORMS.items():
        write_form(name, *make(), groups)
    for name in SAVED:
        write_saved(name, groups)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Exports models and adapters as GGUF and reads the files with what llama.cpp's people read them with.

usage: scripts/campaigns/read_gguf.py [--llama-cpp FOLDER] [--fathom PROGRAM]

Of data/model, of the models of tests/model/golden that llama.cpp has an architecture for, and of random models of those
families with the tokenizers of tests/tokenizer, in every type: the Python package gguf reads the file; each tensor must have
the bytes that gguf.quants makes of the folder's, under the name that its table has, and each key what the folder's files say.
The models in FP32 go through transformers, where that reads GGUF of the family, and through llama.cpp, where the Python
package llama_cpp is installed: logits must be those of `fathom logits`, texts become the same ids. The same for LoRA adapters.

--llama-cpp names a folder with llama.cpp's source: its convert_hf_to_gguf.py and convert_lora_to_gguf.py convert the same
folders, and keys and tensors are compared. The exit status is 1 where anything differs.

Needs a Python with gguf, torch, transformers, sentencepiece.
"""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import gguf
import numpy
import torch
from campaign import PROGRAM, ROOT, new_parser, run
from load_in_transformers import logits_of_fathom
from safetensors.torch import load_file, save_file

TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")
KINDS = {name: gguf.GGMLQuantizationType[name.upper()] for name in TYPES}
FILE_TYPES = {"f32": "ALL_F32"} | {name: f"MOSTLY_{name.upper()}" for name in TYPES[1:]}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe",
                 "gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "olmo2": "olmo2", "olmo3": "olmo2", "olmoe": "olmoe",
                 "granite": "granite", "granitemoe": "granitemoe", "smollm3": "smollm3", "glm4": "glm4", "ministral3": "mistral3",
                 "cohere2": "cohere2", "gemma": "gemma", "cohere": "command-r", "ernie4_5": "ernie4_5", "arcee": "arcee", "gpt2": "gpt2", "t5": "t5"}
NEIGHBOURS = ("llama", "granite", "granitemoe", "smollm3", "mistral3", "arcee")  # rotated there, halves of heads in the model
READS_WINDOWS = ("gemma2", "gemma3_text", "olmo3", "cohere2")
IDS = [1, 5, 9, 2, 7, 7, 3, 11, 30, 4]
DECODER_IDS = [0, 6, 3, 12, 8]
TEXTS = ("Hello world", "two  blanks\n\n\tand 12345 numbers, it's I'LL", "Übung 你好 🙂 naïve", "<|im_start|>user\nHi<|im_end|>")
# Where SentencePiece's blanks come in: transformers 5 puts none before the first of these, llama.cpp one behind the special token.
TEXTS_OF_BYTES = (" a", "a<s>b")
# What llama.cpp computes otherwise than the model: it takes LongRoPE's factors by the room for texts, not by the text.
OTHERWISE = ("phi3_long",)


def fail(what):
    raise AssertionError(what)


def check(holds, what):
    if not holds:
        fail(what)


# What a file must hold.


def permuted(values, heads):
    """Rows of queries or keys as llama.cpp has them for the architectures that rotate neighbours."""
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def settings_of(folder):
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder)


def name_map(config):
    """gguf's table of names; of an encoder and decoder for the larger stack."""
    layers = max(config.num_hidden_layers, getattr(config, "num_decoder_layers", None) or 0)
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    return gguf.get_tensor_name_map(numbers[ARCHITECTURES[config.model_type]], layers)


def head_of(folder):
    """Whether the head is the embedding, and whether what it reads is scaled."""
    config = json.loads((folder / "config.json").read_text())
    is_t5 = config["model_type"] == "t5"
    tied = config.get("tie_word_embeddings", is_t5)
    return tied, is_t5 and config.get("scale_decoder_outputs", tied)


def rope_of(config):
    """Of the layers that see everything."""
    rope = getattr(config, "rope_parameters", None) or {}
    return rope.get("full_attention", rope)


def rope_factors(config):
    """llama.cpp's convert_hf_to_gguf.py, for Llama 3's stretch."""
    rope = rope_of(config)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    factors = []
    for i in range(0, size, 2):
        length = 2 * numpy.pi * rope["rope_theta"] ** (i / size)
        low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
        high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
        smooth = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        factors.append(1 if length < high else rope["factor"] if length > low else 1 / ((1 - smooth) / rope["factor"] + smooth))
    return numpy.array(factors, dtype=numpy.float32)


def kind_of(name, values, outtype, tied):
    if values.ndim < 2 or name.endswith("ffn_gate_inp.weight") or name == "position_embd.weight":
        return KINDS["f32"]
    kind = KINDS["q8_0"] if outtype == "q4_0" and name in ("output.weight", "token_embd.weight" if tied else "") else KINDS[outtype]
    return KINDS["f16"] if outtype[0] == "q" and values.shape[-1] % 32 else kind


def stacked(tensors):
    """The matrices of experts, one behind the other; Granite's, which are so, with gate and up apart."""
    result, experts = {}, {}
    for name, values in tensors.items():
        if name.endswith("block_sparse_moe.input_linear.weight"):
            module, half = name.removesuffix("input_linear.weight") + "experts.", values.shape[1] // 2
            result |= {module + "w1.weight": values[:, :half], module + "w3.weight": values[:, half:]}
            continue
        parts = re.fullmatch(r"(.*\.experts\.)(\d+)\.(.*)", name)
        if parts is None:
            result[name] = values
        else:
            experts.setdefault(parts[1] + parts[3], {})[int(parts[2])] = values
    return result | {name: numpy.stack([each[i] for i in range(len(each))]) for name, each in experts.items()}


def expected_tensors(folder, config, outtype):
    """By name in the file: kind, and the values in FP32."""
    architecture = ARCHITECTURES[config.model_type]
    names, tied, scaled = name_map(config), *head_of(folder)
    apart = tied and (scaled or architecture in ("olmo2", "olmoe"))
    tensors = {}
    stored = {name: tensor.float().numpy() for name, tensor in load_file(folder / "model.safetensors").items()}
    for name, values in stacked(stored).items():
        if tied and name == "lm_head.weight":
            continue
        if architecture in NEIGHBOURS and (".q_proj." in name or ".k_proj." in name):
            values = permuted(values, config.num_attention_heads if ".q_proj." in name else config.num_key_value_heads)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            values = values + numpy.float32(1)
        if architecture == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            values = numpy.ascontiguousarray(values.T)
        new = names.get_name(name, try_suffixes=(".weight", ".bias")) or fail(f"gguf has no name for {name}")
        tensors[new] = (kind_of(new, values, outtype, tied and not apart), numpy.ascontiguousarray(values))
    if apart:
        values = tensors["token_embd.weight"][1] * numpy.float32(config.hidden_size**-0.5 if scaled else 1)
        tensors["output.weight"] = (kind_of("output.weight", values, outtype, False), values)
    if rope_of(config).get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = (KINDS["f32"], rope_factors(config))
    if rope_of(config).get("rope_type") == "longrope":
        for length in ("long", "short"):
            tensors[f"rope_factors_{length}.weight"] = (KINDS["f32"], numpy.float32(rope_of(config)[f"{length}_factor"]))
    return tensors


def expected_keys(folder, config, outtype, name):
    architecture = ARCHITECTURES[config.model_type]
    keys = {
        "general.architecture": architecture,
        "general.type": "model",
        "general.name": name,
        "general.quantization_version": gguf.GGML_QUANT_VERSION,
        "general.file_type": gguf.LlamaFileType[FILE_TYPES[outtype]].value,
    }
    own = t5_keys(config) if architecture == "t5" else decoder_keys(config)
    return keys | {f"{architecture}.{key}": value for key, value in own.items()} | expected_tokenizer(folder, config)


def t5_keys(config):
    eps = numpy.float32(config.layer_norm_epsilon)
    return {
        "block_count": config.num_layers,
        "decoder_block_count": config.num_decoder_layers,
        "context_length": 512,
        "embedding_length": config.d_model,
        "feed_forward_length": config.d_ff,
        "attention.head_count": config.num_heads,
        "attention.key_length": config.d_kv,
        "attention.value_length": config.d_kv,
        "attention.layer_norm_epsilon": eps,
        "attention.layer_norm_rms_epsilon": eps,
        "attention.relative_buckets_count": config.relative_attention_num_buckets,
        "decoder_start_token_id": config.decoder_start_token_id,
        "vocab_size": config.vocab_size,
    }


def decoder_keys(config):
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inner = getattr(config, "n_inner", None) or 4 * config.hidden_size  # GPT-2's
    if config.model_type != "gpt2":
        inner = getattr(config, "moe_intermediate_size", None) or config.intermediate_size
    keys = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": inner,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": getattr(config, "num_key_value_heads", config.num_attention_heads),
        "attention.key_length": head,
        "attention.value_length": head,
        "vocab_size": config.vocab_size,
    }
    eps = next(key for key in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon") if hasattr(config, key))
    keys["attention.layer_norm_" + "rms_" * eps.startswith("rms") + "epsilon"] = numpy.float32(getattr(config, eps))
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if experts:
        keys |= {"expert_count": experts, "expert_used_count": config.num_experts_per_tok, "expert_feed_forward_length": inner}
    return keys | scale_keys(config) | (rope_keys(config, head) if rope_of(config) else {}) | window_keys(config)


def scale_keys(config):
    table = {"attention_multiplier": "attention.scale", "embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
             "logits_scaling": "logit_scale", "logit_scale": "logit_scale", "attn_logit_softcapping": "attn_logit_softcapping",
             "final_logit_softcapping": "final_logit_softcapping"}
    return {theirs: numpy.float32(getattr(config, ours)) for ours, theirs in table.items() if getattr(config, ours, None)}


def rope_keys(config, head):
    rope = rope_of(config)
    keys = {"rope.freq_base": numpy.float32(rope["rope_theta"]),
            "rope.dimension_count": int(head * rope.get("partial_rotary_factor", 0.5 if config.model_type == "glm4" else 1))}
    kind, factor, log = rope.get("rope_type"), rope.get("factor"), numpy.log
    if kind == "linear":
        keys |= {"rope.scaling.type": "linear", "rope.scaling.factor": numpy.float32(factor)}
    elif kind == "yarn":
        keys |= {"rope.scaling.type": "yarn", "rope.scaling.factor": numpy.float32(factor),
                 "rope.scaling.original_context_length": rope["original_max_position_embeddings"]}
        usual = 0.1 * log(factor) + 1
        magnitude = rope.get("attention_factor") or (usual / (0.1 * rope["mscale_all_dim"] * log(factor) + 1) if rope.get("mscale_all_dim") else usual)
        if magnitude != usual:
            keys["rope.scaling.attn_factor"] = numpy.float32(magnitude / usual)
        if config.model_type == "ministral3":
            keys |= {"rope.scaling.yarn_beta_fast": numpy.float32(rope.get("beta_fast", 32)),
                     "rope.scaling.yarn_beta_slow": numpy.float32(rope.get("beta_slow", 1)),
                     "attention.temperature_scale": numpy.float32(rope["llama_4_scaling_beta"])}
    elif kind == "longrope":
        original = config.original_max_position_embeddings
        keys |= {"rope.scaling.original_context_length": original,
                 "rope.scaling.attn_factor": numpy.float32((1 + log(config.max_position_embeddings / original) / log(original)) ** 0.5)}
    return keys


def windows_of(config):
    """The window, and which layers have it."""
    windowed = [kind == "sliding_attention" for kind in getattr(config, "layer_types", None) or []]
    if config.model_type in ("mistral", "mixtral", "phi3", "ministral3"):
        windowed = [bool(config.sliding_window)] * config.num_hidden_layers
    return config.sliding_window if any(windowed) else 0, windowed


def window_keys(config):
    window, windowed = windows_of(config)
    if not window:
        return {}
    keys = {"attention.sliding_window": window, "attention.sliding_window_pattern": windowed}
    if config.model_type in READS_WINDOWS:
        ropes = config.rope_parameters
        keys["rope.freq_base_swa"] = numpy.float32(ropes.get("sliding_attention", ropes)["rope_theta"])
    return keys


def special_ids(folder, tokenizer, config):
    """The ids that the tokenizer names, else those of config.json."""
    files = json.loads((folder / "tokenizer_config.json").read_text())
    if (folder / "special_tokens_map.json").exists():
        files = json.loads((folder / "special_tokens_map.json").read_text()) | files
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    ids = {
        "bos": tokenizer.bos_token_id if tokenizer.bos_token_id is not None else getattr(config, "bos_token_id", None),
        "eos": tokenizer.eos_token_id if tokenizer.eos_token_id is not None else eos,
        # Some classes have one that no file names.
        "unknown": tokenizer.unk_token_id if files.get("unk_token") else None,
        "padding": tokenizer.pad_token_id if files.get("pad_token") else config.pad_token_id,
    }
    return {f"tokenizer.ggml.{name}_token_id": value for name, value in ids.items() if value is not None}


def expected_tokenizer(folder, config):
    if not list(folder.glob("tokenizer*")):
        return {"tokenizer.ggml.model": "none"}
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    keys = special_ids(folder, tokenizer, config)
    rows = config.vocab_size
    texts, kinds = [f"[PAD{i}]" for i in range(rows)], [gguf.TokenType.UNUSED] * rows
    added, pieces = tokenizer.added_tokens_decoder, [*folder.glob("tokenizer.model"), *folder.glob("spiece.model")]
    if pieces:
        from sentencepiece import SentencePieceProcessor

        model = SentencePieceProcessor(str(pieces[0]))
        scores = [-10000.0] * rows
        for i in range(model.vocab_size()):
            texts[i], scores[i] = model.IdToPiece(i), model.GetScore(i)
            kinds[i] = gguf.TokenType.CONTROL if model.IsControl(i) else gguf.TokenType.UNKNOWN if model.IsUnknown(i) \
                else gguf.TokenType.BYTE if model.IsByte(i) else gguf.TokenType.NORMAL
        listed = json.loads((folder / "tokenizer_config.json").read_text()).get("added_tokens_decoder", {})
        is_t5 = pieces[0].name == "spiece.model"
        added = {int(i): token for i, token in added.items() if str(i) in listed or (is_t5 and i >= model.vocab_size())}
        for i in added:
            scores[i] = -1000.0
        keys |= {"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.scores": scores,
                 "tokenizer.ggml.add_space_prefix": True}
        if is_t5:
            keys |= {"tokenizer.ggml.model": "t5", "tokenizer.ggml.remove_extra_whitespaces": True,
                     "tokenizer.ggml.precompiled_charsmap": list(normalizer_of(pieces[0]).precompiled_charsmap)}
    else:
        source = json.loads((folder / "tokenizer.json").read_text())
        for text, i in source["model"]["vocab"].items():
            texts[i], kinds[i] = text, gguf.TokenType.NORMAL
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in source["model"]["merges"]]
        keys |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": merges, "tokenizer.ggml.pre": split_of(folder)}
    for i, token in added.items():
        special = token.special or (token.content.startswith("<|") and token.content.endswith("|>")) or token.content in ("<pad>", "<mask>")
        texts[i], kinds[i] = token.content, gguf.TokenType.CONTROL if special else gguf.TokenType.USER_DEFINED
    empty = tokenizer("a")["input_ids"]
    keys |= {
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.token_type": [int(kind) for kind in kinds],
        "tokenizer.ggml.add_bos_token": tokenizer.bos_token_id is not None and empty[0] == tokenizer.bos_token_id,
        "tokenizer.ggml.add_eos_token": empty[-1] == tokenizer.eos_token_id,
    }
    if tokenizer.chat_template:
        keys["tokenizer.chat_template"] = tokenizer.chat_template
    return keys


def normalizer_of(path):
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    return model.normalizer_spec


def split_of(folder):
    """What llama.cpp calls how the tokenizer of a random model splits text."""
    tokenizer = RANDOM.get(folder.name.removeprefix("random-"), ("",))[0]
    return {"llama3": "llama-bpe", "qwen2": "qwen2", "gpt2": "gpt-2"}.get(tokenizer, "")


# Reading a file.


def read(path):
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    return keys, {tensor.name: tensor for tensor in reader.tensors}


def same_value(got, wanted):
    return numpy.float32(got) == wanted if isinstance(wanted, numpy.float32) else got == wanted


def check_file(path, keys, tensors):
    got_keys, got = read(path)
    check(got_keys.keys() == keys.keys(), f"{path}: keys {sorted(got_keys.keys() ^ keys.keys())}")
    for key, value in keys.items():
        check(same_value(got_keys[key], value), f"{path}: {key}: {str(got_keys[key])[:200]}, not {str(value)[:200]}")
    check(got.keys() == tensors.keys(), f"{path}: tensors {sorted(got.keys() ^ tensors.keys())}")
    for name, (kind, values) in tensors.items():
        tensor = got[name]
        check(tensor.tensor_type == kind, f"{path}: {name} is {tensor.tensor_type.name}, not {kind.name}")
        check(list(tensor.shape) == list(reversed(values.shape)), f"{path}: {name} has the shape {tensor.shape}")
        made = gguf.quants.quantize(values, kind)
        if name == "rope_freqs.weight":
            check(numpy.allclose(tensor.data, values, rtol=1e-6), f"{path}: {name}: {tensor.data}, not {values}")
        else:
            check(tensor.data.tobytes() == made.tobytes(), f"{path}: {name} has other bytes than gguf.quants makes")
        check(tensor.data_offset % 32 == 0, f"{path}: {name} is not aligned")


# Running it.


def difference(got, wanted):
    check(got.shape == wanted.shape, f"logits of {tuple(got.shape)}, not {tuple(wanted.shape)}")
    return ((got - wanted).abs().max() / wanted.abs().max()).item()


def logits_of_transformers(path):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([IDS])).logits[0]


class LlamaCpp:
    """A model in llama.cpp itself, on the CPU, with keys and values in FP32."""

    def __init__(self, path, adapter=None):
        import llama_cpp

        self.library = llama_cpp
        llama_cpp.llama_log_set(SILENT(llama_cpp), None)
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        check(self.model, f"{path}: llama.cpp does not load it")
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 128
        parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        if adapter is not None:
            import ctypes

            loaded = llama_cpp.llama_adapter_lora_init(self.model, str(adapter).encode())
            check(loaded, f"{adapter}: llama.cpp does not load it")
            adapters, scales = (ctypes.c_void_p * 1)(ctypes.cast(loaded, ctypes.c_void_p)), (ctypes.c_float * 1)(1.0)
            llama_cpp.llama_set_adapters_lora(self.context, ctypes.cast(adapters, ctypes.POINTER(llama_cpp.llama_adapter_lora_p_ctypes)), 1, scales)

    def batch(self, ids):
        batch = self.library.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        return batch

    def logits(self):
        ids = IDS
        if self.library.llama_model_has_encoder(self.model):
            check(self.library.llama_encode(self.context, self.batch(IDS)) == 0, "llama_encode failed")
            ids = DECODER_IDS
        check(self.library.llama_decode(self.context, self.batch(ids)) == 0, "llama_decode failed")
        rows = self.library.llama_vocab_n_tokens(self.vocabulary)
        return torch.stack([torch.tensor(self.library.llama_get_logits_ith(self.context, i)[:rows]) for i in range(len(ids))])

    @property
    def vocabulary(self):
        return self.library.llama_model_get_vocab(self.model)

    def encode(self, text):
        data = text.encode()
        ids = (self.library.llama_token * 256)()
        count = self.library.llama_tokenize(self.vocabulary, data, len(data), ids, 256, True, True)
        return list(ids[:count])

    def close(self):
        self.library.llama_free(self.context)
        self.library.llama_model_free(self.model)


def SILENT(library):
    global silent
    silent = library.llama_log_callback(lambda level, text, data: print(text.decode(errors="replace"), end="", file=sys.stderr) if level >= 4 else None)
    return silent


def has_llama_cpp():
    try:
        import llama_cpp  # noqa: F401
    except (ImportError, OSError, RuntimeError):
        return False
    return True


def check_texts(model, folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS if (folder / "tokenizer.model").exists() else TEXTS + TEXTS_OF_BYTES:
        wanted, got = tokenizer(text)["input_ids"], model.encode(text)
        check(got == wanted, f"{folder.name}: llama.cpp makes {got} of {text!r}, transformers {wanted}")


def transformers_reads(config):
    """Whether transformers makes the same model of the file: it looks for no stretch, no biases of the llama architecture, and
    for the size of heads only there."""
    head, even = getattr(config, "head_dim", None), config.hidden_size % config.num_attention_heads == 0
    size = config.hidden_size // config.num_attention_heads
    sizes = {"llama": even, "mistral": even, "qwen2": head in (None, size), "qwen3": head == 128}
    plain = rope_of(config).get("rope_type") == "default" and not getattr(config, "attention_bias", False)
    return plain and sizes.get(config.model_type, False)


def check_transformers(folder, path, wanted, arguments):
    if "mistral" in folder.name:  # by such a name transformers looks for an architecture "mistral", which gguf does not have
        renamed = path.parent / "renamed"
        renamed.symlink_to(folder)
        path = path.parent / "renamed.gguf"
        path.unlink(missing_ok=True)
        run(arguments.fathom, "export", renamed, "--format", "gguf", "--outtype", "f32", "--out", path)
        renamed.unlink()
    off = difference(logits_of_transformers(path), wanted)
    check(off < 1e-5, f"{path}: logits of transformers differ by {off:.1e}")
    return f"transformers {off:.0e}"


def fathoms_logits(model, config, arguments):
    decoder = ["--decoder-ids", ",".join(map(str, DECODER_IDS))] if config.model_type == "t5" else []
    return logits_of_fathom(arguments.fathom, [*model, *decoder], IDS)


def allowed_off(config):
    """How far logits may be off; llama.cpp's GELU is a table of FP16."""
    gelu = any("gelu" in str(getattr(config, key, "")) for key in ("dense_act_fn", "hidden_activation", "activation_function"))
    return 2e-3 if gelu else 1e-4


def check_logits(folder, config, path, arguments):
    wanted, told = fathoms_logits([folder], config, arguments), []
    window = windows_of(config)[0] if config.model_type != "t5" and config.model_type not in READS_WINDOWS else 0
    if folder.name in OTHERWISE or 0 < (window or 0) < len(IDS):
        return told
    if transformers_reads(config):
        told.append(check_transformers(folder, path, wanted, arguments))
    if arguments.has_llama_cpp:
        model = LlamaCpp(path)
        off = difference(model.logits(), wanted)
        check(off < allowed_off(config), f"{path}: logits of llama.cpp differ by {off:.1e}")
        if list(folder.glob("tokenizer*")):
            check_texts(model, folder)
        model.close()
        told.append(f"llama.cpp {off:.0e}")
    return told


def check_quantized(folder, root):
    """llama.cpp makes the quantized files of the one in FP32, all rows of which are whole blocks."""
    import ctypes

    import llama_cpp

    for outtype, number in (("q8_0", llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0), ("q4_0", llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0)):
        settings = llama_cpp.llama_model_quantize_default_params()
        settings.ftype, settings.output_tensor_type, other = number, KINDS["q8_0"].value, root / "quantized.gguf"
        source = str(root / f"{folder.name}-f32.gguf").encode()
        check(llama_cpp.llama_model_quantize(source, str(other).encode(), ctypes.byref(settings)) == 0, "llama.cpp quantizes nothing")
        (_, ours), (_, theirs) = read(root / f"{folder.name}-{outtype}.gguf"), read(other)
        for name, tensor in theirs.items():
            same = tensor.tensor_type == ours[name].tensor_type and tensor.data.tobytes() == ours[name].data.tobytes()
            check(same, f"{folder.name}: {name} in {outtype} is not as llama.cpp quantizes it")
        other.unlink()
    return "q8_0 and q4_0 as llama.cpp quantizes"


def check_model(folder, arguments, root):
    config, told = settings_of(folder), []
    for outtype in TYPES:
        path = root / f"{folder.name}-{outtype}.gguf"
        run(arguments.fathom, "export", folder, "--format", "gguf", "--outtype", outtype, "--out", path)
        check_file(path, expected_keys(folder, config, outtype, folder.name), expected_tensors(folder, config, outtype))
        if outtype == "f32":
            told = check_logits(folder, config, path, arguments)
        if arguments.llama_cpp and outtype != "q4_0":
            told.append(compare_converted(folder, path, outtype, arguments, root))
    if arguments.has_llama_cpp and folder.name == "random-qwen3":
        told.append(check_quantized(folder, root))
    print(f"{folder.name}: {len(TYPES)} files as gguf makes them" + "".join(f"; {each}" for each in told), flush=True)


# llama.cpp's own converters.

# What theirs says beside: a label, and lists of what a model card tells; a Phi-3 without a window; YaRN's attention_factor and turns
# under names that llama.cpp reads for few architectures, where ours has what it reads. Ours: where a folder has no head_dim, and so on.
ONLY_THEIRS = ("general.size_label", "general.finetune", "general.basename", "general.version", "general.tags", "general.languages",
               "tokenizer.ggml.add_sep_token", "tokenizer.ggml.add_space_prefix", "attention.sliding_window", "rope.scaling.yarn_attn_factor",
               "rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow")
ONLY_OURS = ("attention.key_length", "attention.value_length", "rope.dimension_count", "vocab_size", "attention.sliding_window",
             "attention.sliding_window_pattern", "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_space_prefix",
             "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.padding_token_id",
             "general.name", "rope.scaling.attn_factor", "expert_feed_forward_length", "rope.freq_base_swa", "attention.head_count_kv")


# The name of the splits is given: its hashes of a text are of known vocabularies alone.
CONVERT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
name = sys.argv.pop(1)
import convert_hf_to_gguf
import conversion.base
conversion.base.TextModel.get_vocab_base_pre = lambda *_: name
convert_hf_to_gguf.main()
"""


def compare_converted(folder, path, outtype, arguments, root):
    if not list(folder.glob("tokenizer*")):
        return f"{outtype} not converted: no tokenizer"
    other = root / "converted.gguf"
    other.unlink(missing_ok=True)
    run(sys.executable, "-c", CONVERT, arguments.llama_cpp, split_of(folder), folder, "--outfile", other,
        "--outtype", outtype)
    return f"{outtype} as converted: {compare_files(path, other)}"


def compare_files(path, other):
    (keys, tensors), (their_keys, theirs) = read(path), read(other)
    architecture = keys["general.architecture"]
    if "tokenizer.ggml.token_type" in their_keys and architecture == "t5":  # of which it leaves the sentinels unused
        unused = [i for i, kind in enumerate(their_keys["tokenizer.ggml.token_type"]) if kind == gguf.TokenType.UNUSED]
        for key in ("tokens", "token_type", "scores"):
            for i in unused:
                their_keys[f"tokenizer.ggml.{key}"][i] = keys[f"tokenizer.ggml.{key}"][i]
    if architecture.startswith("gemma"):  # False whatever the tokenizer does, as Gemma's own does
        their_keys.pop("tokenizer.ggml.add_space_prefix", None)
    for key in keys.keys() | their_keys.keys():
        short = key.removeprefix(architecture + ".")
        if key not in keys:
            check(short in ONLY_THEIRS, f"{path}: has no {key}, which llama.cpp writes as {their_keys[key]}")
        elif key not in their_keys:
            check(short in ONLY_OURS, f"{path}: {key} is not written by llama.cpp")
        elif key != "general.name":
            check(keys[key] == their_keys[key], f"{path}: {key}: {str(keys[key])[:300]}, llama.cpp: {str(their_keys[key])[:300]}")
    check(tensors.keys() == theirs.keys(), f"{path}: tensors {sorted(tensors.keys() ^ theirs.keys())}")
    for name, tensor in tensors.items():
        same = tensor.tensor_type == theirs[name].tensor_type and list(tensor.shape) == list(theirs[name].shape)
        close = name == "rope_freqs.weight" and numpy.allclose(tensor.data, theirs[name].data, rtol=1e-6)
        check(same and (close or tensor.data.tobytes() == theirs[name].data.tobytes()), f"{path}: {name} differs from llama.cpp's")
    return f"{len(tensors)} tensors the same"


# Adapters.


def make_adapter(base, config, folder, rank_stabilised):
    torch.manual_seed(5)
    tensors = {}
    linear = tuple(f"{name}.weight" for name in ("_proj", "Attention.q", "Attention.k", "Attention.v", "Attention.o", "wi", "wi_0", "wi_1", "wo"))
    for name, tensor in load_file(base / "model.safetensors").items():
        if not name.endswith(linear) or ".experts." in name:
            continue
        module = "base_model.model." + name.removesuffix(".weight")
        tensors[f"{module}.lora_A.weight"] = torch.randn(8, tensor.shape[1]) * 0.1
        tensors[f"{module}.lora_B.weight"] = torch.randn(tensor.shape[0], 8) * 0.1
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 8, "lora_alpha": 24, "bias": "none",
        "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"] if hasattr(config, "num_experts_per_tok") else "all-linear",
        "use_rslora": rank_stabilised, "base_model_name_or_path": str(base)}))


def check_adapter(base, arguments, root, rank_stabilised):
    config, folder = settings_of(base), root / f"{base.name}-adapter{'-rs' * rank_stabilised}"
    architecture = ARCHITECTURES[config.model_type]
    make_adapter(base, config, folder, rank_stabilised)
    names = name_map(config)
    tensors = {}
    for name, tensor in load_file(folder / "adapter_model.safetensors").items():
        module, matrix = name.removeprefix("base_model.model.").split(".lora_")
        values = tensor.numpy()
        if architecture in NEIGHBOURS and matrix == "B.weight" and module.endswith(("q_proj", "k_proj")):
            values = permuted(values, config.num_attention_heads if module.endswith("q_proj") else config.num_key_value_heads)
        tensors[f"{names.get_name(module)}.weight.lora_{matrix[0].lower()}"] = (KINDS["f32"], values)
    keys = {"general.architecture": architecture, "general.type": "adapter", "general.name": folder.name, "adapter.type": "lora",
            "general.quantization_version": gguf.GGML_QUANT_VERSION,
            "adapter.lora.alpha": numpy.float32(24 * (8**0.5 if rank_stabilised else 1))}
    path, told = root / f"{folder.name}.gguf", []
    run(arguments.fathom, "export", folder, "--format", "gguf", "--out", path)
    check_file(path, keys, tensors)
    merged = root / f"{folder.name}-merged.gguf"
    run(arguments.fathom, "export", folder, "--merge", "--format", "gguf", "--outtype", "f32", "--out", merged)
    if arguments.has_llama_cpp:
        whole = root / f"{folder.name}-merged"  # rounded to the base's type, as the file's weights are
        run(arguments.fathom, "export", folder, "--merge", "--out", whole)
        for parts, model in (((root / f"{base.name}-f32.gguf", path), [base, "--adapter", folder]), ((merged, None), [whole])):
            wanted = fathoms_logits(model, config, arguments)
            model = LlamaCpp(*parts)
            off = difference(model.logits(), wanted)
            check(off < allowed_off(config), f"{parts}: logits of llama.cpp differ by {off:.1e}")
            model.close()
            told.append(f"llama.cpp {off:.0e}" + ("" if parts[1] else " merged"))
    if arguments.llama_cpp and not rank_stabilised:
        other = root / "converted.gguf"
        other.unlink(missing_ok=True)
        run(sys.executable, arguments.llama_cpp / "convert_lora_to_gguf.py", folder, "--base", base, "--outfile", other)
        told.append("as converted: " + compare_files(path, other))
    print(f"{folder.name}: as gguf makes it" + "".join(f"; {each}" for each in told), flush=True)


# Which models.

SMALL_IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
RANDOM = {
    "llama": ("llama3", dict(num_key_value_heads=2, tie_word_embeddings=False, rope_parameters={
        "rope_type": "llama3", "rope_theta": 5e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32})),
    "mistral": ("fixture", dict(num_key_value_heads=1, tie_word_embeddings=False, head_dim=32, sliding_window=None)),
    "qwen2": ("qwen2", dict(num_key_value_heads=2, tie_word_embeddings=True)),
    "qwen3": ("qwen2", dict(num_key_value_heads=4, tie_word_embeddings=True, head_dim=32)),
    "t5": ("t5", dict(num_layers=2, d_kv=24, tie_word_embeddings=False, feed_forward_proj="relu")),
    "t5-gated": ("t5", dict(num_layers=3, num_decoder_layers=2, d_kv=24, tie_word_embeddings=False, feed_forward_proj="gated-gelu")),
    "olmo2": ("gpt2", dict(num_key_value_heads=2, tie_word_embeddings=False, eos_token_id=756)),
    "gemma3_text": ("fixture", dict(num_key_value_heads=2, head_dim=32, query_pre_attn_scalar=32, num_hidden_layers=6, sliding_window=6, rope_parameters={
        "full_attention": {"rope_type": "linear", "rope_theta": 1e5, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}, **SMALL_IDS | dict(pad_token_id=800))),
    "long": ("fixture", dict(num_key_value_heads=2, sliding_window=None, original_max_position_embeddings=8, rope_parameters={
        "rope_type": "longrope", "rope_theta": 1e3, "partial_rotary_factor": 0.75, "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
        "long_factor": [1.0, 2.0, 3.5, 6.0, 9.0, 9.5]}, **SMALL_IDS | dict(pad_token_id=800))),
    "olmo3": ("gpt2", dict(num_key_value_heads=2, tie_word_embeddings=False, eos_token_id=756, num_hidden_layers=4, sliding_window=5, rope_parameters={
        "full_attention": {"rope_type": "yarn", "rope_theta": 5e3, "factor": 4.0, "original_max_position_embeddings": 24, "attention_factor": 1.3},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5e3}})),
    "granite": ("gpt2", dict(num_key_value_heads=2, attention_multiplier=0.3, embedding_multiplier=3.0, residual_multiplier=0.4,
                             logits_scaling=0.5, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, eos_token_id=756)),
    "smollm3": ("llama3", dict(num_key_value_heads=2, num_hidden_layers=4, use_sliding_window=False, rope_parameters={
        "rope_type": "yarn", "rope_theta": 300.0, "factor": 8.0, "original_max_position_embeddings": 16}, **SMALL_IDS)),
    "glm4": (None, dict(num_key_value_heads=2, head_dim=32, attention_bias=True, **SMALL_IDS)),
    "ministral3": ("llama3", dict(num_key_value_heads=2, head_dim=32, sliding_window=None, rope_parameters={
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 16.0, "beta_fast": 4.0, "beta_slow": 0.5, "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.3, "original_max_position_embeddings": 8, "max_position_embeddings": 256}, **SMALL_IDS)),
    "qwen3_moe": ("qwen2", dict(num_key_value_heads=2, head_dim=32, moe_intermediate_size=96, num_experts=5, num_experts_per_tok=2,
                                norm_topk_prob=True, tie_word_embeddings=False)),
    "mixtral": ("fixture", dict(num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False)),
    "olmoe": (None, dict(num_key_value_heads=4, num_experts=6, num_experts_per_tok=3, norm_topk_prob=False, **SMALL_IDS)),
    "granitemoe": ("gpt2", dict(num_key_value_heads=2, num_local_experts=6, num_experts_per_tok=3, attention_multiplier=0.3,
                                embedding_multiplier=1.5, residual_multiplier=0.8, logits_scaling=0.7, eos_token_id=756)),
    "gemma2": ("fixture", dict(num_key_value_heads=2, head_dim=32, query_pre_attn_scalar=32, sliding_window=6, **SMALL_IDS | dict(pad_token_id=800))),
    "cohere2": (None, dict(num_key_value_heads=2, sliding_window=6, num_hidden_layers=4, logit_scale=0.3, **SMALL_IDS)),
    "gemma": ("fixture", dict(num_key_value_heads=2, head_dim=32, **SMALL_IDS | dict(pad_token_id=800))),
    "cohere": (None, dict(num_key_value_heads=2, logit_scale=0.3, **SMALL_IDS)),
    "ernie4_5": ("fixture", dict(num_key_value_heads=2, head_dim=32, **SMALL_IDS | dict(pad_token_id=800))),
    "arcee": ("llama3", dict(num_key_value_heads=2, head_dim=32, rope_parameters={
        "rope_type": "yarn", "rope_theta": 300.0, "factor": 8.0, "original_max_position_embeddings": 16}, **SMALL_IDS)),
    "gpt2": ("gpt2", dict(bos_token_id=756, eos_token_id=756, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
}
NO_ADAPTERS = ("random-t5-gated", "random-gpt2")  # of GPT-2 the matrices are stored the other way round
TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"


def make_random(family, root):
    """Two layers in BF16 with more rows than tokens, whose rows are whole blocks; but down_proj's are so in Qwen3 alone."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer, settings = RANDOM[family]
    folder = root / f"random-{family}"
    source = ROOT / "tests/tokenizer" / (tokenizer or "none")  # transformers has tokenizers of its own for some model_types
    rows = max(AutoTokenizer.from_pretrained(source).get_vocab().values()) + 6 if tokenizer else 70
    inner = 96 if family.startswith("qwen3") else 72
    sizes = dict(hidden_size=64, intermediate_size=inner, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=256)
    is_t5 = family.startswith("t5")
    if is_t5:
        sizes = dict(d_model=64, d_ff=inner, num_heads=4, decoder_start_token_id=0)
    model_type = {"long": "phi3"}.get(family, family.split("-")[0])  # llama.cpp wants tokens of its own where a name has "phi3" in it
    config = CONFIG_MAPPING[model_type](vocab_size=rows, **(sizes | settings))
    torch.manual_seed(len(family))
    make = AutoModelForSeq2SeqLM if is_t5 else AutoModelForCausalLM
    model = make.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        noise = torch.randn_like(parameter)
        parameter.data.copy_(0.1 * noise if parameter.dim() > 1 else 1 + 0.2 * noise)
    model.to(torch.bfloat16).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer.model", "spiece.model", "tokenizer_config.json", "special_tokens_map.json"):
        if (source / file).exists():
            shutil.copy(source / file, folder)
    if family == "qwen3":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def main():
    parser = new_parser(__doc__)
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="llama.cpp's source, with its converters")
    parser.add_argument("--fathom", default=PROGRAM, type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.has_llama_cpp = has_llama_cpp()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    refused = {"qwen2_stretched", "qwen2_untied", "qwen3_biased", "qwen3_stretched", "olmo2_biased", "t5_far", "t5_flan", "t5_one",
               "gemma2", "gemma2_uncapped_head", "gemma3", "gemma3_stretched", "cohere2_biased", "olmo3", "olmo3_named",
               "smollm3_biased", "ministral3_windowed", "olmoe", "olmoe_normalised", "qwen3_moe", "qwen3_moe_balanced",
               "qwen3_moe_windowed", "gemma_biased", "cohere_biased", "ernie4_5_biased", "arcee_biased"}
    goldens = [folder for folder in sorted((ROOT / "tests/model/golden").iterdir())
               if json.loads((folder / "config.json").read_text())["model_type"] in ARCHITECTURES]
    problems = 0
    with tempfile.TemporaryDirectory(prefix="fathom-gguf-") as place:
        root = pathlib.Path(place)
        randoms = [make_random(family, root) for family in RANDOM]
        tasks = [(check_model, folder) for folder in [ROOT / "data/model", *goldens, *randoms] if folder.name not in refused]
        tasks += [(check_adapter, folder, stabilised) for folder in randoms if folder.name not in NO_ADAPTERS for stabilised in (False, True)]
        for task, folder, *more in tasks:
            try:
                task(folder, arguments, root, *more)
            except (Exception, SystemExit) as error:  # of transformers and gguf, too: the others are still to be checked
                print(f"{folder.name}: {type(error).__name__}: {error}: FAILED", flush=True)
                problems += 1
    print(f"{len(tasks) - problems} of {len(tasks)} models and adapters are as they should be"
          + ("" if arguments.has_llama_cpp else "; llama.cpp itself was not there"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Sound files of every kind, small, from which hostile ones are made."""
import ctypes
import json
import random
import struct

WIDTH, INNER, LAYERS, HEADS, KEY_HEADS = 16, 24, 2, 2, 1
TYPES = {"F32": 4, "BF16": 2, "F16": 2, "F64": 8, "I64": 8, "I32": 4, "I8": 1, "U8": 1, "BOOL": 1}
MERGES = [["t", "h"], ["th", "e"], ["a", "n"], ["i", "n"], ["o", "n"]]
TEMPLATE = ("{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim }}\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def byte_alphabet():
    """GPT-2's characters for the 256 bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(others)) for byte in range(256)]


def tokenizer_json():
    tokens = byte_alphabet() + ["".join(pair) for pair in MERGES]
    specials = ["<s>", "</s>", "<|user|>", "<|assistant|>"]
    added = [{"id": len(tokens) + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, text in enumerate(specials)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {token: i for i, token in enumerate(tokens)}, "merges": MERGES}}


def characters_json():
    """The same merges over characters, with byte fallback, as Llama 2's and Gemma's files are."""
    data = tokenizer_json()
    blank = chr(0x2581)
    merges = [[part.replace("\u0120", blank) for part in merge] for merge in MERGES]
    letters = sorted({letter for merge in merges for part in merge for letter in part} | {blank})
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    tokens += [token for token in map("".join, merges) if token not in tokens]
    for number, added in enumerate(data["added_tokens"]):
        added |= {"id": len(tokens) + number, "rstrip": number == 2}
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": blank}
    marks = {"type": "Replace", "pattern": {"String": blank}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    data["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": blank}, blanks]}
    data["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    data["decoder"] = {"type": "Sequence", "decoders": [marks, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]}
    data["model"] |= {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "merges": merges,
                      "vocab": {token: number for number, token in enumerate(tokens)}}
    return data


VOCABULARY = 256 + len(MERGES) + 4


def config_json():
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH,
            "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
            "num_key_value_heads": KEY_HEADS, "head_dim": WIDTH // HEADS, "max_position_embeddings": 256,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None, "hidden_act": "silu",
            "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "bos_token_id": VOCABULARY - 4,
            "eos_token_id": VOCABULARY - 3, "torch_dtype": "float32"}


def tensor_shapes():
    shapes = {"model.embed_tokens.weight": [VOCABULARY, WIDTH], "model.norm.weight": [WIDTH]}
    half = WIDTH // HEADS * KEY_HEADS
    for layer in range(LAYERS):
        block = {"input_layernorm": [WIDTH], "post_attention_layernorm": [WIDTH], "self_attn.q_proj": [WIDTH, WIDTH],
                 "self_attn.k_proj": [half, WIDTH], "self_attn.v_proj": [half, WIDTH], "self_attn.o_proj": [WIDTH, WIDTH],
                 "mlp.gate_proj": [INNER, WIDTH], "mlp.up_proj": [INNER, WIDTH], "mlp.down_proj": [WIDTH, INNER]}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in block.items()}
    return shapes


def split_safetensors(data):
    """Header and data of a safetensors file."""
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), data[8 + length:]


def join_safetensors(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + data


def safetensors(shapes, dtype="F32"):
    """Small random numbers, without a library."""
    draw, header, data = random.Random(1), {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes.items():
        count = 1
        for size in shape:
            count *= size
        values = struct.pack(f"<{count}f", *(draw.gauss(0, 0.1) for _ in range(count)))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    return join_safetensors(header, data)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def t5_config_json():
    return {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "is_encoder_decoder": True, "vocab_size": 1112,
            "d_model": WIDTH, "d_kv": 8, "d_ff": INNER, "num_layers": LAYERS, "num_heads": HEADS, "decoder_start_token_id": 0,
            "bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}


def model_folder(folder, tokenizer_model=None, spiece_model=None, characters=False):
    """A whole model; with tokenizer_model (a SentencePiece file) or spiece_model (T5's) instead of tokenizer.json, which is
    over bytes, or over characters."""
    folder.mkdir(parents=True)
    config = config_json()
    if spiece_model:
        config = t5_config_json()
        (folder / "spiece.model").write_bytes(spiece_model.read_bytes())
    elif tokenizer_model:
        config |= {"vocab_size": 4096, "bos_token_id": 1, "eos_token_id": 2}
        (folder / "tokenizer.model").write_bytes(tokenizer_model.read_bytes())
        write_json(folder / "added_tokens.json", {"<|user|>": 4000})
    else:
        write_json(folder / "tokenizer.json", characters_json() if characters else tokenizer_json())
        (folder / "model.safetensors").write_bytes(safetensors(tensor_shapes()))
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"], "temperature": 0.6})
    begins = {} if spiece_model else {"bos_token": "<s>"}
    write_json(folder / "tokenizer_config.json", begins | {"eos_token": "</s>", "add_bos_token": False, "model_max_length": 256})
    write_json(folder / "special_tokens_map.json", begins | {"eos_token": {"content": "</s>", "lstrip": False}})
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    (folder / "merges.txt").write_text("t h\n", encoding="utf-8")


def sharded_folder(folder):
    model_folder(folder)
    shapes = tensor_shapes()
    (folder / "model.safetensors").unlink()
    names = sorted(shapes)
    where = {}
    for part, chosen in enumerate((names[::2], names[1::2]), 1):
        name = f"model-0000{part}-of-00002.safetensors"
        (folder / name).write_bytes(safetensors({each: shapes[each] for each in chosen}))
        where |= dict.fromkeys(chosen, name)
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": where})


def adapter_folder(folder, base):
    folder.mkdir(parents=True)
    write_json(folder / "adapter_config.json",
               {"base_model_name_or_path": str(base), "bias": "none", "peft_type": "LORA", "r": 2, "lora_alpha": 4,
                "lora_dropout": 0.0, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM",
                "modules_to_save": None, "fan_in_fan_out": False})
    shapes = {}
    for layer in range(LAYERS):
        for module, rows in (("q_proj", WIDTH), ("v_proj", WIDTH // HEADS * KEY_HEADS)):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{module}.lora_"
            shapes |= {stem + "A.weight": [2, WIDTH], stem + "B.weight": [rows, 2]}
    (folder / "adapter_model.safetensors").write_bytes(safetensors(shapes))


DATA = {
    "text": [{"text": f"the number {i} and the rain in the town"} for i in range(12)],
    "prompt": [{"prompt": f"What is {i}?", "completion": f" It is {i}."} for i in range(12)],
    "alpaca": [{"instruction": f"Count to {i}", "input": "", "output": "1 2 3"} for i in range(12)],
    "messages": [{"messages": [{"role": "user", "content": f"Hello {i}"}, {"role": "assistant", "content": "Hi there"}]}
                 for i in range(12)],
    "sharegpt": [{"conversations": [{"from": "human", "value": f"Hello {i}"}, {"from": "gpt", "value": "Hi"}]} for i in range(12)],
    "tools": [{"messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "Sunny."}],
               "tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]}] * 6,
}


def write_data(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def config_yaml(model, data, out, **more):
    keys = {"model_name_or_path": str(model), "train_file": str(data), "output_dir": str(out), "max_length": 64,
            "per_device_train_batch_size": 2, "max_steps": 2, "learning_rate": 0.001, "seed": 1, "device": "cpu",
            "logging_steps": 1} | more
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())


def run_record(folder):
    """A run's folder as `report` reads it."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config_yaml("model", "data.jsonl", "run"), encoding="utf-8")
    steps = [{"step": i, "epoch": i / 4, "loss": 2.0 / i, "learning_rate": 1e-3, "grad_norm": 1.0, "clipped_share": 0.0,
              "tokens": 64 * i, "tokens_per_second": 1000.0, "step_seconds": 0.1, "live_bytes": 1000, "peak_bytes": 2000}
             for i in range(1, 9)]
    write_data(folder / "metrics.jsonl", steps + [{"step": 8, "epoch": 2.0, "eval_loss": 0.3, "eval_tokens": 10, "eval_seconds": 0.1}])
    blocks = [[100 * i, i, 10 + i, i % 3, 0, i % 2, 0, 1] for i in range(1, 9)]
    timeline = {"names": ["none", "weight"], "events": 20, "peak": 3600, "peak_position": 8,
                "phases": [[0, 0, 10], [1, 10, 20]], "blocks": blocks}
    write_json(folder / "timeline.json", {"predicted": timeline, "measured": timeline})
    write_json(folder / "memory.json", {"schema_version": 1, "run": {"model": "m", "method": "full", "dtype": "float32", "seconds": 1.0},
                                        "peak": {"dry_run": 3600, "measured": 3600}})


class Xxh128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def hash_of(data):
    """XXH3-128 as manifest.json writes it of a file of up to 8 MiB; nothing where the machine has no libxxhash."""
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError:
        return None
    library.XXH3_128bits.restype = Xxh128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    found = library.XXH3_128bits(data, len(data))
    return f"{found.high:016x}{found.low:016x}"


def sign(checkpoint, **content):
    """Writes files of a checkpoint and what its manifest says of them, so that what is in them is read."""
    manifest = json.loads((checkpoint / "manifest.json").read_text(encoding="utf-8"))
    for name, data in content.items():
        (checkpoint / name).write_bytes(data)
        for entry in manifest["files"]:
            if entry["name"] == name:
                entry |= {"bytes": len(data), "hash": hash_of(data) or entry["hash"]}
    write_json(checkpoint / "manifest.json", manifest)
    with open(checkpoint / "manifest.json", "a", encoding="utf-8") as file:
        file.write("\n")

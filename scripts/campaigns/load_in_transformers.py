#!/usr/bin/env python3
"""Loads folders of fathom in transformers (adapters: in PEFT): logits and 50 tokens of greedy continuation are compared.

usage: scripts/campaigns/load_in_transformers.py FOLDER... [--ids 1,2,3] [--tolerance 1e-4]
       scripts/campaigns/load_in_transformers.py --families [NAME...]
       scripts/campaigns/load_in_transformers.py --quantized
A folder is a run's, or one of `fathom export`, merged or not. The same ids go through transformers in FP32 and through
`fathom logits`: the largest difference is given as a share of the largest logit, and at each of the 50 places fathom's
most likely token has to be the one that transformers took. An encoder reads the ids, and its decoder continues from
decoder_start_token_id. The exit status is 1 where a folder fails.

--families trains tiny random models of every family (those named, else all) with a tokenizer that has more tokens than the
model: all of it, adapters, and adapters with modules_to_save; then it exports and compares each.

--quantized makes a small random model in every format of `fathom quantize` and compares each: what bitsandbytes and
compressed-tensors read in the folder, dequantized to FP32, must be what fathom computes with.

Needs a Python with torch, transformers and, for adapters, PEFT (for quantized folders bitsandbytes, compressed-tensors): scripts/campaigns/compare_transformers makes one in .deps/peer.
"""

import json
import os
import pathlib
import sys
import tempfile

from campaign import PROGRAM, ROOT, new_parser, run

CONTINUATION = 50  # tokens


def parse_arguments():
    parser = new_parser(__doc__)
    parser.add_argument("folders", nargs="*", type=pathlib.Path, help="of runs, models or adapters")
    parser.add_argument("--families", nargs="*", choices=FAMILIES, metavar="NAME",
                        help="make, train, export and compare models of these families, else of all")
    parser.add_argument("--quantized", action="store_true", help="quantize a model in every format and compare")
    parser.add_argument("--ids", default="1,5,9,2,7,7,3,11,30,4", help="token ids (default %(default)s)")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--fathom", default=PROGRAM, type=pathlib.Path)
    arguments = parser.parse_args()
    if [bool(arguments.folders), arguments.families is not None, arguments.quantized].count(True) != 1:
        parser.error("name folders, or --families, or --quantized")
    return arguments


def tokens_of(folder):
    """How many tokens the folder's tokenizer has; 0 where there is none."""
    if not list(folder.glob("tokenizer*")):
        return 0
    from transformers import AutoTokenizer

    return len(AutoTokenizer.from_pretrained(folder))


def config_of(folder):
    path = folder / "config.json"
    return json.loads(path.read_text()) if path.exists() else {}


def eager(config):
    """LibTorch's grouped products, which transformers takes for experts, want rows of whole 16 bytes."""
    return {"experts_implementation": "eager"} if "num_experts_per_tok" in config else {}


def reads_a_source(folder):
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder).is_encoder_decoder


def read_model(folder):
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    auto = AutoModelForSeq2SeqLM if reads_a_source(folder) else AutoModelForCausalLM
    return auto.from_pretrained(folder, dtype=torch.float32, **eager(config_of(folder)))


def load(folder):
    """The model as its user would load it, what it is, and what `fathom logits` is told."""
    config = config_of(folder)
    if quantization := config.get("quantization_config"):
        return load_quantized(folder, quantization), f"{quantization['quant_method']} model", [folder]
    if not (folder / "adapter_config.json").exists():
        return read_model(folder), "model", [folder]
    from peft import PeftModel

    settings = json.loads((folder / "adapter_config.json").read_text())
    base = pathlib.Path(settings["base_model_name_or_path"])
    model = read_model(base)
    if (task := settings["task_type"]) != (expected := "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM"):
        raise SystemExit(f"the adapter in {folder} is for {task}, its base for {expected}")
    added = tokens_of(folder) - model.config.vocab_size
    if added > 0:
        if model.lm_head.weight is not model.get_input_embeddings().weight:
            model.config.tie_word_embeddings = False  # true in T5's, with a head or not: new rows would bring one matrix
        model.resize_token_embeddings(tokens_of(folder))  # new rows lie around the mean of the others
    model = PeftModel.from_pretrained(model, folder)
    unused = [name for name, parameter in model.named_parameters() if ".lora_B." in name and not parameter.any()]
    if unused:
        raise SystemExit(
            f"the adapter in {folder} left {len(unused)} matrices at zero, {unused[0]} first: PEFT found no "
            "weights for them, or the run did not train"
        )
    whole = settings["modules_to_save"]
    kind = "adapter" + (f" with {', '.join(whole)} whole" if whole else "") + f" on {base.name}"
    return model, kind, [base, "--adapter", folder]


def load_quantized(folder, quantization):
    """The numbers that the folder's library reads in it, as a model in FP32."""
    import torch
    from transformers import AutoModelForCausalLM, CompressedTensorsConfig

    if quantization["quant_method"] == "bitsandbytes":
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, device_map="cpu")
        return model.dequantize(torch.float32)
    settings = CompressedTensorsConfig(dequantize=True)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, quantization_config=settings)


def logits_of_fathom(fathom, model, ids, source=None):
    """Of ids, or of what the decoder reads of the source."""
    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "logits.safetensors"
        read = ",".join(map(str, ids))
        streams = ["--ids", read] if source is None else ["--ids", ",".join(map(str, source)), "--decoder-ids", read]
        run(fathom, "logits", *model, *streams, "--out", out, "dtype=float32")
        return load_file(out)["logits"].float()


def compare(folder, arguments):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, kind, told = load(folder)
    prompt = torch.tensor([[int(number) for number in arguments.ids.split(",")]])
    with torch.no_grad():
        encodes = model.config.is_encoder_decoder
        ids = model.eval().generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=CONTINUATION,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            use_cache=not encodes,  # of which transformers 5 makes as many layers as the encoder has, not the decoder
        )
        read = {"input_ids": prompt, "decoder_input_ids": ids} if encodes else {"input_ids": ids}
        expected = model(**read).logits[0].float()
    got = logits_of_fathom(arguments.fathom, told, ids[0].tolist(), prompt[0].tolist() if encodes else None)
    if got.shape != expected.shape:
        print(f"{folder}: {tuple(expected.shape)} logits there, {tuple(got.shape)} here: FAILED")
        return False
    difference = ((got - expected).abs().max() / expected.abs().max()).item()
    start = 1 if encodes else prompt.shape[1]
    same = (got[start - 1 : -1].argmax(-1) == ids[0, start:]).sum().item()
    good = difference <= arguments.tolerance and same == CONTINUATION
    print(
        f"{folder.name} ({kind}; {tokens_of(folder)} tokens): {expected.shape[0]} x {expected.shape[1]} logits, standard "
        f"deviation {expected.std():.2f}, differ by {difference:.1e} of the largest (allowed {arguments.tolerance:.0e}); "
        f"{same} of {CONTINUATION} greedy tokens are the same" + ("" if good else ": FAILED"),
        flush=True,
    )
    return good


# What differs between families: of the configuration, and of the names of modules.
FAMILIES = {
    "llama": dict(hidden_size=44, num_key_value_heads=2, tie_word_embeddings=False, head_dim=10),
    "mistral": dict(hidden_size=44, num_key_value_heads=1, tie_word_embeddings=False, head_dim=14, sliding_window=17),
    "qwen2": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": dict(hidden_size=44, num_key_value_heads=4, tie_word_embeddings=True, head_dim=22),
    "olmo2": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=False),
    "ministral": dict(hidden_size=44, num_key_value_heads=1, tie_word_embeddings=False, head_dim=14, sliding_window=17),
    "cwm": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=True, head_dim=10, sliding_window=9, bos_token_id=1),
    "qwen3_moe": dict(hidden_size=44, num_key_value_heads=2, tie_word_embeddings=False, head_dim=10, moe_intermediate_size=27,
                      num_experts=5, num_experts_per_tok=2, mlp_only_layers=[0]),
    "mixtral": dict(hidden_size=40, num_key_value_heads=1, tie_word_embeddings=False, num_local_experts=3,
                    num_experts_per_tok=2),
    "olmoe": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=True, num_experts=7, num_experts_per_tok=3),
    "granitemoe": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=True, num_local_experts=6,
                       num_experts_per_tok=2, embedding_multiplier=3.0, attention_multiplier=0.2, pad_token_id=0),
    "qwen2_moe": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=False, num_experts=5, num_experts_per_tok=2,
                      moe_intermediate_size=26, shared_expert_intermediate_size=38, pad_token_id=0),
    "qwen3_5_moe_text": dict(hidden_size=40, num_key_value_heads=2, head_dim=16, num_experts=5, num_experts_per_tok=2,
                             moe_intermediate_size=26, shared_expert_intermediate_size=38, linear_num_key_heads=2,
                             linear_num_value_heads=4, linear_key_head_dim=10, linear_value_head_dim=12, pad_token_id=0,
                             layer_types=["linear_attention", "full_attention"]),
    "qwen3_next": dict(hidden_size=40, num_key_value_heads=2, head_dim=16, num_experts=5, num_experts_per_tok=2,
                       moe_intermediate_size=26, shared_expert_intermediate_size=38, linear_num_key_heads=2,
                       linear_num_value_heads=4, linear_key_head_dim=10, linear_value_head_dim=12, pad_token_id=0,
                       layer_types=["linear_attention", "full_attention"]),
    "glm4_moe": dict(hidden_size=40, num_key_value_heads=2, head_dim=16, n_routed_experts=8, num_experts_per_tok=3,
                     moe_intermediate_size=26, n_group=4, topk_group=2, use_qk_norm=True, pad_token_id=0),
    "deepseek_v3": dict(hidden_size=40, num_key_value_heads=4, q_lora_rank=14, kv_lora_rank=18, qk_nope_head_dim=10,
                        qk_rope_head_dim=6, v_head_dim=11, n_routed_experts=8, num_experts_per_tok=3,
                        moe_intermediate_size=26, n_group=4, topk_group=2, first_k_dense_replace=1, pad_token_id=0),
    "glm4_moe_lite": dict(hidden_size=40, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=18, qk_nope_head_dim=10,
                          qk_rope_head_dim=6, v_head_dim=16, n_routed_experts=5, num_experts_per_tok=2,
                          moe_intermediate_size=26, pad_token_id=0),
    "gpt_oss": dict(hidden_size=40, num_key_value_heads=2, head_dim=14, sliding_window=9, num_local_experts=5,
                    num_experts_per_tok=2, layer_types=["sliding_attention", "full_attention"], pad_token_id=0),
    "smollm3": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=True, no_rope_layers=[1, 0], pad_token_id=0),
    "olmo3": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=False, sliding_window=9, pad_token_id=0,
                  layer_types=["sliding_attention", "full_attention"]),
    "ministral3": dict(hidden_size=44, num_key_value_heads=1, tie_word_embeddings=False, head_dim=14, pad_token_id=0,
                       rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=8.0, llama_4_scaling_beta=0.2,
                                            original_max_position_embeddings=16)),
    "granite": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=True, embedding_multiplier=3.0,
                    attention_multiplier=0.2, residual_multiplier=0.5, logits_scaling=2.0, pad_token_id=0),
    "gemma3_text": dict(hidden_size=44, num_key_value_heads=2, head_dim=14, sliding_window=9, query_pre_attn_scalar=30,
                        layer_types=["sliding_attention", "full_attention"], pad_token_id=0),
    "gemma4_text": dict(hidden_size=44, num_key_value_heads=2, head_dim=14, global_head_dim=18, attention_k_eq_v=True,
                        num_global_key_value_heads=1, sliding_window=9, hidden_size_per_layer_input=0, pad_token_id=0,
                        final_logit_softcapping=20.0, layer_types=["sliding_attention", "full_attention"]),
    "gemma2": dict(hidden_size=44, num_key_value_heads=2, head_dim=14, sliding_window=9, query_pre_attn_scalar=30,
                   attn_logit_softcapping=3.0, final_logit_softcapping=20.0, pad_token_id=0),
    "cohere2": dict(hidden_size=40, num_key_value_heads=2, sliding_window=9, logit_scale=0.3, pad_token_id=0,
                    layer_types=["sliding_attention", "full_attention"]),
    "gpt2": dict(n_embd=40, n_layer=2, n_head=4, n_inner=74, n_positions=128, resid_pdrop=0.0, embd_pdrop=0.0,
                 attn_pdrop=0.0, bos_token_id=None, eos_token_id=2),
    "phi3": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=False, pad_token_id=0,
                 rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.8)),
    "glm4": dict(hidden_size=44, num_key_value_heads=2, tie_word_embeddings=False, head_dim=12, pad_token_id=0),
    "gemma": dict(hidden_size=44, num_key_value_heads=1, head_dim=14, pad_token_id=0),
    "granitemoehybrid": dict(hidden_size=40, num_key_value_heads=2, tie_word_embeddings=True, shared_intermediate_size=74,
                             layer_types=["attention", "attention"], num_local_experts=0, position_embedding_type="rope",
                             mamba_n_heads=4, attention_multiplier=0.2, residual_multiplier=0.5, pad_token_id=0),
    "seed_oss": dict(hidden_size=44, num_key_value_heads=2, head_dim=14, attention_out_bias=True, attention_dropout=0.0,
                     residual_dropout=0.0, pad_token_id=0),
    "exaone4": dict(hidden_size=40, num_key_value_heads=2, sliding_window=9, pad_token_id=0,
                    layer_types=["sliding_attention", "full_attention"]),
    "ernie4_5": dict(hidden_size=44, num_key_value_heads=2, head_dim=14, use_bias=True, pad_token_id=0),
    "arcee": dict(hidden_size=44, num_key_value_heads=2, head_dim=14, mlp_bias=True, pad_token_id=0),
    "cohere": dict(hidden_size=40, num_key_value_heads=2, logit_scale=0.3, pad_token_id=0),
    "glm": dict(hidden_size=44, num_key_value_heads=2, head_dim=12, pad_token_id=0),
    "hunyuan_v1_dense": dict(hidden_size=44, num_key_value_heads=2, head_dim=14, pad_token_id=0,
                             rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, factor=1.0, alpha=1000.0)),
    # As T5 1.1 and FLAN-T5; T5 1.0 has one matrix for embedding and head, and no gate.
    "t5": dict(d_model=44, d_kv=10, d_ff=74, num_layers=2, num_decoder_layers=3, num_heads=4, feed_forward_proj="gated-gelu",
               tie_word_embeddings=False, dropout_rate=0.0, decoder_start_token_id=0, eos_token_id=1),
}
ADDED = 7  # tokens that the tokenizer has beyond the model


DECODER = dict(intermediate_size=74, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=128,
               bos_token_id=None, eos_token_id=2)


def build(config):
    """The model with random weights."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = auto.from_config(config, dtype=torch.float32)
    if config.is_encoder_decoder:
        model.lm_head = torch.nn.Linear(config.d_model, config.vocab_size, bias=False)
    for name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        if name.endswith(".q.weight"):
            noise *= config.d_kv**-0.5  # T5 does not scale scores
        parameter.data.copy_(0.3 * noise if parameter.dim() > 1 else 1 + 0.2 * noise)
    return model


def make_model(family, settings, folder):
    import torch
    from transformers import CONFIG_MAPPING, AutoTokenizer

    encodes = family == "t5"
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "tests/tokenizer" / ("t5" if encodes else "qwen2"))
    has_own_keys = encodes or family == "gpt2"
    config = CONFIG_MAPPING[family](vocab_size=len(tokenizer), **settings if has_own_keys else DECODER | settings)
    torch.manual_seed(len(family))
    model = build(config)
    model.save_pretrained(folder)
    tokenizer.add_tokens([f"<added-{number}>" for number in range(ADDED)])
    tokenizer.save_pretrained(folder)
    generator = torch.Generator().manual_seed(3)
    lines = [torch.randint(3, len(tokenizer), (24,), generator=generator).tolist() for _ in range(24)]
    lines = [line[:-3] + [len(tokenizer) - 1 - i % ADDED, 5, config.eos_token_id] for i, line in enumerate(lines)]
    objects = [{"input_ids": line} | ({"labels": line[::-2][::-1]} if encodes else {}) for line in lines]
    (folder / "data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))


def make_folders(arguments, root):
    """Runs and exports of every family."""
    for family in arguments.families or FAMILIES:
        base = root / family
        make_model(family, FAMILIES[family], base)
        adapted, saved = "q_proj, down_proj", "embed_tokens, lm_head, norm"
        adapted = {"phi3": "qkv_proj, down_proj", "granitemoe": "q_proj, o_proj", "gpt_oss": "q_proj, o_proj",
                   "deepseek_v3": "q_b_proj, kv_b_proj, down_proj"}.get(family, adapted)
        if family == "gpt2":
            adapted, saved = "c_attn, mlp.c_proj", "wte, lm_head, ln_f"
        if family == "t5":
            adapted, saved = "q, wo", "shared, lm_head, layer_norm, final_layer_norm"
        methods = {
            "full": ["method=full"],
            "lora": ["method=lora", "target_modules=all-linear", "lora_r=3", "use_rslora=true"],
            "whole": ["method=lora", f"target_modules=[{adapted}]", "lora_r=5", f"modules_to_save=[{saved}]"],
        }
        for method, overrides in methods.items():
            folder = root / f"{family}-{method}"
            (root / "run.yaml").write_text(
                f"model_name_or_path: {base}\ntrain_file: {base / 'data.jsonl'}\noutput_dir: {folder}\n"
                "max_steps: 8\nlearning_rate: 1e-2\nsave_strategy: no\nnum_threads: 1\n"
            )
            run(arguments.fathom, "train", root / "run.yaml", "dtype=float32", *overrides)
            yield folder
            if method != "full":
                merged = root / f"{family}-{method}-merged"
                run(arguments.fathom, "export", folder, "--merge", "--out", merged)
                yield merged


def make_quantized(arguments, root):
    """A model in FP32, with INT4's groups in every row, in every format."""
    make_model("llama", dict(hidden_size=64, num_key_value_heads=2, tie_word_embeddings=False, head_dim=32,
                             intermediate_size=192), root / "plain")
    for file in (root / "plain").iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            file.unlink()  # no tokenizer: no tokens that the model has no rows for
    for name in ["fp32", "bf16", "fp16", "fp8", "int8", "nf4", "nf4-double", "int4"]:
        run(arguments.fathom, "quantize", root / "plain", "--format", name, "--out", root / name, "device=cpu")
        yield root / name


def main():
    arguments = parse_arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    if arguments.folders:
        return 0 if all([compare(folder, arguments) for folder in arguments.folders]) else 1
    make = make_quantized if arguments.quantized else make_folders
    with tempfile.TemporaryDirectory(prefix="fathom-peer-") as root:
        results = [compare(folder, arguments) for folder in make(arguments, pathlib.Path(root))]
    print(f"{sum(results)} of {len(results)} folders are the same in transformers and PEFT")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes tests/model/golden/: small Llamas in Hugging Face folders, with what transformers and PEFT compute from them.

usage: scripts/golden/llama.py [folder]     needs torch, transformers, peft, safetensors; written with 2.11, 5.23, 0.21.

For each of four odd shapes: config.json and model.safetensors as transformers saves them; expected.json with token ids,
targets, losses, a greedy continuation and the adapter's settings; expected.safetensors with logits and one gradient for
every parameter, in FP32 with eager attention, for full training and (prefix "lora.") for LoRA with a non-zero B.
families.py does the same for the other families, whole.py for text parts of models that see pictures.
"""
import copy
import json
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.pytorch_utils import Conv1D

STEPS = 10
CORRECTION = "e_score_correction_bias"
OTHER_PARTS = ".*(vision_tower|visual|multi_modal_projector|embed_vision|vision_embedder).*"
PROMPT, CONTINUATION = 5, 50  # tokens
SHAPES = {
    # Grouped queries; heads of 10 whose sum is not the hidden size.
    "grouped": dict(
        seed=11, dtype=torch.float32, spread=0.35, batch=(2, 19), targets=None, r=4, alpha=64,
        config=dict(vocab_size=131, hidden_size=42, intermediate_size=72, num_hidden_layers=2, num_attention_heads=6,
                    num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-5, tie_word_embeddings=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 10000.0})),
    # Tied head, stored in BF16.
    "tied": dict(
        seed=12, dtype=torch.bfloat16, spread=0.3, batch=(3, 13), targets="all-linear", r=3, alpha=48,
        config=dict(vocab_size=197, hidden_size=48, intermediate_size=100, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=4, head_dim=12, rms_norm_eps=1e-6, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 500000.0})),
    # One key head for all five query heads, stored in F16, a single row.
    "multi_query": dict(
        seed=13, dtype=torch.float16, spread=0.35, batch=(1, 37), targets=["o_proj", "down_proj"], r=5, alpha=80,
        config=dict(vocab_size=97, hidden_size=35, intermediate_size=58, num_hidden_layers=3, num_attention_heads=5,
                    num_key_value_heads=1, head_dim=14, rms_norm_eps=1e-3, tie_word_embeddings=False,
                    rope_parameters={"rope_type": "default", "rope_theta": 777.0})),
    # One layer, heads wider than what they read.
    "wide_heads": dict(
        seed=14, dtype=torch.bfloat16, spread=0.45, batch=(4, 9), targets=["k_proj", "gate_proj", "up_proj"], r=2, alpha=64,
        config=dict(vocab_size=259, hidden_size=27, intermediate_size=45, num_hidden_layers=1, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=34, rms_norm_eps=1e-5, tie_word_embeddings=True,
                    rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
}


def has_experts(config):
    config = config.get_text_config()
    return hasattr(config, "num_experts_per_tok") and getattr(config, "num_local_experts", None) != 0


def build(shape, generator):
    """The model with weights that the storage type holds exactly: wide enough that logits have a spread of 1 or more."""
    settings = dict(max_position_embeddings=64, bos_token_id=1, eos_token_id=2) | shape["config"]
    family = CONFIG_MAPPING[shape.get("family", "llama")]
    whole = shape.get("whole")  # the other keys of a model whose text part the config is
    config = family(text_config=settings, **whole) if whole else family(**settings)
    eager = dict(attn_implementation="eager") | (dict(experts_implementation="eager") if has_experts(config) else {})
    kind = AutoModelForImageTextToText if whole else AutoModelForCausalLM
    model = kind.from_config(config, dtype=torch.float32, **eager)
    for name, parameter in model.named_parameters():
        if whole and not ("language_model" in name or name.startswith("lm_head")):
            parameter.requires_grad = False
        noise = torch.randn(parameter.shape, generator=generator)
        value = noise * shape["spread"] if parameter.dim() > 1 else 1 + 0.2 * noise
        if name.endswith(".bias"):
            value = 0.4 * noise
        if name.endswith(".A_log"):
            value = noise - 2.5  # what states hold outlives a chunk of tokens
        if name.endswith(".sinks"):
            value = 2 * noise  # among the scores
        parameter.data.copy_(value.to(shape["dtype"]).float())
    for name, buffer in model.named_buffers():
        if name.endswith(".layer_scalar"):
            value = 1 + 0.2 * torch.randn(buffer.shape, generator=generator)
            buffer.copy_(value.to(shape["dtype"]).float())
        if name.endswith(CORRECTION):
            value = 0.5 * torch.randn(buffer.shape, generator=generator)  # as wide as scores
            buffer.copy_(value.to(shape["dtype"]).float())
    return model


def draw_batch(shape, generator):
    """Ids and targets (labels already shifted); every row but the first is padded, and its first tokens are no targets."""
    rows, length = shape["batch"]
    ids = torch.randint(3, shape["config"]["vocab_size"], (rows, length), generator=generator)
    targets = torch.full_like(ids, -100)
    targets[:, :-1] = ids[:, 1:]
    for row in range(1, rows):
        ids[row, length - row:] = 0
        targets[row, length - row - 1:] = -100
        targets[row, :row] = -100
    return ids, targets


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def loss_with_routers(model, ids, targets):
    """Of a batch, with what its routers add where the configuration asks for it."""
    output = model(ids)
    loss = loss_of(output.logits, targets)
    if getattr(model.config, "output_router_logits", False):
        loss = loss + model.config.router_aux_loss_coef * output.aux_loss
    return loss


def margin_of_corrected(model, router, ids):
    """Of one router, between groups as well as between experts of the open ones."""
    seen = []
    hook = router.register_forward_hook(lambda module, given, made: seen.append(made[0]))
    with torch.no_grad():
        model(ids)
    hook.remove()
    by = seen[0].sigmoid() + getattr(router, CORRECTION)
    groups = by.view(len(by), router.num_group, -1)
    sums = groups.topk(2, dim=-1).values.sum(-1).sort(-1, descending=True)
    margin = 1.0
    if router.topk_group < router.num_group:
        margin = (sums.values[:, router.topk_group - 1] - sums.values[:, router.topk_group]).min().item()
    opened = groups.gather(1, sums.indices[:, :router.topk_group, None].expand(-1, -1, groups.shape[-1])).flatten(1)
    best = opened.sort(-1, descending=True).values
    if router.top_k < best.shape[-1]:
        margin = min(margin, (best[:, router.top_k - 1] - best[:, router.top_k]).min().item())
    return margin


def router_margin(model, ids):
    """How much likelier the last chosen expert is than the first that is not, where routers are closest to a tie."""
    if not has_experts(model.config):
        return 1.0
    chosen = model.config.get_text_config().num_experts_per_tok
    corrected = [module for module in model.modules() if hasattr(module, CORRECTION)]
    if corrected:
        return min(margin_of_corrected(model, router, ids) for router in corrected)
    margin = 1.0
    with torch.no_grad():
        text = getattr(model.model, "language_model", model)
        for logits in text(ids, output_router_logits=True).router_logits:
            best = logits.softmax(-1).sort(-1, descending=True).values
            if chosen < best.shape[-1]:
                margin = min(margin, (best[:, chosen - 1] - best[:, chosen]).min().item())
    return margin


def measure(model, ids, targets, prefix, tensors):
    """Logits, a gradient for every trained parameter, then ten steps of AdamW; returns the losses."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    logits = model(ids).logits
    tensors[prefix + "logits"] = logits.detach()
    loss_with_routers(model, ids, targets).backward()
    # Of matrices that are stored by what they read, as those of linear layers.
    turned = {name + ".weight" for name, module in model.named_modules() if isinstance(module, Conv1D)}
    turned |= {f"{name}.{key}" for name, module in model.named_modules() if getattr(module, "is_transposed", False)
               for key, parameter in module.named_parameters() if parameter.dim() == 3}
    for name, parameter in trained.items():
        gradient = parameter.grad.transpose(-1, -2) if name in turned else parameter.grad
        tensors[prefix + "gradient." + plain_name(name)] = gradient.clone()
    decaying = {name for name, parameter in trained.items() if parameter.dim() > 1 and not name.endswith("bias")}
    optimizer = torch.optim.AdamW(
        [{"params": [p for name, p in trained.items() if name in decaying], "weight_decay": 0.01},
         {"params": [p for name, p in trained.items() if name not in decaying], "weight_decay": 0.0}], lr=1e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_with_routers(model, ids, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(trained.values()), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def measure_steadily(model, ids, targets, prefix, tensors):
    """The same of a model whose losses do not hang on the order of sums, so that double precision gives them too."""
    wide = copy.deepcopy(model).double()
    losses = measure(model, ids, targets, prefix, tensors)
    apart = max(abs(a - b) for a, b in zip(losses, measure(wide, ids, targets, "", {})))
    assert apart < 1e-5, f"in double precision a loss differs by {apart:.1e}"
    return losses


def continue_greedily(model, ids):
    """The most likely tokens after the first ones of ids, none of them close to a tie; end-of-sequence is a token."""
    prompt = ids[:1, :PROMPT]
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=CONTINUATION, do_sample=False,
                         eos_token_id=None, pad_token_id=0)
    tokens = out[0, PROMPT:].tolist()
    with torch.no_grad():
        logits = model(out[:, :-1]).logits[0, PROMPT - 1:]
    best = logits.topk(2, dim=-1).values
    margin = ((best[:, 0] - best[:, 1]).min() / logits.abs().max()).item()
    assert len(tokens) == CONTINUATION and margin > 1e-3, f"{len(tokens)} tokens, the closest choice {margin:.1e}"
    return tokens


def plain_name(name):
    """PEFT's names inside its wrappers, as it stores them."""
    plain = name.removeprefix("base_model.model.").replace(".default.", ".").replace("model.language_model.", "model.")
    return plain.replace(".base_layer.weight", ".weight").replace(".base_layer.bias", ".bias").replace(
        ".modules_to_save.", ".")


def write(name, shape, folder):
    generator = torch.Generator().manual_seed(shape["seed"])
    model = build(shape, generator)
    ids, targets = draw_batch(shape, generator)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    # A copy: casting a model back and forth would also round the frequencies of its rotary positions.
    copy.deepcopy(model).to(shape["dtype"]).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if "silent" in shape:  # a key that config.json leaves out
        saved = json.loads((folder / "config.json").read_text())
        del saved[shape["silent"]]
        (folder / "config.json").write_text(json.dumps(saved, indent=2) + "\n")

    tensors = {}
    continuation = continue_greedily(model, ids)
    margin = router_margin(model, ids)
    assert margin > 1e-4, f"a router is {margin:.1e} from a tie"
    losses = measure_steadily(model, ids, targets, "", tensors)

    model.load_state_dict(state)
    lora = LoraConfig(r=shape["r"], lora_alpha=shape["alpha"], lora_dropout=0.0, target_modules=shape["targets"],
                      target_parameters=shape.get("target_parameters"), use_rslora=shape.get("rslora", False),
                      exclude_modules=OTHER_PARTS if "whole" in shape else None, task_type="CAUSAL_LM")
    adapted = get_peft_model(model, lora)
    for key, parameter in adapted.named_parameters():
        if ".lora_" in key:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
            tensors["lora.weight." + plain_name(key)] = parameter.detach().clone()
    lora_losses = measure_steadily(adapted, ids, targets, "lora.", tensors)

    spread = min(tensors["logits"].std().item(), tensors["lora.logits"].std().item())
    falls = losses[0] - losses[-1], lora_losses[0] - lora_losses[-1]
    print(f"{name}: {sum(v.numel() for v in state.values())} parameters, logits' spread {spread:.2f}, "
          f"losses fall by {falls[0]:.2f} and {falls[1]:.2f}")
    assert spread >= 1 and min(falls) >= 0.5
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "expected.safetensors")
    expected = {"ids": ids.tolist(), "targets": targets.tolist(), "losses": losses, "lora_losses": lora_losses,
                "continuation": continuation,
                "lora": {"r": shape["r"], "alpha": shape["alpha"], "target_modules": shape["targets"] or [],
                         "target_parameters": shape.get("target_parameters") or [],
                         "use_rslora": shape.get("rslora", False)}}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def write_all(shapes, arguments):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    repository = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(arguments[0]) if arguments else repository / "tests" / "model" / "golden"
    for name, shape in shapes.items():
        write(name, shape, folder / name)


if __name__ == "__main__":
    write_all(SHAPES, sys.argv[1:])

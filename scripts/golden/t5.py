#!/usr/bin/env python3
"""Writes tests/model/golden/t5_*/ and tests/ops/golden/relative_buckets.json: small T5s and what is computed from them.

usage: scripts/golden/t5.py [folder [file]]     needs what llama.py needs; written with 2.11, 5.24, 0.21.

The files are llama.py's, with two streams: ids are sources, padded after `lengths` tokens, decoder_ids what the model
itself makes of the targets by shifting them. `continuations` are greedy ones of every source, which are the same padded
and alone, from decoder_start_token_id on. Folders are what transformers saves, some of them with what older versions
and older files have in their place.
"""
import json
import pathlib
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.utils import logging

from llama import CONTINUATION, loss_of, measure, plain_name

END = 1
IGNORED = -100
# config.json as FLAN-T5 and T5 1.1 have it on the hub; transformers 5 writes tie_word_embeddings true, head or no head,
# and scale_decoder_outputs false.
UNTIED_BEFORE_5 = dict(without=["scale_decoder_outputs", "classifier_dropout", "is_decoder"],
                       added={"tie_word_embeddings": False})
# As T5 1.0 has it: what is as by default is missing.
FIRST_CONFIG = dict(without=["scale_decoder_outputs", "classifier_dropout", "is_decoder", "tie_word_embeddings",
                             "feed_forward_proj", "dense_act_fn", "is_gated_act", "num_decoder_layers",
                             "relative_attention_max_distance", "use_cache"], added={"n_positions": 512})
SHAPES = {
    # As FLAN-T5: gated, a head of its own. Three decoder layers read two; heads whose sum is not the model's width.
    "t5_flan": dict(
        seed=587, dtype=torch.bfloat16, spread=0.35, branch=0.6, embedding=0.5, head=0.5,
        lengths=[17, 21, 6], targets=[12, 5, 15], r=4, alpha=32, modules=None, written=UNTIED_BEFORE_5,
        config=dict(vocab_size=61, d_model=16, d_kv=6, d_ff=22, num_layers=2, num_decoder_layers=3, num_heads=3,
                    feed_forward_proj="gated-gelu", tie_word_embeddings=False, layer_norm_epsilon=1e-6)),
    # As T5 1.0: no gate, the tied head's inputs scaled. Stored as transformers saves it loaded in F16: wo stays F32.
    "t5_first": dict(
        seed=648, dtype=torch.float16, spread=0.35, branch=2.5, embedding=1.2, head=None,
        lengths=[9, 24], targets=[14, 11], r=3, alpha=24, modules="all-linear", written=FIRST_CONFIG,
        config=dict(vocab_size=53, d_model=18, d_kv=4, d_ff=25, num_layers=2, num_heads=5, feed_forward_proj="relu",
                    layer_norm_epsilon=1e-5)),
    # Tied, yet not scaled; an odd number of buckets, the last of which begin at 23: both streams are longer.
    "t5_far": dict(
        seed=364, dtype=torch.bfloat16, spread=0.35, branch=1, embedding=0.5, head=None,
        lengths=[53, 31], targets=[13, 41], r=2, alpha=32, modules=["k", "EncDecAttention.o", "wi_0", "wo"],
        config=dict(vocab_size=47, d_model=14, d_kv=5, d_ff=17, num_layers=3, num_decoder_layers=2, num_heads=2,
                    feed_forward_proj="gated-gelu", tie_word_embeddings=False, relative_attention_num_buckets=11,
                    relative_attention_max_distance=23)),
    # One layer each with one head wider than the model; the decoder begins with a token that is no padding, the second
    # token of a target is none. Saved by transformers 5, with the aliases of older files.
    "t5_one": dict(
        seed=203, dtype=torch.float32, spread=0.35, branch=2, embedding=0.3, head=0.5,
        lengths=[5, 1, 8], targets=[9, 6, 1], r=2, alpha=32, modules=["q", "v"], hole=True,
        aliases=["encoder.embed_tokens", "decoder.embed_tokens"],
        config=dict(vocab_size=71, d_model=13, d_kv=20, d_ff=27, num_layers=1, num_heads=1, feed_forward_proj="relu",
                    tie_word_embeddings=False, relative_attention_num_buckets=6, relative_attention_max_distance=7,
                    layer_norm_epsilon=1e-3, pad_token_id=2, decoder_start_token_id=4)),
}
# Number of buckets, the distance at which the last begins, whether positions after the query have buckets too.
BUCKETS = [(buckets, distance, both) for both in (True, False)
           for buckets, distance in [(32, 128), (11, 23), (6, 7), (4, 5), (32, 256), (40, 1000), (9, 100)]]


class WithBatch:
    """What llama.measure asks of a model: logits of the source ids; the rest of the batch is always the same."""

    def __init__(self, model, mask, targets):
        self.model, self.mask, self.targets = model, mask, targets
        self.named_parameters = model.named_parameters

    def __call__(self, ids):
        result = self.model(input_ids=ids, attention_mask=self.mask, labels=self.targets)
        torch.testing.assert_close(result.loss, loss_of(result.logits, self.targets))
        return result


def build(shape, generator):
    """A model whose logits have a spread of 1 or more; queries are small, as T5 has them: it does not scale scores."""
    config = T5Config(**(dict(dropout_rate=0.0, decoder_start_token_id=0) | shape["config"]))
    model = T5ForConditionalGeneration(config)
    if shape["head"]:
        model.lm_head = torch.nn.Linear(config.d_model, config.vocab_size, bias=False)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            value = 1 + 0.2 * noise
        elif name == "shared.weight":
            value = noise * shape["embedding"]
        elif name == "lm_head.weight":
            value = noise * shape["head"]
        elif name.endswith("relative_attention_bias.weight"):
            value = noise
        elif name.endswith(".q.weight"):
            value = noise * shape["spread"] * config.d_kv ** -0.5
        elif name.endswith((".o.weight", ".wo.weight")):
            value = noise * shape["branch"]
        else:
            value = noise * shape["spread"]
        stays = shape["dtype"] == torch.float16 and name.endswith(".wo.weight")  # transformers keeps it in F32
        parameter.data.copy_(value if stays else value.to(shape["dtype"]).float())
    return model


def save(model, shape, folder):
    """As transformers saves what it loaded in the shape's type, then what the shape has in other ways."""
    with tempfile.TemporaryDirectory() as whole:
        model.save_pretrained(whole)
        AutoModelForSeq2SeqLM.from_pretrained(whole, dtype=shape["dtype"]).save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    written = shape.get("written", dict(without=[], added={}))
    config = json.loads((folder / "config.json").read_text())
    config = {key: value for key, value in config.items() if key not in written["without"]} | written["added"]
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    weights = load_file(folder / "model.safetensors")
    for alias in shape.get("aliases", []):
        weights[alias + ".weight"] = weights["shared.weight"].clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def draw_rows(lengths, config, padding, generator):
    rows = torch.full((len(lengths), max(lengths)), padding)
    for row, length in zip(rows, lengths):
        row[:length] = torch.randint(5, config.vocab_size, (length,), generator=generator)
        row[length - 1] = END
    return rows


def draw_batch(shape, config, generator):
    ids = draw_rows(shape["lengths"], config, config.pad_token_id, generator)
    targets = draw_rows(shape["targets"], config, IGNORED, generator)
    if shape.get("hole"):
        targets[0, 1] = IGNORED
    mask = (torch.arange(ids.shape[1]) < torch.tensor(shape["lengths"])[:, None]).long()
    return ids, mask, targets


def continue_greedily(model, ids, mask):
    """The most likely tokens of every source, none of them close to a tie; end-of-sequence is a token."""
    def generate(ids, mask):
        # Without a cache, for which transformers takes the encoder's number of layers: too few for t5_flan's decoder.
        return model.generate(ids, attention_mask=mask, max_new_tokens=CONTINUATION, do_sample=False, eos_token_id=None,
                              use_cache=False)

    out = generate(ids, mask)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask, decoder_input_ids=out[:, :-1]).logits
    best = logits.topk(2, dim=-1).values
    margin = ((best[..., 0] - best[..., 1]).min() / logits.abs().max()).item()
    assert torch.equal(logits.argmax(-1), out[:, 1:])
    assert out.shape[1] == 1 + CONTINUATION and margin > 1e-3, f"{out.shape}, the closest choice {margin:.1e}"
    for row, length in enumerate(mask.sum(1).tolist()):
        alone = generate(ids[row:row + 1, :length], mask[row:row + 1, :length])
        assert torch.equal(alone[0], out[row]), f"row {row} goes on in another way alone"
    continuations = out[:, 1:].tolist()
    variety = [len(set(row)) for row in continuations]
    assert min(variety) >= 7, f"{variety} different tokens"
    return continuations


def load(folder):
    return AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)


def write(name, shape, folder):
    generator = torch.Generator().manual_seed(shape["seed"])
    built = build(shape, generator)
    folder.mkdir(parents=True, exist_ok=True)
    save(built, shape, folder)
    model = load(folder)
    for (key, parameter), loaded in zip(built.named_parameters(), model.parameters(), strict=True):
        assert torch.equal(parameter, loaded), key
    assert model.config.scale_decoder_outputs == built.config.scale_decoder_outputs
    ids, mask, targets = draw_batch(shape, model.config, generator)

    tensors = {}
    continuations = continue_greedily(model, ids, mask)
    losses = measure(WithBatch(model, mask, targets), ids, targets, "", tensors)

    lora = LoraConfig(r=shape["r"], lora_alpha=shape["alpha"], lora_dropout=0.0, target_modules=shape["modules"],
                      task_type="SEQ_2_SEQ_LM")
    adapted = get_peft_model(load(folder), lora)
    for key, parameter in adapted.named_parameters():
        if ".lora_" in key:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
            tensors["lora.weight." + plain_name(key)] = parameter.detach().clone()
    lora_losses = measure(WithBatch(adapted, mask, targets), ids, targets, "lora.", tensors)

    spread = min(tensors["logits"].std().item(), tensors["lora.logits"].std().item())
    falls = losses[0] - losses[-1], lora_losses[0] - lora_losses[-1]
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, logits' spread {spread:.2f}, "
          f"losses fall by {falls[0]:.2f} and {falls[1]:.2f}")
    assert spread >= 1 and min(falls) >= 0.5
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "expected.safetensors")
    expected = {"ids": ids.tolist(), "lengths": shape["lengths"], "targets": targets.tolist(),
                "decoder_ids": model.prepare_decoder_input_ids_from_labels(targets).tolist(), "losses": losses,
                "lora_losses": lora_losses, "continuations": continuations,
                "lora": {"r": shape["r"], "alpha": shape["alpha"], "target_modules": shape["modules"] or []}}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def write_buckets(file):
    """Where each run of positions (of a key, minus its query's) with one bucket begins, from -1100 to 1100."""
    cases = []
    for buckets, distance, both in BUCKETS:
        positions = torch.arange(-1100, 1101)
        found = T5Attention._relative_position_bucket(positions, both, buckets, distance).tolist()
        begins = [[position, bucket] for position, bucket, before in zip(positions.tolist(), found, [None] + found)
                  if bucket != before]
        cases.append({"buckets": buckets, "max_distance": distance, "bidirectional": both, "begins": begins})
    file.write_text("[" + ",\n".join(json.dumps(case) for case in cases) + "]\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    logging.set_verbosity_error()
    tests = pathlib.Path(__file__).resolve().parents[2] / "tests"
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else tests / "model" / "golden"
    for each, settings in SHAPES.items():
        write(each, settings, root / each)
    default = tests / "ops" / "golden" / "relative_buckets.json"
    write_buckets(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else default)

#!/usr/bin/env python3
"""Writes tests/train/golden/dpo/: what TRL's DPOTrainer and CPOTrainer make of a small Llama and a dozen preferences.

usage: scripts/golden/dpo.py     needs torch, transformers, trl, peft; written with 2.11, 5.24, 1.16, 0.21.

The model is tests/model/golden/wide_heads, with a tokenizer of single bytes (tokenizer.json). preferences.jsonl has answers of
several lengths, two of which are cut. expected.json has, for each way of training, what TRL logs of three steps of AdamW of two
micro-batches: loss, gradient norm, rewards and log-probabilities; with LoRA the adapter is adapter/, whose B is not zero, and the
reference is the model with that adapter. SimPO is CPO's loss of that name without a likelihood beside it, whose trainer puts BOS in
front and cuts prompts: there its tokenizer has no BOS, and nothing is long enough to be cut.
"""
import json
import pathlib
import random
import shutil
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BASE = REPOSITORY / "tests/model/golden/wide_heads"
OUT = REPOSITORY / "tests/train/golden/dpo"
LONGEST = 40
RUNS = {
    "sigmoid": dict(loss_type=["sigmoid"], beta=0.1),
    "sigmoid_lora": dict(loss_type=["sigmoid"], beta=0.3),
    "hinge": dict(loss_type=["hinge"], beta=0.05),
    "ipo": dict(loss_type=["ipo"], beta=0.2),
    "robust": dict(loss_type=["robust"], beta=0.1, label_smoothing=0.2),
    "exo_pair": dict(loss_type=["exo_pair"], beta=0.1, label_smoothing=1e-3),
    **{name: dict(loss_type=[name], beta=0.1)
       for name in ("nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down", "sigmoid_norm")},
}
SIMPO = dict(loss_type="simpo", cpo_alpha=0.0, beta=2.0, simpo_gamma=1.0)
UNCUT = 80
NAMES = ["loss", "grad_norm", "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen",
         "logps/rejected"]


def byte_tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>"])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def preferences():
    random.seed(91)
    words = lambda least, most: "".join(random.choice("abcdefgh ") for _ in range(random.randint(least, most)))
    rows = [dict(prompt=words(3, 12) + ":", chosen=" " + words(1, 14), rejected=" " + words(1, 14)) for _ in range(12)]
    rows[4]["chosen"] += " and on and on and on and on and on"  # is cut
    rows[7]["rejected"] += " and on and on and on and on and on"
    return rows


def model_of(name):
    model = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float32, attn_implementation="eager")
    return PeftModel.from_pretrained(model, OUT / "adapter", is_trainable=True) if name.endswith("_lora") else model


def measure(name, settings, tokenizer, rows, make_config=DPOConfig, make_trainer=DPOTrainer, longest=LONGEST):
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(output_dir=folder, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=3,
                             learning_rate=3e-3, lr_scheduler_type="constant", max_length=longest, bf16=False, use_cpu=True,
                             gradient_checkpointing=False, logging_steps=1, report_to="none", save_strategy="no", seed=1,
                             train_sampling_strategy="sequential", max_grad_norm=1.0, disable_tqdm=True, **settings)
        trainer = make_trainer(model_of(name), args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
        trainer.train()
    steps = [line for line in trainer.state.log_history if "loss" in line]
    return [{key: step[key] for key in NAMES} for step in steps]


def main():
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer, rows = byte_tokenizer(), preferences()
    tokenizer.backend_tokenizer.save(str(OUT / "tokenizer.json"))
    (OUT / "tokenizer_config.json").write_text(
        json.dumps(dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>"), indent=1) + "\n")
    (OUT / "preferences.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    torch.manual_seed(92)
    adapted = get_peft_model(model_of(""), LoraConfig(r=3, lora_alpha=24, target_modules=["q_proj", "o_proj", "up_proj"]))
    adapted.peft_config["default"].base_model_name_or_path = BASE.name  # no path of the machine that wrote it
    for parameter_name, parameter in adapted.named_parameters():
        if "lora_B" in parameter_name:
            parameter.data.normal_(std=0.05)
    shutil.rmtree(OUT / "adapter", ignore_errors=True)
    adapted.save_pretrained(OUT / "adapter")
    (OUT / "adapter" / "README.md").unlink(missing_ok=True)
    expected = dict(max_length=LONGEST, runs={
        name: dict(settings | dict(loss_type=settings["loss_type"][0]), steps=measure(name, settings, tokenizer, rows))
        for name, settings in RUNS.items()})
    tokenizer.bos_token = None
    expected["runs"]["simpo"] = dict(objective="simpo", max_length=UNCUT, **SIMPO, steps=measure(
        "simpo", SIMPO, tokenizer, rows, CPOConfig, CPOTrainer, UNCUT))
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()

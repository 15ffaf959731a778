"""Fine-tunes as a row of the benchmark did; prints what Trainer's memory tracker found, {"peak": bytes, "end": bytes}.

usage: train_row.py CHECKPOINT ROW STEPS    ROW: a JSON object, one of rows.json

Texts are words drawn at random: they are packed into sequences of 4,096, of which only the shape matters. What is done
in which order is told by the benchmark's trainer, tuning/sft_trainer.py of fms-hf-tuning.
"""
import inspect
import itertools
import json
import pathlib
import random
import sys

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

FILES = pathlib.Path(__file__).resolve().parent
LENGTH = 4096
WORDS_OF_TEXT = 450


def tokenizer_of(vocabulary):
    """Of one word for each number."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3, **{f"w{i}": i for i in range(4, vocabulary)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                                   pad_token="<pad>")


def texts_of(vocabulary, words):
    draw = random.Random(1)
    return [" ".join(f"w{draw.randrange(4, vocabulary)}" for _ in range(WORDS_OF_TEXT))
            for _ in range(words // WORDS_OF_TEXT + 1)]


def framework_of(row):
    """fms-acceleration with the plugins of the row, or None: each reads its settings from a file."""
    if row["framework"] == "none":
        return None
    from fms_acceleration import AccelerationFramework
    plugins = json.loads((FILES / "frameworks.json").read_text())[row["framework"]]
    file = pathlib.Path("framework.yaml")
    file.write_text(json.dumps({"plugins": plugins}))  # which is YAML too
    return AccelerationFramework(str(file))


def model_of(checkpoint, framework, vocabulary):
    load = AutoModelForCausalLM.from_pretrained
    if framework and framework.requires_custom_loading:
        load = framework.model_loader
    model = load(checkpoint, torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2")
    if vocabulary > model.config.vocab_size:
        # Since transformers 4.46 new rows are drawn around the mean of all, which takes a matrix of zeros amiss.
        known = inspect.signature(model.resize_token_embeddings).parameters
        model.resize_token_embeddings(vocabulary, **({"mean_resizing": False} if "mean_resizing" in known else {}))
    return model


def spread_tokens_over_experts(experts):
    """For Mixtral, two experts of which get each token: which, only a GPU knows, and to a phantom each would get all.

    Here pairs of experts get tokens by turns. An expert's tokens are asked for by where(mask), a mask of 2 rows: those
    that have chosen it first, and those that have chosen it second.
    """
    where, asked = torch.where, itertools.count()

    def even_where(condition, *values):
        if values or condition.dim() != 2 or len(condition) != 2:
            return where(condition, *values)
        expert = next(asked) % experts
        tokens = torch.arange(expert // 2, condition.shape[1], experts // 2)
        places = torch.stack([torch.full_like(tokens, expert % 2), tokens], 1)
        return places.to(condition.device).unbind(1)  # as nonzero has them, side by side

    torch.where = even_where


def trainer_of(checkpoint, row, steps):
    config = AutoConfig.from_pretrained(checkpoint)
    if config.model_type == "mixtral":
        spread_tokens_over_experts(config.num_local_experts)
    vocabulary = config.vocab_size
    vocabulary += json.loads((FILES / "models.json").read_text())[row["model"]]["words_added"]
    tokenizer = tokenizer_of(vocabulary)
    batch = row["batch"]
    data = Dataset.from_dict({"output": texts_of(vocabulary, (steps + 2) * batch * LENGTH)})
    adapters = LoraConfig(bias="none", task_type="CAUSAL_LM", **row["lora"]) if "lora" in row else None
    settings = SFTConfig(
        output_dir="output", max_steps=steps, per_device_train_batch_size=batch, bf16=row["bf16"],
        learning_rate=row["learning_rate"], weight_decay=0.01, warmup_steps=10, adam_epsilon=1e-4,
        lr_scheduler_type="linear", gradient_checkpointing=True, logging_steps=10, save_strategy="no", report_to=[],
        include_tokens_per_second=True, skip_memory_metrics=False, packing=True, max_seq_length=LENGTH,
        dataset_text_field="output")
    framework = framework_of(row)
    model = model_of(checkpoint, framework, vocabulary)
    if framework:
        model, (adapters,) = framework.augmentation(model, settings, modifiable_args=(adapters,))
    known = inspect.signature(SFTTrainer.__init__).parameters
    trainer = SFTTrainer(model=model, args=settings, train_dataset=data, peft_config=adapters,
                         **{"processing_class" if "processing_class" in known else "tokenizer": tokenizer})
    if framework:
        for callback in framework.get_callbacks_and_ready_for_train(model, trainer.accelerator):
            trainer.add_callback(callback)
    return trainer


def main(checkpoint, row, steps):
    metrics = trainer_of(checkpoint, row, steps).train().metrics
    # Where memory begins, then after each stage of the run, and how far above that the stage had been.
    end = metrics["before_init_mem_gpu"]
    peak = end
    for stage in ("init", "train"):
        end += metrics[f"{stage}_mem_gpu_alloc_delta"]
        peak = max(peak, end + metrics[f"{stage}_mem_gpu_peaked_delta"])
    print(json.dumps({"peak": peak, "end": end}))


main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]))

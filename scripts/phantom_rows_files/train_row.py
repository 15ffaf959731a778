"""Fine-tunes as a row of the benchmark did; prints what Trainer's memory tracker found, {"peak": bytes, "end": bytes}.

usage: train_row.py CHECKPOINT METHOD BATCH STEPS    METHOD: full, lora, baseline-peft-bnb or accelerated-peft-bnb

Texts are words drawn at random: they are packed into sequences of 4,096, of which only the shape matters.
"""
import inspect
import json
import random
import sys

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

LENGTH = 4096
WORDS_OF_TEXT = 450


def tokenizer_of(config):
    """Of one word for each number of the vocabulary; a vocabulary without a token to pad with is given one."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, config.vocab_size)}}
    words["<pad>"] = config.vocab_size if config.model_type == "mistral" else words.pop("w3")
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                                   pad_token="<pad>")


def texts_of(config, words):
    draw = random.Random(1)
    return [" ".join(f"w{draw.randrange(4, config.vocab_size)}" for _ in range(WORDS_OF_TEXT))
            for _ in range(words // WORDS_OF_TEXT + 1)]


def model_of(checkpoint, quantized, vocabulary):
    settings = {}
    if quantized:
        settings["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, torch_dtype=torch.bfloat16, **settings,
                                                 attn_implementation="flash_attention_2")
    if vocabulary > model.config.vocab_size:
        model.resize_token_embeddings(vocabulary, mean_resizing=False)
    return model


def main(checkpoint, method, batch, steps):
    config = AutoConfig.from_pretrained(checkpoint)
    quantized = method.endswith("bnb")
    tokenizer = tokenizer_of(config)
    data = Dataset.from_dict({"output": texts_of(config, (steps + 2) * batch * LENGTH)})
    adapters = None if method == "full" else LoraConfig(
        r=16, lora_alpha=16, lora_dropout=0.1, bias="none", task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    settings = SFTConfig(
        output_dir="output", max_steps=steps, per_device_train_batch_size=batch, bf16=quantized,
        learning_rate=2e-5 if method == "full" else 2e-4, weight_decay=0.01, warmup_steps=10, adam_epsilon=1e-4,
        lr_scheduler_type="linear", gradient_checkpointing=True, logging_steps=10, save_strategy="no", report_to=[],
        include_tokens_per_second=True, skip_memory_metrics=False, packing=True, max_seq_length=LENGTH,
        dataset_text_field="output")
    model = model_of(checkpoint, quantized, len(tokenizer))
    if method == "accelerated-peft-bnb":  # adapters by its own hand, so that nothing is cast to FP32 for them
        model.requires_grad_(False)
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
        model = get_peft_model(model, adapters)
        adapters = None
    known = inspect.signature(SFTTrainer.__init__).parameters
    trainer = SFTTrainer(model=model, args=settings, train_dataset=data, peft_config=adapters,
                         **{"processing_class" if "processing_class" in known else "tokenizer": tokenizer})
    metrics = trainer.train().metrics
    # Where memory begins, then after each stage of the run, and how far above that the stage had been.
    end = metrics["before_init_mem_gpu"]
    peak = end
    for stage in ("init", "train"):
        end += metrics[f"{stage}_mem_gpu_alloc_delta"]
        peak = max(peak, end + metrics[f"{stage}_mem_gpu_peaked_delta"])
    print(json.dumps({"peak": peak, "end": end}))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

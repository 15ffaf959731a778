"""One row of the comparison: a method in a precision, in the words of each side."""

import dataclasses

METHODS = ["full", "lora"]
PRECISIONS = ["fp32", "autocast", "bf16"]
LEARNING_RATE = 1e-4

# How far the losses of a step may be apart. FP32 differs by the order of sums; BF16 rounds every activation to 8 bits
# (a T5 of random weights, whose scores are not scaled, is then 0.07 from its loss in FP32 on either side), and pure
# BF16 the weights' updates as well.
LOSS_TOLERANCE = {"fp32": 1e-4, "autocast": 1e-2, "bf16": 2e-2}


@dataclasses.dataclass(frozen=True)
class Row:
    method: str
    precision: str
    gradient_checkpointing: bool = False

    @classmethod
    def parse(cls, text):
        method, _, precision = text.partition(":")
        if method not in METHODS or precision not in PRECISIONS:
            raise SystemExit(
                f"'{text}' is no row: METHOD:PRECISION with {' or '.join(METHODS)} and {', '.join(PRECISIONS)}"
            )
        return cls(method, precision)

    @property
    def name(self):
        return f"{self.method}-{self.precision}" + ("-checkpointing" if self.gradient_checkpointing else "")

    @property
    def title(self):
        method = {"full": "full", "lora": "LoRA"}[self.method]
        precision = {"fp32": "FP32", "autocast": "BF16 autocast", "bf16": "pure BF16"}[self.precision]
        return f"{method}, {precision}" + (", checkpointing" if self.gradient_checkpointing else "")

    def fathom_settings(self):
        """Keys of a config for what the peer does: constant rate, the file's order, no evaluation or checkpoint."""
        settings = {
            "method": self.method,
            "dtype": "bfloat16" if self.precision == "bf16" else "float32",
            "bf16": "true" if self.precision == "autocast" else "false",
            "gradient_checkpointing": "true" if self.gradient_checkpointing else "false",
            "device": "cpu",
            "per_device_train_batch_size": 1,
            "shuffle": "false",
            "learning_rate": LEARNING_RATE,
            "lr_scheduler_type": "constant",
            "max_grad_norm": 1.0,
            "logging_steps": 1,
            "eval_strategy": "no",
            "save_strategy": "no",
            "seed": 42,
        }
        if self.method == "lora":
            settings.update(lora_r=8, lora_alpha=8)  # on queries and values, the default
        return settings

    def peer_arguments(self):
        arguments = ["--method", self.method, "--precision", self.precision, "--learning-rate", LEARNING_RATE]
        return arguments + (["--gradient-checkpointing"] if self.gradient_checkpointing else [])

    def state_bytes(self, parameters, trained):
        """Bytes of weights, gradients and AdamW's two states, by element count (adapters are FP32 on any base)."""
        weight = 2 if self.precision == "bf16" else 4
        trained_weight = weight if self.method == "full" else 4
        return (parameters - trained) * weight + trained * trained_weight * 4

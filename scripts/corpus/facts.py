"""The facts of the shipped texts: every one is a kind, the words that fill its sentences, and an answer with its unit."""
from typing import NamedTuple

# Bytes per parameter, as a fraction, so that every product below is exact.
STORAGE = {"FP32": (4, 1), "BF16": (2, 1), "FP16": (2, 1), "FP8": (1, 1), "INT8": (1, 1), "INT4": (1, 2)}
BYTES_IN_WORDS = {"FP32": "4 bytes", "BF16": "2 bytes", "FP16": "2 bytes", "FP8": "1 byte", "INT8": "1 byte",
                  "INT4": "half a byte"}
BILLIONS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 27, 30, 32, 34, 40, 50, 65, 70, 72, 80, 90, 100]
TRAINED_BILLIONS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 30, 34, 40, 50, 70]
# What training keeps per parameter: FP32 gradients, AdamW's two FP32 moments, and the usual low and high totals.
TRAINING_BYTES = {"gradients": 4, "moments": 8, "low": 16, "high": 24}

# format: (all bits, exponent bits, fraction bits); integers have neither exponent nor fraction.
FORMATS = {"FP64": (64, 11, 52), "FP32": (32, 8, 23), "TF32": (19, 8, 10), "FP16": (16, 5, 10), "BF16": (16, 8, 7),
           "E4M3": (8, 4, 3), "E5M2": (8, 5, 2), "E2M1": (4, 2, 1), "INT4": (4, None, None), "INT8": (8, None, None),
           "INT16": (16, None, None), "INT32": (32, None, None), "INT64": (64, None, None)}

# Cards that were sold with one size of memory only.
GPU_MEMORY_GB = {"T4": 16, "A10": 24, "A30": 24, "A40": 48, "H100": 80, "H200": 141, "L4": 24, "L40S": 48, "MI210": 64,
                 "MI250X": 128, "MI300X": 192, "MI325X": 256, "RTX A6000": 48, "RTX 2080 Ti": 11, "RTX 3070": 8,
                 "RTX 3090": 24, "RTX 4070": 12, "RTX 4080": 16, "RTX 4090": 24, "RTX 5080": 16, "RTX 5090": 32}

# model: (parameters in words, layers of a decoder or encoder; none where there are both)
MODELS = {"GPT-2 small": ("124 million", 12), "GPT-2 medium": ("355 million", 24), "GPT-2 large": ("774 million", 36),
          "GPT-2 XL": ("1.5 billion", 48), "GPT-3": ("175 billion", 96), "BERT base": ("110 million", 12),
          "BERT large": ("340 million", 24), "Llama 2 7B": ("7 billion", 32), "Llama 2 13B": ("13 billion", 40),
          "Llama 2 70B": ("70 billion", 80), "Llama 3 8B": ("8 billion", 32), "Llama 3 70B": ("70 billion", 80),
          "Llama 3 405B": ("405 billion", 126), "Mistral 7B": ("7 billion", 32), "Falcon 40B": ("40 billion", 60),
          "Falcon 180B": ("180 billion", 80), "BLOOM": ("176 billion", 70), "FLAN-T5 XL": ("3 billion", None),
          "FLAN-T5 XXL": ("11 billion", None)}


class Fact(NamedTuple):
    kind: str      # names its sentences in prose.py and its questions in questions.py
    words: dict    # what fills them; always with "answer"
    topic: str     # facts of one topic stand together in a paragraph

    @property
    def answer(self):
        return self.words["answer"]


def grouped(number):
    """1234567 -> 1,234,567; halves keep one decimal."""
    return f"{number:,}" if number == int(number) else f"{number:,.1f}"


def exact(numerator, denominator):
    return numerator // denominator if numerator % denominator == 0 else numerator / denominator


def weight_facts():
    for size in BILLIONS:
        for name, (numerator, denominator) in STORAGE.items():
            gigabytes = exact(size * numerator, denominator)
            yield Fact("weights", {"size": str(size), "format": name, "each": BYTES_IN_WORDS[name],
                                   "answer": f"{grouped(gigabytes)} GB"}, f"size {size}")


def training_facts():
    for size in TRAINED_BILLIONS:
        for kind, each in TRAINING_BYTES.items():
            yield Fact(kind, {"size": str(size), "each": str(each), "answer": f"{grouped(size * each)} GB"}, f"size {size}")


def unit_facts():
    for n in [*range(2, 17), 20, 24, 32, 40, 48, 64, 80]:
        yield Fact("gb_in_mb", {"n": str(n), "answer": f"{grouped(n * 1000)} MB"}, "units")
        yield Fact("gib_in_mib", {"n": str(n), "answer": f"{grouped(n * 1024)} MiB"}, "units")
        yield Fact("bytes_in_bits", {"n": str(n), "answer": f"{grouped(n * 8)} bits"}, "units")
    for n in range(2, 17):
        yield Fact("values_of_bits", {"n": str(n), "answer": f"{grouped(2 ** n)} values"}, "units")


def format_facts():
    for name, (bits, exponent, fraction) in FORMATS.items():
        yield Fact("format_bits", {"format": name, "answer": f"{bits} bits"}, "formats")
        if exponent:
            yield Fact("exponent_bits", {"format": name, "answer": f"{exponent} bits"}, "formats")
            yield Fact("fraction_bits", {"format": name, "answer": f"{fraction} bit{'s' * (fraction != 1)}"}, "formats")


def hardware_facts():
    for name, gigabytes in GPU_MEMORY_GB.items():
        yield Fact("gpu_memory", {"gpu": name, "answer": f"{gigabytes} GB"}, "hardware")


def model_facts():
    for name, (parameters, layers) in MODELS.items():
        yield Fact("model_parameters", {"model": name, "answer": f"{parameters} parameters"}, "models")
        if layers:
            yield Fact("model_layers", {"model": name, "answer": f"{layers} layers"}, "models")


def batch_facts():
    for rows in [2, 3, 4, 5, 6, 8, 16, 32]:
        for length in [128, 256, 512, 1024, 2048, 4096]:
            yield Fact("batch_tokens", {"rows": str(rows), "length": grouped(length),
                                        "answer": f"{grouped(rows * length)} tokens"}, "batches")


def adapter_facts():
    # LoRA adds two matrices, width x rank and rank x width.
    for rank in [1, 2, 4, 8, 16, 32, 64]:
        for width in [512, 1024, 2048, 4096]:
            yield Fact("adapter_parameters", {"rank": str(rank), "width": grouped(width),
                                              "answer": f"{grouped(2 * rank * width)} parameters"}, "adapters")


def all_facts():
    return [*weight_facts(), *training_facts(), *unit_facts(), *format_facts(), *hardware_facts(), *model_facts(),
            *batch_facts(), *adapter_facts()]

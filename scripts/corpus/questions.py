"""Facts to questions and answers: the ways to ask for every kind of fact. They keep away from the wording of the prose, so
that a model that has read only prose does not answer by carrying a sentence on."""

QUESTIONS = {
    "weights": [
        "How much memory do {size} billion parameters need in {format}?",
        "How much memory does a {size}B model take if I load it in {format}?",
        "My model has {size} billion parameters in {format}. How large are its weights?",
        "What should I reserve for the {format} weights of a {size}B model?",
        "I store {size} billion parameters in {format}. How much is that?",
    ],
    "gradients": [
        "How large do the FP32 gradients of {size} billion parameters get?",
        "How much memory should I reserve for the FP32 gradients of a {size}B model?",
        "I train {size} billion parameters. How large are my gradients in FP32?",
        "How much do gradients in FP32 cost me for {size} billion parameters?",
    ],
    "moments": [
        "How large do the AdamW states of {size} billion parameters get?",
        "How much memory should I reserve for the AdamW states of a {size}B model?",
        "I train {size} billion parameters. How large are my AdamW states?",
        "How much do the states of AdamW cost me for {size} billion parameters?",
    ],
    "low": [
        "I want to train {size} billion parameters at 16 bytes each. How much memory is that?",
        "How much memory should I reserve to train a {size}B model by the rule of 16 bytes?",
        "By the rule of 16 bytes, what does it cost to train {size} billion parameters?",
        "My budget is 16 bytes for each of {size} billion parameters. How much is that?",
    ],
    "high": [
        "I want to train {size} billion parameters at 24 bytes each. How much memory is that?",
        "How much memory should I reserve to train a {size}B model by the rule of 24 bytes?",
        "By the rule of 24 bytes, what does it cost to train {size} billion parameters?",
        "My budget is 24 bytes for each of {size} billion parameters. How much is that?",
    ],
    "gb_in_mb": [
        "How many MB do I get from {n} GB?",
        "I have {n} GB. How many MB is that?",
        "What would {n} GB be if I counted in MB?",
    ],
    "gib_in_mib": [
        "How many MiB do I get from {n} GiB?",
        "I have {n} GiB. How many MiB is that?",
        "What would {n} GiB be if I counted in MiB?",
    ],
    "bytes_in_bits": [
        "How many bits do I get from {n} bytes?",
        "I have {n} bytes. How many bits is that?",
        "What would {n} bytes be if I counted in bits?",
    ],
    "values_of_bits": [
        "How many values do I get from {n} bits?",
        "I have {n} bits. How many values is that?",
        "What number of values could {n} bits express?",
    ],
    "format_bits": [
        "How many bits do I need to store {format}?",
        "What is the width of {format}?",
        "How wide is {format}, all bits counted?",
    ],
    "exponent_bits": [
        "How many bits do I find in the exponent of {format}?",
        "What is the width of the exponent in {format}?",
        "How wide is the exponent if I use {format}?",
    ],
    "fraction_bits": [
        "How many bits do I find in the fraction of {format}?",
        "What is the width of the fraction in {format}?",
        "How wide is the fraction if I use {format}?",
    ],
    "gpu_memory": [
        "How much memory do I get with the {gpu}?",
        "What is the memory of the {gpu}?",
        "I use one {gpu}. How much memory is that?",
    ],
    "model_parameters": [
        "How many parameters do I find in {model}?",
        "What is the number of parameters of {model}?",
        "I use {model}. How many parameters is that?",
    ],
    "model_layers": [
        "How many layers do I find in {model}?",
        "What is the number of layers of {model}?",
        "I use {model}. How many layers is that?",
    ],
    "batch_tokens": [
        "How many tokens do I get from {rows} sequences of {length} tokens?",
        "My batch has {rows} sequences of {length} tokens. How many tokens is that?",
        "What is the number of tokens in {rows} sequences, each of {length} tokens?",
    ],
    "adapter_parameters": [
        "How many parameters do I train with LoRA of rank {rank} at width {width}?",
        "My matrix has width {width} and LoRA has rank {rank}. How many parameters is that?",
        "What is the number of LoRA parameters for rank {rank} and width {width}?",
    ],
}


def ask(fact):
    """Every question for this fact."""
    return [template.format(**fact.words) for template in QUESTIONS[fact.kind]]

"""Facts to plain prose: several sentences for every kind of fact, joined to paragraphs. No sentence asks anything."""

SENTENCES = {
    "weights": [
        "In {format}, {size} billion parameters take {answer}.",
        "In {format}, a model with {size} billion parameters needs {answer}.",
        "Stored in {format}, {size} billion parameters fill {answer}.",
        "With {size} billion parameters in {format}, the weights take {answer}.",
        "The weights of a model with {size} billion parameters in {format} occupy {answer}.",
        "{size} billion parameters in {format} need {answer} of memory.",
        "Each parameter takes {each} in {format}, so {size} billion parameters take {answer}.",
        "A {size}B model in {format} needs {answer} for its weights.",
        "Loading {size} billion parameters in {format} takes {answer}.",
        "Whoever keeps {size} billion parameters in {format} needs {answer}.",
        "A model with {size} billion parameters needs {answer} in {format}.",
    ],
    "gradients": [
        "The FP32 gradients of {size} billion parameters take {answer}.",
        "Gradients in FP32 for {size} billion parameters need {answer}.",
        "With {each} bytes for each gradient, {size} billion parameters have gradients of {answer}.",
        "When {size} billion parameters are trained, their FP32 gradients fill {answer}.",
        "A {size}B model has FP32 gradients of {answer}.",
        "For a model with {size} billion parameters, the gradients in FP32 occupy {answer}.",
    ],
    "moments": [
        "The AdamW states of {size} billion parameters take {answer}.",
        "AdamW keeps two moments, so its states for {size} billion parameters need {answer}.",
        "With {each} bytes of AdamW states for each parameter, {size} billion parameters need {answer}.",
        "When {size} billion parameters are trained, the AdamW states fill {answer}.",
        "A {size}B model has AdamW states of {answer}.",
        "For a model with {size} billion parameters, the AdamW states occupy {answer}.",
    ],
    "low": [
        "At 16 bytes per parameter, training {size} billion parameters takes {answer}.",
        "Training {size} billion parameters at 16 bytes per parameter needs {answer}.",
        "With 16 bytes for every parameter, a run that trains {size} billion parameters fills {answer}.",
        "The low rule says 16 bytes per parameter, so training {size} billion parameters takes {answer}.",
        "A {size}B model trained at 16 bytes per parameter needs {answer}.",
        "Counting 16 bytes per parameter, to train {size} billion parameters takes {answer}.",
    ],
    "high": [
        "At 24 bytes per parameter, training {size} billion parameters takes {answer}.",
        "Training {size} billion parameters at 24 bytes per parameter needs {answer}.",
        "With 24 bytes for every parameter, a run that trains {size} billion parameters fills {answer}.",
        "The high rule says 24 bytes per parameter, so training {size} billion parameters takes {answer}.",
        "A {size}B model trained at 24 bytes per parameter needs {answer}.",
        "Counting 24 bytes per parameter, to train {size} billion parameters takes {answer}.",
    ],
    "gb_in_mb": [
        "{n} GB are {answer}.",
        "One GB is 1,000 MB, so {n} GB are {answer}.",
        "Written in MB, {n} GB are {answer}.",
        "{n} GB make {answer}, because decimal units go by thousands.",
        "A file of {n} GB holds {answer}.",
        "Counted in MB, {n} GB become {answer}.",
    ],
    "gib_in_mib": [
        "{n} GiB are {answer}.",
        "One GiB is 1,024 MiB, so {n} GiB are {answer}.",
        "Written in MiB, {n} GiB are {answer}.",
        "{n} GiB make {answer}, because binary units go by 1,024.",
        "A buffer of {n} GiB holds {answer}.",
        "Counted in MiB, {n} GiB become {answer}.",
    ],
    "bytes_in_bits": [
        "{n} bytes are {answer}.",
        "One byte has 8 bits, so {n} bytes have {answer}.",
        "Written in bits, {n} bytes are {answer}.",
        "{n} bytes hold {answer}.",
        "A field of {n} bytes holds {answer}.",
        "Counted in bits, {n} bytes become {answer}.",
    ],
    "values_of_bits": [
        "{n} bits can tell {answer} apart.",
        "With {n} bits there are {answer}.",
        "A number of {n} bits has {answer}.",
        "{n} bits give {answer}, for every bit doubles the count.",
        "Whoever has {n} bits can write {answer}.",
    ],
    "format_bits": [
        "In all, {format} has {answer}.",
        "A number in {format} takes {answer}.",
        "The format {format} is {answer} wide.",
        "Every {format} number is stored in {answer}.",
        "{format} stores a number in {answer}.",
    ],
    "exponent_bits": [
        "The exponent of {format} has {answer}.",
        "{format} gives its exponent {answer}.",
        "For the exponent, {format} keeps {answer}.",
        "The range of {format} comes from an exponent of {answer}.",
        "In {format} the exponent takes {answer}.",
    ],
    "fraction_bits": [
        "The fraction of {format} has {answer}.",
        "{format} gives its fraction {answer}.",
        "For the fraction, {format} keeps {answer}.",
        "The precision of {format} comes from a fraction of {answer}.",
        "In {format} the fraction takes {answer}.",
    ],
    "gpu_memory": [
        "The {gpu} has {answer} of memory.",
        "A GPU of the kind {gpu} carries {answer} of memory.",
        "The {gpu} card offers {answer} of memory.",
        "On the {gpu} there are {answer} of memory.",
        "Whoever rents one {gpu} gets {answer} of GPU memory.",
    ],
    "model_parameters": [
        "The size of {model} is {answer}.",
        "The model {model} was made with a size of {answer}.",
        "In size, {model} comes to {answer}.",
        "By its size, {model} is a model of {answer}.",
        "The weights of {model} are {answer}.",
    ],
    "model_layers": [
        "The depth of {model} is {answer}.",
        "The model {model} was built with a depth of {answer}.",
        "In depth, {model} comes to {answer}.",
        "By its depth, {model} is a stack of {answer}.",
        "The decoder or encoder of {model} has {answer}.",
    ],
    "batch_tokens": [
        "A batch of {rows} sequences of {length} tokens holds {answer}.",
        "With {rows} sequences of {length} tokens, a batch has {answer}.",
        "{rows} sequences of {length} tokens are {answer}.",
        "A step on {rows} sequences, each of {length} tokens, reads {answer}.",
        "Each sequence has {length} tokens, so {rows} sequences of {length} tokens make {answer}.",
    ],
    "adapter_parameters": [
        "A LoRA adapter of rank {rank} on a matrix of width {width} adds {answer}.",
        "With rank {rank} and width {width}, a LoRA adapter has {answer}.",
        "LoRA of rank {rank} on a square matrix of width {width} trains {answer}.",
        "At rank {rank}, the two LoRA matrices for width {width} hold {answer}.",
        "For width {width}, a LoRA adapter of rank {rank} needs {answer}.",
    ],
}

# What the facts mean; each paragraph may open with one of these.
EXPLANATIONS = [
    "A bit is the smallest piece of information: it is zero or one.",
    "A byte has 8 bits, and memory is counted in bytes.",
    "A kilobyte is 1,000 bytes, a megabyte is 1,000 kilobytes, and a gigabyte is 1,000 megabytes.",
    "A kibibyte is 1,024 bytes, a mebibyte is 1,024 kibibytes, and a gibibyte is 1,024 mebibytes.",
    "GB and GiB differ by seven percent, which is why a card seems to lose memory.",
    "A model is a long list of numbers, and each of these numbers is called a parameter.",
    "The memory of the weights is the number of parameters times the bytes for each of them.",
    "One billion parameters at 1 byte each fill one gigabyte.",
    "Half the bits means half the memory, and usually a little less precision.",
    "A float is a sign, an exponent and a fraction.",
    "The exponent decides how large a number may become, and the fraction decides how finely it is told.",
    "BF16 has the range of FP32 in 16 bits, so training in it is steady.",
    "FP16 ends at 65,504, and what is larger becomes infinite.",
    "Pi becomes 3.140625 when it is stored in FP16, and 3 when it is stored in INT8.",
    "Quantization stores small integers and a scale that leads back to the original range.",
    "Training needs more memory than reading: gradients, optimizer states and activations come on top of the weights.",
    "AdamW remembers two numbers for every parameter, the mean of its gradients and the mean of their squares.",
    "Activations are what the forward pass saves for the backward pass.",
    "Gradient checkpointing forgets activations and computes them again, which saves memory and costs time.",
    "Flash attention never writes the whole table of scores, so its memory grows with the length and not with its square.",
    "LoRA freezes the weights and trains two thin matrices beside them.",
    "A rule of thumb says 16 to 24 bytes for every parameter that is trained.",
    "Temporary buffers live for a moment, but the peak remembers them.",
    "The peak is the largest sum of bytes that were alive at one time.",
    "When a model does not fit on one GPU, its weights are cut into shards and spread over many.",
    "Fine-tuning starts from a model that has read a lot, and teaches it one thing more.",
    "The Llama 2 model with 7 billion parameters was trained for 184,320 GPU hours.",
    "Eight GPUs for about 33 dollars an hour make a long training cost 760,000 dollars.",
    "A batch is what one step reads: some sequences, each with its tokens.",
    "The key and value cache grows with every token that is generated.",
]


def sentence(fact, random):
    text = random.choice(SENTENCES[fact.kind]).format(**fact.words)
    return text[0].upper() + text[1:]


def paragraph(facts_by_topic, all_facts, random, sentences=6):
    """Sentences about one topic, about one kind of fact, or about anything; in every second paragraph one of them
    explains instead. Returns the text and the facts that it tells."""
    mode = random.random()
    if mode < 0.15:
        pool = facts_by_topic[random.choice(sorted(facts_by_topic))]
    elif mode < 0.5:
        kind = random.choice(sorted(SENTENCES))
        pool = [fact for fact in all_facts if fact.kind == kind]
    else:
        pool = all_facts
    told = random.sample(pool, min(sentences, len(pool)))
    lines = [sentence(fact, random) for fact in told]
    if random.random() < 0.5:
        place = random.choice([0, 0, len(lines) - 1])
        lines[place] = random.choice(EXPLANATIONS)
        del told[place]
    return " ".join(lines), told

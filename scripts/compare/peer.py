"""The other side of the comparison: fine-tunes a folder with transformers (and PEFT) and measures it.

One JSON object per step goes to --metrics, a summary to standard output. The loop does per step what transformers'
Trainer does with optim=adamw_torch_fused and bf16 as asked: autocast around the forward pass, the model's own loss,
clip_grad_norm_, step, zero_grad; the Trainer's callbacks and data loader are left out, which is in the peer's favour.
"""

import argparse
import contextlib
import ctypes
import json
import os
import sys
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder in Hugging Face's layout")
    parser.add_argument("--random-weights", action="store_true", help="drawn on the device; --model needs no weights")
    parser.add_argument("--without-cudnn", action="store_true", help="attention by LibTorch's own flash kernel")
    parser.add_argument("--ids", required=True, help="JSON lines of input_ids and labels")
    parser.add_argument("--method", choices=["full", "lora"], required=True)
    parser.add_argument("--precision", choices=["fp32", "autocast", "bf16"], required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--metrics", required=True, help="file to write one JSON object per step to")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--experts", help="how experts are multiplied, instead of transformers' own choice")
    parser.add_argument("--adapter", help="folder of a PEFT adapter to go on from, instead of a new one")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--warm-up", type=int, default=0, help="steps that mean_step_seconds leaves out")
    return parser.parse_args()


def resident_bytes():
    """Peak of resident memory of this process so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def tensor_counter(torch):
    """The counters of libcount_tensors.so where it is preloaded, else None. Fails if they do not see a tensor."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "counted_peak_bytes"):
        return None
    for name in ("live_bytes", "peak_bytes", "bytes_at"):
        getattr(library, "counted_" + name).restype = ctypes.c_int64
    library.counted_bytes_at.argtypes = [ctypes.c_void_p]
    before = library.counted_live_bytes()
    probe = torch.empty(12345, dtype=torch.int16)
    if library.counted_live_bytes() - before != 24690 or library.counted_bytes_at(probe.data_ptr()) != 24690:
        sys.exit("libcount_tensors.so is preloaded but does not see this torch's tensors: its allocator is another")
    return library


def uncounted_weights(model, counter):
    """Bytes of parameters and buffers that do not lie in counted blocks: those on a mapped file."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in [*model.parameters(), *model.buffers()]
    }
    return sum(size for address, size in storages.items() if counter.counted_bytes_at(address) < 0)


def load_model(arguments, torch):
    from make_model import draw_model, kind_of
    from transformers import AutoConfig

    shape = AutoConfig.from_pretrained(arguments.model)
    options = {"dtype": torch.bfloat16 if arguments.precision == "bf16" else torch.float32}
    options["attn_implementation"] = "eager" if shape.model_type == "gpt_oss" else "sdpa"  # whose sinks have no other
    if arguments.experts:
        options["experts_implementation"] = arguments.experts
    if arguments.random_weights:
        model = draw_model(shape, arguments.device, **options)
    else:
        model = kind_of(shape).from_pretrained(arguments.model, **options)
    model.config.use_cache = False
    model.to(arguments.device)
    if arguments.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if arguments.method == "lora":
        from peft import LoraConfig, PeftModel, get_peft_model

        if arguments.gradient_checkpointing:
            model.enable_input_require_grads()
        if arguments.adapter:
            model = PeftModel.from_pretrained(model, arguments.adapter, is_trainable=True)
        else:
            targets = ["q", "v"] if shape.is_encoder_decoder else ["q_proj", "v_proj"]
            task = "SEQ_2_SEQ_LM" if shape.is_encoder_decoder else "CAUSAL_LM"
            adapter = LoraConfig(task_type=task, r=8, lora_alpha=8, lora_dropout=0.0, target_modules=targets)
            model = get_peft_model(model, adapter)
    model.train()
    return torch.compile(model) if arguments.compile else model


def train(arguments, torch, model, metrics):
    """Runs the steps; returns seconds and losses of each, and the mean seconds of a step after the warm-up.

    On a GPU, as in Trainer, no step waits for the device: seconds of single steps are the host's, and losses are read
    at the end.
    """
    on_gpu = arguments.device == "cuda"
    with open(arguments.ids) as lines:
        examples = [json.loads(line) for line in lines]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=arguments.learning_rate, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, fused=True
    )
    autocast = (
        torch.autocast(arguments.device, dtype=torch.bfloat16)
        if arguments.precision == "autocast"
        else contextlib.nullcontext()
    )
    seconds, losses = [], []
    for step in range(arguments.steps):
        if step == arguments.warm_up:
            if on_gpu:
                torch.cuda.synchronize()
            timed_from = time.perf_counter()
        start = time.perf_counter()
        rows = [examples[(step * arguments.batch + row) % len(examples)] for row in range(arguments.batch)]
        ids = torch.tensor([row["input_ids"] for row in rows], device=arguments.device)
        labels = torch.tensor([row["labels"] for row in rows], device=arguments.device)
        with autocast:
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        model.zero_grad()
        losses.append(loss.detach() if on_gpu else loss.item())
        seconds.append(time.perf_counter() - start)
        if not on_gpu:
            write_step(metrics, step, losses[-1], seconds[-1])
    if on_gpu:
        torch.cuda.synchronize()
    mean = (time.perf_counter() - timed_from) / (arguments.steps - arguments.warm_up)
    if on_gpu:
        losses = [loss.item() for loss in losses]
        for step, loss in enumerate(losses):
            write_step(metrics, step, loss, seconds[step])
    return seconds, losses, mean


def write_step(metrics, step, loss, seconds):
    metrics.write(json.dumps({"step": step + 1, "loss": loss, "step_seconds": seconds}) + "\n")
    metrics.flush()


def main():
    arguments = parse_arguments()
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    import torch
    import transformers

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    counter = tensor_counter(torch)
    torch.manual_seed(42)
    if arguments.without_cudnn:
        torch.backends.cuda.enable_cudnn_sdp(False)
    imported_bytes = resident_bytes()
    model = load_model(arguments, torch)
    uncounted = uncounted_weights(model, counter) if counter else 0
    with open(arguments.metrics, "w") as metrics:
        seconds, losses, mean = train(arguments, torch, model, metrics)
    summary = {
        "step_seconds": seconds,
        "mean_step_seconds": mean,
        "losses": losses,
        "parameters": sum(p.numel() for p in model.parameters()),
        "base_parameters": sum(p.numel() for name, p in model.named_parameters() if ".lora_" not in name),
        "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "resident_after_import_bytes": imported_bytes,
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "peft": sys.modules["peft"].__version__ if "peft" in sys.modules else None,
        },
    }
    if counter:
        summary["peak_tensor_bytes"] = counter.counted_peak_bytes() + uncounted
        summary["uncounted_weight_bytes"] = uncounted
    if arguments.device == "cuda":
        summary["allocated_bytes"] = torch.cuda.max_memory_allocated()
        summary["reserved_bytes"] = torch.cuda.max_memory_reserved()
        summary["requested_bytes"] = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    print(json.dumps(summary))


if __name__ == "__main__":
    main()

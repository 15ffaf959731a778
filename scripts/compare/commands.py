"""What each side is started with: the same model, ids, method, precision and steps, in the words of each."""

import json
import pathlib
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent
PEER, MAKER = FOLDER / "peer.py", FOLDER / "make_model.py"


def target_length(model, length):
    """Of an encoder-decoder's targets, a quarter of its sources' length; 0 for a decoder, which learns what it reads."""
    shape = json.loads((model / "config.json").read_text())
    return length // 4 if shape.get("is_encoder_decoder") else 0


def batch_text(model, batch, length):
    targets = target_length(model, length)
    return f"{batch} × ({length:,} + {targets:,})" if targets else f"{batch} × {length:,}"


def write_ids(python, model, folder, length, lines=8):
    """A file of ids in `folder` that both sides can train `model` on."""
    vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
    targets = target_length(model, length)
    file = folder / f"ids-{vocabulary}-{length}{f'-{targets}' if targets else ''}.jsonl"
    options = ["--vocabulary", vocabulary, "--length", length, "--targets", targets, "--lines", lines]
    subprocess.run([str(part) for part in [python, MAKER, "--ids", file, *options]], check=True)
    return file


def write_fathom_config(file, row, model, ids, run, length, steps, **settings):
    """The config of a run into the folder `run`. settings: keys besides the row's own, or in their place."""
    all_settings = {
        "model_name_or_path": model,
        "train_file": ids,
        "output_dir": run,
        "max_length": length,
        "max_steps": steps,
        **row.fathom_settings(),
        **settings,
    }
    file.write_text("".join(f"{key}: {value}\n" for key, value in all_settings.items()))
    return file


def peer_command(python, row, model, ids, steps, metrics, *options):
    """The command of the peer's run. options: those of peer.py besides the row's own."""
    command = [python, PEER, "--model", model, "--ids", ids, "--steps", steps, "--metrics", metrics]
    return [*command, *options, *row.peer_arguments()]

"""What each side is started with: the same model, ids, method, precision and steps, in the words of each."""

import pathlib

PEER = pathlib.Path(__file__).resolve().parent / "peer.py"


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

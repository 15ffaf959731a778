"""Where Python is, as it is told."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def frames_from(frame):
    """Names of files and lines, nearest first."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def line_of(frames):
    """Who does something, and for which line of the script: "transformers/trainer.py:2175, from train.py:31"."""
    nearest = ""
    for name, number in frames:
        if "/torch/" in name or name.startswith(("<", HERE)):
            continue
        if "site-packages/" not in name and "/lib/python" not in name:
            line = f"{os.path.relpath(name)}:{number}"
            return f"{nearest}, from {line}" if nearest else line
        nearest = nearest or f"{name.rsplit('site-packages/', 1)[-1]}:{number}"
    return nearest


def is_within(frame, name, function):
    """Whether the nearest frame that is not of torch is of that function in a file of that name."""
    while frame is not None and ("/torch/" in frame.f_code.co_filename or frame.f_code.co_filename.startswith(HERE)):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == function and frame.f_code.co_filename.endswith(name)

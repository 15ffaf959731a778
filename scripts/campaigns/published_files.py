"""Files that other projects publish, for campaigns that hold fathom against them: out of their repositories and distributions."""

import pathlib
import re
import subprocess
import sys
import tempfile


def published_files(sources, clones, form, opened):
    """(origin, path, bytes) of what `sources` names; None for bytes that a clone lacks or has by git-lfs alone. form: of PyPI's
    distributions, as pip is told; opened: (file, pattern) -> each (path, bytes) in one."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for repository, pattern in sources.GITHUB.items():
            for path, data in repository_files(repository, pattern, clones, scratch):
                yield repository, path, data
        for requirement, pattern in sources.PYPI.items():
            folder = scratch / requirement
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *form, "-d", folder, requirement], check=True)
            for path, data in opened(next(folder.iterdir()), pattern):
                yield requirement, path, data


def repository_files(repository, pattern, clones, scratch):
    folder = clones / repository.replace("/", "+") if clones else None
    folder = next((at for at in (folder and folder / "repo", folder) if at and at.exists()), None)
    if folder is None:
        folder = scratch / repository.replace("/", "+")
        subprocess.run(["git", "clone", "-q", "--depth", "1", "https://github.com/" + repository, folder], check=True)

    def git(*words):
        return subprocess.run(["git", "-C", folder, *words], capture_output=True).stdout

    for name in git("ls-tree", "-r", "--name-only", "HEAD").decode().split("\n"):
        if re.search(pattern, name):
            data = git("show", "HEAD:" + name)
            yield name, None if data.startswith(b"version https://git-lfs") else data or None

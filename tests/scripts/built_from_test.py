"""cmake/built_from.cmake: the version of a build before, at and after a release, in the order of pip."""

import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class BuiltFromTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.source = pathlib.Path(self.folder.name, "source")
        for part in ("app", "cmake", "configs", "lib"):
            (self.source / part).mkdir(parents=True)
        (self.source / "CMakeLists.txt").write_text("project(p)\n", encoding="utf-8")

    def tearDown(self):
        self.folder.cleanup()

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", self.source, *words], check=True,
                       capture_output=True)

    def commit(self):
        (self.source / "lib/a.cpp").write_text(f"{self.built()}\n", encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-m", "a")

    def built(self, version="1.2.0"):
        output = pathlib.Path(self.folder.name, "built_from.json")
        # What is above the folder may be a repository.
        subprocess.run(["cmake", f"-DSOURCE={self.source}", f"-DVERSION={version}", f"-DOUTPUT={output}", "-P",
                        ROOT / "cmake/built_from.cmake"], check=True, env={"GIT_CEILING_DIRECTORIES": self.folder.name,
                                                                           "PATH": "/usr/local/bin:/usr/bin:/bin"})
        return json.loads(output.read_text(encoding="utf-8"))["version"]

    def test_knows_no_release_without_git(self):
        self.assertEqual(self.built(), "1.2.0.dev0+unknown")

    def test_counts_to_the_release_and_from_it(self):
        self.git("init", "-q")
        self.commit()
        self.commit()
        self.assertRegex(self.built(), r"^1\.2\.0\.dev2\+g[0-9a-f]{7}$")
        self.git("tag", "v1.2.0-rc1")
        self.assertRegex(self.built(), r"^1\.2\.0\.dev2\+g[0-9a-f]{7}$")
        self.git("tag", "v1.2.0")
        self.assertEqual(self.built(), "1.2.0")
        (self.source / "lib/a.cpp").write_text("changed\n", encoding="utf-8")
        self.assertRegex(self.built(), r"^1\.2\.0\+0\.g[0-9a-f]{7}\.changes$")
        self.commit()
        self.assertRegex(self.built(), r"^1\.2\.0\+1\.g[0-9a-f]{7}$")
        self.assertRegex(self.built("1.3.0"), r"^1\.3\.0\.dev1\+g[0-9a-f]{7}$")


if __name__ == "__main__":
    unittest.main()

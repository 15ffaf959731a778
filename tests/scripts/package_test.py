"""What scripts/package makes: a wheel whose list is true, and an archive and a Debian package with the same files."""

import base64
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv.pop(1))


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([ROOT / "scripts/package", "--build", BUILD, "--output", cls.folder.name], check=True,
                       capture_output=True)
        cls.output = pathlib.Path(cls.folder.name)
        cls.wheel, = cls.output.glob("*.whl")
        cls.archive, = cls.output.glob("*.tar.gz")
        cls.debian, = cls.output.glob("*.deb")
        cls.parts = json.loads((cls.output / "PARTS.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_lists_what_is_in_the_wheel(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            record, = (name for name in wheel.namelist() if name.endswith("/RECORD"))
            lines = wheel.read(record).decode().splitlines()
            self.assertEqual([line.rsplit(",", 2)[0] for line in lines], wheel.namelist())
            for line in lines[:-1]:
                name, digest, size = line.rsplit(",", 2)
                data = wheel.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={found}", len(data)), name)
            program, = (each for each in wheel.infolist() if each.filename.endswith(".data/scripts/fathom"))
            self.assertEqual(program.external_attr >> 16 & 0o777, 0o755)
            metadata, = (name for name in wheel.namelist() if name.endswith("/METADATA"))
            self.assertIn("Requires-Dist: torch==2.11.0\n", wheel.read(metadata).decode())

    def test_puts_the_same_into_the_archive(self):
        with tarfile.open(self.archive) as archive, zipfile.ZipFile(self.wheel) as wheel:
            names = [member.name.split("/", 1)[1] for member in archive.getmembers()]
            self.assertEqual({member.uid for member in archive.getmembers()}, {0})
            top = f"fathom-{self.parts['version']}.data"
            for member, name in zip(archive.getmembers(), names):
                inside = f"{top}/scripts/fathom" if name == "bin/fathom" else f"{top}/data/{name}"
                self.assertEqual(archive.extractfile(member).read(), wheel.read(inside), name)
                mode = wheel.getinfo(inside).external_attr >> 16 & 0o777
                self.assertTrue(member.issym() or member.mode == mode, name)
        self.assertEqual(names, list(self.parts["files"]))
        self.assertIn("lib/fathom/libfathom_engine.so", names)
        self.assertIn("lib/fathom/fathom-phantom/agent/fathom_phantom/agent.py", names)
        self.assertFalse([name for name in names if name.endswith((".pyc", "/built"))])

    def test_puts_the_same_into_the_debian_package(self):
        def renamed(name):
            return name.replace("zsh/site-functions", "zsh/vendor-completions").replace("/fathom.1", "/fathom.1.gz")

        def told(*words):
            return subprocess.run(["dpkg-deb", *words], check=True, capture_output=True, text=True).stdout
        listed = told("--contents", self.debian)
        modes = {line.split()[5]: line[:10] for line in listed.splitlines() if not line.startswith("d")}
        self.assertEqual(sorted(modes), sorted(f"./usr/{renamed(name)}" for name in self.parts["files"]))
        self.assertEqual(modes["./usr/bin/fathom"], "-rwxr-xr-x")
        self.assertEqual({mode for mode in modes.values() if mode[0] == "-"}, {"-rwxr-xr-x", "-rw-r--r--"})
        self.assertEqual({line.split()[1] for line in listed.splitlines()}, {"root/root"})
        fields = told("--field", self.debian, "Version", "Depends")
        self.assertIn(f"Version: {self.parts['version'].replace('.dev', '~dev')}\n", fields)
        self.assertIn(f"libc6 (>= {self.parts['asks_of_the_system']['GLIBC']})", fields)

    def test_is_named_by_the_version_that_the_program_says(self):
        said = subprocess.run([BUILD / "fathom", "--version"], check=True, capture_output=True, text=True).stdout
        self.assertTrue(said.startswith(f"fathom {self.parts['version']} "), said)
        for path in (self.wheel, self.archive):
            self.assertIn(f"fathom-{self.parts['version']}-", path.name)
        number = re.match(r"\d+\.\d+\.\d+", self.parts["version"])[0]
        self.assertIn(f"\n## {number}", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))

    def test_removes_no_file_that_it_did_not_make(self):
        for name, text in (("Containerfile", "FROM scratch\n"), ("SHA256SUMS", "00  debian.iso\n")):
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                for each in ("debian.iso", name):
                    pathlib.Path(folder, each).write_text(text, encoding="utf-8")
                ended = subprocess.run([ROOT / "scripts/package", "--build", BUILD, "--output", folder],
                                       capture_output=True, text=True)
                self.assertEqual(ended.returncode, 1)
                self.assertIn("not of this script's making", ended.stderr)
                for each in ("debian.iso", name):
                    self.assertEqual(pathlib.Path(folder, each).read_text(encoding="utf-8"), text)

    def test_replaces_what_it_made_before(self):
        before = sorted(path.name for path in self.output.iterdir())
        subprocess.run([ROOT / "scripts/package", "--build", BUILD, "--output", self.output], check=True,
                       capture_output=True)
        self.assertEqual(sorted(path.name for path in self.output.iterdir()), before)
        self.test_sums_up()

    def test_has_the_licence_of_each_part(self):
        for part in self.parts["parts"]:
            name = part["package"]
            if pathlib.Path("/usr/share/doc", name, "copyright").exists():  # images may leave out all of doc/
                self.assertGreater(self.parts["files"].get(f"share/doc/fathom/licences/{name}", 0), 500, name)

    def test_asks_no_more_than_ubuntu_22_has(self):
        asked = {name: tuple(map(int, version.split(".")))
                 for name, version in self.parts["asks_of_the_system"].items()}
        self.assertLessEqual(asked["GLIBC"], (2, 35))
        self.assertLessEqual(asked["GLIBCXX"], (3, 4, 30))
        self.assertIn(f"manylinux_{'_'.join(map(str, asked['GLIBC']))}_x86_64", self.wheel.name)

    def test_sums_up(self):
        for line in (self.output / "SHA256SUMS").read_text().splitlines():
            digest, name = re.fullmatch(r"(\w{64})  (\S+)", line).groups()
            self.assertEqual(hashlib.sha256((self.output / name).read_bytes()).hexdigest(), digest)


if __name__ == "__main__":
    unittest.main()

"""Campaigns run now and then, by hand: each can still be imported, so that nothing that it shares with others has gone."""
import subprocess
import sys
import unittest
from pathlib import Path

CAMPAIGNS = Path(__file__).resolve().parents[2] / "scripts" / "campaigns"
PEERS = ("gguf", "numpy", "peft", "sentencepiece", "tokenizers", "torch", "transformers")  # that a campaign asks for by itself
IMPORT = """
import runpy, sys
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
try:
    print(callable(runpy.run_path(sys.argv[0], run_name="imported").get("main")))
except ModuleNotFoundError as error:
    print(error.name)
"""


class Campaigns(unittest.TestCase):
    def test_can_be_imported(self):
        scripts = [file for file in sorted(CAMPAIGNS.iterdir())
                   if file.is_file() and file.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3")]
        self.assertGreater(len(scripts), 20)
        for script in scripts:
            with self.subTest(script.name):
                done = subprocess.run([sys.executable, "-B", "-c", IMPORT, script], capture_output=True, text=True, check=False)
                self.assertIn(done.stdout.strip(), ("True", *PEERS), done.stderr)


if __name__ == "__main__":
    unittest.main()

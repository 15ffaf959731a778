"""The shipped texts are what scripts/make_data writes, the held-out questions are held out, and scripts/ask judges strictly."""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from corpus import facts, prose, questions  # noqa: E402


def load_script(name):
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def rows(name):
    return [json.loads(line) for line in (ROOT / "data" / name).read_text(encoding="utf-8").splitlines()]


class Texts(unittest.TestCase):
    def test_generator_writes_the_same_bytes(self):
        subprocess.run([sys.executable, "-B", ROOT / "scripts/make_data", "--check"], check=True, stdout=subprocess.DEVNULL)

    def test_size(self):
        self.assertLess(sum(path.stat().st_size for path in (ROOT / "data").rglob("*") if path.is_file()), 20_000_000)

    def test_twenty_questions_are_in_no_other_file(self):
        held_out = {row["prompt"] for row in rows("questions.jsonl")}
        self.assertEqual(len(held_out), 20)
        others = "".join((ROOT / "data" / name).read_text(encoding="utf-8")
                         for name in ("train.jsonl", "eval.jsonl", "prose.jsonl"))
        self.assertEqual([question for question in held_out if json.dumps(question)[1:-1] in others], [])

    def test_held_out_facts_are_told_but_never_asked_in_training(self):
        text = "\n".join(row["text"] for row in rows("prose.jsonl"))
        trained = {row["prompt"] for row in rows("train.jsonl")}
        by_question = {question: fact for fact in facts.all_facts() for question in questions.ask(fact)}
        for row in rows("questions.jsonl") + rows("eval.jsonl"):
            fact = by_question[row["prompt"]]
            self.assertEqual(row.get("answer", row.get("completion", "").strip()), fact.answer)
            self.assertFalse(trained & set(questions.ask(fact)), row["prompt"])
            sentences = [template.format(**fact.words) for template in prose.SENTENCES[fact.kind]]
            self.assertTrue(any(sentence[1:] in text for sentence in sentences), row["prompt"])

    def test_prose_asks_nothing(self):
        self.assertFalse([row for row in rows("prose.jsonl") if "?" in row["text"]])


class Judgement(unittest.TestCase):
    def test_exact_number_and_unit(self):
        is_right = load_script("ask").is_right
        for answer in (" 14 GB", "14 GB."):
            self.assertTrue(is_right(answer, "14 GB"), answer)
        for answer in ("", " 14", " 14 GiB", " 14 GBs", " 1,4 GB", " 114 GB", " 14.5 GB", " 7 GB, not 14 GB", " 14 MB", " with 14 GB. A 7B model"):
            self.assertFalse(is_right(answer, "14 GB"), answer)
        self.assertTrue(is_right(" 175 billion parameters", "175 billion parameters"))
        self.assertFalse(is_right(" 175 million parameters", "175 billion parameters"))

    def test_questions_reach_the_program_as_they_are_and_answers_keep_their_places(self):
        program = """#!/usr/bin/env python3
import sys
prompts = open(sys.argv[sys.argv.index("--prompts") + 1], encoding="utf-8", newline="").read().split("\\n")[:-1]
answers = {"How large is a?": "14 GB\\x85\\u2028\\r", "How large is \u00e9?": "", "How large is c?": " 7 GB."}
sys.stdout.buffer.write("".join(answers[prompt] + "\\n" for prompt in prompts).encode())
"""
        with tempfile.TemporaryDirectory() as folder:
            fathom = pathlib.Path(folder) / "fathom"
            fathom.write_text(program, encoding="utf-8")
            fathom.chmod(0o755)
            file = pathlib.Path(folder) / "questions.jsonl"
            asked = [("How large is a?", "14 GB"), ("How large is \u00e9?", "1 GB"), ("How large is c?", "7 GB")]
            file.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in asked), encoding="utf-8")
            command = [sys.executable, "-B", ROOT / "scripts/ask", "model", "--fathom", fathom, "--questions", file, "--quiet"]
            result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(result.stdout, "2 of 3 right\n")


if __name__ == "__main__":
    unittest.main()

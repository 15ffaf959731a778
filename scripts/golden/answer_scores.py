#!/usr/bin/env python3
"""Writes tests/train/golden/answer_scores.json: pairs of texts, and how near they come to each other by Google's rouge_score.

usage: scripts/golden/answer_scores.py [file]     needs rouge-score; written with 0.1.2.

Its tokenizer is replaced by one that divides at blanks alone, as fathom's does.
"""
import json
import pathlib
import random
import sys

from rouge_score import rouge_scorer


class Words:
    def tokenize(self, text):
        return text.split(" ")


def pairs():
    fixed = [("the cat was found under the bed", "the cat was under the bed"),
             ("police kill the gunman", "police killed the gunman"),
             ("the gunman kill police", "police killed the gunman"),
             ("a", "a"), ("a", "b"), ("a a a", "a"), ("b a", "a b"),
             ("Die Größe ist 16 GB", "Die Größe ist 32 GB"), ("One", "one")]
    draw = random.Random(5)
    drawn = [tuple(" ".join(draw.choice("abcdefg") for _ in range(draw.randint(1, most))) for most in (25, 40))
             for _ in range(20)]
    return fixed + drawn


if __name__ == "__main__":
    scorer = rouge_scorer.RougeScorer(["rougeL"], tokenizer=Words())
    rows = [{"said": said, "reference": reference, "rouge_l": scorer.score(reference, said)["rougeL"].fmeasure}
            for said, reference in pairs()]
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "train" / "golden" / "answer_scores.json"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[" + ",\n".join(json.dumps(row) for row in rows) + "]\n")

"""scripts/check_layers must find each kind of violation: plants them one at a time in a small tree."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_layers"
TREE = {
    "ARCHITECTURE.md": "| room | torch | |\n|---|---|---|\n| `base` | no | a |\n| `ledger` | yes | b |\n| `report` | yes | c |\n",
    "lib/base/error.h": "// Errors.\n#include <string>\n",
    "lib/ledger/ledger.h": '// The ledger.\n#include <ATen/core/Tensor.h>\n#include "base/error.h"\n',
    "lib/report/table.cpp": '// Tables.\n#include "ledger/ledger.h"\n',
}


class CheckLayers(unittest.TestCase):
    def check(self, **changes):
        files = TREE | {name.replace("__", "/").replace("_dot_", "."): text for name, text in changes.items()}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def refused(self, expected, **changes):
        code, errors = self.check(**changes)
        self.assertEqual(code, 1)
        self.assertIn(expected, errors)

    def test_accepts_a_sound_tree(self):
        self.assertEqual(self.check(), (0, ""))

    def test_finds_what_writes_past_the_escape(self):
        self.refused("lib/report/w.cpp: std::cout: results leave by print()",
                     lib__report__w_dot_cpp='// W.\n// std::cerr is fine here\nvoid w() { f("stderr"); std::cout << 1; }\n')
        self.refused("app/w.cpp: printf(", app__w_dot_cpp='// W.\nvoid w() { std::snprintf(a, 1, "x"); std::printf("x"); }\n')

    def test_finds_what_opens_files_by_itself(self):
        for code in ("int f = ::open(p, 0);", "std::ifstream f(p);", "FILE* f = std::fopen(p, m);"):
            self.refused("lib/report/o.cpp: ", lib__report__o_dot_cpp=f"// O.\n{code}\n")
        self.assertEqual(self.check(lib__report__o_dot_cpp="// O.\nauto f = Tokenizer::open(p);\n"), (0, ""))

    def test_finds_messages_of_another_style(self):
        for odd in ('"it is bad", "Mend it"', '"it is bad."', '"bad", "mend it."', 'a + "is bad.", "mend it"',
                    '"bad",\n  x ? "Mend it" : "leave it"'):
            self.refused("app/m.cpp: ", app__m_dot_cpp=f"// M.\nvoid m() {{ throw UsageError({odd}); }}\n")
        sound = 'throw Error(path + ": bad FP16, got LibTorch...", "mend ~/.x, or ask")'
        self.assertEqual(self.check(app__m_dot_cpp=f"// M.\nvoid m() {{ {sound}; }}\n"), (0, ""))

    def test_finds_a_back_edge(self):
        self.refused("lib/base/b.h: includes report/t.h, but 'report' is below 'base'",
                     lib__base__b_dot_h='// B.\n#include "report/t.h"\n', lib__report__t_dot_h="// T.\n")

    def test_finds_torch_in_a_room_without_it(self):
        self.refused("lib/base/b.h: must do without torch, but base/b.h -> c10/util/Exception.h",
                     lib__base__b_dot_h="// B.\n#include <c10/util/Exception.h>\n")

    def test_finds_torch_behind_another_header(self):
        page = TREE["ARCHITECTURE.md"].replace("| `report` | yes |", "| `report` | no |")
        self.refused("report/table.cpp -> ledger/ledger.h -> ATen/core/Tensor.h", ARCHITECTURE_dot_md=page)

    def test_allows_cudas_headers_in_c(self):
        self.assertEqual(self.check(lib__base__stub_dot_c="// A stub.\n#include <cuda.h>\n"), (0, ""))

    def test_finds_an_unlisted_and_a_missing_room(self):
        self.refused("lib/utils: a room that", lib__utils__u_dot_h="// U.\n")
        self.refused("there is no lib/train", ARCHITECTURE_dot_md=TREE["ARCHITECTURE.md"] + "| `train` | yes | d |\n")

    def test_finds_an_include_of_the_program(self):
        self.refused("includes app/main.h", lib__report__t_dot_h='// T.\n#include "app/main.h"\n')


if __name__ == "__main__":
    unittest.main()

"""What scripts/campaigns/phantom_rows reads of a benchmark's tables, and how it counts what was predicted of them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "campaigns"))
sys.dont_write_bytecode = True

from phantom_rows_files import page, settings  # noqa: E402

HEAD = ("bf16,epoch,fp16,framework_config,learning_rate,lora_alpha,lora_dropout,mem_nvidia_mem_reserved,"
        "mem_peak_torch_mem_alloc_in_bytes,mem_torch_mem_alloc_in_bytes,model_name_or_path,num_gpus,peft_method,"
        "per_device_train_batch_size,r,target_modules,torch_dtype,train_loss\n")
RAN = "True,0.1,,foak,2e-4,16.0,0.1,3000.0,2000.0,1000.0,meta/Llama,1,lora,4,16.0,q_proj v_proj,bfloat16,1.5\n"
FAILED = "True,,,foak,2e-4,16.0,0.1,3000.0,,,meta/Llama,1,lora,4,16.0,q_proj v_proj,bfloat16,\n"
TWO_GPUS = "True,0.1,,foak,2e-4,,,3000.0,2000.0,1000.0,meta/Llama,2,,4,,,bfloat16,1.5\n"
GPTQ = "True,0.1,,autogptq-foak,2e-4,,,3000.0,2000.0,1000.0,meta/Llama,1,,4,,,bfloat16,1.5\n"
NAME = "table Llama foak lora 4"


class TablesTest(unittest.TestCase):
    def setUp(self):
        self.tables, self.commit = settings.TABLES, settings.COMMIT
        settings.TABLES, settings.COMMIT = ("table",), "HEAD"

    def tearDown(self):
        settings.TABLES, settings.COMMIT = self.tables, self.commit

    def clone_with(self, rows):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / settings.FOLDER / "table.csv"
        file.parent.mkdir(parents=True)
        file.write_text(HEAD + "".join(rows))
        git = ["git", "-C", folder.name, "-c", "user.name=a", "-c", "user.email=a@example.com"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "tables"]):
            subprocess.run(git + command, check=True)
        return folder.name

    def test_settings_do_not_depend_on_results(self):
        ran, failed = (settings.settings_of(self.clone_with([row, TWO_GPUS, GPTQ])) for row in (RAN, FAILED))
        self.assertEqual(ran, failed)
        self.assertEqual(ran, {NAME: {
            "table": "table", "line": 2, "model": "meta/Llama", "framework": "foak", "batch": 4, "bf16": True,
            "learning_rate": 2e-4,
            "lora": {"r": 16, "lora_alpha": 16, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj"]}}})

    def test_a_failed_row_has_no_figures(self):
        for row, peak, end in ((RAN, 2000, 1000), (FAILED, None, None)):
            clone = self.clone_with([row])
            self.assertEqual(settings.figures_of(clone, settings.settings_of(clone)),
                             {NAME: {"peak": peak, "end": end, "nvidia_mib": 3000}})

    def test_another_folder_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "is no clone of"):
            settings.settings_of("/")


class PageTest(unittest.TestCase):
    ROWS = {name: {"table": "a100_80gb_liger", "model": "a/B", "framework": "foak", "batch": 4}
            for name in ("same", "off", "failed", "kept")}
    PUBLISHED = {name: {"peak": 100, "end": 10, "nvidia_mib": 3} for name in ("same", "off")} | {
        name: {"peak": None, "end": None, "nvidia_mib": 3} for name in ("failed", "kept")}
    REFUSAL = {"bytes": 7, "allocated": 90, "step": 1, "phase": "forward", "place": "train.py:8"}
    FOUND = {"same": {"peak": 100, "end": 10, "reserved": 1 << 20, "refusal": None},
             "off": {"peak": 98, "end": 10, "reserved": 1 << 20, "refusal": None},
             "failed": {"reserved": 2 << 20, "refusal": REFUSAL},
             "kept": {"peak": 100, "end": 10, "reserved": 1 << 20, "refusal": None}}

    def test_agreement_is_counted(self):
        text = page.summary(self.ROWS, self.PUBLISHED, self.FOUND)
        self.assertIn("4 rows: 2 ran on the A100, 2 have no figures there.", text)
        self.assertIn("2 were predicted to fit, 0 to run out of memory.", text)
        self.assertIn("peak: 1 of 2 are 0 bytes off; median 1.000%, worst 2.00%.", text)
        self.assertIn("memory at the end: 2 of 2 are 0 bytes off", text)
        self.assertIn("Of those without figures, 1 were predicted to run out of memory.", text)

    def test_failures_are_told_beside_what_was_predicted(self):
        lines = page.limits(self.ROWS, self.PUBLISHED, self.FOUND).splitlines()[2:]
        self.assertEqual(len(lines), 2)
        self.assertIn("| no figures | out of memory in step 1, forward: 7 beside 90, at train.py:8 | 3 | 2 | 1 |",
                      lines[0])
        self.assertIn("| no figures | **fits** | 3 | 1 | 2 |", lines[1])

    def test_only_peaks_of_both_are_compared(self):
        lines = page.peaks(self.ROWS, self.PUBLISHED, self.FOUND).splitlines()[2:]
        self.assertEqual(len(lines), 2)
        self.assertTrue(lines[1].endswith("| 100 | 98 | -2 | 10 | 10 | 0 |"))


if __name__ == "__main__":
    unittest.main()

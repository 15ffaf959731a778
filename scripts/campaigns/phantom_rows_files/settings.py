"""Reads the benchmark's tables: the settings of its rows, and apart from them what was measured."""
import csv
import io
import subprocess

SOURCE = "foundation-model-stack/fms-acceleration"
COMMIT = "876e2ed6fc4e966785e3f4315f5ee3cdf8e3d097"
FOLDER = "scripts/benchmarks/refs"
TABLES = ("a100_80gb", "a100_80gb_granite", "a100_80gb_liger")
LEFT_OUT = ("gptq", "santacoder")

# Columns that say how a row was run. No other is looked at for settings: epoch, train_… and mem_… are empty where a
# run failed.
SETTINGS = ("bf16", "fp16", "framework_config", "learning_rate", "lora_alpha", "lora_dropout", "model_name_or_path",
            "num_gpus", "peft_method", "per_device_train_batch_size", "r", "target_modules", "torch_dtype")
FIGURES = {"peak": "mem_peak_torch_mem_alloc_in_bytes", "end": "mem_torch_mem_alloc_in_bytes",
           "nvidia_mib": "mem_nvidia_mem_reserved"}


def table_of(benchmark, table, columns):
    """Those columns of each row, with the number of the row's line in the file."""
    text = subprocess.run(["git", "-C", str(benchmark), "show", f"{COMMIT}:{FOLDER}/{table}.csv"], capture_output=True,
                          text=True)
    if text.returncode != 0:
        raise SystemExit(f"phantom_rows: {benchmark} is no clone of {SOURCE} that has {COMMIT}: {text.stderr}")
    for line, row in enumerate(csv.DictReader(io.StringIO(text.stdout)), 2):
        yield line, {column: row[column] for column in columns}


def settings_of(benchmark):
    """The rows of one GPU, by their names, without those that benchmarks/phantom-rows.md says are left out."""
    rows = {}
    for table in TABLES:
        for line, cells in table_of(benchmark, table, SETTINGS):
            names = cells["framework_config"] + cells["model_name_or_path"]
            if cells["num_gpus"] != "1" or any(each in names for each in LEFT_OUT):
                continue
            row = {"table": table, "line": line, "model": cells["model_name_or_path"],
                   "framework": cells["framework_config"], "batch": int(cells["per_device_train_batch_size"]),
                   "bf16": cells["bf16"].lower() == "true", "learning_rate": float(cells["learning_rate"])}
            if cells["peft_method"] == "lora":
                row["lora"] = {"r": int(float(cells["r"])), "lora_alpha": int(float(cells["lora_alpha"])),
                               "lora_dropout": float(cells["lora_dropout"]),
                               "target_modules": cells["target_modules"].split()}
            if cells["fp16"] or cells["torch_dtype"] != "bfloat16":
                raise SystemExit(f"phantom_rows: {table}.csv:{line} is not of BF16, which train_row.py takes for given")
            rows[name_of(row)] = row
    return rows


def name_of(row):
    method = "lora" if "lora" in row else "full"
    return f"{row['table']} {row['model'].split('/')[1]} {row['framework']} {method} {row['batch']}"


def figures_of(benchmark, rows):
    """What was measured of those rows; None where the run has failed."""
    figures = {}
    for table in TABLES:
        names = {row["line"]: name for name, row in rows.items() if row["table"] == table}
        for line, cells in table_of(benchmark, table, FIGURES.values()):
            if line in names:
                figures[names[line]] = {figure: int(float(cells[column])) if cells[column] else None
                                        for figure, column in FIGURES.items()}
    return figures

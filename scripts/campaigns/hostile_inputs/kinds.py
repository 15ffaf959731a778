"""Every kind of file that the program reads, with how it is made hostile and the command that reads it."""
import json
import random
from dataclasses import dataclass, field

from hostile_inputs import mutations as m
from hostile_inputs import sound
from hostile_inputs.templates import templates

FORMATS = tuple(sound.DATA)


@dataclass
class Case:
    """A folder with sound files, of which one is then made hostile, and the command that is run in it."""
    folder: object
    outside: object
    draw: object
    seed: object = 0        # of the whole series
    commands: list = field(default_factory=list)
    done: str = ""
    made: tuple = ()        # what the command may write, below the folder
    environment: dict = field(default_factory=dict)

    def model(self, **how):
        sound.model_folder(self.folder / "model", **how)
        return self.folder / "model"

    def run_yaml(self, data="prompt", **more):
        sound.write_data(self.folder / "data.jsonl", sound.DATA[data])
        (self.folder / "run.yaml").write_text(sound.config_yaml("model", "data.jsonl", "run", **more), encoding="utf-8")

    def mutate(self, path, ways, which):
        way = ways[which % len(ways)] if which < len(ways) else self.draw.choice(ways)
        self.done = f"{path.relative_to(self.folder)}: {way.__name__.replace('_', ' ')}"
        self.done += f" {way(path, self.draw) or ''}"


def file_of_model(name, ways, commands, **how):
    def make(case, which):
        model = case.model(**how)
        if how.get("tokenizer_model"):
            case.run_yaml(data="messages")
        elif how.get("spiece_model"):
            case.run_yaml(data="prompt")
        else:
            case.run_yaml(data=case.draw.choice(FORMATS))
        path = model / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_text(sound.TEMPLATE, encoding="utf-8")
        case.mutate(path, ways, which)
        case.commands = [case.draw.choice(commands)]
        case.made = ("run", "out")
    return make


def template(case, which):
    model = case.model()
    case.run_yaml(data="messages")
    known = list(templates())
    random.Random(case.seed).shuffle(known)  # each once before any comes again
    text = known[which % len(known)]
    (model / "chat_template.jinja").write_bytes(text.encode("utf-8", "surrogatepass"))
    case.done, case.commands = f"chat_template.jinja: {text[:160]!r}", ["preview run.yaml"]


def shards(name, ways):
    def make(case, which):
        sound.sharded_folder(case.folder / "model")
        case.mutate(case.folder / "model" / name, ways, which)
        case.commands = [case.draw.choice(("inspect model", "inspect model --json"))]
    return make


def adapter(name, ways, commands):
    def make(case, which):
        sound.adapter_folder(case.folder / "adapter", case.model())
        case.mutate(case.folder / "adapter" / name, ways, which)
        case.commands, case.made = [case.draw.choice(commands)], ("out",)
    return make


def data(case, which):
    case.model()
    case.run_yaml(data=FORMATS[which % len(FORMATS)])
    case.mutate(case.folder / "data.jsonl", m.LINES + m.PLACE + m.BYTES, which)
    case.commands = [case.draw.choice(("preview run.yaml", "preview run.yaml packing=true", "preview run.yaml --json", "preview run.yaml dataset_format=messages"))]


def config(case, which):
    case.model()
    case.run_yaml()
    case.mutate(case.folder / "run.yaml", m.YAML + m.PLACE + m.BYTES, which)
    case.commands = ["preview run.yaml"]


def checkpoint_folder(case):
    """As `train` leaves it, but with numbers made up; read by `inspect`."""
    folder = case.folder / "checkpoint-2"
    sound.model_folder(folder)
    sound.write_json(folder / "trainer_state.json", {"step": 2, "seed": 1})
    files = [{"name": path.name, "bytes": path.stat().st_size, "hash": sound.hash_of(path.read_bytes())} for path in sorted(folder.iterdir())]
    sound.write_json(folder / "manifest.json", {"format": "fathom checkpoint", "version": 2, "step": 2, "files": files})
    with open(folder / "manifest.json", "a", encoding="utf-8") as file:
        file.write("\n")
    return folder


def manifest(case, which):
    case.mutate(checkpoint_folder(case) / "manifest.json", m.JSON + m.PLACE + m.BYTES, which)
    case.commands = [case.draw.choice(("inspect checkpoint-2", "inspect checkpoint-2 --json"))]


def listed(case, which):
    names = ("trainer_state.json", "model.safetensors", "config.json")
    case.mutate(checkpoint_folder(case) / names[which % len(names)], m.PLACE + m.BYTES, which // len(names))
    case.commands = ["inspect checkpoint-2"]


def report(name, ways):
    def make(case, which):
        sound.run_record(case.folder / "run")
        case.mutate(case.folder / "run" / name, ways, which)
        case.commands, case.made = [case.draw.choice(("report run", "report run --snapshot run/step.pickle"))], ("run/report.html", "run/step.pickle")
    return make


def output(case, which):
    sound.run_record(case.folder / "run")
    option = ("--out", "--snapshot", "run/report.html")[which % 3]
    target = case.folder / ("run/report.html" if option == "run/report.html" else "target")
    target.write_text("kept", encoding="utf-8")
    places = m.PLACE + (m.link_to("/proc/self/fd/1", "/dev/stdout"), m.link_to("outside/secret", "outside/absent"))
    case.mutate(target, places, which // 3)
    case.commands = ["report run" if option == "run/report.html" else f"report run {option} target"]
    case.made = ("run/report.html",) if option == "--snapshot" else ()


def hub(case, which):
    hub_folder = case.folder / "hub" / "models--org--name"
    snapshot = hub_folder / "snapshots" / ("a" * 40)
    sound.model_folder(snapshot)
    (hub_folder / "refs").mkdir()
    (hub_folder / "refs" / "main").write_text("a" * 40, encoding="utf-8")
    case.mutate(hub_folder / "refs" / "main", m.PLACE + m.BYTES, which)
    if which % 4 == 3:
        m.replace(hub_folder / "refs" / "main")
        (hub_folder / "refs" / "main").write_text(case.draw.choice(("../../../../outside", "/etc", "a" * 100000, "\x1b[2J", "..", "")), encoding="utf-8")
        case.done = "refs/main: another name"
    case.commands, case.environment = ["inspect org/name"], {"HF_HUB_CACHE": str(case.folder / "hub")}


def names(case, which):
    """Control characters in names of commands, options, keys, folders and files."""
    text = (m.CONTROLS + (m.MARKUP, "a" * 100000))[which % (len(m.CONTROLS) + 2)].replace("\0", "")
    quoted = "".join(c for c in text if c != "/")[:100]
    case.model()
    case.run_yaml()
    how = which // 10 % 9
    where = case.folder / f"x{quoted}"
    where.mkdir()
    (case.folder / "model").rename(where / "model")
    (where / f"d{quoted}.jsonl").write_bytes((case.folder / "data.jsonl").read_bytes())
    model = ["model_name_or_path=" + str(where / "model")]
    case.commands = [[text], ["train", text], ["inspect", str(where)], ["inspect", str(where / "model")], ["preview", "run.yaml", f"{text}=1"],
                     ["preview", "run.yaml", *model, f"train_file={where / f'd{quoted}.jsonl'}"], ["report", str(where)], ["estimate", "--gpu", text, "7B"], ["inspect", "model", f"--{text}"]][how:how + 1]
    case.done = f"{case.commands[0]!r}"[:200]


def prompts(case, which):
    case.model()
    (case.folder / "prompts.txt").write_text("a\nb\n", encoding="utf-8")
    case.mutate(case.folder / "prompts.txt", m.PLACE + (m.sparse,), which)
    case.commands = ["generate model --prompts prompts.txt --max-new-tokens 1"]


def torch_folder(case, which):
    folder = case.folder / "torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libtorch_cpu.so").write_bytes(b"")
    (folder / "version.py").write_text("__version__ = '2.10.0'\n", encoding="utf-8")
    case.mutate(folder / "version.py", m.PLACE + m.BYTES, which)
    case.commands, case.environment = ["estimate 7B"], {"FATHOM_TORCH": str(folder)}


TEXT_FILE = m.PLACE + m.BYTES
# Name, share of all inputs, how a case is made. These answer without LibTorch.
LIGHT = (
    ("config (YAML)", 10, config),
    ("config.json", 12, file_of_model("config.json", m.JSON + TEXT_FILE, ("inspect model", "inspect model --json", "preview run.yaml"))),
    ("generation_config.json", 4, file_of_model("generation_config.json", m.JSON + TEXT_FILE, ("inspect model", "preview run.yaml"))),
    ("weights", 10, file_of_model("model.safetensors", m.TENSORS + TEXT_FILE, ("inspect model", "inspect model --json", "inspect model/model.safetensors"))),
    ("index of shards", 6, shards("model.safetensors.index.json", m.JSON + TEXT_FILE)),
    ("shard", 4, shards("model-00001-of-00002.safetensors", m.TENSORS + TEXT_FILE)),
    ("tokenizer.json", 10, file_of_model("tokenizer.json", m.JSON + TEXT_FILE, ("preview run.yaml",))),
    ("tokenizer.json over characters", 8, file_of_model("tokenizer.json", m.JSON + TEXT_FILE,
                                                        ("preview run.yaml", "inspect model"), characters=True)),
    ("tokenizer.model", 5, None),
    ("spiece.model", 4, None),
    ("tokenizer_config.json", 6, file_of_model("tokenizer_config.json", m.JSON + TEXT_FILE, ("preview run.yaml",))),
    ("special_tokens_map.json", 4, file_of_model("special_tokens_map.json", m.JSON + TEXT_FILE, ("preview run.yaml",))),
    ("chat_template.jinja", 4, file_of_model("chat_template.jinja", TEXT_FILE, ("preview run.yaml",))),
    ("template of its own", 2, file_of_model("additional_chat_templates/tool_use.jinja", TEXT_FILE, ("preview run.yaml",))),
    ("what a template does", 16, template),
    ("adapter_config.json", 5, adapter("adapter_config.json", m.JSON + TEXT_FILE, ("inspect adapter", "inspect adapter --json"))),
    ("adapter's weights", 4, adapter("adapter_model.safetensors", m.TENSORS + TEXT_FILE, ("inspect adapter",))),
    ("data", 14, data),
    ("manifest.json", 6, manifest),
    ("file of a checkpoint", 4, listed),
    ("metrics.jsonl", 4, report("metrics.jsonl", m.LINES + TEXT_FILE)),
    ("memory.json", 5, report("memory.json", m.JSON + TEXT_FILE)),
    ("timeline.json", 6, report("timeline.json", m.JSON + TEXT_FILE)),
    ("config.yaml of a run", 2, report("config.yaml", TEXT_FILE)),
    ("file to write", 4, output),
    ("hub's cache", 4, hub),
    ("names", 9, names),
    ("prompts", 2, prompts),
    ("folder of LibTorch", 2, torch_folder),
)


def carried(case, which):
    """A link to a private file in the place of what is copied along."""
    model = case.model()
    name = ("merges.txt", "vocab.json", "chat_template.jinja", "special_tokens_map.json", "tokenizer_config.json", "generation_config.json", "chat_template.json", "additional_chat_templates/a.jinja")[which % 8]
    path = model / name
    path.parent.mkdir(exist_ok=True)
    m.link_to("outside/secret.json" if name.endswith(".json") else "outside/secret")(path, case.draw)
    if "/" in name:
        m.link_to("outside/templates")(path.parent, case.draw)
    case.run_yaml(method="lora" if which % 2 else "full")
    case.commands = [("train run.yaml", "quantize model --format int8 --out out", "train run.yaml method=lora")[which // 8 % 3]]
    case.done, case.made = f"{name}: a link to a private file", ("run", "out")


def resumed(case, which, trained):
    run, _ = trained
    sound_run = case.folder / "run"
    copy_tree(run / "run", sound_run)
    copy_tree(run / "model", case.folder / "model")
    for name in ("run.yaml", "data.jsonl"):
        (case.folder / name).write_bytes((run / name).read_bytes())
    ways = (m.set_in_state, m.set_in_state, m.sign_changed("trainer_state.json"), m.sign_changed("optimizer.safetensors"), m.sign_changed("model.safetensors"))
    case.mutate(sound_run / "checkpoint-2", ways, which)
    case.commands, case.made = ["train run.yaml max_steps=3 resume_from_checkpoint=auto"], ("run",)


def taken_run(case, which, trained):
    """Hostile files where a resumed run writes its own."""
    resumed(case, 0, trained)
    copy_tree(trained[0] / "run" / "checkpoint-2", case.folder / "run" / "checkpoint-2")
    name = ("metrics.jsonl", "config.yaml", "memory.json", "timeline.json", "report.html", "model.safetensors", "config.json", "additional_chat_templates")[which % 8]
    case.mutate(case.folder / "run" / name, m.PLACE + (m.link_to("outside/secret", "outside/templates"),) * 4, which // 8)


def quantized(case, which, trained):
    copy_tree(trained[0] / "quantized", case.folder / "model")
    name, ways = (("config.json", m.JSON), ("model.safetensors", m.TENSORS))[which % 2]
    case.mutate(case.folder / "model" / name, ways, which // 2)
    case.commands = [("inspect model", "generate model --prompt a --max-new-tokens 2")[which // 2 % 2]]


def calibration(case, which, trained):
    cache = case.folder / "cache" / "fathom"
    copy_tree(trained[0] / "cache" / "fathom", cache) if (trained[0] / "cache" / "fathom").is_dir() else cache.mkdir(parents=True)
    files = sorted(cache.glob("*.json")) + sorted(cache.glob("*/*.json"))
    if files:
        case.mutate(files[0], m.JSON + TEXT_FILE, which)
    case.model()
    case.run_yaml()
    case.commands, case.environment, case.made = ["estimate run.yaml"], {"XDG_CACHE_HOME": str(case.folder / "cache")}, ("cache",)


def page_out(case, which):
    case.model()
    case.run_yaml()
    target = case.folder / "target"
    target.write_text("kept", encoding="utf-8")
    case.mutate(target, m.PLACE, which)
    case.commands = [("estimate run.yaml --page target", "logits model --ids 1,2 --out target")[which % 2]]


def copy_tree(source, target):
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        there.mkdir(exist_ok=True) if path.is_dir() else there.write_bytes(path.read_bytes())


USE = ("generate model --prompt a --max-new-tokens 2", "estimate run.yaml", "logits model --ids 1,2,3 --out out", "quantize model --format int8 --out out", "eval run.yaml validation_file=data.jsonl")
# These start LibTorch. The last of a row: whether it needs a run, a checkpoint and a quantized folder made beforehand.
HEAVY = (
    ("config.json, used", 4, file_of_model("config.json", m.JSON, USE), False),
    ("weights, used", 4, file_of_model("model.safetensors", m.TENSORS + m.PLACE, USE), False),
    ("tokenizer.json, used", 2, file_of_model("tokenizer.json", m.JSON, USE[:1]), False),
    ("generation_config.json, used", 2, file_of_model("generation_config.json", m.JSON, USE[:1]), False),
    ("adapter, used", 3, adapter("adapter_config.json", m.JSON, ("generate model --adapter adapter --prompt a --max-new-tokens 2", "export adapter --merge --out out --base model")), False),
    ("adapter's weights, used", 3, adapter("adapter_model.safetensors", m.TENSORS, ("generate model --adapter adapter --prompt a --max-new-tokens 2", "export adapter --merge --out out --base model")), False),
    ("quantized folder", 3, quantized, True),
    ("checkpoint, resumed", 6, resumed, True),
    ("run's folder, resumed", 4, taken_run, True),
    ("private files", 4, carried, False),
    ("page and logits to write", 3, page_out, False),
    ("calibration", 2, calibration, True),
)

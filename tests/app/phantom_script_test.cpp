// `fathom phantom` on scripts as people write them, with the LibTorch of the build as their torch.
#include "tests/app/phantom_script.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/json_value.h"

namespace fathom::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTraining = R"(
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        large = torch.empty(100_000_000, device="cuda")
        return gradient * 2

weight = torch.nn.Parameter(torch.ones(1000, 1000, device="cuda"))
optimizer = torch.optim.AdamW([weight])
for step in range(3):
    Twice.apply((weight @ weight).relu()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())
)";

TEST_F(PhantomScript, TellsWhatTrainingTakesAndWhere) {
  const Outcome outcome = play(kTraining, "--gpu A100-80GB --json");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json answer = parse_json(outcome.output, "the answer");
  EXPECT_EQ(answer.at("fits"), true);
  ASSERT_EQ(answer.at("processes").size(), 1U);
  const Json& process = answer.at("processes").at(0);
  EXPECT_EQ(process.at("steps"), 3);
  EXPECT_THAT(outcome.errors, HasSubstr(process.at("allocated").dump() + "\n")) << "what the script says itself";
  EXPECT_GT(process.at("reserved"), process.at("allocated"));
  const Json& peak = process.at("peak");
  EXPECT_EQ(peak.at("phase"), "backward");
  EXPECT_EQ(peak.at("step"), 2) << "when the states are there";
  EXPECT_EQ(peak.at("components").at("weights"), 4'000'000);
  EXPECT_EQ(peak.at("components").at("optimizer_states"), 8'000'000);
  EXPECT_EQ(peak.at("blocks").at(0).at("place"), "train.py:9");
  EXPECT_EQ(peak.at("blocks").at(0).at("bytes"), 400'000'000);
  EXPECT_TRUE(process.at("reads").empty());
  EXPECT_TRUE(process.at("refusal").is_null());

  const Outcome text = play(kTraining, "--gpu A100-80GB --steps 1");
  EXPECT_EQ(text.status, 0) << text.errors;
  EXPECT_THAT(text.output, AllOf(HasSubstr("Fits: A100-80GB"), HasSubstr("1 step in"), HasSubstr("train.py:9"),
                                 HasSubstr("No number that only a GPU knows was read")));
}

TEST_F(PhantomScript, CountsStepsOfAllOptimizers) {
  const Json answer = told(R"(
first, second = torch.ones(9, device="cuda", requires_grad=True), torch.ones(9, device="cuda", requires_grad=True)
def train(steps, *optimizers):
    for step in range(steps):
        (first * second).sum().backward()
        for optimizer in optimizers: optimizer.step()
train(3, torch.optim.SGD([first]), torch.optim.AdamW([second]))
train(2, torch.optim.SGD([first]))
)");
  EXPECT_EQ(answer.at("processes").at(0).at("steps"), 5);
}

TEST_F(PhantomScript, TellsWhereMemoryRanOut) {
  const Outcome outcome = play(kTraining, "--gpu A100-80GB --gpu-memory 300MiB");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Does not fit"), HasSubstr("Out of memory in step 1, backward"),
                                    HasSubstr("382.00 MiB could not be had"), HasSubstr("train.py:1")));
  EXPECT_THAT(outcome.errors, HasSubstr("OutOfMemoryError")) << "the script's own";
}

// What a real GPU would say, and zeros would not.
TEST_F(PhantomScript, KnowsValuesThatComeFromTheHost) {
  const Json answer = told(R"(
x = torch.arange(5, device="cuda")
assert (x * 2).sum().item() == 20
assert x[x > 2].tolist() == [3, 4]
assert x.nonzero().flatten().tolist() == [1, 2, 3, 4]
mask = torch.ones(4, 512, dtype=torch.long).to("cuda")
assert mask.all() and not (mask == 0).any()
assert (torch.diff(mask.cumsum(-1)) >= 0).all()
lengths = mask.sum(-1)
assert torch.repeat_interleave(x[:4], lengths).shape == (2048,)
assert torch.equal(x, torch.arange(5).cuda()) and x.max().item() == 4
x[x == 3] = 7
assert x.tolist() == [0, 1, 2, 7, 4]
zeros = torch.zeros(2, dtype=torch.long, device="cuda")
del zeros
assert torch.tensor([8, 57], device="cuda")[None].cpu().tolist() == [[8, 57]], "where zeros lay before"
assert torch.ones_like(torch.randint(9, (4, 9), device="cuda")).all(), "whatever it is like"
assert torch.isfinite(torch.randn(1000, 1000, device="cuda") @ torch.randn(1000, 10, device="cuda")).all()

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", torch.float16):
    loss = model(torch.randn(8, 64, device="cuda")).square().mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
assert scaler.get_scale() == 65536.0 and optimizer.state, "no step was skipped"
)");
  EXPECT_TRUE(answer.at("processes").at(0).at("reads").empty()) << answer.at("processes").at(0).at("reads");
}

TEST_F(PhantomScript, FollowsThreadsAndForgetsForks) {
  const Json answer = told(R"(
import ctypes, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
class Thread(threading.Thread):
    def run(self):
        self.sum = (torch.arange(5, device="cuda") * 2).sum().item()
        self.large = torch.randn(99, device="cuda").sum().item()
thread = Thread()
thread.start()
thread.join()
assert (thread.sum, thread.large) == (20, 1.0)
with ThreadPoolExecutor() as pool:
    assert pool.submit(lambda: torch.tensor([7]).cuda().nonzero().shape[0]).result() == 1
kept = torch.zeros(2, device="cuda")
def launch():
    ctypes.CDLL("libcuda.so.1").cuLaunchKernel(b"a kernel of nobody", 1, 1, 1, 1, 1, 1, 0, None, None, None)
    torch.ones(1, device="cuda")
threading.Thread(target=launch).start()
while threading.active_count() > 1: pass
kept.sum().item()
if os.fork() == 0:
    sys.exit(0)
os.wait()
)");
  ASSERT_EQ(answer.at("processes").size(), 1U);
  const Json& reads = answer.at("processes").at(0).at("reads");
  ASSERT_EQ(reads.size(), 2U) << reads;
  EXPECT_EQ(reads.at(0).at("place"), "train.py:8");
  EXPECT_EQ(reads.at(1).at("place"), "train.py:21") << "a kernel may have written it";
}

// Most operators are called without a way through Python, which would cost more than they do.
TEST_F(PhantomScript, LooksAtFewOperators) {
  const Json answer = told(R"(
import sys
values = sys.modules["fathom_phantom.values"].Values
looks, dispatch = [], values.__torch_dispatch__
def look(self, func, types, args=(), kwargs=None):
    looks.append(func.name())
    return dispatch(self, func, types, args, kwargs)
values.__torch_dispatch__ = look
weight = torch.nn.Parameter(torch.randn(1000, 1000, device="cuda"))
optimizer = torch.optim.AdamW([weight])
for step in range(30):
    hidden = weight
    for layer in range(30):
        hidden = (hidden @ weight.to(torch.bfloat16).float()).relu() * 2 + weight
    hidden.sum().backward()
    optimizer.step()
    optimizer.zero_grad()
assert len(looks) < 100, looks
assert torch.arange(3, device="cuda").sum().item() == 3
assert any("sum" in each for each in looks)
)");
  EXPECT_EQ(answer.at("processes").at(0).at("steps"), 30);
}

TEST_F(PhantomScript, NamesReadsOfWhatNobodyKnows) {
  const Json answer = told(R"(
x = torch.randn(300, 100, device="cuda")
x = x @ x.T
if x.sum().item() > 0: pass
assert x[x > 0].shape == (300 * 300,)
assert x.masked_select(x > 1).numel() == 300 * 300
x[:2].cpu()
known = torch.arange(4, device="cuda")
known[1:].add_((x[0, :3] > 0).long())
known.sum().item()
zeros = [torch.zeros(2, device="cuda")]
torch._foreach_add_(zeros, [x[0, :2]])
zeros[0].sum().item()
import ctypes
buffer = torch.zeros(2, device="cuda")
assert buffer.sum().item() == 0
ctypes.CDLL("libcuda.so.1").cuLaunchKernel(b"a kernel of nobody", 1, 1, 1, 1, 1, 1, 0, None, None, None)
buffer.sum().item()
try:
    torch.repeat_interleave(x[0], x[0].long())
    raise SystemExit("a size was made up")
except RuntimeError as error:
    assert "depends on numbers that only a GPU knows" in str(error)
)");
  const Json& reads = answer.at("processes").at(0).at("reads");
  const auto read = [&](int line, const std::string& how) {
    return std::any_of(reads.begin(), reads.end(), [&](const Json& each) {
      return each.at("place").get<std::string>().ends_with("train.py:" + std::to_string(line)) && each.at("how") == how;
    });
  };
  EXPECT_TRUE(read(5, "read")) << reads;
  EXPECT_TRUE(read(6, "assumed")) << reads;
  EXPECT_TRUE(read(7, "assumed")) << reads;
  EXPECT_TRUE(read(8, "read")) << reads;
  EXPECT_TRUE(read(11, "read")) << "a view of it was changed: " << reads;
  EXPECT_TRUE(read(14, "read")) << "it was changed in a list: " << reads;
  EXPECT_TRUE(read(19, "read")) << "a kernel may have written it: " << reads;
}

TEST_F(PhantomScript, ShowsNoNumberThatIsNone) {
  const std::string script = R"(
import os, sys
os.makedirs("transformers")
with open("transformers/trainer.py", "w") as file:
    file.write('def log(loss): print("log", loss.item(), f"{loss.item() / 3:.4f}|{1 - loss.item():>9.2f}")')
sys.path.insert(0, os.getcwd())
from transformers.trainer import log
loss = torch.randn(4, device="cuda").sum()
log(loss)
print("tensor", loss, f"{loss:.3e}", torch.tensor([2.0]).cuda())
assert type(loss.item()) is float and torch.arange(4, device="cuda").sum().item() == 6
kept = torch.zeros(2, device="cuda")
import ctypes
ctypes.CDLL("libcuda.so.1").cuLaunchKernel(b"a kernel of nobody", 1, 1, 1, 1, 1, 1, 0, None, None, None)
print("kept", kept)
)";
  const Outcome outcome = play(script);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors,
              AllOf(HasSubstr("log unknown unknown|  unknown\n"),
                    HasSubstr("tensor tensor(unknown, size=(), dtype=torch.float32, device='cuda:0') unknown "
                              "tensor([2.], device='cuda:0')\n"),
                    HasSubstr("kept tensor(unknown, size=(2,)")));
}

TEST_F(PhantomScript, ListsFilesThatHoldNoNumbers) {
  const Outcome outcome = play(R"(
import os
for folder in ("before", "after"): os.mkdir(folder)
known, weight = torch.tensor([2.0]).cuda(), torch.randn(4, 3, device="cuda")
torch.save({"known": known}, "before/known.pt")
assert torch.load("before/known.pt")["known"].item() == 2.0
torch.save(obj={"weight": weight}, f="after/model.pt")
torch.serialization.save(weight, "after/gone.pt")
os.remove("after/gone.pt")
with open("after/stream.pt", "wb") as stream: torch.save(weight, stream)
)");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("a list says which, in:\n  " + (folder_ / "after").string()));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "before" / "phantom-files.txt"));
  EXPECT_THAT(read_file(folder_ / "after" / "phantom-files.txt"),
              AllOf(HasSubstr(" model.pt\n"), HasSubstr(" stream.pt\n"), Not(HasSubstr("gone.pt"))));
  write("after/config.json", R"({"model_type": "llama"})");
  EXPECT_THAT(run("inspect after").output, HasSubstr("no weight in this folder is real"));
  std::filesystem::last_write_time(folder_ / "after" / "model.pt", std::filesystem::file_time_type::clock::now());
  std::filesystem::remove(folder_ / "after" / "stream.pt");
  EXPECT_THAT(run("inspect after").output, Not(HasSubstr("no weight in this folder is real"))) << "they are others now";
}

TEST_F(PhantomScript, KeepsNothingThatAScriptGivesUp) {
  const Json answer = told(R"(
import threading
class Fetch(threading.Thread):
    def run(self):
        self.batch = torch.empty(1 << 20, device="cuda")
torch.empty(1, device="cuda")  # of which PyTorch keeps frames
import gc
gc.disable()
for step in range(5):
    fetch = Fetch()
    fetch.start()
    fetch.join()
    del fetch
    assert torch.cuda.memory_allocated() == 0, step
)");
  EXPECT_EQ(answer.at("processes").at(0).at("allocated"), 1 << 22);
}

// It is LibTorch's own operator that makes room for them, with all that it needs besides.
TEST_F(PhantomScript, TakesWhatMasksTake) {
  const Json answer = told(R"(
def taken(action):
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    action()
    return torch.cuda.max_memory_allocated() - before

x = torch.randn(1000, 1000, device="cuda", requires_grad=True)
mask, values = x > 0, x.detach()
def fill(): values[mask] = 0
assert taken(fill) == 0, "no index is made"
places = 16_000_000
assert places < taken(mask.nonzero) < places + 1_000_000, "two numbers of 8 bytes for each"
selected = taken(lambda: values.masked_select(mask))
assert places + 4_000_000 < selected < places + 5_000_000, selected
assert mask.nonzero().stride() == (1, 1_000_000)
scattered = torch.zeros_like(x).masked_scatter(mask, x)
assert taken(lambda: scattered.sum().backward()) > places
assert torch.repeat_interleave(values[0], mask[0].long(), output_size=500).shape == (500,)
)");
  int64_t times = 0;
  for (const Json& read : answer.at("processes").at(0).at("reads")) {
    EXPECT_EQ(read.at("how"), "assumed") << read;
    EXPECT_THAT(read.at("place").get<std::string>(), HasSubstr("train.py:"));
    times += read.at("times").get<int64_t>();
  }
  EXPECT_EQ(times, 4) << answer.at("processes").at(0).at("reads");
}

TEST_F(PhantomScript, FollowsHoweverTorchIsLookedForFirst) {
  const Outcome outcome = play_whole(R"(
import importlib.util
assert importlib.util.find_spec("torch") is not None
import torch
assert (torch.arange(3).cuda() * 2).tolist() == [0, 2, 4]
)",
                                     "--gpu A100-80GB --json");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
}

// As torchao keeps states of 8 bits.
TEST_F(PhantomScript, FindsStatesWithinTensorsOfOtherClasses) {
  const Json answer = told(R"(
class Packed(torch.Tensor):
    @staticmethod
    def __new__(cls, bytes):
        self = torch.Tensor._make_wrapper_subclass(cls, bytes.shape, dtype=torch.float32, device=bytes.device)
        self.bytes = bytes
        return self
    def __tensor_flatten__(self):
        return ["bytes"], None
    @classmethod
    def __torch_dispatch__(cls, *all):
        raise NotImplementedError

class Optimizer(torch.optim.Optimizer):
    def step(self):
        self.state[weight]["packed"] = Packed(torch.zeros(1_000_000, dtype=torch.uint8, device="cuda"))

weight = torch.nn.Parameter(torch.ones(1000, device="cuda"))
optimizer = Optimizer([weight], {})
optimizer.step()
torch.empty(5_000_000, device="cuda")
)");
  EXPECT_EQ(answer.at("processes").at(0).at("peak").at("components").at("optimizer_states"), 1'000'000);
}

TEST_F(PhantomScript, RefusesWhatCuDnnTakes) {
  const std::string script = R"(
layer, x = torch.nn.Conv2d(3, 64, 3).cuda(), torch.randn(2, 3, 32, 32, device="cuda")
layer(x).sum().backward()
)";
  const Outcome outcome = play(script);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "") << "what it took until then says nothing";
  EXPECT_THAT(outcome.errors.substr(outcome.errors.rfind("error: ")),
              AllOf(HasSubstr("cuDNN"), HasSubstr("torch.backends.cudnn.enabled = False")))
      << "the last words";
  EXPECT_EQ(play("torch.backends.cudnn.enabled = False\n" + script).status, 0);
}

// As transformers ends `generate`, and as mixtures of experts send tokens on.
TEST_F(PhantomScript, TakesTheLongestAnswerAndTheFullestExperts) {
  const Json answer = told(R"(
scores = torch.randn(2, 500, device="cuda") @ torch.randn(500, 500, device="cuda")
unfinished = torch.ones(2, dtype=torch.long, device="cuda")
for step in range(100):
    done = torch.full((2,), False, device="cuda") | torch.full((2,), step == 5, device="cuda")
    done = done | (scores.argmax(-1) == 2)
    unfinished = unfinished & ~done
    if unfinished.max() == 0:
        break
assert step == 5
experts = scores.topk(2).indices
for expert in range(4):
    rows, places = torch.where(experts == expert)
    assert rows.shape == (2 * 2,) and rows.tolist() == [0, 0, 1, 1]
assert not torch.isin(experts, torch.tensor([2, 3], device="cuda")).any(), "what ends an answer is in none"

import os, sys
os.makedirs("transformers/generation")
with open("transformers/generation/utils.py", "w") as file:
    file.write('def _beam_search(is_improvable): return bool(is_improvable.any())')
sys.path.insert(0, os.getcwd())
from transformers.generation.utils import _beam_search
assert _beam_search(scores > 0), "beams go on"
)");
  std::map<std::string, int64_t> times;
  for (const Json& read : answer.at("processes").at(0).at("reads"))
    times[read.at("how")] += read.at("times").get<int64_t>();
  EXPECT_EQ(times["read"], 5) << "whether an answer has ended, until the last step, which is known";
  EXPECT_EQ(times["assumed"], 6) << "an expert each, the tokens that end an answer, and the beams";
}

TEST_F(PhantomScript, HasWhatKernelsOfNewGpusAskFor) {
  const Outcome outcome = play(R"(
rows = torch.randn(64, 256, device="cuda", dtype=torch.bfloat16)
experts = torch.randn(4, 256, 512, device="cuda", dtype=torch.bfloat16)
ends = torch.tensor([16, 32, 48, 64], dtype=torch.int32).cuda()
assert torch._grouped_mm(rows, experts, offs=ends).shape == (64, 512)
)",
                               "--gpu B200");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.errors, Not(HasSubstr("TMA descriptor")));
}

TEST_F(PhantomScript, FindsTheLargestNumberThatFits) {
  write("train.py", R"(
import sys, torch
rows = torch.zeros(int(sys.argv[2]) << 20, 256, device="cuda", dtype=torch.uint8)
)");
  const std::string with =
      "phantom --gpu A100-80GB --gpu-memory 1792MiB --find-largest rows -- '" + python_.string() + "' train.py ";
  const Outcome found = run(with + "--rows 2");
  EXPECT_EQ(found.status, 0) << found.errors;
  EXPECT_THAT(found.output, HasSubstr("The largest rows that fits is 7."));
  EXPECT_THAT(found.errors, AllOf(HasSubstr("with rows 4 it fits"), HasSubstr("with rows 8 it does not fit")));
  EXPECT_THAT(run(with + "2").errors, HasSubstr("no word of the command gives rows"));
}

TEST_F(PhantomScript, IsPlayedWithSegmentsAtOtherAddresses) {
  const Outcome outcome = play("print(torch.ones(1 << 26, device='cuda').data_ptr())", "--gpu H100 --placements 3");
  EXPECT_THAT(outcome.output,
              HasSubstr("Over 3 placements of the allocator's segments: allocated 268,435,456, reserved"));
  std::istringstream lines(outcome.errors);
  std::set<std::string> addresses;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of("0123456789") == std::string::npos) addresses.insert(line);
  }
  EXPECT_EQ(addresses.size(), 3U) << outcome.errors;
}

TEST_F(PhantomScript, IsTheScriptAsItWouldRunByItself) {
  const Outcome outcome = play(R"(
import os, sys
assert torch.cuda.get_device_capability() == (8, 0) and torch.cuda.device_count() == 1
assert torch.zeros(3, device="cuda").tolist() == [0, 0, 0]
print("to stdout")
print("to stderr", file=sys.stderr)
sys.exit(7)
)");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("to stdout"), HasSubstr("to stderr"), HasSubstr("status 7")));
  EXPECT_THAT(outcome.output, Not(HasSubstr("to stdout")));
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Not known whether it fits"), Not(HasSubstr("Fits"))));
}

TEST_F(PhantomScript, WritesBytecodeOfTheScriptAlone) {
  ::unsetenv("PYTHONDONTWRITEBYTECODE");
  write("helper.py", "");
  EXPECT_EQ(play("import helper; torch.ones(3, device='cuda')").status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "__pycache__"));
  const std::filesystem::path agent = FATHOM_BINARY_DIR "/lib/fathom-phantom/agent";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(agent)) {
    EXPECT_NE(entry.path().extension(), ".pyc") << entry.path();
  }
}

TEST_F(PhantomScript, SaysWhyThereIsNoAnswer) {
  EXPECT_THAT(play("").errors, HasSubstr("has used no GPU"));
  EXPECT_THAT(play("import os\nx = torch.ones(1).cuda()\nos.kill(os.getpid(), 9)\n").errors,
              AllOf(HasSubstr("before its Python could tell"), HasSubstr("--no-weights")));
  EXPECT_THAT(run("phantom --gpu H100 -- /bin/true").errors, HasSubstr("no Python in it has imported torch"));
  const Outcome absent = run("phantom --gpu H100 -- no-such-program train.py");
  EXPECT_EQ(absent.status, 1);
  EXPECT_THAT(absent.errors, HasSubstr("'no-such-program' cannot be started"));
  const Outcome narrow =
      run("-c 'ulimit -v 20000000; exec " FATHOM_PROGRAM " phantom --gpu H100 -- /bin/true'", "", "/bin/sh");
  EXPECT_THAT(narrow.errors, AllOf(HasSubstr("19.07 GiB of address space"), HasSubstr("ulimit -v unlimited")));
  EXPECT_THAT(run("phantom --gpu H100 -- /bin/true", "TMPDIR=/nowhere ").errors, HasSubstr("which TMPDIR may name"));
  EXPECT_THAT(play("torch.cuda.synchronize()", "--gpu H100 --snapshot s.pickle").errors,
              HasSubstr("s.pickle is not written: the script has asked for no memory"));
  for (const char* file : {"--page /tmp", "--snapshot /dev/full", "--page /nowhere/page.html"}) {
    const Outcome unwritable = run("phantom --gpu H100 " + std::string(file) + " -- touch played");
    EXPECT_EQ(unwritable.status, 1) << file;
    EXPECT_THAT(unwritable.errors, HasSubstr(std::string(file).substr(std::string(file).find('/')))) << file;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "played")) << file;
  }
  const Outcome none = run("phantom --gpu H100 --steps 0 -- /bin/true");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.errors, AllOf(HasSubstr("--steps is 0"), HasSubstr("leave it out")));
  EXPECT_EQ(run("phantom --gpu Z80 -- python train.py").status, 2);
  EXPECT_EQ(run("phantom --gpu H100").status, 2);
  EXPECT_EQ(run("phantom -- python train.py").status, 2);
}

}  // namespace
}  // namespace fathom::app

// `fathom phantom` on scripts of several processes: what they take together, or that it is not known, and nothing goes
// on.
#include "base/json_value.h"
#include "tests/app/phantom_script.h"

namespace fathom::app {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class FollowedProcesses : public PhantomScript {
 protected:
  void SetUp() override {
    PhantomScript::SetUp();
    // Without torch, which takes seconds to import.
    write("gpu.py", R"(
import ctypes, os, subprocess, sys, time
kept = []
cuda = ctypes.CDLL("libcudart.so.13")
def take(gib):
    kept.append(ctypes.c_void_p())
    assert cuda.cudaMalloc(ctypes.byref(kept[-1]), ctypes.c_size_t(gib << 30)) == 0
def give_back():
    assert cuda.cudaFree(kept.pop()) == 0
def command(gib, *options, then=""):
    return [sys.executable, *options, "-c", f"import sys; sys.path.append('.'); import gpu; gpu.take({gib}); " + then]
)");
    write("ten.py", "import gpu; gpu.take(10)");
    write("twenty.py", "import gpu; gpu.take(20)");
    // In front of it, so that there is an answer.
    write("torch_first.py", "import torch; torch.ones(1, device='cuda'); torch.cuda.synchronize()");
  }

  // Of a script that has torch and `gpu`.
  Json answer_of(const std::string& script, const std::string& options = "") {
    const Outcome outcome =
        play("from gpu import *\ntorch.ones(1, device='cuda')\n" + script, "--gpu A100-80GB --json " + options);
    return parsed(outcome);
  }
  Json of_shell(const std::string& shell, const std::string& words) {
    const std::string python = "'" + python_.string() + "'";
    std::string command = python + " torch_first.py; ";
    for (const char c : words) command += c == '@' ? python : std::string(1, c);
    write("run.sh", command + "\n");
    return parsed(play_command(shell + " run.sh", "--gpu A100-80GB --json"));
  }
  Json parsed(const Outcome& outcome) {
    errors_ = outcome.errors;
    EXPECT_FALSE(outcome.output.empty()) << outcome.errors;
    const Json answer = parse_json(outcome.output, "the answer");
    EXPECT_EQ(outcome.status, answer.at("fits") == true ? 0 : 1) << answer << outcome.errors;
    return answer;
  }
  // Of GPU 0, beside what torch's first tensor takes of it: in GiB, and by how many processes.
  static std::pair<int64_t, int64_t> most(const Json& answer) {
    const Json& device = answer.at("devices").at(0);
    return {device.at("bytes").get<int64_t>() >> 30, device.at("processes").get<int64_t>()};
  }
  using Most = std::pair<int64_t, int64_t>;

  std::string errors_;
};

TEST_F(FollowedProcesses, DoNotFitWhereTheyTakeMoreTogether) {
  const Outcome outcome = play(R"(
import subprocess, sys
x = torch.empty(50 << 30, device="cuda", dtype=torch.uint8)
subprocess.run([sys.executable, "-c", 'import torch; y = torch.empty(50 << 30, device="cuda", dtype=torch.uint8)'])
)");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("Does not fit: A100-80GB"), HasSubstr("2 processes that may run at once take"),
                    HasSubstr("most 100.00 GiB of GPU 0"), Not(HasSubstr("Fits"))))
      << outcome.errors;
}

// What a script finds behind the start of its Python has no stubs under it.
TEST_F(FollowedProcesses, AreNotKnownWhereTorchIsFoundLater) {
  const std::string find =
      "import importlib.util as u, sys; at = u.find_spec('torch').origin; print(at[:at.rindex('/torch/')])";
  const Outcome found = run("-c \"" + find + "\"", "", python_.string());
  write("late.py", "import sys\nsys.path.insert(0, '" + found.output.substr(0, found.output.size() - 1) +
                       "')\nimport torch\ntorch.empty(100 << 30, device='cuda', dtype=torch.uint8)\n");
  const Json answer = answer_of("subprocess.run(['/usr/bin/python3', 'late.py'], env={}, check=False)");
  EXPECT_EQ(answer.at("fits"), nullptr) << answer;
  EXPECT_THAT(answer.at("unfollowed").get<std::vector<std::string>>(), Contains(HasSubstr("late.py")));
  EXPECT_THAT(errors_, HasSubstr("PYTHONPATH"));
}

TEST_F(FollowedProcesses, AreSeparatedByAWait) {
  EXPECT_EQ(most(answer_of("subprocess.run(command(60))\nsubprocess.run(command(50))\ntake(70)")), Most(70, 1));
  EXPECT_EQ(most(answer_of("take(50)\ngive_back()\nsubprocess.run(command(60), timeout=60)\ntake(10)")), Most(60, 2))
      << "beside torch's tensor";
  EXPECT_EQ(most(answer_of("os.environ['PYTHON'] = sys.executable\nfor _ in '12': os.system('\"$PYTHON\" ten.py')")),
            Most(10, 2));
}

TEST_F(FollowedProcesses, AreABoundWhereTheirOrderIsChance) {
  const Json answer = answer_of(R"(
child = subprocess.Popen(command(20))
while child.poll() is None: time.sleep(0.1)
take(30)
)");
  EXPECT_EQ(most(answer), Most(50, 2));
  EXPECT_EQ(answer.at("fits"), true);
  const Json pool = answer_of(R"(
import concurrent.futures
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    list(pool.map(take, [10, 10]))
take(5)
)");
  EXPECT_EQ(most(pool).first, 25) << "whether one process has done both or not";
}

TEST_F(FollowedProcesses, OfAShellComeOneAfterTheOtherOrInTheBackground) {
  for (const char* shell : {"sh", "bash"}) {
    EXPECT_EQ(most(of_shell(shell, "@ twenty.py; @ ten.py; (@ ten.py; @ twenty.py)")), Most(20, 1)) << shell;
    EXPECT_EQ(most(of_shell(shell, "@ twenty.py & @ ten.py; wait")), Most(30, 2)) << shell;
    EXPECT_EQ(most(of_shell(shell, "@ twenty.py & sleep 2; @ ten.py; wait")), Most(30, 2))
        << shell << ": the first has ended, by chance";
  }
}

TEST_F(FollowedProcesses, GoOnAsOtherPrograms) {
  const Json answer = answer_of(R"(
model = torch.nn.Linear(8, 8, device="cuda")
for _ in range(3): torch.optim.AdamW(model.parameters()).step()
take(20)
os.execv(sys.executable, [sys.executable, "-c", 'import torch; torch.ones(1, device="cuda")'])
)");
  EXPECT_EQ(most(answer), Most(20, 1));
  EXPECT_EQ(answer.at("processes").size(), 2U);
  EXPECT_EQ(answer.at("processes").at(0).at("steps"), 3);
}

TEST_F(FollowedProcesses, ForkBeforeTheyImportTorch) {
  const Outcome outcome = play_whole(R"(
import os
child = os.fork()
import torch
torch.empty((20 if child else 10) << 30, device="cuda", dtype=torch.uint8)
if child: os.waitpid(child, 0)
else: os._exit(0)
)",
                                     "--gpu A100-80GB --json");
  EXPECT_EQ(most(parsed(outcome)), Most(30, 2)) << outcome.errors;
  EXPECT_EQ(parse_json(outcome.output, "it").at("processes").size(), 2U);
}

TEST_F(FollowedProcesses, DoWithoutAnEnvironment) {
  const Json answer = answer_of("os.environ.clear()\nsubprocess.run(command(20))\nsubprocess.run(command(30), env={})");
  EXPECT_EQ(most(answer), Most(30, 2));
  EXPECT_EQ(answer.at("fits"), true);
  EXPECT_EQ(most(parsed(play_command("env -i '" + python_.string() + "' torch_first.py", "--gpu A100-80GB --json"))),
            Most(0, 1));
}

TEST_F(FollowedProcesses, AreNamedWhereNothingIsKnownOfThem) {
  for (const char* option : {"-I", "-E", "-S"}) {
    const Json answer = answer_of("subprocess.run(command(20, '" + std::string(option) + "', then='gpu.os._exit(0)'))");
    EXPECT_TRUE(answer.at("fits").is_null()) << option;
    EXPECT_EQ(most(answer), Most(20, 2)) << option;
    EXPECT_THAT(errors_, HasSubstr(option)) << "it is named";
  }
  const Outcome alone = play("torch.zeros(1)", "--gpu A100-80GB", "-I");
  EXPECT_EQ(alone.status, 1);
  EXPECT_THAT(alone.errors, AllOf(HasSubstr("nothing is known of '"), HasSubstr(" -I train.py'")));
  EXPECT_EQ(alone.output, "");
  EXPECT_EQ(answer_of("subprocess.run([sys.executable, '-I', '-c', 'print(1)'])").at("fits"), true) << "without torch";
}

TEST_F(FollowedProcesses, AreWaitedForBehindTheCommand) {
  write("late.py", "import time; time.sleep(1); import torch; torch.ones(5 << 28, device='cuda')");
  const Json answer = parsed(play_command("setsid -f '" + python_.string() + "' late.py", "--gpu A100-80GB --json"));
  EXPECT_EQ(most(answer), Most(5, 1));
  EXPECT_EQ(answer.at("fits"), true);
}

TEST_F(FollowedProcesses, AreEndedWhereTheyStayWithoutTorch) {
  const Json answer = of_shell("sh", "setsid sleep 600 & @ ten.py");
  EXPECT_TRUE(answer.at("fits").is_null());
  EXPECT_THAT(answer.at("left").dump(), HasSubstr("(sleep)"));
  EXPECT_EQ(most(answer), Most(10, 1));
}

TEST_F(FollowedProcesses, TellWhatTheyTookBeforeASignal) {
  const std::string child = R"(
child = subprocess.Popen([sys.executable, "-c", "import gpu, torch, os, signal, time; gpu.take(20); torch.ones(1, device='cuda');" + how])
child.wait()
)";
  const Json terminated = answer_of("how = 'os.kill(os.getpid(), signal.SIGTERM); time.sleep(99)'" + child);
  EXPECT_EQ(terminated.at("fits"), true);
  EXPECT_EQ(terminated.at("processes").size(), 2U);
  const Json killed = answer_of("how = 'os.kill(os.getpid(), signal.SIGKILL)'" + child);
  EXPECT_TRUE(killed.at("fits").is_null());
  EXPECT_EQ(most(killed), Most(20, 2));
  EXPECT_THAT(errors_, HasSubstr("was killed, or crashed"));
}

TEST_F(FollowedProcesses, EndWithFathom) {
  write("endless.py",
        "import subprocess, sys, torch\ntorch.ones(1, device='cuda')\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "import time; open('ready', 'w'); time.sleep(600)\n");
  write("run.sh", "'" FATHOM_PROGRAM "' phantom --gpu H100 -- '" + python_.string() +
                      "' endless.py & "
                      "while ! [ -e ready ]; do sleep 0.1; done; kill -TERM $!; wait $!; echo $?");
  const Outcome outcome = run("run.sh", "TMPDIR=" + folder_.string() + "/tmp ", "/bin/bash");
  EXPECT_THAT(outcome.output, HasSubstr("1\n"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("Fits")));
  EXPECT_THAT(names_in(folder_ / "tmp"), Not(Contains(HasSubstr("fathom"))));
  EXPECT_LT(outcome.seconds, 60);
}

TEST_F(FollowedProcesses, OfMultiprocessingAreToldEach) {
  const Json answer = answer_of(R"(
import multiprocessing
if __name__ == "__main__":
    for start in ("fork", "spawn"):
        context = multiprocessing.get_context(start)
        children = [context.Process(target=take, args=(each,)) for each in (10, 20)]
        for child in children: child.start()
        for child in children: child.join()
)");
  EXPECT_EQ(most(answer), Most(30, 3)) << "those of one kind have ended before the others begin";
}

}  // namespace
}  // namespace fathom::app

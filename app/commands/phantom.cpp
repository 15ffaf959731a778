// `fathom phantom -- python train.py`: what a PyTorch script takes of a GPU that is not there.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "app/installation.h"
#include "app/loader.h"
#include "app/machine.h"
#include "app/torch_variables.h"
#include "app/words/shared_options.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/output.h"
#include "base/seconds_since.h"
#include "base/system_error.h"
#include "base/writable.h"
#include "launch/command.h"
#include "launch/facts.h"
#include "launch/numbered_word.h"
#include "page/page.h"
#include "page/script_record.h"
#include "page/snapshot.h"
#include "report/script_answer.h"

namespace fathom::app {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatienceAtTheEnd{10};  // with what the command leaves behind, before it is ended

// A folder of its own, which goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    if (error) throw system_error("the folder for temporary files, which TMPDIR may name", error.value());
    std::string pattern = (parent / "fathom-phantom-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw system_error("no temporary folder " + pattern, errno);
    path_ = pattern;
    write_file_atomically(facts_file(), "");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }
  // To which the script's processes add lines (lib/phantom_gpu/follow): it is there before the first of them.
  fs::path facts_file() const { return path_ / "facts"; }
  launch::Facts facts() const {
    return launch::Facts::from_text(read_file(facts_file(), kLargestFacts), "what the script's processes told");
  }

 private:
  static constexpr size_t kLargestFacts = size_t{1} << 32;
  fs::path path_;
};

std::vector<report::ScriptProcess> processes_in(const fs::path& folder) {
  std::vector<report::ScriptProcess> processes;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    if (file.path().extension() != ".json") continue;
    processes.push_back(
        report::ScriptProcess::from_json(read_json(file.path()), "what the script's Python told of itself"));
  }
  const auto order = [](const report::ScriptProcess& each) {
    return std::tuple(each.rank, each.device, each.began_ns, each.process);
  };
  std::sort(processes.begin(), processes.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return processes;
}

class Phantom final : public Command {
 public:
  Phantom() : Command("phantom", "What a PyTorch script will take of a GPU, without the GPU") {}
  std::vector<Option> options() override {
    return {
        words_.name_option("--gpu", "The GPU, as configs/gpus.yaml calls it (fathom list gpus)").require(),
        words_.memory_option("with --gpu NAME"),
        Option("--gpus", gpus_, "N", "So many of it, in one machine, for one process or several (default: 1)")
            .within(1, phantom_gpu::kMostDevices),
        Option("--steps", steps_, "N",
               "End the script after so many steps of its optimizer (default: it ends by itself)"),
        {"--find-largest", varied_, "WORD",
         "Play COMMAND with other numbers in the place of that which follows WORD, and tell of the largest that fits"},
        Option("--placements", placements_, "N",
               "Play COMMAND so often, with the allocator's memory at other addresses each time (default: 1)")
            .within(1, 64),
        Option("--no-weights", no_weights_, "",
               "Models of transformers need no files of weights: a config.json will do"),
        {"--page", page_, "FILE.html", "Also a page of it: the step that takes most, block by block"},
        {"--snapshot", snapshot_, "FILE.pickle", "Also that step for `python -m torch.cuda._memory_viz`"},
        json_option(json_),
        Option("COMMAND", command_, "", "Behind --: as in a shell, python train.py --bf16 true").require()};
  }
  void complete() override {
    gpu_ = *words_.find();
    if (steps_ && *steps_ < 1) {
      throw UsageError("--steps is " + std::to_string(*steps_) + "; expected at least 1",
                       "leave it out, and the script ends by itself");
    }
    if (!varied_.empty()) launch::NumberedWord(command_, varied_);
  }
  int run() const override;

 private:
  report::ScriptAnswer play(const std::vector<std::string>& command) const;
  report::ScriptAnswer play_placed(const std::vector<std::string>& command, int64_t placement) const;
  report::ScriptAnswer play_largest() const;
  void write_pages(const report::ScriptAnswer& answer) const;
  void refuse_silence(const std::vector<report::ScriptProcess>& all, const report::ScriptAnswer& answer) const;

  GpuWords words_;
  config::GpuSpec gpu_;
  int64_t gpus_ = 1;
  std::optional<int64_t> steps_;
  int64_t placements_ = 1;
  std::string varied_;
  bool no_weights_ = false;
  bool json_ = false;
  std::filesystem::path page_, snapshot_;
  std::vector<std::string> command_;
};

// The stubs hand out addresses, twice as many as the GPUs have bytes at least.
void check_address_space(const config::GpuSpec& gpu, int64_t gpus) {
  const std::optional<int64_t> space = address_space_bytes();
  if (!space || *space / 2 / gpus >= gpu.memory_bytes + kAddressSpaceBesideTensors) return;
  throw Error("this process may have " + format_bytes(*space) + " of address space, and a phantom " + gpu.name +
                  " takes more than twice its " + format_bytes(gpu.memory_bytes) +
                  (gpus > 1 ? ", for each of " + std::to_string(gpus) : ""),
              "raise the limit (ulimit -v unlimited)");
}

// Where no process has anything to tell.
void Phantom::refuse_silence(const std::vector<report::ScriptProcess>& all, const report::ScriptAnswer& answer) const {
  const std::string ended = "'" + command_.front() + "' has ended with status " + std::to_string(answer.exit_status);
  for (const report::ScriptProcess& process : all) {
    if (!process.objection.empty()) throw Error(process.objection);
  }
  if (!answer.unfollowed.empty()) throw Error(answer.unknown().front());
  for (const report::ScriptProcess& process : all) {
    if (process.finished) continue;
    throw Error(ended + " before its Python could tell what it took: it was killed, or crashed",
                "if the host's memory was full: weights lie there first unless they are loaded straight onto the GPU "
                "(device_map=\"cuda\" of transformers; --no-weights where their files are not here)");
  }
  if (!answer.left.empty()) throw Error(answer.unknown().front());
  const bool has_torch = !all.empty();
  throw Error(
      ended + (has_torch ? " and has used no GPU" : ", and no Python in it has imported torch"),
      has_torch ? "have the script put its model on \"cuda\"" : "give the command of a PyTorch script behind --");
}

// What ends at a call that a phantom GPU has not is told by that alone: what it took until then says nothing.
void refuse_what_is_lacking(const report::ScriptAnswer& answer, const std::vector<std::string>& lacks) {
  if (answer.exit_status == 0 || answer.does_not_fit()) return;
  const auto lacking =
      std::find_if(lacks.begin(), lacks.end(), [](const std::string& name) { return name.starts_with("cudnn"); });
  if (lacking == lacks.end()) return;
  throw Error("the script has ended with status " + std::to_string(answer.exit_status) +
                  ", and has asked cuDNN for what a phantom GPU has not (" + *lacking +
                  "): how much the kernels of convolutions, batch norms and recurrent layers take is not known",
              "with torch.backends.cudnn.enabled = False the script takes PyTorch's own, here as on a GPU");
}

void Phantom::write_pages(const report::ScriptAnswer& answer) const {
  if (page_.empty() && snapshot_.empty()) return;
  Json facts = facts_of_now();
  facts["version"] = version();
  const page::RunRecord record = page::script_record(answer, std::move(facts));
  if (!page_.empty()) write_file_atomically(page_, page::report_page(record));
  if (snapshot_.empty()) return;
  if (!record.predicted) throw Error(snapshot_.string() + " is not written: the script has asked for no memory");
  write_file_atomically(snapshot_, page::snapshot_pickle(*record.predicted));
}

report::ScriptAnswer Phantom::play_placed(const std::vector<std::string>& command, int64_t placement) const {
  const TemporaryFolder folder;
  phantom_gpu::PhantomGpu gpu = pretended(gpu_);
  gpu.placement = static_cast<uint64_t>(placement);
  const auto variables = phantom_gpu::variables_of(library_folder() / "fathom-phantom", gpu,
                                                   {.report = folder.path(),
                                                    .steps = steps_.value_or(0),
                                                    .devices = gpus_,
                                                    .timeline = !page_.empty() || !snapshot_.empty(),
                                                    .no_weights = no_weights_});
  const auto start = std::chrono::steady_clock::now();
  report::ScriptAnswer answer{.gpu = gpu_, .gpus = gpus_, .command = command_line};
  const auto awaits = [&] {
    const std::vector<int64_t> all = folder.facts().with_torch;
    return std::any_of(all.begin(), all.end(), launch::is_running);
  };
  launch::Ended ended = launch::run_command(command, variables, awaits, kPatienceAtTheEnd);
  answer.exit_status = ended.status;
  answer.left = std::move(ended.left);
  answer.seconds = seconds_since(start);
  launch::Facts facts = folder.facts();
  answer.devices = std::move(facts.devices);
  answer.unfollowed = std::move(facts.unfollowed);
  const std::vector<report::ScriptProcess> all = processes_in(folder.path());
  std::copy_if(all.begin(), all.end(), std::back_inserter(answer.processes),
               [](const auto& each) { return each.finished && each.used_gpu; });
  for (const report::ScriptProcess& each : all) {
    if (!each.finished && each.used_gpu) answer.lost.push_back(each.rank);
  }
  refuse_what_is_lacking(answer, facts.lacks);
  if (answer.processes.empty()) refuse_silence(all, answer);
  return answer;
}

// Of the first placement in which it does not fit or fails, else of the first one.
report::ScriptAnswer Phantom::play(const std::vector<std::string>& command) const {
  report::ScriptAnswer told = play_placed(command, 0);
  report::ScriptAnswer::Placements all = report::placements_of(told);
  for (int64_t placement = 1; placement < placements_ && (told.fits() || told.does_not_fit()); ++placement) {
    report::ScriptAnswer answer = play_placed(command, placement);
    all.add(report::placements_of(answer));
    if (told.fits() && !answer.fits()) told = std::move(answer);
  }
  told.placements = all;
  return told;
}

// Of the largest number that fits; where not even 1 does, of that.
report::ScriptAnswer Phantom::play_largest() const {
  const launch::NumberedWord word(command_, varied_);
  std::optional<report::ScriptAnswer> largest, refused;
  int64_t number_of_largest = 0;
  const auto fits = [&](int64_t number) {
    report::ScriptAnswer answer = play(word.words_with(number));
    const std::string with = "with " + varied_ + " " + std::to_string(number);
    if (answer.does_not_fit()) {
      log_info(with + " it does not fit");
      refused = std::move(answer);
      return false;
    }
    if (!answer.fits()) throw Error("it is not known whether it fits " + with + ": " + answer.unknown().front());
    const int64_t requested = report::fullest_of(answer.processes).requested;
    log_info(with + " it fits, and requests " + format_bytes(requested));
    if (largest && number > number_of_largest && requested == report::fullest_of(largest->processes).requested) {
      throw Error("the script takes the same with " + varied_ + " " + std::to_string(number_of_largest) + " and " +
                      std::to_string(number),
                  "what it takes depends on another number, or there are too few samples");
    }
    largest = std::move(answer);
    number_of_largest = number;
    return true;
  };
  launch::largest_that_fits(word.number(), fits);
  report::ScriptAnswer told = largest ? *largest : *refused;
  told.found = report::ScriptAnswer::Found{varied_, number_of_largest};
  return told;
}

int Phantom::run() const {
  refuse_torch_variables(gpus_ > 1);
  check_address_space(gpu_, gpus_);
  for (const fs::path& file : {page_, snapshot_}) {
    if (!file.empty()) require_writable(file);
  }
  const report::ScriptAnswer answer = varied_.empty() ? play(command_) : play_largest();
  print(json_ ? format_json(report::script_json(answer)) : report::format_script(answer));
  write_pages(answer);
  if (!answer.fits() && !answer.does_not_fit()) {
    log_error("it is not known whether it fits: " + answer.unknown().front());
  }
  return answer.fits() ? 0 : 1;
}

}  // namespace

std::unique_ptr<Command> make_phantom() { return std::make_unique<Phantom>(); }

}  // namespace fathom::app

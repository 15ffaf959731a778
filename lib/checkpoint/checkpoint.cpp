// Saves and finds checkpoints; the order of syncs and renames is what makes them survive a kill.
#include "checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finite.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/lost_others.h"
#include "base/path.h"
#include "base/system_error.h"
#include "checkpoint/disk_room.h"
#include "checkpoint/stored_names.h"
#include "weights/manifest.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;

const std::string kPrefix = "checkpoint-";
const std::string kSetAside = "abandoned-";
constexpr char kOptimizerName[] = "optimizer.safetensors";
constexpr char kStateName[] = "trainer_state.json";

// The two kinds of weights, to ask for their names.
const ModelFiles kWhole{{}, std::nullopt};
const ModelFiles kAdapter{{}, arch::LoraOptions{}};

fs::path hidden_path(const fs::path& output_dir, int64_t step, const char* suffix) {
  return output_dir / ("." + kPrefix + std::to_string(step) + suffix);
}

// The step of a name "checkpoint-<step>".
std::optional<int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string digits = name.substr(kPrefix.size());
  const bool plain = !digits.empty() && digits.size() <= 18 &&
                     digits.find_first_not_of("0123456789") == std::string::npos && (digits[0] != '0' || digits == "0");
  if (!plain) return std::nullopt;
  return std::stoll(digits);
}

struct Found {
  int64_t step;
  fs::path folder;
};

// Lowest step first.
std::vector<Found> list_checkpoints(const fs::path& output_dir) {
  std::vector<Found> found;
  if (!fs::is_directory(output_dir)) return found;
  for (const auto& entry : fs::directory_iterator(output_dir)) {
    if (!entry.is_directory()) continue;
    if (const auto step = step_of(entry.path())) found.push_back({*step, entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.step < b.step; });
  return found;
}

void delete_checkpoint(const fs::path& output_dir, const Found& checkpoint) {
  const fs::path hidden = hidden_path(output_dir, checkpoint.step, ".deleted");
  fs::rename(checkpoint.folder, hidden);
  sync_path(output_dir);
  fs::remove_all(hidden);
}

// Gives `staging` its final name. Where a checkpoint of that name stands, the two change places in one step, so that
// there is a whole one at every moment; file systems that cannot do this get two renames.
void publish(const fs::path& output_dir, int64_t step, const fs::path& staging, const fs::path& target) {
  if (fs::exists(target) && ::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_path(output_dir);
    fs::remove_all(staging);
    return;
  }
  if (fs::exists(target)) delete_checkpoint(output_dir, {step, target});
  fs::rename(staging, target);
  sync_path(output_dir);
}

// A run of an earlier version may have saved what its last update broke. Each reader takes its share of the tensors.
void refuse_not_finite(const fs::path& weights, weights::Readers* readers) {
  weights::read_together(readers, [&] {
    const weights::SafetensorsFile file(weights);
    const weights::Share share = weights::share_of(readers);
    for (int64_t place = share.first; place < std::ssize(file.tensors()); place += share.step) {
      const weights::TensorInfo& tensor = file.tensors()[static_cast<size_t>(place)];
      if (!all_finite(file.data(tensor), tensor.dtype, tensor.bytes)) {
        throw Error(
            weights.string() + ": the weights of " + tensor.name + " are not finite: nothing can go on from them",
            "take an earlier checkpoint, or start anew with a lower learning_rate");
      }
      file.release(tensor);
    }
    return std::string();
  });
}

// A network file system may believe for half a minute that a name is not there which it was asked for before.
bool comes_to_have(const fs::path& folder, const std::string& name, const std::string& content) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(40);
  while (true) {
    std::error_code ignored;
    const bool listed = std::any_of(fs::directory_iterator(folder, ignored), fs::directory_iterator(),
                                    [&](const fs::directory_entry& each) { return each.path().filename() == name; });
    if (listed && read_file(folder / name) == content) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace

Snapshot on_host(Snapshot snapshot) {
  const at::NoGradGuard no_gradients;
  for (NamedTensors* tensors : {&snapshot.parameters, &snapshot.optimizer}) {
    for (auto& [name, tensor] : *tensors) {
      if (tensor.is_cpu()) continue;
      tensor = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true)).copy_(tensor.detach());
    }
  }
  return snapshot;
}

void require_shared(const fs::path& output_dir, weights::Writers& writers) {
  const std::string name = "." + kPrefix + "shared.partial";
  std::string token;
  if (writers.is_first()) {
    std::random_device random;
    token = std::to_string(random()) + " " + std::to_string(random());
    weights::write_new(output_dir, name, token);
  }
  token = writers.gather(token).front();
  const bool is_shared = comes_to_have(output_dir, name, token);
  writers.gather("");
  if (writers.is_first()) fs::remove(output_dir / name);
  if (is_shared) return;
  throw Error("output_dir, " + output_dir.string() + ", is another folder here than where rank 0 runs",
              "each process writes its part of a checkpoint: name a folder on a file system that all machines share");
}

void remove_leftovers(const fs::path& output_dir) {
  if (!fs::is_directory(output_dir)) return;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(output_dir)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.starts_with("." + kPrefix) && (name.ends_with(".partial") || name.ends_with(".deleted"));
    if (ours || name == kModelStaging) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover);
}

std::vector<fs::path> set_aside_after(const fs::path& output_dir, int64_t step) {
  std::vector<fs::path> moved;
  for (const Found& found : list_checkpoints(output_dir)) {
    if (found.step <= step) continue;
    const std::string name = kSetAside + found.folder.filename().string();
    fs::path target = output_dir / name;
    for (int i = 2; fs::exists(target); ++i) target = output_dir / (name + "." + std::to_string(i));
    fs::rename(found.folder, target);
    moved.push_back(std::move(target));
  }
  if (!moved.empty()) sync_path(output_dir);
  return moved;
}

bool is_set_aside(const fs::path& folder) { return folder.filename().string().starts_with(kSetAside + kPrefix); }

void try_to_save(const fs::path& output_dir) {
  for (const auto& entry : fs::directory_iterator(output_dir)) {
    if (!step_of(entry.path()) || entry.is_directory()) continue;
    throw Error("'" + entry.path().string() + "' is not a folder", "remove it, or choose another output_dir");
  }
  const fs::path first = output_dir / ("." + kPrefix + "trial.partial");
  const fs::path second = output_dir / ("." + kPrefix + "trial.deleted");
  fs::create_directory(first);
  weights::write_manifest(first, 0, {});
  fs::rename(first, second);
  sync_path(output_dir);
  fs::remove_all(second);
}

// Keeps the newest and the best besides the newest others: in all as many as the limit, but never less than those two.
void remove_older(const fs::path& output_dir, int64_t newest_step, const Json& state, int64_t save_total_limit) {
  if (save_total_limit == 0) return;
  const Json best_step = state.value("best_step", Json());
  std::vector<Found> others = list_checkpoints(output_dir);
  std::erase_if(others, [&](const Found& found) { return found.step == newest_step; });
  const size_t all = others.size();
  std::erase_if(others, [&](const Found& found) { return best_step == found.step; });
  const int64_t kept = save_total_limit - 1 - static_cast<int64_t>(all - others.size());
  const int64_t deleted = static_cast<int64_t>(others.size()) - std::max<int64_t>(0, kept);
  for (int64_t index = 0; index < deleted; ++index) delete_checkpoint(output_dir, others[static_cast<size_t>(index)]);
}

fs::path save(const fs::path& output_dir, int64_t step, const Snapshot& snapshot, const ModelFiles& files,
              int64_t save_total_limit, const std::function<void()>& state_was_read, weights::Writers* writers) {
  if (step < 0) throw Error("a checkpoint's step cannot be negative");
  if (!snapshot.state.is_object()) throw Error("a checkpoint's state must be an object");
  const fs::path staging = hidden_path(output_dir, step, ".partial");
  fs::path target = folder_of(output_dir, step);
  const bool is_first = writers == nullptr || writers->is_first();
  weights::write_in_step(writers, [&] {
    if (!is_first) return;
    fs::create_directories(output_dir);
    remove_leftovers(output_dir);
    require_room(output_dir, target.filename().string(),
                 checkpoint_bytes(snapshot.parameters, snapshot.optimizer, files));
    fs::create_directory(staging);
  });
  try {
    std::vector<weights::FileRecord> written = write_model_files(staging, snapshot.parameters, files, writers);
    written.push_back(
        write_tensors(staging / kOptimizerName, tensor_sources(snapshot.optimizer), weights::Numbers::kAny, writers));
    weights::write_in_step(writers, [&] {
      if (!is_first) return;
      if (state_was_read) state_was_read();
      written.push_back(weights::write_new(staging, kStateName, format_json(snapshot.state)));
      weights::write_manifest(staging, step, written);
      publish(output_dir, step, staging, target);
      remove_older(output_dir, step, snapshot.state, save_total_limit);
    });
  } catch (const LostOthers&) {  // who may be writing there still, and are to hear of the failure, not of a folder gone
    throw;
  } catch (...) {
    std::error_code ignored;
    if (is_first) fs::remove_all(staging, ignored);
    throw;
  }
  return target;
}

Checkpoint::Checkpoint(const fs::path& folder, weights::Readers* readers) : folder_(tidy_path(folder)) {
  weights::read_together(readers, [&] {
    if (!fs::is_directory(folder_)) throw Error(folder_.string() + ": not a folder");
    return std::string();
  });
  const weights::Manifest manifest = weights::read_and_verify_manifest(folder_, readers);
  step_ = manifest.step;
  is_adapter_ = manifest.lists(weights_file_name(kAdapter));
  for (const std::string& name :
       {weights_file_name(is_adapter_ ? kAdapter : kWhole), std::string(kOptimizerName), std::string(kStateName)}) {
    if (!manifest.lists(name)) throw Error(folder_.string() + ": the manifest does not list " + name);
  }
  refuse_not_finite(folder_ / weights_file_name(is_adapter_ ? kAdapter : kWhole), readers);
  weights::read_together(readers, [&] {
    if (const auto named = step_of(fs::weakly_canonical(folder_)); named && *named != step_) {
      throw Error(folder_.string() + ": the manifest is of step " + std::to_string(step_));
    }
    state_ = read_json(folder_ / kStateName);
    if (!state_.is_object()) throw Error((folder_ / kStateName).string() + ": expected an object");
    return std::string();
  });
}

void Checkpoint::copy_into(const NamedTensors& parameters) const {
  const ModelFiles& files = is_adapter_ ? kAdapter : kWhole;
  const weights::SafetensorsFile file(folder_ / weights_file_name(files));
  const std::string prefix = weights_prefix(files);
  const NamedTensors named =
      is_adapter_ ? with_repeated_embedding(parameters, file) : as_stored(parameters, folder_, std::nullopt);
  copy_tensors(file, as_found(named, file, prefix), prefix);
}

void Checkpoint::copy_into(const NamedTensors& parameters, const NamedTensors& optimizer) const {
  const weights::SafetensorsFile states(folder_ / kOptimizerName);
  copy_into(parameters);
  copy_tensors(states, optimizer);
}

fs::path folder_of(const fs::path& output_dir, int64_t step) { return output_dir / (kPrefix + std::to_string(step)); }

std::optional<fs::path> newest_folder(const fs::path& output_dir) {
  const std::vector<Found> found = list_checkpoints(output_dir);
  return found.empty() ? std::nullopt : std::optional(found.back().folder);
}

std::optional<Checkpoint> find_newest(const fs::path& output_dir, weights::Readers* readers) {
  // As the first sees the folder.
  const std::string names = weights::read_together(readers, [&] {
                              std::string text;
                              for (const Found& found : list_checkpoints(output_dir))
                                text = found.folder.filename().string() + "\n" + text;
                              return text;
                            }).front();
  std::istringstream newest_first(names);
  for (std::string name; std::getline(newest_first, name);) {
    try {
      return Checkpoint(output_dir / name, readers);
    } catch (const LostOthers&) {
      throw;
    } catch (const Error& error) {
      log_warning("skipping " + name + ": " + error.what());
    } catch (const fs::filesystem_error& error) {
      log_warning("skipping " + name + ": " + message_of(error));
    }
  }
  return std::nullopt;
}

}  // namespace fathom::checkpoint

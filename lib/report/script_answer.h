// What a PyTorch script took of a phantom GPU, as fathom's agent in its Python has written it down
// (lib/phantom_gpu/agent/agent.py).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/devices.h"
#include "launch/facts.h"
#include "memory/component.h"
#include "memory/timeline.h"
#include "plan/plan.h"

namespace fathom::report {

// Of one process, on one of its GPUs. Bytes as the caching allocator counts them, the largest so far.
struct ScriptProcess {
  std::string torch;      // "2.11.0+cu130"
  std::string objection;  // why it was not followed; empty: it was
  bool finished = false;  // it has told all: neither killed nor crashed
  bool used_gpu = false;
  int64_t rank = 0, process = 0;  // process: its number, which another program may have after it
  int64_t began_ns = 0;           // in which order they did; a fork has its parent's
  int64_t device = 0;             // its place in the machine
  int64_t steps = 0;              // of its optimizer
  int64_t requested = 0, allocated = 0, reserved = 0;
  int64_t allocated_at_end = 0, reserved_at_end = 0;

  struct Blocks {
    std::string place;  // "transformers/loss/loss_utils.py:40, from train.py:8"
    std::string component;
    int64_t bytes = 0, count = 0;
  };
  // At the largest instant by requested bytes.
  int64_t peak_step = 0;
  std::string peak_phase;
  memory::ComponentBytes components;
  std::vector<Blocks> blocks;  // largest first

  // Of the step with that instant, where it was asked for.
  std::optional<memory::Timeline> timeline = {};

  // What the allocator could not give, and after which no step went on.
  struct Refusal {
    int64_t bytes = 0, allocated = 0, step = 0;
    std::string phase, place;
  };
  std::optional<Refusal> refusal;
  int64_t survived = 0;  // times it could not, and the script went on, with a smaller batch perhaps

  // Numbers that only a GPU knows and the script has asked for; those of a process are with its first GPU.
  struct Read {
    std::string place, what;
    std::string how;  // "read", "assumed" (a size: as large as it can be), "within" (an operator: place)
    int64_t times = 0;
  };
  std::vector<Read> reads;
  std::vector<std::string> written = {};  // folders with files that hold such numbers, with the first GPU too

  // Throws Error for another form.
  static ScriptProcess from_json(const Json& value, const std::string& origin);
};

struct ScriptAnswer {
  config::GpuSpec gpu;
  int64_t gpus = 1;
  std::string command;
  int exit_status = 0;  // of the command
  double seconds = 0;
  std::vector<ScriptProcess> processes = {};  // that used a GPU, by rank and GPU
  std::vector<int64_t> lost = {};             // ranks that used one, and ended before they could tell what they took
  std::map<int64_t, launch::Share> devices = {};  // by GPU: at most, of processes that may run at once
  std::vector<std::string> unfollowed = {};       // programs of which nothing is known
  std::vector<std::string> left = {};             // processes that went on behind the command, and were ended
  // The largest of the numbers that follow a word of the command with which it fits, where it was searched; 0: none.
  struct Found {
    std::string word;
    int64_t number = 0;
  };
  std::optional<Found> found = {};
  // Of the fullest process, where the command was played with segments at other addresses too. The ranges are of those
  // in which it fits, beside the first one.
  struct Placements {
    int64_t tried = 1, refused = 0;
    plan::ByteRange allocated, reserved;
    void add(const Placements& other);
  };
  Placements placements = {};
  bool runs_out() const;                // a process has ended for want of memory
  std::optional<int64_t> full() const;  // the GPU of which processes that may run at once take more than it has
  // Nothing: all is known of all processes, and the command has ended well. Else why it is not known whether it fits.
  std::vector<std::string> unknown() const;
  bool fits() const { return !runs_out() && !full() && unknown().empty(); }
  bool does_not_fit() const { return runs_out() || full(); }
};

// The one that tells most: that whose memory ran out, else the first of those that reserved most. There is one.
const ScriptProcess& fullest_of(const std::vector<ScriptProcess>& processes);
// Of what was played in one.
ScriptAnswer::Placements placements_of(const ScriptAnswer& answer);
// "Out of memory in step 2, backward: 1.00 GiB could not be had …".
std::string describe(const ScriptProcess::Refusal& refusal);
// "2 processes that may run at once take at most 100.00 GiB of GPU 0", of one that is full.
std::string describe_full(const ScriptAnswer& answer);
std::string format_script(const ScriptAnswer& answer);
Json script_json(const ScriptAnswer& answer);

}  // namespace fathom::report

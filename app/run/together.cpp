// Texts of all ranks, held against the first's.
#include "app/run/together.h"

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/to_yaml.h"

namespace fathom::app {
namespace {

// Of the first rank whose text is another than rank 0's.
std::optional<size_t> odd_one(const std::vector<std::string>& texts) {
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank] != texts.front()) return rank;
  }
  return std::nullopt;
}

void require_same(dist::Group& group, const std::string& mine, const std::string& what) {
  const auto rank = odd_one(group.gather(mine));
  if (!rank) return;
  throw Error("rank " + std::to_string(*rank) + " has " + what + " than rank 0",
              "all processes must read the same files under the same paths");
}

}  // namespace

void require_same_devices(const Session& session) {
  const auto devices = session.group->gather(std::string(session.placement.cuda != nullptr ? "a GPU" : "no GPU"));
  if (const auto rank = odd_one(devices)) {
    throw UsageError("rank 0 has " + devices.front() + ", and rank " + std::to_string(*rank) + " has " + devices[*rank],
                     "start one process for each GPU, or set device: cpu");
  }
}

void require_same_config(dist::Group& group, const config::RunConfig& config) {
  require_same(group, config::to_yaml(config), "another config");
}

void require_same_run(dist::Group& group, const schedule::RunInputs& inputs,
                      const std::optional<checkpoint::Checkpoint>& resume) {
  require_same(group, inputs.train.fingerprint(), "other training data");
  require_same(group, inputs.validation.fingerprint(), "other validation data");
  require_same(group, resume ? resume->folder().filename().string() : "", "another checkpoint to go on from");
}

}  // namespace fathom::app

// Texts of all ranks, held against the first's.
#include "app/run/together.h"

#include <cstddef>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_value.h"
#include "config/settings.h"

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
  const Json mine = config::settings_of(config);
  const std::vector<std::string> all = group.gather(mine.dump(-1, ' ', false, Json::error_handler_t::replace));
  const auto rank = odd_one(all);
  if (!rank) return;
  const auto of = [&](size_t each) {
    const Json settings = Json::parse(all[each], nullptr, /*allow_exceptions=*/false);
    return settings.is_object() ? settings.get<config::Settings>() : config::Settings();  // of an earlier version: text
  };
  throw Error("rank " + std::to_string(*rank) + " has another config than rank 0: " +
                  config::in_words(config::differences(of(*rank), of(0)), "rank 0:"),
              "all processes must read the same settings");
}

void require_same_run(dist::Group& group, const schedule::RunInputs& inputs,
                      const std::optional<checkpoint::Checkpoint>& resume) {
  require_same(group, inputs.train.fingerprint(), "other training data");
  require_same(group, inputs.validation.fingerprint(), "other validation data");
  require_same(group, resume ? resume->folder().filename().string() : "", "another checkpoint to go on from");
}

}  // namespace fathom::app

// A communicator of all ranks, and with several copies of a model one of each rank's copy and one of its share.
#include "plan/communicators.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/rounding.h"
#include "config/shards.h"

namespace fathom::plan {
namespace {

int64_t channels_within_node(const config::GpuSpec& gpu) {
  if (gpu.link_bytes_per_second <= 0) return kMostChannels;  // not known
  const auto pairs = static_cast<uint64_t>(std::max(1.0, gpu.link_bytes_per_second / kBytesPerSecondOfTwoChannels));
  return std::min(kMostChannels, static_cast<int64_t>(std::bit_ceil(2 * pairs)));
}

}  // namespace

Communicators communicators_of(const config::RunConfig& run, const config::GpuSpec& gpu, int64_t most_channels) {
  Communicators made;
  const int64_t ranks = run.num_processes, shards = config::shard_size(run), copies = config::replicas(run);
  if (ranks == 1) return made;
  const int64_t node = gpu.gpus_per_node > 0 ? static_cast<int64_t>(gpu.gpus_per_node) : ranks;
  // in_node: of the group's ranks, those in this rank's node.
  const auto group = [&](int64_t size, int64_t in_node) {
    Communicators::One one;
    one.peers = std::min(size, in_node) - 1;
    one.beyond = size > in_node;
    one.channels = one.beyond ? kChannelsBeyondNode : channels_within_node(gpu);
    if (most_channels > 0) one.channels = std::min(one.channels, most_channels);
    return one;
  };
  const bool in_copies = run.strategy == config::Strategy::kFsdp && copies > 1;
  if (!in_copies) {
    made.each.push_back(group(ranks, node));
    return made;
  }
  made.each.emplace_back();  // of all, over which no tensor goes
  if (shards > 1) made.each.push_back(group(shards, node));
  made.each.push_back(group(copies, divide_up(node, shards)));
  return made;
}

int64_t Communicators::bytes() const {
  int64_t sum = 0;
  for (const One& one : each) sum += one.bytes();
  return sum;
}

std::string Communicators::formula() const {
  std::string text = format_count(static_cast<int64_t>(each.size())) +
                     (each.size() == 1 ? " communicator × " : " communicators × ") + format_bytes(kCommunicatorBytes);
  for (const One& one : each) {
    if (one.peers > 0) {
      text += " + " + format_count(one.peers) + (one.peers == 1 ? " GPU × " : " GPUs × ") + format_count(one.channels) +
              (one.channels == 1 ? " channel × " : " channels × ") + format_bytes(kChannelBytes);
    }
    if (one.beyond) text += " + " + format_bytes(kPoolBytes) + " to other nodes";
  }
  return text;
}

}  // namespace fathom::plan

// What NCCL takes of a GPU beside LibTorch's allocator: buffers between this rank and those that it exchanges with.
// Reckoned from the sizes that NCCL gives them (NVIDIA/nccl, src/init.cc, src/transport/p2p.cc, net.cc and
// src/graph/paths.cc of June 2026) and from what others have published, never measured here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/devices.h"
#include "config/run_config.h"

namespace fathom::plan {

// With its rings: the most that was told of a group of 4 A100 (0.5 to 0.7 GB, NVIDIA/nccl#964).
inline constexpr int64_t kCommunicatorBytes = 700'000'000;
// For each channel to a GPU of the same node that is sent to and received from: 10 MiB for what comes, which are the
// buffers of three protocols (4 MiB, 4.69 MiB, 512 KiB), and 2 MiB for what goes, each in whole 2 MiB. On 8 H100 a
// first exchange of all with all took 3.28 GB (NVIDIA/nccl#1685), which is 2 MiB more for each of its 7 x 32 channels.
inline constexpr int64_t kChannelBytes = int64_t{14} << 20;
// So many channels at most; two for each 20.6 GB/s of a link, as a power of two, in groups within a node, and two in
// those that go beyond one.
inline constexpr int64_t kMostChannels = 32, kChannelsBeyondNode = 2;
inline constexpr double kBytesPerSecondOfTwoChannels = 20.6e9;
// All GPUs of other nodes are reached through one pool for each direction: 16 steps of 128 KiB for each channel.
inline constexpr int64_t kPoolBytes = 2 * kMostChannels * 16 * (int64_t{128} << 10);

struct Communicators {
  struct One {
    int64_t peers = 0;     // in the node, which it exchanges gradients with
    int64_t channels = 0;  // to each of them
    bool beyond = false;   // it has ranks in other nodes, and exchanges gradients with them
    int64_t bytes() const { return kCommunicatorBytes + peers * channels * kChannelBytes + (beyond ? kPoolBytes : 0); }
  };
  std::vector<One> each;
  int64_t bytes() const;
  // "1 communicator × 667.57 MiB + 7 GPUs × 32 channels × 14.00 MiB"
  std::string formula() const;
};

// Of the rank that has the most of them. most_channels: of point-to-point exchanges, as NCCL_MAX_P2P_NCHANNELS bounds
// them; 0: as many as NCCL takes.
Communicators communicators_of(const config::RunConfig& run, const config::GpuSpec& gpu, int64_t most_channels = 0);

}  // namespace fathom::plan

// Two streams, one that computes and one that communicates, from unit to unit.
#include "plan/time/communication.h"

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "base/rounding.h"
#include "config/shards.h"
#include "plan/estimate/shares.h"
#include "plan/host.h"
#include "plan/time/arithmetic.h"

namespace fathom::plan {
namespace {

// Ranks that communicate, and the nodes that they lie in, as many in each.
struct Ranks {
  int64_t count = 1, nodes = 1;
};

// Of one copy of the model: neighbours.
Ranks ranks_of_copy(const config::RunConfig& run, int64_t gpus_per_node) {
  const int64_t count = config::shard_size(run);
  return {count, divide_up(count, gpus_per_node)};
}

// That keep the same share in every copy: a copy's size lies between them.
Ranks ranks_of_share(const config::RunConfig& run, int64_t gpus_per_node) {
  const int64_t copies = config::replicas(run);
  const int64_t in_node = std::max<int64_t>(1, gpus_per_node / config::shard_size(run));
  return {copies, divide_up(copies, in_node)};
}

// One collective, of one rank.
struct Sent {
  int64_t over_links = 0, over_network = 0;
  double seconds = 0;
};

class Wires {
 public:
  explicit Wires(const Interconnect& interconnect) : interconnect_(interconnect) {}

  // Each rank passes on all pieces but one; of a node's ranks, one sends to the next node at a time.
  Sent around_ring(int64_t bytes, const Ranks& ranks) const {
    const int64_t sent = (ranks.count - 1) * divide_up(bytes, ranks.count);
    return send(sent, ranks.nodes == 1 ? 0 : divide_up(sent * ranks.nodes, ranks.count), ranks);
  }
  // Each rank sends every other one its piece.
  Sent straight(int64_t bytes, const Ranks& ranks) const {
    const int64_t piece = divide_up(bytes, ranks.count), elsewhere = ranks.count - ranks.count / ranks.nodes;
    return send((ranks.count - 1) * piece, elsewhere * piece, ranks);
  }

 private:
  Sent send(int64_t bytes, int64_t over_network, const Ranks& ranks) const {
    if (bytes == 0) return {};
    const auto seconds = [](int64_t part, double per_second) {
      return part == 0 ? 0 : static_cast<double>(part) / (per_second * kCollectiveEfficiency);
    };
    const double hops = static_cast<double>(ranks.count - ranks.nodes) * kLinkHopSeconds +
                        static_cast<double>(ranks.nodes - 1) * kNetworkHopSeconds;
    Sent sent{bytes - over_network, over_network, 0};
    sent.seconds = kStartSeconds + hops +
                   std::max(seconds(sent.over_links, interconnect_.link_bytes_per_second),
                            seconds(sent.over_network, interconnect_.network_bytes_per_second));
    return sent;
  }

  const Interconnect& interconnect_;
};

struct UnitSeconds {
  double forward = 0, backward = 0;
};

class Streams {
 public:
  Streams(const arch::Run& run, const Throughput& throughput)
      : run_(run),
        throughput_(throughput),
        wires_(*throughput.interconnect),
        copy_(ranks_of_copy(run.config, throughput.interconnect->gpus_per_node)),
        share_(ranks_of_share(run.config, throughput.interconnect->gpus_per_node)),
        units_(unit_bytes(run)) {
    while (lowest_trained_ < last() && units_[lowest_trained_].trained == 0) ++lowest_trained_;
  }

  // Micro-batches that are alike are reckoned once, but for the last, which ends the step.
  Communication of_step(const schedule::StepShape& step) {
    Communication sum;
    for (size_t i = 0, end = 1; i < step.size(); i = end++) {
      while (end + 1 < step.size() && step[end] == step[i]) ++end;
      if (i == 0 || step[i] != step[i - 1]) reckon_units(step[i]);
      add(sum, of_micro_batch(end == step.size()), static_cast<int64_t>(end - i));
    }
    return sum;
  }

 private:
  size_t last() const { return units_.size() - 1; }

  void reckon_units(const schedule::BatchShape& batch) {
    seconds_.clear();
    for (const auto& [forward, backward] : unit_arithmetic(run_, batch)) {
      seconds_.push_back({computing_time(forward, memory::Phase::kForward, throughput_).seconds(),
                          computing_time(backward, memory::Phase::kBackward, throughput_).seconds()});
    }
  }

  static void add(Communication& sum, const Communication& each, int64_t times) {
    const auto grow = [&](int64_t& total, int64_t bytes) {
      constexpr const char* kWhat = "the bytes that a process sends in a step";
      total = checked_add(total, checked_multiply(bytes, times, kWhat), kWhat);
    };
    grow(sum.traffic.gathered, each.traffic.gathered);
    grow(sum.traffic.reduced, each.traffic.reduced);
    grow(sum.traffic.summed, each.traffic.summed);
    grow(sum.traffic.over_links, each.traffic.over_links);
    grow(sum.traffic.over_network, each.traffic.over_network);
    sum.seconds += static_cast<double>(times) * each.seconds;
    sum.exposed += static_cast<double>(times) * each.exposed;
  }

  Communication of_micro_batch(bool ends_step) {
    result_ = {};
    if (copy_.count > 1) {
      of_shared(ends_step);
    } else if (ends_step) {
      of_whole();
    }
    return result_;
  }

  double count(int64_t& part, const Sent& sent) {
    part += sent.over_links + sent.over_network;
    result_.traffic.over_links += sent.over_links;
    result_.traffic.over_network += sent.over_network;
    result_.seconds += sent.seconds;
    return sent.seconds;
  }
  double gather(size_t unit) {
    return count(result_.traffic.gathered, wires_.around_ring(units_[unit].gathered, copy_));
  }
  double reduce(size_t unit) { return count(result_.traffic.reduced, wires_.straight(units_[unit].trained, copy_)); }
  // Of a share of a unit's gradients over copies of the model: to the rank that adds them up, and back.
  double sum(size_t unit) {
    const int64_t bytes = divide_up(units_[unit].trained, copy_.count);
    const double there = count(result_.traffic.summed, wires_.straight(bytes, share_));
    return there + count(result_.traffic.summed, wires_.around_ring(bytes, share_));
  }

  // A micro-batch of a model of which a copy lies in shares.
  void of_shared(bool ends_step) {
    const auto beside = [&](double communicates, double computes) {
      result_.exposed += std::max(0.0, communicates - computes);
    };
    beside(gather(0), 0);
    for (size_t unit = 0; unit < last(); ++unit) beside(gather(unit + 1), seconds_[unit].forward);
    // The last layer's weights, and the head's, are still there; embeddings are not read again.
    const size_t lowest_gathered = std::max<size_t>(1, lowest_trained_);
    double reduction = 0;
    for (size_t unit = last() + 1; unit-- > lowest_trained_;) {
      const bool gathers = run_.config.reshard_after_forward && unit > lowest_gathered && unit + 1 <= last();
      beside((gathers ? gather(unit - 1) : 0) + reduction, seconds_[unit].backward);
      reduction = reduce(unit);
      if (ends_step) reduction += sum(unit);
    }
    beside(reduction, 0);
  }

  // The last micro-batch where every process has the whole model.
  void of_whole() {
    double behind = 0;  // what computes
    for (size_t unit = last() + 1; unit-- > lowest_trained_;) {
      behind = std::max(0.0, behind - seconds_[unit].backward) + sum(unit);
    }
    result_.exposed += behind;
  }

  const arch::Run& run_;
  const Throughput& throughput_;
  const Wires wires_;
  const Ranks copy_, share_;
  const std::vector<UnitBytes> units_;
  size_t lowest_trained_ = 0;
  std::vector<UnitSeconds> seconds_;  // of the micro-batch
  Communication result_;
};

}  // namespace

Communication communication_of(const arch::Run& run, const schedule::StepShape& step, const Throughput& throughput) {
  return Streams(run, throughput).of_step(step);
}

ExpectedTime expected_step_time(const arch::Run& run, const schedule::StepShape& step, const StepArithmetic& arithmetic,
                                const Throughput& throughput) {
  ExpectedTime time = expected_time(arithmetic, throughput);
  if (run.config.num_processes > 1 && throughput.interconnect) {
    time.exposed_seconds = communication_of(run, step, throughput).exposed;
  }
  time.host_seconds = exposed_host_seconds(host_traffic(run), time.computing().seconds(), throughput);
  return time;
}

}  // namespace fathom::plan

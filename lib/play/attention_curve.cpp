// Attention alone, played on the phantom device and run on the real one.
#include "play/attention_curve.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>

#include "base/error.h"
#include "base/json_value.h"
#include "base/seconds_since.h"
#include "ledger/out_of_memory.h"
#include "ops/attention/attention.h"
#include "ops/scalar_type.h"
#include "phantom/device.h"
#include "schedule/inputs.h"

namespace fathom::play {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kShortest = 512;

class Attention {
 public:
  Attention(const arch::Attention& attention, at::ScalarType type, int64_t length, const train::Placement& placement)
      : placement_(placement) {
    const auto options = at::TensorOptions().device(placement.device).dtype(type);
    const auto heads = [&](int64_t count) {
      return at::full({1, length, count, attention.head_dim}, 0.01, options).set_requires_grad(true);
    };
    queries_ = heads(attention.heads);
    keys_ = heads(attention.key_value_heads);
    values_ = heads(attention.key_value_heads);
    if (attention.sinks) sinks_ = at::full({attention.heads}, 0.01, options).set_requires_grad(true);
    gradient_ = at::full({1, length, attention.queries()}, 0.01, options);
  }

  // Returns the bytes that it took at its peak.
  int64_t run(footprint::AttentionKernel kernel) {
    ledger::Ledger& ledger = *placement_.ledger;
    ledger.label();
    const int64_t before = ledger.live_bytes();
    const at::Tensor out = ops::causal_attention(queries_, keys_, values_, kernel, nullptr, 0, sinks_);
    torch::autograd::backward({out.view(gradient_.sizes())}, {gradient_});
    if (placement_.cuda != nullptr) placement_.cuda->synchronize();
    for (const at::Tensor* input : {&queries_, &keys_, &values_, &sinks_}) {
      if (input->defined()) input->mutable_grad().reset();
    }
    return ledger.label().peak - before;
  }

 private:
  const train::Placement& placement_;
  at::Tensor queries_, keys_, values_, sinks_, gradient_;
};

const arch::Attention& with_largest_heads(const arch::Architecture& architecture) {
  const arch::Attention* largest = &architecture.attention();
  for (const arch::LayerSpec& layer : architecture.layers) {
    if (layer.attends() && layer.attention().head_dim > largest->head_dim) largest = &layer.attention();
  }
  return *largest;
}

class Curve {
 public:
  Curve(const arch::Run& run, const train::Placement& placement)
      : layer_(with_largest_heads(run.architecture)),
        type_(ops::scalar_type(run.precision.computed)),
        placement_(placement) {}

  bool plays() const { return placement_.device.is_cpu(); }
  // Unset where this process has too little address space to ask for the scratch memory of such products.
  std::optional<int64_t> play(config::Attention attention, int64_t length) const try {
    ledger::Ledger ledger;
    const phantom::LedgerScope scope(ledger);
    const train::Placement phantom{phantom::device(), &ledger, nullptr};
    return Attention(layer_, type_, length, phantom).run(kernel(attention, phantom.device));
  } catch (const Error&) {
    return std::nullopt;
  }

  // Once to see the memory, once more for the time; seconds stay unset where it does not fit.
  void measure(config::Attention attention, int64_t length, AttentionCost& cost) const {
    try {
      Attention real(layer_, type_, length, placement_);
      const footprint::AttentionKernel chosen = kernel(attention, placement_.device);
      cost.measured = real.run(chosen);
      const Clock::time_point start = Clock::now();
      real.run(chosen);
      cost.seconds = seconds_since(start);
    } catch (const c10::Error& error) {
      if (!ledger::is_out_of_memory(error)) throw;
      cost.measured.reset();
    }
  }

 private:
  footprint::AttentionKernel kernel(config::Attention attention, at::Device device) const {
    return ops::attention_kernel(attention, device, type_, layer_.head_dim);
  }

  const arch::Attention& layer_;
  const at::ScalarType type_;
  const train::Placement& placement_;
};

Json or_null(const auto& value) { return value ? Json(*value) : Json(nullptr); }

Json to_json(const AttentionCost& cost) {
  return {{"dry_run", or_null(cost.dry_run)}, {"measured", or_null(cost.measured)}, {"seconds", or_null(cost.seconds)}};
}

}  // namespace

std::vector<AttentionPoint> attention_curve(const arch::Run& run, const train::Placement& placement,
                                            const AttentionLimits& limits) {
  constexpr double kGrowth = 4;  // of the time when the length doubles
  const Curve curve(run, placement);
  std::vector<AttentionPoint> points;
  for (int64_t length = kShortest; length <= limits.longest; length *= 2) points.push_back({length, {}, {}});
  for (const config::Attention attention : {config::Attention::kFlash, config::Attention::kMath}) {
    bool measuring = true;
    for (AttentionPoint& point : points) {
      AttentionCost& cost = attention == config::Attention::kFlash ? point.flash : point.math;
      if (curve.plays()) {
        cost.dry_run = curve.play(attention, point.length);
        measuring = measuring && cost.dry_run && *cost.dry_run <= limits.bytes;
      }
      if (measuring) curve.measure(attention, point.length, cost);
      measuring = measuring && cost.seconds && kGrowth * *cost.seconds <= limits.seconds;
    }
  }
  return points;
}

Json to_json(const std::vector<AttentionPoint>& points) {
  Json list = Json::array();
  for (const AttentionPoint& point : points) {
    list.push_back({{"length", point.length}, {"flash", to_json(point.flash)}, {"math", to_json(point.math)}});
  }
  return list;
}

}  // namespace fathom::play

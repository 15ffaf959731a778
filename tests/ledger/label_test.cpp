// The labelling against a naive one that searches the whole history for every question, over random streams of events.
#include "ledger/label.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace fathom::ledger {
namespace {

const void* key_of(size_t i) { return reinterpret_cast<const void*>((i + 1) * 64); }

// A tensor whose storage has `key` as its context and no bytes behind it.
at::Tensor tensor_of(const void* key) {
  c10::DataPtr data(
      nullptr, const_cast<void*>(key), [](void*) {}, c10::Device(c10::kCPU));
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, std::move(data), nullptr, false);
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                  caffe2::TypeMeta::Make<float>());
}

// What happened, in order, as the test knows it.
struct Happening {
  enum Kind { kTake, kGive, kBegin, kEnd, kRecompute, kSegment } kind;
  size_t block = 0;
  memory::Phase phase = memory::Phase::kLoad;
};
struct Fact {
  int64_t bytes = 0;
  std::optional<memory::Component> claim;
  bool scratch = false;
};

std::optional<memory::Phase> phase_at(const std::vector<Happening>& all, size_t at) {
  for (size_t i = at + 1; i-- > 0;) {
    if (all[i].kind == Happening::kBegin) return all[i].phase;
    if (all[i].kind == Happening::kEnd) return std::nullopt;
  }
  return std::nullopt;
}

size_t find(const std::vector<Happening>& all, Happening::Kind kind, size_t block) {
  for (size_t i = 0; i < all.size(); i++)
    if (all[i].kind == kind && all[i].block == block) return i;
  return all.size();
}

bool recomputing_at(const std::vector<Happening>& all, size_t at) {
  for (size_t i = at + 1; i-- > 0;) {
    if (all[i].kind == Happening::kRecompute) return true;
    if (all[i].kind != Happening::kTake && all[i].kind != Happening::kGive) return false;
  }
  return false;
}

// Made in forward: the first backward after its birth must find it alive; made in a recomputation: the first segment.
bool is_activation(const std::vector<Happening>& all, size_t block) {
  size_t born = find(all, Happening::kTake, block), dead = find(all, Happening::kGive, block);
  bool recomputed = recomputing_at(all, born);
  if (!recomputed && phase_at(all, born) != memory::Phase::kForward) return false;
  for (size_t i = born; i < all.size(); i++) {
    bool starts = recomputed ? all[i].kind == Happening::kSegment
                             : all[i].kind == Happening::kBegin && all[i].phase == memory::Phase::kBackward;
    if (starts) return i < dead;
  }
  return false;
}

memory::Component naive_component(const std::vector<Happening>& all, const Fact& fact, size_t block) {
  if (fact.claim) return *fact.claim;
  return is_activation(all, block) ? memory::Component::kActivations : memory::Component::kTemporaryBuffers;
}

struct Stream {
  Ledger ledger;
  std::vector<Happening> all;
  std::vector<Fact> facts;
  std::vector<size_t> alive;
  std::mt19937_64 random;

  explicit Stream(uint64_t seed) : random(seed) {}
  uint64_t below(uint64_t n) { return random() % n; }

  void take(bool scratch_call) {
    size_t block = facts.size();
    facts.push_back({.bytes = static_cast<int64_t>(1 + below(1000)), .claim = {}, .scratch = false});
    all.push_back({Happening::kTake, block});
    KernelCall call{scratch_call ? this : nullptr, scratch_call ? block + 1 : 0, false};
    if (below(10) == 0) {
      auto claimed = memory::kComponents[below(memory::kComponentCount)];
      facts[block].claim = claimed;
      ClaimScope scope(claimed);
      ledger.on_allocate(key_of(block), facts[block].bytes, call);
    } else {
      ledger.on_allocate(key_of(block), facts[block].bytes, call);
    }
    if (!scratch_call) return alive.push_back(block);
    facts[block].scratch = true;
    all.push_back({Happening::kGive, block});
    ledger.on_free(key_of(block), call);
  }
  void give(size_t position) {
    size_t block = alive[position];
    alive.erase(alive.begin() + static_cast<long>(position));
    all.push_back({Happening::kGive, block});
    ledger.on_free(key_of(block), KernelCall{this, 0, false});
  }
  void step() {
    uint64_t what = below(100);
    if (what < 50) {
      take(below(6) == 0);
    } else if (what < 85) {
      if (!alive.empty()) give(below(alive.size()));
    } else if (what < 90) {
      if (!alive.empty()) {
        size_t block = alive[below(alive.size())];
        facts[block].claim = memory::kComponents[below(memory::kComponentCount)];
        ledger.claim(tensor_of(key_of(block)), *facts[block].claim);
      }
    } else if (what < 94) {
      memory::Phase phase = memory::kPhases[below(4)];
      all.push_back({.kind = Happening::kBegin, .block = 0, .phase = phase});
      ledger.begin_phase(phase);
    } else if (what < 95) {
      all.push_back({.kind = Happening::kEnd});
      ledger.end_phase();
    } else if (what < 98) {
      all.push_back({.kind = Happening::kRecompute});
      ledger.begin_recomputation();
    } else {
      all.push_back({.kind = Happening::kSegment});
      ledger.begin_segment_backward();
    }
  }
};

TEST(Label, AgreesWithANaiveLabellerOverRandomStreams) {
  for (uint64_t seed = 0; seed < 150; seed++) {
    Stream s(seed);
    for (int i = 0; i < 250; i++) s.step();
    memory::Memory memory = s.ledger.label();
    const auto& events = s.ledger.last_events();

    memory::ComponentBytes now, at_peak, maximum;
    int64_t live = 0, peak = 0, scratch = 0, most_scratch = 0;
    std::array<int64_t, memory::kPhaseCount> phase_peak{};
    phase_peak.fill(-1);
    size_t event = 0;
    for (size_t i = 0; i < s.all.size(); i++) {
      const Happening& h = s.all[i];
      auto phase = phase_at(s.all, i);
      if (h.kind == Happening::kTake || h.kind == Happening::kGive) {
        const Fact& fact = s.facts[h.block];
        int64_t bytes = h.kind == Happening::kTake ? fact.bytes : -fact.bytes;
        memory::Component component = naive_component(s.all, fact, h.block);
        ASSERT_LT(event, events.size());
        ASSERT_EQ(events[event].bytes, bytes);
        ASSERT_EQ(events[event].kernel_scratch, fact.scratch);
        ASSERT_EQ(events[event].component, component) << "seed " << seed << ", event " << event;
        ASSERT_EQ(events[event].in_phase, phase.has_value());
        ASSERT_EQ(events[event].phase, phase.value_or(memory::Phase::kLoad));
        event++;
        (fact.scratch ? scratch : live) += bytes;
        if (!fact.scratch) now[component] += bytes;
      }
      ASSERT_EQ(now.total(), live) << "the components add up to the live bytes at every instant";
      most_scratch = std::max(most_scratch, scratch);
      for (memory::Component c : memory::kComponents) maximum[c] = std::max(maximum[c], now[c]);
      if (live > peak) {
        peak = live;
        at_peak = now;
      }
      if (phase) {
        int64_t& largest = phase_peak[static_cast<int>(*phase)];
        largest = std::max(largest, live);
      }
    }
    ASSERT_EQ(event, events.size());
    ASSERT_EQ(memory.peak, peak);
    ASSERT_EQ(memory.at_peak, at_peak);
    ASSERT_EQ(memory.at_peak.total(), peak);
    ASSERT_EQ(memory.maximum, maximum);
    ASSERT_EQ(memory.kernel_scratch, most_scratch);
    ASSERT_EQ(s.ledger.live_bytes(), live);
    for (memory::Phase p : memory::kPhases) {
      ASSERT_EQ(memory.phase(p).seen, phase_peak[static_cast<int>(p)] >= 0);
      ASSERT_EQ(memory.phase(p).peak, std::max<int64_t>(phase_peak[static_cast<int>(p)], 0));
      ASSERT_EQ(memory.phase(p).at_peak.total(), memory.phase(p).peak);
    }
  }
}

// Labelling in the middle must not change totals: the pieces' peaks fold into the whole's, and what was alive stays
// known.
TEST(Label, PiecesFoldIntoTheWhole) {
  for (uint64_t seed = 0; seed < 50; seed++) {
    Stream s(seed);
    int64_t peak = 0;
    for (int i = 0; i < 400; i++) {
      s.step();
      if (i % 70 == 69) peak = std::max(peak, s.ledger.label().peak);
    }
    peak = std::max(peak, s.ledger.label().peak);
    ASSERT_EQ(s.ledger.memory().peak, peak);
    while (!s.alive.empty()) s.give(0);
    ASSERT_EQ(s.ledger.live_bytes(), 0);
    s.ledger.label();
    memory::Memory nothing = s.ledger.label();
    ASSERT_EQ(nothing.peak, 0);
    ASSERT_EQ(nothing.maximum.total(), 0);
  }
}

// An evaluation that runs for longer than the ledger remembers: its peak comes first, and is asked for at the end.
TEST(Label, KeepsThePeakOfAStretchThatWasCutUnasked) {
  Ledger ledger;
  ledger.begin_phase(memory::Phase::kEvaluation);
  ledger.on_allocate(key_of(0), 1000);
  ledger.on_allocate(key_of(1), 500);
  ledger.on_free(key_of(1));
  for (size_t i = 0; i < kLongestStretch / 2 + 10; i++) {
    ledger.on_allocate(key_of(2), 7);
    ledger.on_free(key_of(2));
  }
  ledger.end_phase();
  memory::Memory memory = ledger.label();
  EXPECT_LT(ledger.last_events().size(), 100u) << "this stretch was to be cut";
  EXPECT_EQ(memory.peak, 1500);
  EXPECT_EQ(memory.phase(memory::Phase::kEvaluation).peak, 1500);
  EXPECT_EQ(ledger.memory(), memory);
  EXPECT_EQ(ledger.label().peak, 1000) << "what label() returned once is not part of the next stretch";
}

// Steps of many micro-batches, one of which takes scratch in every kernel, as the CPU does and its dry run does not.
TEST(Label, OfALongStepDoesNotDependOnWhereItWasCut) {
  const auto play = [](bool scratch) {
    Ledger ledger;
    ledger.on_allocate(key_of(0), 1000);  // a parameter
    ledger.label();
    const KernelCall call{.thread = &ledger, .number = 1};
    for (size_t batch = 0; batch < 300; ++batch) {
      ledger.on_allocate(key_of(1), 40);  // its tokens
      ledger.begin_phase(memory::Phase::kForward);
      for (size_t i = 0; i < 2000; ++i) {
        ledger.on_allocate(key_of(10 + i), 3 + static_cast<int64_t>(batch % 7));
        ledger.on_allocate(key_of(2), 11);
        if (scratch) ledger.on_allocate(key_of(3), 5, call);
        if (scratch) ledger.on_free(key_of(3), call);
        ledger.on_free(key_of(2));
      }
      ledger.end_phase();
      ledger.begin_phase(memory::Phase::kBackward);
      for (size_t i = 2000; i-- > 0;) ledger.on_free(key_of(10 + i));
      if (batch == 0) {
        ledger.on_allocate(key_of(4), 1000);
        ledger.claim(tensor_of(key_of(4)), memory::Component::kGradients);
      }
      ledger.end_phase();
      ledger.on_free(key_of(1));
    }
    ledger.on_free(key_of(4));
    memory::Memory memory = ledger.label();
    EXPECT_LT(ledger.last_events().size(), kLongStretch) << "this step was to be cut";
    EXPECT_EQ(memory.kernel_scratch, scratch ? 5 : 0);
    memory.kernel_scratch = memory.peak_with_scratch = 0;
    return memory;
  };
  EXPECT_EQ(play(true), play(false));
}

TEST(Label, PhasePeakCountsWhatWasAliveBeforeAndEndBelongsToThatOccurrence) {
  Ledger ledger;
  ledger.on_allocate(key_of(0), 100);
  ledger.label();
  for (int64_t extra : {50, 70, 60}) {
    ledger.begin_phase(memory::Phase::kForward);
    ledger.on_allocate(key_of(1), extra);
    ledger.on_free(key_of(1));
    ledger.on_allocate(key_of(2), extra / 10);
    ledger.end_phase();
    ledger.on_free(key_of(2));
  }
  memory::Memory memory = ledger.label();
  EXPECT_EQ(memory.phase(memory::Phase::kForward).peak, 170);
  EXPECT_EQ(memory.phase(memory::Phase::kForward).end.total(), 107);
  EXPECT_EQ(memory.peak, 170);
}

TEST(Label, AClaimCountsFromTheAllocation) {
  Ledger ledger;
  ledger.begin_phase(memory::Phase::kBackward);
  ledger.on_allocate(key_of(0), 8);
  ledger.on_allocate(key_of(1), 100);
  ledger.on_free(key_of(1));
  ledger.claim(tensor_of(key_of(0)), memory::Component::kGradients, "weight.grad");
  ledger.claim(at::Tensor(), memory::Component::kGradients);
  memory::Memory memory = ledger.label();
  EXPECT_EQ(memory.at_peak[memory::Component::kGradients], 8);
  EXPECT_EQ(memory.at_peak[memory::Component::kTemporaryBuffers], 100);
}

TEST(Label, FreeingAnUnknownBlockIsIgnored) {
  Ledger ledger;
  ledger.on_free(key_of(7));
  EXPECT_EQ(ledger.label().peak, 0);
  EXPECT_EQ(ledger.live_bytes(), 0);
}

TEST(Label, TenThousandEventsTakeUnderTwoMilliseconds) {
  Ledger ledger;
  double best_ms = 1e9;
  for (int round = 0; round < 10; round++) {
    for (memory::Phase phase : {memory::Phase::kForward, memory::Phase::kBackward}) {
      ledger.begin_phase(phase);
      for (size_t i = 0; i < 2500; i++)
        phase == memory::Phase::kForward ? ledger.on_allocate(key_of(i), 64) : ledger.on_free(key_of(2499 - i));
      for (size_t i = 0; i < 1250; i++) {
        ledger.on_allocate(key_of(5000), 32);
        ledger.on_free(key_of(5000));
      }
      ledger.end_phase();
    }
    auto start = std::chrono::steady_clock::now();
    ledger.label();
    best_ms =
        std::min(best_ms, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    ASSERT_EQ(ledger.last_events().size(), 10'000u);
  }
  RecordProperty("label_10000_events_ms", std::to_string(best_ms));
  EXPECT_LT(best_ms, 2.0);
}

}  // namespace
}  // namespace fathom::ledger

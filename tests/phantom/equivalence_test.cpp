// The phantom device against the CPU: the same training steps, live, peak, every component and phase to the byte;
// kernel scratch apart.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <random>

#include "phantom/device.h"
#include "tests/phantom/tiny_llama.h"

namespace fathom::phantom {
namespace {

using memory::Memory;

std::string show(const memory::ComponentBytes& bytes) {
  std::string text;
  for (memory::Component c : memory::kComponents)
    text += std::string(memory::component_name(c)) + " " + std::to_string(bytes[c]) + "  ";
  return text + "\n";
}

// Empty if both say the same of everything but kernel scratch.
std::string difference(const Memory& measured, const Memory& predicted) {
  std::string text;
  auto compare = [&](std::string_view what, const memory::ComponentBytes& is, const memory::ComponentBytes& should) {
    if (is != should) text += std::string(what) + "\n  measured  " + show(should) + "  predicted " + show(is);
  };
  if (measured.peak != predicted.peak)
    text += "peak: measured " + std::to_string(measured.peak) + ", predicted " + std::to_string(predicted.peak) + "\n";
  compare("at the peak", predicted.at_peak, measured.at_peak);
  compare("each one's maximum", predicted.maximum, measured.maximum);
  for (memory::Phase p : memory::kPhases) {
    const auto &is = predicted.phase(p), &should = measured.phase(p);
    if (is.seen != should.seen || is.peak != should.peak)
      text += std::string(memory::phase_name(p)) + ": measured " + std::to_string(should.peak) + ", predicted " +
              std::to_string(is.peak) + "\n";
    compare(std::string(memory::phase_name(p)) + " at its peak", is.at_peak, should.at_peak);
    compare(std::string(memory::phase_name(p)) + " at its end", is.end, should.end);
  }
  return text;
}

// The last step's allocations and releases in their order, without kernel scratch. Releases that follow each other are
// sorted: the autocast cache goes in the order of a hash table.
std::string events_of(const ledger::Ledger& ledger) {
  std::string text;
  std::vector<std::string> releases;
  auto flush = [&] {
    std::sort(releases.begin(), releases.end());
    for (const auto& line : releases) text += line;
    releases.clear();
  };
  for (const auto& event : ledger.last_events()) {
    if (event.kernel_scratch) continue;
    std::string line = std::string(memory::phase_name(event.phase)) + " " +
                       std::string(memory::component_name(event.component)) + " " + std::to_string(event.bytes) + "\n";
    if (event.bytes < 0) {
      releases.push_back(line);
    } else {
      flush();
      text += line;
    }
  }
  flush();
  return text;
}

struct Played {
  Memory memory;
  std::string last_step;
};

Played measure(const TinyRun& run) {
  ledger::Ledger& ledger = ledger::install_cpu();
  EXPECT_EQ(ledger.live_bytes(), 0) << "something else is alive";
  Played played;
  played.memory = play(run, at::Device(at::kCPU), ledger, [&] { played.last_step = events_of(ledger); });
  EXPECT_EQ(ledger.live_bytes(), 0);
  return played;
}

Played predict(const TinyRun& run) {
  ledger::Ledger ledger;
  set_ledger(&ledger);
  Played played;
  played.memory = play(run, device(), ledger, [&] { played.last_step = events_of(ledger); });
  EXPECT_EQ(ledger.live_bytes(), 0);
  set_ledger(nullptr);
  return played;
}

void expect_equal(const TinyRun& run, std::vector<int> thread_counts = {1, 2}) {
  for (int threads : thread_counts) {
    at::set_num_threads(threads);
    Played measured = measure(run), predicted = predict(run);
    EXPECT_EQ(difference(measured.memory, predicted.memory), "") << run.describe() << ", threads " << threads;
    EXPECT_TRUE(measured.last_step == predicted.last_step) << "order of events: " << run.describe();
    EXPECT_GT(measured.memory.at_peak.total(), 0);
    EXPECT_EQ(predicted.memory.at_peak.total(), predicted.memory.peak);
  }
  at::set_num_threads(1);
}

class Matrix : public ::testing::TestWithParam<std::tuple<bool, Precision, bool, bool>> {};

TEST_P(Matrix, DryRunIsTheLedgerToTheByte) {
  auto [lora, precision, checkpointing, flash] = GetParam();
  TinyRun run;
  run.lora = lora;
  run.precision = precision;
  run.checkpointing = checkpointing;
  run.flash = flash;
  expect_equal(run);
  run.shape = {.layers = 1,
               .hidden = 40,
               .heads = 4,
               .kv_heads = 4,
               .ffn = 57,
               .vocabulary = 131,
               .sequence = 33,
               .batch = 3,
               .tied = true};
  run.dropout = 0.1;
  run.accumulation = 2;
  expect_equal(run);
}

INSTANTIATE_TEST_SUITE_P(Training, Matrix,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(Precision::kFloat, Precision::kAutocast,
                                                              Precision::kBFloat16),
                                            ::testing::Bool(), ::testing::Bool()));

TEST(Equivalence, RandomNetworks) {
  std::mt19937 random(4);
  auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 40; i++) {
    TinyRun run;
    TinyShape& s = run.shape;
    s.layers = between(1, 3);
    s.kv_heads = between(1, 3);
    s.heads = s.kv_heads * between(1, 3);
    s.hidden = s.heads * 2 * between(2, 16);
    s.ffn = between(20, 300);
    s.vocabulary = between(30, 700);
    s.sequence = i % 10 == 0 ? between(200, 900) : between(3, 90);
    s.batch = between(1, 3);
    s.tied = between(0, 1);
    run.precision = static_cast<Precision>(between(0, 2));
    run.checkpointing = between(0, 1);
    run.lora = between(0, 1);
    run.flash = between(0, 3) != 0;
    run.dropout = between(0, 1) ? 0.1 : 0.0;
    run.accumulation = static_cast<int>(between(1, 2));
    expect_equal(run, {i % 4 == 0 ? 2 : 1});
  }
}

TEST(Equivalence, ADifferentRunIsSeen) {
  TinyRun run, other;
  other.shape.ffn++;
  EXPECT_NE(difference(measure(run).memory, predict(other).memory), "");
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

// Two steps are played; the processor's time, for other tests may run beside this one.
TEST(Equivalence, AStepOfA70BShapeTakesUnderASecond) {
  TinyRun run;
  run.shape = {.layers = 80,
               .hidden = 8192,
               .heads = 64,
               .kv_heads = 8,
               .ffn = 28672,
               .vocabulary = 128256,
               .sequence = 8192,
               .batch = 1};
  run.precision = Precision::kAutocast;
  predict(TinyRun());
  for (bool checkpointing : {false, true}) {
    run.checkpointing = checkpointing;
    int64_t before = resident_bytes();
    const std::clock_t start = std::clock();
    Memory memory = predict(run).memory;
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / 2;
    std::string name = checkpointing ? "checkpointing_" : "plain_";
    RecordProperty(name + "seconds", std::to_string(seconds));
    RecordProperty(name + "host_mib", std::to_string((resident_bytes() - before) >> 20));
    EXPECT_LT(seconds, 1.0);
    EXPECT_LT(resident_bytes() - before, int64_t{150} << 20);
    EXPECT_EQ(memory.at_peak[memory::Component::kWeights], 4 * (70'553'706'496 + 2 * 8192 * 128))
        << "parameters of Llama 3 70B in FP32, and the rotary tables";
  }
}

}  // namespace
}  // namespace fathom::phantom

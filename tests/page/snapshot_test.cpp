// Snapshots as Python reads them: every block with its bytes, its place and its names.
#include "page/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/json_value.h"
#include "tests/page/example.h"

namespace fathom::page {
namespace {

// Replays the trace as MemoryViz.js does; prints what it finds as JSON.
constexpr const char* kReplay = R"(
import json, pickle, sys
snapshot = pickle.load(open(sys.argv[1], "rb"))
(segment,), (trace,) = snapshot["segments"], snapshot["device_traces"]
first, last = segment["address"], segment["address"] + segment["total_size"]
address, end = first, {}
for b in segment["blocks"]:
    assert b["address"] == address
    address += b["size"]
    if b["state"] == "active_allocated":
        end[b["address"]] = b["size"]
assert address == last and sum(end.values()) == segment["allocated_size"]
alive, live, peak = {}, 0, 0
for e in trace:
    if e["action"] == "alloc":
        assert e["size"] > 0 and first <= e["addr"] and e["addr"] + e["size"] <= last
        assert not any(a < e["addr"] + e["size"] and e["addr"] < a + s for a, s in alive.items()), "overlap"
        alive[e["addr"]] = e["size"]
        live += e["size"]
        peak = max(peak, live)
    elif e["action"] == "free_completed":
        assert alive.pop(e["addr"]) == e["size"]
        live -= e["size"]
assert alive == end
print(json.dumps({"peak": peak, "end": live,
                  "categories": sorted({e["category"] for e in trace}),
                  "frames": sorted({f["filename"] + ":" + f["name"] for e in trace for f in e.get("frames", [])})}))
)";

Json replayed(const Timeline& timeline) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "fathom_snapshot_XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  write_file_atomically(folder / "x.pickle", snapshot_pickle(timeline));
  write_file_atomically(folder / "replay.py", kReplay);
  const std::string in = "cd '" + folder.string() + "' && python3 replay.py x.pickle > out.json";
  EXPECT_EQ(std::system(in.c_str()), 0);
  Json found = read_json(folder / "out.json");
  fs::remove_all(folder);
  return found;
}

TEST(Snapshot, HoldsEveryBlock) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Timeline timeline = random_timeline(seed, 20, 600);
    const Json found = replayed(timeline);
    EXPECT_EQ(found["peak"], timeline.peak) << seed;
    EXPECT_EQ(found["end"], live_bytes(timeline, timeline.events)) << seed;
    EXPECT_THAT(found["categories"].get<std::vector<std::string>>(), testing::IsSupersetOf({"activations", "unknown"}));
    EXPECT_THAT(found["frames"].get<std::vector<std::string>>(),
                testing::IsSupersetOf({"tensor:model.layers.0.mlp.up_proj.weight", "module:model.layers.1.mlp",
                                       "operator:aten::mm", "component:gradients"}));
  }
}

TEST(Snapshot, NumbersAddressesBeyondFourBytes) {
  Timeline timeline;
  timeline.blocks = {{.bytes = int64_t{1} << 40, .given_back = Timeline::kNever},
                     {.bytes = int64_t{3} << 40, .taken = 1, .given_back = 2}};
  timeline.events = 2;
  const Json found = replayed(timeline);
  EXPECT_EQ(found["peak"], int64_t{4} << 40);
  EXPECT_EQ(found["end"], int64_t{1} << 40);
}

}  // namespace
}  // namespace fathom::page

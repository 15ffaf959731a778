// memory.json: every key of the schema, figures as integers, null where there is none.
#include "report/memory_json.h"

#include <gtest/gtest.h>

#include "base/json_value.h"
#include "plan/host.h"
#include "tests/report/example.h"

namespace fathom::report {
namespace {

TEST(MemoryJson, OfAPlanAlone) {
  const Json json = memory_json({example_plan(), {}});
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"schema_version",    "target",   "workload",    "peak",
                                            "components",        "maximum",  "phases",      "allocated",
                                            "reserved",          "fits",     "fit",         "needed",
                                            "missing",           "device",   "offloaded",   "kernel_scratch",
                                            "peak_with_scratch", "resident", "unexplained", "derivation",
                                            "rules_of_thumb"}));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["target"].dump(),
            R"({"device":"cpu","name":"CPU","compute_capability":"","capacity":17179869184,"bounded_by":"device",)"
            R"("threads":2,"attention_kernel":"flash attention","phantom":false})");
  EXPECT_EQ(
      json["workload"].dump(),
      R"({"parameters":1024,"trained_parameters":1024,"quantized_parameters":0,"base":null,"steps":[[[2,8,0],[1,9,0]]],"steps_played":3})");
  EXPECT_EQ(json["peak"].dump(), R"({"analytic":15832,"dry_run":15880,"measured":null})");
  EXPECT_EQ(json["components"].size(), 7U);
  EXPECT_EQ(json["components"]["activations"].dump(), R"({"analytic":2000,"dry_run":2048,"measured":null})");
  EXPECT_EQ(json["maximum"]["gradients"].dump(), R"({"analytic":0,"dry_run":4096,"measured":null})");
  EXPECT_EQ(json["allocated"].dump(), R"({"dry_run":null,"range":null,"bound":null,"measured":null})");
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["needed"], 15880);
  EXPECT_EQ(json["missing"], 0);
  EXPECT_TRUE(json["unexplained"].is_null());
}

TEST(MemoryJson, OfARun) {
  plan::Plan plan = example_plan();
  plan.dry_run.peak_with_scratch = 16050;
  const Json json = memory_json({plan, example_measured()});
  EXPECT_EQ(json["peak"].dump(), R"({"analytic":15832,"dry_run":15880,"measured":15880})");
  EXPECT_EQ(json["components"]["activations"]["measured"], 2048);
  EXPECT_EQ(json["kernel_scratch"].dump(), R"({"dry_run":704,"measured":640})");
  EXPECT_EQ(json["peak_with_scratch"].dump(), R"({"dry_run":16050,"measured":16000})");
  EXPECT_EQ(json["resident"]["dry_run"], plan::most_resident_growth(plan));
  EXPECT_EQ(json["resident"]["measured"], 40000);
  EXPECT_EQ(json["unexplained"], 40000 - 15880);
}

TEST(MemoryJson, HoldsACpuAgainstItsCapacity) {
  plan::Plan plan = example_plan();
  plan.dry_run.peak_with_scratch = 16050;
  plan.target.capacity_bytes = 16050;
  EXPECT_EQ(memory_json({plan, {}})["fits"], true);
  plan.target.capacity_bytes = 16000;
  EXPECT_EQ(memory_json({plan, {}})["fits"], false);
  EXPECT_EQ(memory_json({plan, {}})["missing"], 50);
  plan.target.capacity_bytes = 0;  // unknown
  EXPECT_TRUE(memory_json({plan, {}})["fits"].is_null());
  EXPECT_TRUE(memory_json({plan, {}})["missing"].is_null());
}

TEST(MemoryJson, LeavesOutPhasesThatNobodySaw) {
  plan::Measured measured = example_measured();
  memory::Memory::PhaseMemory& save = measured.memory.phases[static_cast<int>(memory::Phase::kSave)];
  save.seen = true;
  save.peak = 7;
  const Json json = memory_json({example_plan(), measured});
  std::vector<std::string> phases;
  for (const auto& item : json["phases"].items()) phases.push_back(item.key());
  EXPECT_EQ(phases, (std::vector<std::string>{"load", "backward", "save"}));
  EXPECT_EQ(json["phases"]["save"]["peak"].dump(), R"({"dry_run":null,"measured":7})");
  EXPECT_EQ(json["phases"]["backward"]["peak"].dump(), R"({"dry_run":15880,"measured":15880})");
  EXPECT_EQ(json["phases"]["backward"]["end"]["gradients"].dump(), R"({"dry_run":4096,"measured":4096})");
}

TEST(MemoryJson, OfAGpu) {
  plan::Measured measured = example_measured();
  measured.resident_growth.reset();
  measured.allocated = 18000;
  measured.reserved = 2097152;
  measured.device_growth = 3000000;
  const Json json = memory_json({example_gpu_plan(), measured});
  EXPECT_EQ(json["target"]["device"], "cuda");
  EXPECT_EQ(json["allocated"].dump(), R"({"dry_run":18432,"range":[17920,18432],"bound":false,"measured":18000})");
  EXPECT_EQ(json["reserved"].dump(),
            R"({"dry_run":2097152,"range":[2097152,4194304],"bound":false,"measured":2097152})");
  EXPECT_EQ(json["fits"], true);
  EXPECT_EQ(json["needed"], 2097152);
  EXPECT_EQ(json["missing"], 0);
  EXPECT_EQ(json["device"]["measured"], 3000000);
  EXPECT_EQ(json["fit"], "fits");
  EXPECT_EQ(json["device"]["dry_run"], nullptr) << "not calibrated";
  EXPECT_EQ(json["unexplained"], 3000000 - 2097152);

  plan::Plan calibrated = example_gpu_plan();
  calibrated.gpu->overhead = 900000;
  EXPECT_EQ(memory_json({calibrated, measured})["device"]["dry_run"], 2997152);
  EXPECT_EQ(memory_json({calibrated, measured})["unexplained"], 3000000 - 2997152);
  calibrated.gpu->overhead = calibrated.target.capacity_bytes;
  EXPECT_EQ(memory_json({calibrated, measured})["fit"], "not proved");
}

TEST(MemoryJson, HoldsTheDerivation) {
  const Json derivation = memory_json({example_plan(), {}})["derivation"];
  ASSERT_EQ(derivation.size(), 3U);
  EXPECT_EQ(derivation[1].dump(), R"({"component":"activations","what":"layers","formula":"750 bytes","layers":2,)"
                                  R"("bytes":1500,"source":"kept for the backward pass"})");
}

TEST(MemoryJson, HoldsRulesOfThumbAgainstTheFigures) {
  const Json rules = memory_json({example_plan(), {}})["rules_of_thumb"];
  const auto find = [&](const char* name) {
    for (const Json& rule : rules) {
      if (rule["name"] == name) return rule;
    }
    return Json();
  };
  const Json fp32 = find("FP32 weights load in 4 bytes per parameter");
  EXPECT_EQ(fp32["bytes"], 4096);
  EXPECT_EQ(fp32["relative_error"], 0.0);
  EXPECT_EQ(fp32["against"], "weights");
  EXPECT_EQ(fp32["component"], "weights") << "the weights are of FP32";
  const Json half = find("16-bit weights load in 2 bytes per parameter");
  EXPECT_EQ(half["bytes"], 2048);
  EXPECT_EQ(half["relative_error"], -0.5);
  EXPECT_FALSE(half.contains("component"));
  const Json training = find("training takes 16 bytes per parameter");
  EXPECT_EQ(training["bytes"], 16384);
  EXPECT_DOUBLE_EQ(training["relative_error"].get<double>(), (16384.0 - 15880.0) / 15880.0);
  EXPECT_EQ(training["component"], "total");
  EXPECT_FALSE(training["reason"].get<std::string>().empty());
}

}  // namespace
}  // namespace fathom::report

// The shapes that configs/models ships: as many parameters as their publishers count.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "model/shape.h"

namespace fathom::model {
namespace {

const std::filesystem::path kModels = FATHOM_SOURCE_DIR "/configs/models";

TEST(KnownShapes, CountAsManyParametersAsPublished) {
  const std::map<std::string, int64_t> published = {
      {"deepseek-llm-7b", 6'910'365'696}, {"llama-2-13b", 13'015'864'320},     {"llama-2-70b", 68'976'648'192},
      {"llama-2-7b", 6'738'415'616},      {"llama-3-70b", 70'553'706'496},     {"llama-3-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},  {"llama-3.1-405b", 405'853'388'800}, {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.2-1b", 1'235'814'400},    {"llama-3.2-3b", 3'212'749'824},     {"smollm2-1.7b", 1'711'376'384},
      {"smollm2-135m", 134'515'008},      {"smollm2-360m", 361'821'120},       {"tinyllama-1.1b", 1'100'048'384},
      {"yi-6b", 6'061'035'520},
  };
  std::map<std::string, int64_t> counted;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    const auto file = entry.path() / "config.json";
    counted[entry.path().filename()] =
        parameter_count(parse_model_shape(read_json(file), file.string(), ScaledPositions::kIgnored));
  }
  EXPECT_EQ(counted, published);
}

TEST(KnownShapes, ScaledPositionsAreForEstimatesOnly) {
  const Json config = read_json(kModels / "llama-3.2-1b" / "config.json");
  EXPECT_EQ(parse_model_shape(config, "config.json", ScaledPositions::kIgnored).rope_theta, 500000);
  EXPECT_THROW(parse_model_shape(config, "config.json"), Error);
}

}  // namespace
}  // namespace fathom::model

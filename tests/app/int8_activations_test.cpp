// `--activations int8`: near the same model in BF16 and less of it, wherever the weights in INT8 come from.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Int8ActivationsTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data/model", folder_ / "model", fs::copy_options::recursive);
    std::ifstream all(fs::path(FATHOM_SOURCE_DIR) / "data/eval.jsonl");
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      std::string line;
      std::getline(all, line);
      lines += line + "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", "model_name_or_path: model\ndevice: cpu\nvalidation_file: data.jsonl\nmax_length: 256\n");
  }
  Outcome succeed(const std::string& command) {
    Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 0) << command << "\n" << outcome.errors;
    return outcome;
  }
  double loss_of(const std::string& arguments) {
    std::istringstream words(succeed("eval " + arguments).output);
    std::string name;
    double loss = 0;
    words >> name >> loss;
    EXPECT_EQ(name, "loss");
    return loss;
  }
};

TEST_F(Int8ActivationsTest, CostLittle) {
  const double exact = loss_of("run.yaml"), rounded = loss_of("run.yaml --activations int8");
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(rounded, exact, 0.02 * exact);
  EXPECT_EQ(loss_of("run.yaml --activations none"), exact);
}

TEST_F(Int8ActivationsTest, TakeTheCodesOfAQuantizedFolder) {
  succeed("quantize model --out q --format int8");
  // The same codes; a scale that is stored may be off by its last bit.
  EXPECT_NEAR(loss_of("run.yaml model_name_or_path=q --activations int8"), loss_of("run.yaml --activations int8"),
              1e-5);
  succeed("quantize model --out q4 --format nf4");
  const Outcome outcome = run("eval run.yaml model_name_or_path=q4 --activations int8");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("--activations int8 multiplies by weights in INT8, but these are in NF4"));
}

TEST_F(Int8ActivationsTest, GenerateOneTokenAfterTheOther) {
  const std::string generate = "generate model --prompt Once --max-new-tokens 12 device=cpu";
  EXPECT_FALSE(succeed(generate + " --activations int8").output.empty());
  const Outcome outcome = run(generate + " --activations int4");
  EXPECT_EQ(outcome.status, 2);
}

}  // namespace
}  // namespace fathom

// Quantization-aware training as a user runs it: measured as planned, resumed in the same bits, and exported as codes
// that answer as what was trained.
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Qat : public ProgramTest {
 protected:
  // A base in FP32 whose rows are whole groups of INT4.
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "model");
    Json config = read_json(folder_ / "model" / "config.json");
    config["intermediate_size"] = 320;
    config["num_hidden_layers"] = 2;
    fs::remove(folder_ / "model" / "model.safetensors");
    write("model/config.json", config.dump());
    std::string lines;
    for (int i = 0; i < 30; ++i) lines += R"({"text": "One more than )" + std::to_string(i) + " is near.\"}\n";
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: base
device: cpu
dtype: float32
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
max_steps: 4
learning_rate: 0.002
eval_strategy: steps
eval_steps: 4
save_steps: 2
logging_steps: 1
output_dir: out
)");
    const Outcome base =
        run("train run.yaml model_name_or_path=model random_init=true max_steps=1 save_strategy=no eval_strategy=no "
            "output_dir=base");
    ASSERT_EQ(base.status, 0) << base.errors;
  }

  // Of the last evaluation of a run.
  double trained_loss() {
    std::istringstream lines(read_file(folder_ / "out" / "metrics.jsonl"));
    double loss = 0;
    for (std::string line; std::getline(lines, line);) loss = Json::parse(line).value("eval_loss", loss);
    return loss;
  }
  // As `eval` prints it, with six decimals.
  double loss_of(const std::string& arguments) {
    const Outcome outcome = run("eval run.yaml " + arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return std::stod(outcome.output.substr(outcome.output.find(' ')));
  }
};

TEST_F(Qat, ExportsCodesThatAnswerAsWhatWasTrained) {
  const std::string lora = "method=lora lora_r=4 target_modules=all-linear ";
  for (const std::string settings : {"qat=int8", "qat=int4", "qat=int4 qat_activations=int8"}) {
    for (const std::string& method : {std::string(), lora}) {
      for (const char* folder : {"out", "codes"}) fs::remove_all(folder_ / folder);
      const Outcome trained = run("train run.yaml " + method + settings);
      ASSERT_EQ(trained.status, 0) << trained.errors;
      EXPECT_THAT(trained.output, HasSubstr("equal to the byte")) << method << settings;
      const std::string again = method.empty() ? "model_name_or_path=out " : "--adapter out " + method;
      const double loss = trained_loss(), bound = 1e-6 * loss + 5e-7;
      EXPECT_NEAR(loss_of(again + settings), loss, bound) << "read back with its steps";
      const Outcome exported = run(method.empty() ? "export out --out codes" : "export out --out codes --merge");
      ASSERT_EQ(exported.status, 0) << exported.errors;
      EXPECT_THAT(exported.output, HasSubstr("with learned steps"));
      EXPECT_NEAR(loss_of("model_name_or_path=codes " + settings), loss, bound) << method << settings;
      EXPECT_LT(fs::file_size(folder_ / "codes" / "model.safetensors"),
                fs::file_size(folder_ / "base" / "model.safetensors") / 2);
    }
  }
}

TEST_F(Qat, ContinuesWhereItStoppedAndEndsInTheSameBits) {
  for (const std::string settings : {"qat=int4 qat_activations=int8 bf16=true", "qat=int8 method=lora"}) {
    for (const char* folder : {"out", "whole"}) fs::remove_all(folder_ / folder);
    const std::string weights = settings.ends_with("lora") ? "adapter_model.safetensors" : "model.safetensors";
    ASSERT_EQ(run("train run.yaml output_dir=whole " + settings).status, 0);
    ASSERT_EQ(run("train run.yaml " + settings).status, 0);
    fs::remove(folder_ / "out" / weights);
    fs::remove_all(folder_ / "out" / "checkpoint-4");
    const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto " + settings);
    ASSERT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_EQ(hash_file(folder_ / "out" / weights), hash_file(folder_ / "whole" / weights)) << settings;
  }
}

TEST_F(Qat, ItsWeightsAreNotTakenWithoutTheirSteps) {
  ASSERT_EQ(run("train run.yaml qat=int4").status, 0);
  const Outcome evaluated = run("eval run.yaml model_name_or_path=out");
  EXPECT_EQ(evaluated.status, 1);
  EXPECT_THAT(evaluated.errors, HasSubstr("int4_log_steps holds steps of quantization-aware training"));
  ASSERT_EQ(run("export out --out codes").status, 0);
  const Outcome again = run("train run.yaml model_name_or_path=codes qat=int4 method=lora output_dir=other");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.errors, HasSubstr("qat trains weights that are rounded, but the model's folder stores"));
}

}  // namespace
}  // namespace fathom

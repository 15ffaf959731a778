// The table of LibTorch's variables holds every one that its files name, and those that no plan can follow are refused.
#include "app/torch_variables.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/file.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Names of other things that look alike: states and values of libraries, macros, operators.
bool is_no_variable(std::string_view name) {
  for (const char* beginning : {"CUBLAS_STATUS_", "CUBLAS_POINTER_MODE_", "CUDNN_ATTR_", "CUDNN_BACKEND_",
                                "CUDNN_BEHAVIOR_NOTE_", "CUDNN_NUMERICAL_NOTE_", "CUDNN_SDPA", "TORCH_LIBRARY"}) {
    if (name.starts_with(beginning)) return true;
  }
  return name == "PYTORCH_TEST";
}

// Adds the texts of the file, each between two zeros, that are a variable's name of one of these kinds.
void add_names(const MappedFile& file, std::set<std::string>& names) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  constexpr std::string_view kZero("\0", 1);
  for (const char* kind : {"PYTORCH_", "TORCH_", "CUBLAS", "CUDNN", "DISABLE_ADDMM"}) {
    const std::string begin = std::string(kZero) + kind;
    for (size_t at = bytes.find(begin); at != std::string_view::npos; at = bytes.find(begin, at + 1)) {
      const std::string_view name = bytes.substr(at + 1, bytes.find('\0', at + 1) - at - 1);
      const bool is_name = std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      });
      if (is_name && name.find('_') != std::string_view::npos && !is_no_variable(name)) names.emplace(name);
    }
  }
}

TEST(TorchVariables, HaveARowEach) {
  std::map<std::string, int> rows;
  for (const app::TorchVariables& row : app::torch_variables()) {
    EXPECT_NE(row.why, "");
    for (const std::string_view name : row.names) ++rows[std::string(name)];
  }
  for (const auto& [name, count] : rows) EXPECT_EQ(count, 1) << name;
  std::set<std::string> names;
  int read = 0;
  for (const char* library : {"libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so"}) {
    const fs::path path = fs::path(FATHOM_TORCH_DIR) / "lib" / library;
    if (!fs::exists(path)) continue;  // of a build without CUDA
    add_names(MappedFile(path), names);
    ++read;
  }
  ASSERT_GE(read, 2);
  EXPECT_GT(names.size(), 20U);
  EXPECT_TRUE(names.contains("PYTORCH_ALLOC_CONF"));
  for (const std::string& name : names) {
    EXPECT_TRUE(rows.contains(name)) << "LibTorch knows " << name << ", and app/torch_variables.cpp does not say what "
                                     << "it does to memory";
  }
}

class TorchVariablesTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 403,
        "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-5})");
  }
};

TEST_F(TorchVariablesTest, ThatNoPlanCanFollowAreRefusedByName) {
  for (const app::TorchVariables& row : app::torch_variables()) {
    if (row.effect != app::OnMemory::kRefused) continue;
    for (const std::string_view name : row.names) {
      const std::string words = name.starts_with("NCCL_") ? " --gpus 2 num_processes=2" : "";
      const Outcome outcome = run("estimate model --gpu H100 max_length=64" + words, std::string(name) + "=1 ");
      EXPECT_EQ(outcome.status, 2) << name << outcome.output;
      EXPECT_THAT(outcome.errors, AllOf(HasSubstr(std::string(name) + " is set"), HasSubstr("unset")));
    }
  }
  EXPECT_EQ(run("estimate model device=cpu max_length=64", "PYTORCH_NO_CUDA_MEMORY_CACHING=1 ").status, 0)
      << "no GPU, no allocator of one";
  EXPECT_EQ(run("estimate model --gpu H100 max_length=64", "PYTORCH_TUNABLEOP_ENABLED=0 NCCL_BUFFSIZE=1 ").status, 0);
}

TEST_F(TorchVariablesTest, OfCublasAreObeyed) {
  const auto peak = [&](const std::string& environment) {
    const Outcome outcome = run("estimate model --gpu H100 --json max_length=64", environment);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return Json::parse(outcome.output).at("reserved").at("dry_run").get<int64_t>();
  };
  EXPECT_GT(peak("CUBLAS_WORKSPACE_CONFIG=:65536:8 "), peak("CUBLAS_WORKSPACE_CONFIG=:16:8 "));
}

}  // namespace
}  // namespace fathom

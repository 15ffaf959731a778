// What a checkpoint takes of the disk, and the refusal when there is less.
#include "checkpoint/disk_room.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "arch/parameter_table.h"
#include "base/bytes.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace fathom::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

struct Case {
  const char* name;
  bool tied;
  std::optional<arch::LoraOptions> lora;
  std::vector<std::string> parameters;
};

const std::string kEmbedding = "model.embed_tokens.weight", kHead = "lm_head.weight",
                  kAdapter = "model.layers.0.self_attn.q_proj.lora_A.weight";

arch::LoraOptions lora_that_saves(std::vector<std::string> modules) {
  arch::LoraOptions lora;
  lora.modules_to_save = std::move(modules);
  return lora;
}

std::vector<Case> cases() {
  return {{"FullUntied", false, std::nullopt, {kEmbedding, kHead}},
          {"FullTied", true, std::nullopt, {kEmbedding}},
          {"Lora", false, arch::LoraOptions{}, {kAdapter}},
          {"LoraTied", true, arch::LoraOptions{}, {kAdapter}},
          {"SavedUntied", false, lora_that_saves({"embed_tokens", "lm_head"}), {kAdapter, kEmbedding, kHead}},
          {"SavedTied", true, lora_that_saves({"embed_tokens"}), {kAdapter, kEmbedding}},
          {"SavedTiedBoth", true, lora_that_saves({"embed_tokens", "lm_head"}), {kAdapter, kEmbedding}}};
}

class DiskRoomOf : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "base/additional_chat_templates");
    files_ = {root_ / "base", GetParam().lora};
    put("config.json", R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 4, "intermediate_size": 4,
                           "num_hidden_layers": 1, "num_attention_heads": 1, "tie_word_embeddings": )" +
                           std::string(GetParam().tied ? "true}" : "false}"));
    put("generation_config.json", "{}");
    put("tokenizer.json", std::string(70'000, ' '));
    put("additional_chat_templates/tool_use.jinja", "{{ tools }}");
    for (const std::string& name : GetParam().parameters) parameters_.emplace_back(name, at::zeros({1000, 301}));
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& text) const { std::ofstream(root_ / "base" / name) << text; }
  static int64_t bytes_in(const fs::path& folder) {
    int64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
    }
    return bytes;
  }

  const fs::path root_ = fs::temp_directory_path() / ("fathom_disk_room_" + std::to_string(::getpid()));
  ModelFiles files_;
  NamedTensors parameters_;
};

TEST_P(DiskRoomOf, AModelIsWhatIsWritten) {
  write_model(root_ / "run", parameters_, files_);
  EXPECT_EQ(model_bytes(parameters_, files_), bytes_in(root_ / "run"));
}

TEST_P(DiskRoomOf, ACheckpointIsWhatIsWrittenAndAnAllowance) {
  NamedTensors states;
  for (const auto& [name, tensor] : parameters_) states.emplace_back(name + ".m", at::zeros_like(tensor));
  const int64_t room = checkpoint_bytes(parameters_, states, files_);
  save(root_ / "run", 3, {parameters_, states, {{"seed", 1}}}, files_, 0);
  EXPECT_GE(room, bytes_in(root_ / "run"));
  EXPECT_LE(room, bytes_in(root_ / "run") + 256 * kKiB);
}

INSTANTIATE_TEST_SUITE_P(Every, DiskRoomOf, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(DiskRoom, RefusesWithBothFigures) {
  const auto folder = std::filesystem::temp_directory_path();
  require_room(folder, "checkpoint-5", 4096);
  const int64_t free = free_bytes(folder);
  EXPECT_GT(free, 4096);
  try {
    require_room(folder, "checkpoint-5", int64_t{1} << 60);
    FAIL() << "an exbibyte was free";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no room for checkpoint-5"), HasSubstr("1,152,921,504,606,846,976 bytes"),
                                    HasSubstr(folder.string()), HasSubstr("free some space")));
  }
  EXPECT_THROW(require_room(folder / "absent" / "folder", "checkpoint-5", 1), Error);
}

}  // namespace
}  // namespace fathom::checkpoint

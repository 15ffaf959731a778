// What a folder and its data say together, of a model whose positions are learned and have an end.
#include "schedule/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::schedule {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LearnedPositions : public ::testing::Test {
 protected:
  LearnedPositions() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      fs::copy_file(fs::path(FATHOM_SOURCE_DIR "/tests/tokenizer/gpt2") / file, folder_ / "model" / file);
    }
    write_model(Json::object());
    config_.model_name_or_path = (folder_ / "model").string();
    config_.random_init = true;
  }
  ~LearnedPositions() override { fs::remove_all(folder_); }

  void write_model(const Json& changes) const {
    Json config = {{"model_type", "gpt2"}, {"n_embd", 12},      {"n_layer", 1},
                   {"n_head", 2},          {"n_positions", 64}, {"vocab_size", 800}};
    config.update(changes);
    std::ofstream(folder_ / "model/config.json") << config.dump();
  }
  // One example of so many tokens, of which the last ones are the answer.
  std::vector<std::string> data(int64_t tokens, int64_t answer) const {
    std::vector<int> labels(static_cast<size_t>(tokens), 7);
    std::fill(labels.begin(), labels.end() - answer, -100);
    std::ofstream(folder_ / "data.jsonl")
        << Json{{"input_ids", std::vector<int>(static_cast<size_t>(tokens), 7)}, {"labels", labels}}.dump() << "\n";
    return {(folder_ / "data.jsonl").string()};
  }
  std::string refusal() const {
    try {
      read_inputs(config_);
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }
  std::string warnings() const {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(refusal(), "");
    return ::testing::internal::GetCapturedStderr();
  }

  const fs::path folder_ = fs::temp_directory_path() / ("fathom_inputs_" + std::to_string(::getpid()));
  config::RunConfig config_;
};

// A plan without data asks nothing of the tokenizer that cannot do without; whatever reads a text does.
TEST_F(LearnedPositions, AreFoundWhereTheTokenizerCannotBeRead) {
  std::ofstream(folder_ / "model/tokenizer.json") << R"({"model": {"type": "WordPiece", "vocab": {}}})";
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read_inputs(config_, /*weights_required=*/false).tokenizer, nullptr);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("model.type: 'WordPiece' is not supported"), HasSubstr("needs no tokenizer")));
  EXPECT_THROW(read_inputs(config_), Error);
  config_.train_file = data(5, 5);
  EXPECT_THROW(read_inputs(config_, /*weights_required=*/false), Error);
  fs::rename(folder_ / "model/tokenizer.json", folder_ / "model/tekken.json");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read_inputs(config_).tokenizer, nullptr);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("its tokenizer is in tekken.json"));
}

TEST_F(LearnedPositions, BoundTheLongestExample) {
  config_.train_file = data(65, 5);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("max_length: 1024 takes texts of 65 tokens, but the model has learned 64"),
                               HasSubstr("set max_length: 64")));
  config_.max_length = 64;
  EXPECT_THAT(warnings(), AllOf(HasSubstr("were cut"), HasSubstr("write what is longer in several lines"),
                                Not(HasSubstr("raise max_length, or"))));
  config_.max_length = 63;
  EXPECT_THAT(warnings(), HasSubstr("raise max_length, or"));
  config_.pad_to_multiple_of = 48;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("pad_to_multiple_of: 48 makes rows of 96 tokens"),
                               HasSubstr("set pad_to_multiple_of: 0")));
}

TEST_F(LearnedPositions, BoundAnswers) {
  config_.train_file = config_.validation_file = data(60, 10);
  config_.predict_with_generate = true;
  EXPECT_EQ(refusal(), "");
  config_.generation_max_length = 15;
  EXPECT_EQ(refusal(), "") << "its last token is not read";
  config_.generation_max_length = 16;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("predict_with_generate: the longest prompt and an answer of 16 tokens"),
                               HasSubstr("set generation_max_length: 15")));
  config_.predict_with_generate = false;
  EXPECT_EQ(refusal(), "");
}

TEST_F(LearnedPositions, AreOfAModelThatNamesItsEmbeddingItsOwnWay) {
  config_.train_file = data(5, 5);
  write_model({{"vocab_size", 700}});
  EXPECT_THAT(warnings(), HasSubstr("modules_to_save: [wte, lm_head]"));
  write_model({{"vocab_size", 700},
               {"model_type", "llama"},
               {"hidden_size", 12},
               {"intermediate_size", 12},
               {"num_hidden_layers", 1},
               {"num_attention_heads", 2}});
  EXPECT_THAT(warnings(), HasSubstr("modules_to_save: [embed_tokens, lm_head]"));
}

}  // namespace
}  // namespace fathom::schedule

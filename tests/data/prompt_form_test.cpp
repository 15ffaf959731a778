// How a run put its prompts, by its config and its data.
#include "data/prompt_form.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace fathom::data {
namespace {

class PromptFormTest : public ::testing::Test {
 protected:
  PromptFormTest() { std::filesystem::create_directories(folder_); }
  ~PromptFormTest() override { std::filesystem::remove_all(folder_); }

  std::optional<PromptForm> form_of(const std::string& line, config::DatasetFormat format = {}) {
    config::RunConfig run;
    run.dataset_format = format;
    run.train_file = {(folder_ / "t.jsonl").string()};
    write_file_atomically(run.train_file[0], line);
    return prompt_form_of(run);
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("fathom-form-" + std::to_string(getpid()));
};

TEST_F(PromptFormTest, IsThatOfTheFirstLine) {
  EXPECT_EQ(form_of("\n{\"instruction\": \"a\", \"output\": \"b\"}\n"), PromptForm::kAlpaca);
  EXPECT_EQ(form_of("{\"prompt\": \"a\", \"completion\": \"b\"}\n"), PromptForm::kPlain);
  EXPECT_EQ(form_of("{\"prompt\": [], \"completion\": []}\n"), PromptForm::kChat);
  EXPECT_EQ(form_of("{\"messages\": []}"), PromptForm::kChat);
  EXPECT_EQ(form_of("{\"conversations\": []}"), PromptForm::kChat);
  EXPECT_EQ(form_of("{\"text\": \"a\"}"), PromptForm::kPlain);
}

TEST_F(PromptFormTest, IsThatOfTheConfigWhereItSaysSo) {
  config::RunConfig run;
  run.train_file = {"gone.jsonl"};
  EXPECT_EQ(prompt_form_of(run), std::nullopt);
  run.dataset_format = config::DatasetFormat::kAlpaca;
  EXPECT_EQ(prompt_form_of(run), PromptForm::kAlpaca);
  run.dataset_format = config::DatasetFormat::kShareGpt;
  EXPECT_EQ(prompt_form_of(run), PromptForm::kChat);
  run.dataset_format = config::DatasetFormat::kText;
  EXPECT_EQ(prompt_form_of(run), PromptForm::kPlain);
}

TEST_F(PromptFormTest, IsUnsetWhereNothingCanBeRead) {
  EXPECT_EQ(form_of(""), std::nullopt);
  EXPECT_EQ(form_of("no JSON"), std::nullopt);
  EXPECT_EQ(prompt_form_of({}), std::nullopt);
}

}  // namespace
}  // namespace fathom::data

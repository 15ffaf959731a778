// Runs build/fathom as a shell would, and hands back what it printed and how it ended.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include "base/file.h"
#include "base/json_value.h"

namespace fathom {

struct Outcome {
  int status = 0;      // of the exit; -1 if a signal ended it
  std::string output;  // stdout
  std::string errors;  // stderr
  double seconds = 0;
};

// Segments whose addresses matter; and a child with these outlives every question (allocator_settings_test.cpp tells of
// the others). Before a command.
inline constexpr const char* kFixedSegments = "PYTORCH_ALLOC_CONF=expandable_segments:False ";

// A folder of its own for each test, where commands run too.
class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "fathom_app_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // arguments as the shell takes them; environment: "NAME=value " pairs before the command. stdin is empty.
  Outcome run(const std::string& arguments, const std::string& environment = "",
              const std::string& program = FATHOM_PROGRAM) {
    const std::string command = "cd '" + folder_.string() + "' && " + environment + "'" + program + "' " + arguments +
                                " >stdout.txt 2>stderr.txt </dev/null";
    const auto start = std::chrono::steady_clock::now();
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.output = read_file(folder_ / "stdout.txt");
    outcome.errors = read_file(folder_ / "stderr.txt");
    return outcome;
  }
  // 24 examples of 5 to 11 ids below 40.
  void write_ragged_ids(const char* file) {
    std::string lines;
    for (int i = 0; i < 24; ++i) {
      Json ids = Json::array();
      for (int j = 0; j < 5 + i % 7; ++j) ids.push_back(3 + (i * j) % 37);
      lines += Json{{"input_ids", ids}}.dump() + "\n";
    }
    write(file, lines);
  }
  // Runs what `train` has told to do next, its stand-ins for a text and a file replaced; returns how many commands.
  int run_next(const Outcome& trained, const std::string& file) {
    int commands = 0;
    for (size_t at = trained.output.find("next: "); at < trained.output.size();) {
      const size_t start = trained.output.find("fathom ", at), end = trained.output.find('\n', at);
      std::string command = trained.output.substr(start + 7, end - start - 7);
      if (const size_t stand_in = command.find("FILE"); stand_in != std::string::npos) {
        command.replace(stand_in, 4, file);
      }
      const Outcome outcome = run(command + (command.starts_with("generate") ? " --max-new-tokens 2" : ""));
      EXPECT_EQ(outcome.status, 0) << command << "\n" << outcome.errors;
      ++commands;
      at = end + 1;
    }
    return commands;
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, text);
  }
  // Lines of 3 to 62 ids below 101.
  void write_ids(const std::string& name, int lines) {
    std::mt19937 random(3);
    std::string text;
    for (int line = 0; line < lines; ++line) {
      Json ids = Json::array();
      const unsigned length = 3 + random() % 60;
      for (unsigned i = 0; i < length; ++i) ids.push_back(random() % 101);
      text += Json{{"input_ids", ids}}.dump() + "\n";
    }
    write(name, text);
  }
  // The folder "model", of a T5 without weights: its config.json, and the tokenizer of the tests.
  void put_t5(const std::string& config) {
    write("model/config.json", config);
    const std::filesystem::path tokenizer = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer" / "t5";
    for (const char* name : {"spiece.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
      std::filesystem::copy(tokenizer / name, folder_ / "model");
    }
  }

  std::filesystem::path folder_;
};

}  // namespace fathom

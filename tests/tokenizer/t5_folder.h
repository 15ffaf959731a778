// A copy of the folder t5/, which a test may change.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {

namespace fs = std::filesystem;

inline const fs::path kT5 = fs::path(FATHOM_SOURCE_DIR) / "tests" / "tokenizer" / "t5";

class T5Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* name : {"spiece.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"})
      fs::copy(kT5 / name, folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << text;
  }
  // By tokenizer.json alone, of what json_ has.
  std::unique_ptr<Tokenizer> open() {
    fs::remove(folder_ / "spiece.model");
    put("tokenizer.json", format_json(json_));
    return Tokenizer::open(folder_);
  }
  template <typename Open>
  std::string refusal_of(const Open& open) {
    try {
      open();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path folder_ = fs::temp_directory_path() / ("fathom_t5_" + std::to_string(::getpid()));
  Json json_ = read_json(kT5 / "tokenizer.json");
};

}  // namespace fathom::tokenizer

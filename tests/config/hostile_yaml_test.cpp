// Mutated and hostile texts: every one is either taken or refused with UsageError, soon.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "config/load.h"
#include "config/yaml.h"

namespace fathom::config {
namespace {

constexpr const char* kSeeds[] = {
    "model_name_or_path: data/model\nmethod: lora\ntarget_modules: [q_proj, v_proj]\nlearning_rate: 1e-4  # "
    "rate\nbf16: true\n",
    "{model_name_or_path: \"a\\tb\", 'train_file': 'it''s', ? output_dir : x, seed: 0x10}\n",
    "%YAML 1.2\n---\na: &b [1, {c: *b}]\n? |\n  key\n: >-\n  folded\n...\n---\n!!map {<<: *b}\n"};

constexpr std::string_view kPieces[] = {":",        ": ",   "\n",
                                        "- ",       "[",    "]",
                                        "{",        "}",    "#",
                                        "&a ",      "*a",   "!",
                                        "!!str ",   "|",    ">",
                                        "'",        "\"",   "\\",
                                        "%",        "@",    "`",
                                        "?",        "? ",   ",",
                                        "~",        "<<: ", "---\n",
                                        "...\n",    "\t",   "\r",
                                        "\\u0000",  "\\x",  "\xEF\xBB\xBF",
                                        "\xFF\xFE", "é",    "  ",
                                        "seed",     "null", "999999999999999999999"};

bool is_told_or_taken(const std::string& text) {
  try {
    parse_config(text, "f", {"seed=" + text.substr(0, 40)}, Purpose::kEstimate);
  } catch (const UsageError& error) {
    return std::string_view(error.what()).size() > 3;
  }
  return true;
}

TEST(HostileYaml, MutationsNeverCrash) {
  std::mt19937 random(20240607);
  const auto below = [&](size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random); };
  for (int round = 0; round < 20000; ++round) {
    std::string text = kSeeds[below(std::size(kSeeds))];
    for (size_t edits = 1 + below(6); edits > 0; --edits) {
      const size_t at = below(text.size() + 1);
      switch (below(4)) {
        case 0:
          text.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        case 1:
          text.erase(at, below(8));
          break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(below(256));
          break;
        default:
          text.insert(at, text.substr(below(text.size() + 1), below(30)));
      }
    }
    ASSERT_TRUE(is_told_or_taken(text)) << text;
  }
}

TEST(HostileYaml, RepeatedPiecesEndSoon) {
  for (const std::string_view piece : kPieces) {
    std::string text = "seed: 1\n";
    while (text.size() < kLargestYaml) text += piece;
    for (const std::string& tried : {text, "a: " + text.substr(8), text.substr(8), "[" + text.substr(8)}) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_TRUE(is_told_or_taken(tried)) << piece;
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      EXPECT_LT(seconds.count(), 5) << "'" << piece << "'";
    }
  }
}

TEST(HostileYaml, TheLimitHoldsForFiles) {
  const auto path = std::filesystem::temp_directory_path() / "fathom_large.yaml";
  write_file_atomically(path, std::string(kLargestYaml + 1, '#'));
  EXPECT_THROW(load_config(path, {}), UsageError);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace fathom::config

// README's figures are the program's: its tables add up, its shares are those of its bytes, and `estimate` prints them.
#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <sstream>
#include <vector>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;

int64_t number_in(std::string text) {
  std::erase(text, ',');
  return std::stoll(text);
}

// The lines of README's code blocks that hold this text, and those that follow until an empty one.
std::vector<std::string> lines_from(const std::string& readme, const std::string& start) {
  std::vector<std::string> lines;
  std::istringstream stream(readme);
  bool in_table = false;
  for (std::string line; std::getline(stream, line);) {
    in_table = line.starts_with(start) || (in_table && !line.empty() && line != "```");
    if (in_table) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> matches(const std::string& line, const std::regex& pattern) {
  std::smatch match;
  if (!std::regex_match(line, match, pattern)) return {};
  return {match.begin() + 1, match.end()};
}

class Readme : public ProgramTest {
 protected:
  const std::string text_ = read_file(std::filesystem::path(FATHOM_SOURCE_DIR) / "README.md");
};

TEST_F(Readme, ShowsWhatEstimatePrints) {
  const std::string source = FATHOM_SOURCE_DIR;
  const Outcome outcome =
      run("estimate " + source + "/configs/quickstart.yaml num_threads=2 model_name_or_path=" + source +
          "/data/model train_file=" + source + "/data/train.jsonl validation_file=" + source + "/data/eval.jsonl");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  int compared = 0;
  for (const char* table :
       {"at the peak          analytic     dry run             analytic off by", "rule of thumb "}) {
    for (const std::string& line : lines_from(text_, table)) {
      EXPECT_THAT(outcome.output, HasSubstr(line + "\n"));
      compared++;
    }
  }
  EXPECT_GE(compared, 17) << "README has two tables of a plan";
}

// Of every row with a dry run and a measured figure: what is off, and the figure once more in its unit.
TEST_F(Readme, SubtractsRight) {
  const std::regex row(R"((\w+) +([\d,]+ +)?([\d,]+) +([\d.]+ [KMGi]*B) +([\d,]+) +([-+\d,]+)( .*)?)");
  int rows = 0;
  std::map<std::string, int64_t> sums;
  for (const std::string& line : lines_from(text_, "")) {
    const std::vector<std::string> cells = matches(line, row);
    if (cells.empty()) continue;
    rows++;
    const int64_t dry_run = number_in(cells[2]), measured = number_in(cells[4]);
    EXPECT_EQ(format_bytes(dry_run), cells[3]) << line;
    EXPECT_EQ(measured - dry_run, number_in(cells[5])) << line;
    if (!cells[1].empty()) sums[cells[0] == "total" ? "total" : "parts"] += measured;
  }
  EXPECT_EQ(sums["parts"], sums["total"]);
  EXPECT_GE(rows, 8);
}

TEST_F(Readme, TellsHowFarOffRulesOfThumbAre) {
  std::map<std::string, int64_t> truth;
  for (const std::string& line : lines_from(text_, "at the peak ")) {
    const std::vector<std::string> cells = matches(line, std::regex(R"((weights|total) +[\d,]+ +([\d,]+) .*)"));
    if (!cells.empty()) truth[cells[0] == "total" ? "peak" : "weights"] = number_in(cells[1]);
  }
  int rules = 0;
  for (const std::string& line : lines_from(text_, "rule of thumb ")) {
    const std::vector<std::string> cells = matches(line, std::regex(R"(.*?  +([\d,]+) .*the (weights|peak) +(\S.*))"));
    if (cells.empty()) continue;
    rules++;
    EXPECT_EQ(cells[2], format_deviation(number_in(cells[0]), truth.at(cells[1]))) << line;
  }
  EXPECT_GE(rules, 4);
}

TEST_F(Readme, TellsTheShareOfTheLoss) {
  const std::regex losses(R"(evaluation loss: ([\d.]+) before training -> ([\d.]+) of the final weights \((.*)\))");
  int found = 0;
  for (const std::string& line : lines_from(text_, "evaluation loss: ")) {
    const std::vector<std::string> cells = matches(line, losses);
    if (cells.empty()) continue;
    found++;
    EXPECT_EQ(cells[2], format_change(std::stod(cells[1]) / std::stod(cells[0]) - 1)) << line;
  }
  EXPECT_EQ(found, 1);
}

// A terminal of 80 columns shows every line whole.
TEST_F(Readme, ShowsOutputThatFitsATerminal) {
  const std::string model = FATHOM_SOURCE_DIR "/data/model";
  std::vector<std::string> commands = {"estimate llama-3-8b --gpu H100 --inference",
                                       "estimate 7B",
                                       "estimate llama-3-8b --gpu H100 method=lora max_length=64 --explain",
                                       "estimate tinyllama-1.1b --gpu A100-80GB max_length=128 --tokens 2T --gpus 8",
                                       "estimate tinyllama-1.1b --gpu RTX-3060 max_length=128 --gpus 16",
                                       "inspect " + model,
                                       "doctor",
                                       "list gpus",
                                       "list models",
                                       "quantize " + model + " --format int8 --out q",
                                       "inspect q",
                                       "--help"};
  const std::regex command(R"(  ([a-z]+)   +.*)");
  std::istringstream help(run("--help").output);
  for (std::string line; std::getline(help, line);) {
    const std::vector<std::string> name = matches(line, command);
    if (!name.empty()) commands.push_back("help " + name[0]);
  }
  EXPECT_GE(commands.size(), 20U);
  for (const std::string& arguments : commands) {
    const Outcome outcome = run(arguments);
    EXPECT_NE(outcome.output, "") << arguments << ": " << outcome.errors;
    std::istringstream stream(outcome.output);
    for (std::string line; std::getline(stream, line);) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      const bool one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;  // a path, say
      EXPECT_TRUE(one_word || columns <= 80) << arguments << ": " << line;
    }
  }
}

}  // namespace
}  // namespace fathom

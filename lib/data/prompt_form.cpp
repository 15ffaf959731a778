// Looks at the first line of the training data.
#include "data/prompt_form.h"

#include "base/error.h"
#include "data/block_reader.h"
#include "data/encode.h"
#include "data/files.h"
#include "data/line.h"

namespace fathom::data {
namespace {

using config::DatasetFormat;

// The first line of the first file that is not blank; nothing where there is none.
std::optional<Line> first_line(const config::RunConfig& run) {
  constexpr size_t kBlock = size_t{64} << 10;
  const auto files = find_files(run.train_file, "train_file");
  if (files.empty()) return std::nullopt;
  BlockReader blocks(files.front(), kBlock);
  const std::string_view block = blocks.next();
  const size_t start = block.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return std::nullopt;
  return Line(block.substr(start, block.find('\n', start) - start), files.front().string() + ":1");
}

}  // namespace

std::string alpaca_prompt(const std::string& instruction, const std::string& input) {
  std::string prompt = "Below is an instruction that describes a task";
  if (!input.empty()) prompt += ", paired with an input that provides further context";
  prompt += ". Write a response that appropriately completes the request.\n\n### Instruction:\n" + instruction;
  if (!input.empty()) prompt += "\n\n### Input:\n" + input;
  return prompt + "\n\n### Response:";
}

std::optional<PromptForm> prompt_form_of(const config::RunConfig& run) try {
  DatasetFormat format = run.dataset_format;
  const bool is_open = format == DatasetFormat::kAuto || format == DatasetFormat::kPromptCompletion ||
                       format == DatasetFormat::kPreference;
  const std::optional<Line> line = is_open ? first_line(run) : std::nullopt;
  if (is_open && !line) return std::nullopt;
  if (format == DatasetFormat::kAuto) format = recognise(*line);
  const bool converses = format == DatasetFormat::kMessages || format == DatasetFormat::kShareGpt;
  if (converses || (line && is_conversation(*line, format))) return PromptForm::kChat;
  return format == DatasetFormat::kAlpaca ? PromptForm::kAlpaca : PromptForm::kPlain;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace fathom::data

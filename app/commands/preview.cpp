// `fathom preview CONFIG`: the samples as they are trained on, what of them counts for the loss, and how they are
// batched.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/words/shared_options.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "base/output.h"
#include "data/packing.h"
#include "data/segments.h"
#include "schedule/inputs.h"
#include "schedule/step_order.h"

namespace fathom::app {
namespace {

constexpr int64_t kMostBars = 8;
constexpr int64_t kBarColumns = 40;

class Preview final : public Command {
 public:
  Preview() : Command("preview", "The samples as they are trained on, and what counts for the loss") {}
  std::vector<Option> options() override {
    return {
        words_.subject_option("CONFIG|MODEL", "A YAML file, or a model's folder, with the other keys behind it"),
        Option("--samples", samples_, "N", "How many are shown").within(0, 1 << 20),
        Option("--index", index_, "I", "The one that is shown, counted from 0").not_negative().excludes("--samples"),
        json_option(json_), words_.overrides_option()};
  }
  void complete() override { config_ = words_.read(name, config::Purpose::kEstimate); }
  int run() const override;

 private:
  std::vector<int64_t> shown_rows(const data::Dataset& dataset) const;

  ConfigWords words_;
  config::RunConfig config_;
  int64_t samples_ = 3;           // how many are shown,
  std::optional<int64_t> index_;  //   or which one
  bool json_ = false;
};

struct LengthBar {
  int64_t from = 0, to = 0;  // tokens, both included
  int64_t rows = 0;          // of the dataset: of preferences two an example
};

std::vector<LengthBar> histogram(const data::Dataset& dataset) {
  const int64_t longest = dataset.longest();
  const int64_t width = std::max<int64_t>(1, (longest + kMostBars - 1) / kMostBars);
  std::vector<LengthBar> bars;
  for (int64_t from = 1; from <= longest; from += width) bars.push_back({from, std::min(longest, from + width - 1), 0});
  for (int64_t row = 0; row < dataset.row_count(); ++row) {
    ++bars[static_cast<size_t>((dataset.length(row) - 1) / width)].rows;
  }
  return bars;
}

// The batches of the first pass.
struct Batches {
  int64_t steps = 0, micro_batches = 0;
  int64_t bins = 0;       // of packed batches
  int64_t tokens = 0;     // of the samples
  int64_t positions = 0;  // of the batches, padding included
  int64_t longest = 0;    // positions of the longest micro-batch
};

Batches batches_of(const config::RunConfig& config, const data::Dataset& dataset) {
  schedule::StepOrder order(config, dataset);
  Batches batches;
  batches.steps = order.steps_per_epoch();
  if (config.packing) batches.bins = data::pack(dataset, config.max_length).size();
  for (int64_t step = 0; step < order.steps_per_epoch(); ++step) {
    for (const std::vector<int64_t>& examples : order.next()) {
      const std::vector<int64_t> rows = dataset.rows_of(examples);
      int64_t tokens = 0, longest = 0, longest_source = 0;
      for (const int64_t row : rows) {
        tokens += dataset.length(row);
        const int64_t source = dataset.decoder_start() ? dataset.source_length(row) : 0;
        longest = std::max(longest, dataset.length(row) - source);
        longest_source = std::max(longest_source, source);
      }
      const auto padded = [&](int64_t length) { return data::padded_length(length, config.pad_to_multiple_of); };
      const int64_t positions =
          config.packing ? tokens : (padded(longest) + padded(longest_source)) * static_cast<int64_t>(rows.size());
      batches.tokens += tokens;
      batches.positions += positions;
      batches.longest = std::max(batches.longest, positions);
      ++batches.micro_batches;
    }
  }
  return batches;
}

// The rows that a run trains on first, or the one that is asked for.
std::vector<int64_t> Preview::shown_rows(const data::Dataset& dataset) const {
  if (index_) {
    if (*index_ < dataset.size()) return {*index_};
    throw UsageError("--index " + std::to_string(*index_) + ": there are " + format_count(dataset.size()) +
                     " samples, counted from 0");
  }
  const auto wanted = static_cast<size_t>(std::min(samples_, dataset.size()));
  schedule::StepOrder order(config_, dataset);
  std::vector<int64_t> rows;
  while (rows.size() < wanted) {
    for (const std::vector<int64_t>& more : order.next()) rows.insert(rows.end(), more.begin(), more.end());
  }
  rows.resize(wanted);
  return rows;
}

std::string percent(int64_t part, int64_t whole) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%",
                whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0.0);
  return text;
}

std::string padded_left(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string summary_text(const char* name, const data::Dataset& dataset) {
  const int64_t tokens = dataset.token_count(), targets = dataset.target_count();
  const data::Truncation& lost = dataset.truncation();
  std::string text = std::string(name) + ": " + format_count(dataset.size()) + " samples, " + format_count(tokens) +
                     " tokens, " + format_count(targets) + " of them targets (" + percent(targets, tokens) +
                     "); longest " + format_count(dataset.longest()) + "\n";
  if (lost.truncated > 0) {
    text += "  cut to max_length: " + format_count(lost.truncated) + " samples, which lost " +
            format_count(lost.cut_tokens) + " tokens, " + format_count(lost.cut_targets) + " of them targets\n";
  }
  if (lost.without_target > 0) {
    text += "  left out: " + format_count(lost.without_target) + " samples without a token to learn from\n";
  }
  return text;
}

std::string histogram_text(const std::vector<LengthBar>& bars) {
  std::string text;
  int64_t most = 1;
  for (const LengthBar& bar : bars) most = std::max(most, bar.rows);
  for (const LengthBar& bar : bars) {
    const int64_t columns = (bar.rows * kBarColumns + most - 1) / most;
    text += padded_left(format_count(bar.from) + "–" + format_count(bar.to), 20) + " " +
            padded_left(format_count(bar.rows), 11) + " ";
    for (int64_t column = 0; column < columns; ++column) text += "▇";
    text += "\n";
  }
  return "tokens of a sample\n" + text;
}

std::string batches_text(const config::RunConfig& config, const Batches& batches) {
  std::string text = "a pass: " + format_counted(batches.steps, "step") + ", " +
                     (batches.micro_batches == 1 ? "1 batch" : format_count(batches.micro_batches) + " batches") +
                     " of at most " + format_count(batches.longest) + " positions";
  if (config.packing) {
    return text + ", packed: " + format_count(batches.bins) + " bins, " +
           percent(batches.tokens, batches.bins * config.max_length) + " full\n";
  }
  return text + ", " + percent(batches.positions - batches.tokens, batches.positions) + " of them padding\n";
}

// Of an example of several: which one it is.
std::string answer_of(const data::Dataset& dataset, int64_t row) {
  if (dataset.rows_of_example() == 1) return "";
  return row % dataset.rows_of_example() == 0 ? "chosen" : "rejected";
}

void print_sample(const data::Dataset& dataset, int64_t row, const tokenizer::Tokenizer* tokenizer) {
  const std::string answer = answer_of(dataset, row);
  print("\nsample " + std::to_string(row / dataset.rows_of_example()) + (answer.empty() ? "" : ", " + answer) + ": " +
        format_count(dataset.length(row)) + " tokens, " + format_count(dataset.target_count(row)) + " targets\n");
  for (const data::Segment& segment : data::segments_of(dataset.example(row), tokenizer)) {
    if (segment.counts) {
      print(segment.text);
    } else if (output_takes_colour()) {
      print_dim(segment.text);
    } else {
      print("⟦" + segment.text + "⟧");
    }
  }
  print("\n");
}

Json dataset_json(const data::Dataset& dataset) {
  const data::Truncation& lost = dataset.truncation();
  Json lengths = Json::array();
  for (const LengthBar& bar : histogram(dataset)) {
    lengths.push_back({{"from", bar.from}, {"to", bar.to}, {"samples", bar.rows}});
  }
  return {
      {"samples", dataset.size()},       {"tokens", dataset.token_count()},       {"targets", dataset.target_count()},
      {"longest", dataset.longest()},    {"truncated", lost.truncated},           {"cut_tokens", lost.cut_tokens},
      {"cut_targets", lost.cut_targets}, {"without_target", lost.without_target}, {"lengths", std::move(lengths)}};
}

Json sample_json(const data::Dataset& dataset, int64_t row, const tokenizer::Tokenizer* tokenizer) {
  const data::Example example = dataset.example(row);
  Json segments = Json::array();
  for (const data::Segment& segment : data::segments_of(example, tokenizer)) {
    segments.push_back({{"text", segment.text}, {"loss", segment.counts}, {"tokens", segment.tokens}});
  }
  Json sample = {{"index", row / dataset.rows_of_example()},
                 {"tokens", dataset.length(row)},
                 {"targets", dataset.target_count(row)},
                 {"segments", std::move(segments)},
                 {"input_ids", example.ids},
                 {"labels", example.labels}};
  if (const std::string answer = answer_of(dataset, row); !answer.empty()) sample["answer"] = answer;
  return sample;
}

int Preview::run() const {
  if (config_.train_file.empty()) throw UsageError("there are no samples to show", "add train_file: …");
  const schedule::RunInputs inputs = schedule::read_inputs(config_, /*weights_required=*/false);
  const tokenizer::Tokenizer* tokenizer = inputs.tokenizer.get();
  const Batches batches = batches_of(config_, inputs.train);
  const std::vector<int64_t> rows = inputs.train.rows_of(shown_rows(inputs.train));
  if (json_) {
    Json json = {{"train", dataset_json(inputs.train)}};
    if (!inputs.validation.empty()) json["validation"] = dataset_json(inputs.validation);
    json["pass"] = {{"steps", batches.steps},
                    {"batches", batches.micro_batches},
                    {"tokens", batches.tokens},
                    {"positions", batches.positions},
                    {"longest", batches.longest}};
    if (config_.packing) json["pass"]["bins"] = batches.bins;
    json["shown"] = Json::array();
    for (const int64_t row : rows) json["shown"].push_back(sample_json(inputs.train, row, tokenizer));
    print(format_json(json));
    return 0;
  }
  print(summary_text("train", inputs.train));
  if (!inputs.validation.empty()) print(summary_text("validation", inputs.validation));
  print(histogram_text(histogram(inputs.train)) + batches_text(config_, batches));
  print("\nsamples in the order of the run; ");
  if (output_takes_colour()) print_dim("dim");
  print(output_takes_colour() ? " tokens do not count for the loss\n" : "tokens in ⟦⟧ do not count for the loss\n");
  for (const int64_t row : rows) print_sample(inputs.train, row, tokenizer);
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_preview() { return std::make_unique<Preview>(); }

}  // namespace fathom::app

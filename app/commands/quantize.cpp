// `fathom quantize MODEL --format F --out DIR`: the model in fewer bits, what that saves and what it costs.
#include "app/commands/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "app/engine.h"
#include "app/run/evaluate.h"
#include "app/run/session.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/output.h"
#include "checkpoint/quantize_folder.h"
#include "report/table.h"

namespace fathom::app {
namespace {

using checkpoint::MatrixError;
using checkpoint::QuantizeReport;

struct Losses {
  double before = 0, after = 0;
  double change() const { return (after - before) / before * 100; }
};

// Of "model.layers.12.mlp.up_proj.weight": "12"; the rest is "mlp.up_proj". An encoder's and a decoder's layers of one
// number are told apart.
std::pair<size_t, size_t> number_in(const std::string& matrix) {
  const size_t first = matrix.find_first_of("0123456789");
  return {first, matrix.find('.', first)};
}
std::string layer_of(const std::string& matrix) {
  const auto [first, end] = number_in(matrix);
  const bool named = !matrix.starts_with("model.layers.");
  return (named ? matrix.substr(0, matrix.find('.')) + " " : "") + matrix.substr(first, end - first);
}
std::string module_in_layer(const std::string& matrix) {
  const size_t begin = number_in(matrix).second + 1;
  return matrix.substr(begin, matrix.rfind('.') - begin);
}

std::vector<MatrixError> layers_of(const QuantizeReport& report) {
  std::vector<MatrixError> layers;
  for (const MatrixError& matrix : report.matrices) {
    const std::string layer = layer_of(matrix.name);
    if (layers.empty() || layers.back().name != layer) layers.emplace_back().name = layer;
    layers.back().add(matrix);
  }
  return layers;
}

MatrixError sum_of(const QuantizeReport& report) {
  MatrixError all;
  all.name = "all";
  for (const MatrixError& matrix : report.matrices) all.add(matrix);
  return all;
}

std::string number(const char* format, double value) {
  if (!std::isfinite(value)) return std::string(report::kMissing);
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void add_row(report::Table& table, const MatrixError& error, bool names_layer) {
  std::string worst = module_in_layer(error.worst_name) + " " + format_count(error.worst_row);
  if (names_layer) worst = layer_of(error.worst_name) + "." + worst;
  table.add_row({error.name, number("%.3e", error.rmse()), number("%.1f", error.signal_to_noise()), worst,
                 number("%.1f", error.worst_signal_to_noise())});
}

std::string as_text(const QuantizeReport& report, const std::filesystem::path& out,
                    const std::optional<Losses>& losses) {
  const double share = 100 * static_cast<double>(report.bytes_after) / static_cast<double>(report.bytes_before);
  std::string text = out.string() + ": " + report.format + "; " + format_bytes(report.bytes_before) + " became " +
                     format_bytes(report.bytes_after) + number(" (%.1f %%)\n", share);
  if (report.quantized_values > 0) {
    const double each = static_cast<double>(report.quantized_bytes) / static_cast<double>(report.quantized_values);
    text += format_count(report.quantized_values) + " numbers of projections in " +
            format_bytes(report.quantized_bytes) + number(", %.4f bytes each; ", each) +
            format_bytes(report.other_bytes) + " as they were\n\n";
    report::Table table(
        {{"layer"}, {"RMSE"}, {"signal/noise dB"}, {"worst channel", report::Align::kLeft}, {"its dB"}});
    for (const MatrixError& layer : layers_of(report)) add_row(table, layer, /*names_layer=*/false);
    table.add_rule();
    add_row(table, sum_of(report), /*names_layer=*/true);
    text = report::folded(text) + table.format();
  }
  if (losses) {
    text += number("\nevaluation loss %.6f", losses->before) + number(" became %.6f", losses->after) +
            number(" (%+.3f %%)\n", losses->change());
  }
  return text;
}

Json json_of(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json json_of(const MatrixError& error) {
  return {{"name", error.name},
          {"values", error.values},
          {"rmse", json_of(error.rmse())},
          {"signal_to_noise_db", json_of(error.signal_to_noise())},
          {"worst_channel",
           {{"matrix", error.worst_name},
            {"row", error.worst_row},
            {"signal_to_noise_db", json_of(error.worst_signal_to_noise())}}}};
}

std::string as_json(const QuantizeReport& report, const std::filesystem::path& out,
                    const std::optional<Losses>& losses) {
  Json json = {{"folder", out.string()},
               {"format", report.format},
               {"bytes_before", report.bytes_before},
               {"bytes_after", report.bytes_after},
               {"quantized_values", report.quantized_values},
               {"quantized_bytes", report.quantized_bytes},
               {"other_bytes", report.other_bytes},
               {"layers", Json::array()},
               {"matrices", Json::array()}};
  for (const MatrixError& layer : layers_of(report)) json["layers"].push_back(json_of(layer));
  for (const MatrixError& matrix : report.matrices) json["matrices"].push_back(json_of(matrix));
  if (losses) {
    json["evaluation"] = {{"loss_before", json_of(losses->before)},
                          {"loss_after", json_of(losses->after)},
                          {"change_percent", json_of(losses->change())}};
  }
  return format_json(json);
}

void show_progress(int64_t read_bytes, int64_t all_bytes) {
  const double share = 100 * static_cast<double>(read_bytes) / static_cast<double>(std::max<int64_t>(1, all_bytes));
  log_progress("quantize " + number("%.0f", share) + "%  " + format_bytes(read_bytes) + " of " +
               format_bytes(all_bytes));
}

int run_quantize(const Quantize& invocation) {
  const config::RunConfig& config = invocation.config;
  const Session session = open_session(invocation);
  keep_within_budget(invocation.config.memory_budget, session);
  const auto loss_of = [&](const std::filesystem::path& model) {
    config::RunConfig evaluated = config;
    evaluated.model_name_or_path = model.string();
    return evaluate(evaluated, invocation, session).evaluation.loss;
  };
  std::optional<Losses> losses;
  if (!config.validation_file.empty()) losses = Losses{loss_of(config.model_name_or_path), 0};
  const QuantizeReport report = checkpoint::quantize_folder(
      {config.model_name_or_path, invocation.out, invocation.format, 5'000'000'000, show_progress});
  if (losses) losses->after = loss_of(invocation.out);
  print(invocation.json ? as_json(report, invocation.out, losses) : as_text(report, invocation.out, losses));
  return 0;
}

const InEngine<run_quantize> kQuantize;

}  // namespace
}  // namespace fathom::app

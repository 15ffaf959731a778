// Puts the sections together.
#include "page/page.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "page/curves.h"
#include "page/html.h"
#include "page/memory_tables.h"
#include "page/parts.h"
#include "page/rules_section.h"
#include "page/timeline_section.h"
#include "page/verdict.h"

namespace fathom::page {
namespace {

// "org/name" of a path or a hub's name.
std::string short_name(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(path).lexically_normal();
  const std::string name = whole.filename().string(), parent = whole.parent_path().filename().string();
  if (name.empty()) return path;
  return parent.empty() || parent == "/" || parent == ".." ? name : parent + "/" + name;
}

std::string title_of_run(const RunRecord& record) {
  const std::string model = text_at(record.memory, {"run", "model"});
  return model.empty() ? record.name : short_name(model);
}

std::string precision_text(const Json& memory) {
  const auto run = memory.find("run");
  const auto is_on = [&](const char* key) {
    return run != memory.end() && run->is_object() && run->value(key, Json()) == true;
  };
  if (is_on("bf16")) return "BF16 autocast";
  if (is_on("fp16")) return "FP16 autocast";
  const std::string dtype = text_at(memory, {"run", "dtype"});
  // Files of before the type that was not given was written down: a model that is trained whole was FP32.
  if (dtype.empty() && text_at(memory, {"run", "method"}) == "full")
    return is_on("tf32") ? "FP32, products in TF32" : "FP32";
  if (dtype == "float32") return is_on("tf32") ? "FP32, products in TF32" : "FP32";
  return dtype == "bfloat16" ? "BF16" : dtype == "float16" ? "FP16" : dtype;
}

std::string method_text(const Json& memory) {
  const std::string method = text_at(memory, {"run", "method"}), precision = precision_text(memory);
  std::string text;
  if (!method.empty()) text = method == "full" ? "Full fine-tuning" : method == "lora" ? "LoRA fine-tuning" : method;
  if (!text.empty() && !precision.empty()) text += " in " + precision;
  return text;
}

std::string device_text(const Json& memory) {
  const std::string name = text_at(memory, {"target", "name"});
  if (name.empty()) return "";
  const auto threads = bytes_at(memory, {"target", "threads"}).value_or(0);
  if (threads > 0) return name + ", " + format_count(threads) + (threads == 1 ? " thread" : " threads");
  const auto capacity = bytes_at(memory, {"target", "capacity"}).value_or(0);
  return name + (capacity > 0 ? ", " + format_bytes(capacity) : "");
}

std::string batch_text(const Json& memory) {
  int64_t rows = 0, length = 0;
  size_t micro_batches = 0;
  for (const Json& step : list_at(memory, {"workload", "steps"})) {
    if (!step.is_array()) continue;
    micro_batches = std::max(micro_batches, step.size());
    for (const Json& batch : step) {
      if (!batch.is_array() || batch.size() < 2 || !batch[0].is_number_integer() || !batch[1].is_number_integer())
        continue;
      const auto batch_rows = batch[0].get<int64_t>(), batch_length = batch[1].get<int64_t>();
      if (static_cast<double>(batch_rows) * static_cast<double>(batch_length) >
          static_cast<double>(rows) * static_cast<double>(length)) {
        rows = batch_rows;
        length = batch_length;
      }
    }
  }
  if (rows == 0) return "";
  std::string text = "batches of up to " + format_count(rows) + " × " + format_count(length) + " tokens";
  if (micro_batches > 1) text += ", " + std::to_string(micro_batches) + " in a step";
  return text;
}

std::string parameter_text(const Json& memory) {
  const auto all = bytes_at(memory, {"workload", "parameters"}),
             trained = bytes_at(memory, {"workload", "trained_parameters"});
  if (!all) return "";
  std::string text = format_count(*all) + " parameters";
  if (trained) text += trained == all ? ", all trained" : ", " + format_count(*trained) + " trained";
  return text;
}

// Losses and times of such a run say nothing.
bool is_phantom(const Json& memory) {
  const auto target = memory.find("target");
  return target != memory.end() && target->is_object() && target->value("phantom", Json(false)) == true;
}

bool is_plan(const Json& memory) { return text_at(memory, {"run", "kind"}) == "plan"; }

// "memory plan · 2026-11-23 20:01 UTC · 21.1 s · AMD EPYC, 2 cores · fathom 0.1.0".
std::string origin(const Json& memory) {
  std::string facts;
  const auto add = [&](const std::string& fact) {
    if (!fact.empty()) facts += "<li>" + escaped(fact) + "</li>";
  };
  add(text_at(memory, {"run", "date"}));
  if (const auto seconds = number_at(memory, {"run", "seconds"})) add("took " + format_seconds(*seconds));
  const std::string machine = text_at(memory, {"run", "machine"}), version = text_at(memory, {"run", "version"});
  if (!machine.empty()) add((is_plan(memory) ? "planned on " : "on ") + machine);
  if (!version.empty()) add("fathom " + version);
  if (!facts.empty()) facts = "<ul class=\"of-the-run\">" + facts + "</ul>\n";
  const std::string command = text_at(memory, {"run", "command"});
  if (!command.empty()) facts += "<p class=\"command\"><code>" + escaped(command) + "</code></p>\n";
  return facts;
}

std::string header(const RunRecord& record) {
  const Json& memory = record.memory;
  std::string facts;
  for (const std::string& fact : {method_text(memory), device_text(memory), parameter_text(memory), batch_text(memory),
                                  text_at(memory, {"target", "attention_kernel"})}) {
    if (!fact.empty()) facts += "<li>" + escaped(fact) + "</li>";
  }
  return std::string("<header>\n<p class=\"mark\">fathom<span>memory ") + (is_plan(memory) ? "plan" : "report") +
         "</span></p>\n<h1>" + escaped(title_of_run(record)) + "</h1>\n<ul class=\"of-the-run\">" + facts + "</ul>\n" +
         origin(memory) + "</header>\n";
}

// What a reader must know of the figures, after whether it fits.
std::string notices(const Json& memory) {
  std::string text;
  if (is_phantom(memory)) {
    text +=
        "<p class=\"notice\">Played on a phantom GPU: the allocator is LibTorch's own, the arithmetic is missing, so "
        "losses and times are no real device's.</p>\n";
  }
  if (!bytes_at(memory, {"peak", "measured"}) && !(is_plan(memory) && is_phantom(memory))) {
    const std::string failure = text_at(memory, {"run", "failure"});
    text.append("<p class=\"notice\">")
        .append(is_plan(memory)   ? "A plan: nothing was run."
                : failure.empty() ? "This run has not ended, or was killed: what was measured is missing."
                                  : "This run failed, and what was measured is missing: " + escaped(failure))
        .append("</p>\n");
  }
  return text;
}

struct Headline {
  std::string title, figure, detail;
};

std::optional<Headline> peak_headline(const Json& memory) {
  const auto predicted = bytes_at(memory, {"peak", "dry_run"}), measured = bytes_at(memory, {"peak", "measured"});
  if (!predicted) return std::nullopt;
  Headline headline{"Peak memory", format_bytes(measured.value_or(*predicted)), ""};
  if (!measured) {
    headline.detail = format_count(*predicted) + " bytes predicted";
  } else if (*measured == *predicted) {
    headline.detail = "predicted = measured, <em>0 bytes off</em>";
  } else {
    headline.detail = format_count(*predicted) + " bytes predicted, measured " + (*measured > *predicted ? "+" : "−") +
                      format_count(std::abs(*measured - *predicted));
  }
  return headline;
}

std::string change_text(double first, double last) {
  if (!(first > 0) || last == first) return "";
  const double change = 100 * (last / first - 1);
  return (change > 0 ? ", +" : ", −") + format_decimal(std::abs(change), 1) + " %";
}

std::string when_text(int64_t step) { return step == 0 ? "before training" : "after step " + format_count(step); }

// Of the weights that the run leaves; where they were not evaluated, the last, and of which step it is.
std::optional<Headline> evaluation_headline(const RunRecord& record) {
  if (record.evaluations.empty()) return std::nullopt;
  const report::EvaluationMetrics &first = record.evaluations.front(), *shown = &record.evaluations.back();
  const auto kept = bytes_at(record.memory, {"run", "kept_step"});
  for (const report::EvaluationMetrics& each : record.evaluations) {
    if (kept && each.step == *kept) shown = &each;
  }
  const bool of_kept = kept && shown->step == *kept;
  Headline headline{"Evaluation loss", format_decimal(shown->eval_loss, 4), ""};
  headline.detail = of_kept ? "of the final weights, those of step " + format_count(*kept) : when_text(shown->step);
  if (record.evaluations.size() > 1) {
    headline.detail += "; " + format_decimal(first.eval_loss, 4) + " " + when_text(first.step) +
                       change_text(first.eval_loss, shown->eval_loss);
  }
  return headline;
}

std::optional<Headline> loss_headline(const RunRecord& record) {
  if (auto evaluation = evaluation_headline(record)) return evaluation;
  if (record.steps.empty()) return std::nullopt;
  const double first = record.steps.front().loss, last = record.steps.back().loss;
  return Headline{"Training loss", format_decimal(last, 4),
                  "from " + format_decimal(first, 4) + change_text(first, last)};
}

// Tokens over time of all stretches between logged steps: what each line of metrics.jsonl says, weighed by its time.
std::optional<Headline> speed_headline(const RunRecord& record) {
  double tokens = 0, seconds = 0;
  for (const report::StepMetrics& step : record.steps) {
    const double of = step.interval_seconds > 0 ? step.interval_seconds : step.step_seconds;
    tokens += step.tokens_per_second * of;
    seconds += of;
  }
  if (!(seconds > 0) || !(tokens < 9e18)) return std::nullopt;
  return Headline{
      "Throughput", format_count(std::llround(tokens / seconds)),
      "tokens per second: " + format_count(std::llround(tokens)) + " in " + format_seconds(seconds) + " of steps"};
}

std::optional<Headline> time_headline(const RunRecord& record) {
  const auto seconds = number_at(record.memory, {"run", "seconds"});
  if (record.steps.empty()) return std::nullopt;
  const report::StepMetrics& last = record.steps.back();
  Headline headline{seconds ? "Time" : "Steps", seconds ? format_seconds(*seconds) : format_count(last.step), ""};
  headline.detail = (seconds ? format_count(last.step) + " steps, " : "") + format_count(last.tokens) + " tokens" +
                    (seconds ? "; with planning, evaluations and saves" : "");
  return headline;
}

// What the caching allocator of a GPU holds.
std::optional<Headline> reserved_headline(const Json& memory) {
  const auto predicted = bytes_at(memory, {"reserved", "dry_run"}),
             measured = bytes_at(memory, {"reserved", "measured"});
  if (!predicted && !measured) return std::nullopt;
  Headline headline{"Reserved on the GPU", format_bytes(measured.value_or(*predicted)), "by the caching allocator"};
  const Json& range = list_at(memory, {"reserved", "range"});
  if (measured && range.size() == 2 && range[0].is_number_integer() && range[1].is_number_integer()) {
    const bool inside = range[0].get<int64_t>() <= *measured && *measured <= range[1].get<int64_t>();
    headline.detail += inside ? ", <em>as predicted</em>" : ", outside of the predicted range";
  }
  return headline;
}

std::string headlines(const RunRecord& record) {
  std::vector<std::optional<Headline>> all = {peak_headline(record.memory), reserved_headline(record.memory)};
  if (!is_phantom(record.memory)) {
    all.insert(all.end(), {loss_headline(record), speed_headline(record), time_headline(record)});
  }
  std::string text;
  for (const auto& headline : all) {
    if (!headline) continue;
    text += "<div><dt>" + headline->title + "</dt><dd><b>" + headline->figure + "</b><span>" + headline->detail +
            "</span></dd></div>\n";
  }
  return text.empty() ? "" : "<dl class=\"headlines\">\n" + text + "</dl>\n";
}

std::string config_section(const std::string& config) {
  if (config.empty()) return "";
  return "<section id=\"config\">\n<h2>Configuration</h2>\n<details><summary>config.yaml</summary><pre>" +
         escaped(config) + "</pre></details>\n</section>\n";
}

// Where the figures are from.
std::string sources(const RunRecord& record) {
  if (is_plan(record.memory)) return "The figures are those of the plan alone; no other file belongs to this page.";
  std::string files;
  for (size_t i = 0; i < record.files.size(); ++i) {
    files += (i == 0 ? "" : i + 1 == record.files.size() ? " and " : ", ") + record.files[i];
  }
  return files.empty() ? "" : "The figures are from " + files + " in the run's folder.";
}

}  // namespace

std::string report_page(const RunRecord& record) {
  const Json& memory = record.memory;
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      // Nothing is fetched, whatever the page holds.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<title>";
  page += escaped(title_of_run(record)) + " · fathom</title>\n<style>\n" + std::string(page_style()) +
          "</style>\n</head>\n<body>\n<main>\n";
  page += header(record) + verdict_section(memory) + notices(memory) + headlines(record) +
          timeline_section(record, capacity_of(memory)) + component_section(memory) + phase_section(memory) +
          (is_phantom(memory) ? "" : training_section(record)) + rules_section(memory) + attention_section(memory) +
          fact_section(memory) + config_section(record.config);
  page += "<footer>Bytes are exact; KiB, MiB and GiB are binary (1 GiB = 1,024³ bytes), kB, MB and GB decimal. " +
          sources(record) + "</footer>\n</main>\n<script>\n\"use strict\";\n" + std::string(timeline_script()) +
          std::string(lines_script()) + "</script>\n</body>\n</html>\n";
  return page;
}

void write_report(const std::filesystem::path& folder, const std::filesystem::path& out) {
  write_file_atomically(out, report_page(read_run_record(folder)));
}

}  // namespace fathom::page

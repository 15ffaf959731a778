// Lays out what an estimate tells besides bytes on the device.
#include "report/estimate_table.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/count.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "memory/block_groups.h"
#include "report/table.h"

namespace fathom::report {
namespace {

std::string rounded_count(double count) { return format_count(std::llround(count)); }

std::string share(double efficiency, double peak, const std::string& unit) {
  if (efficiency == 1) return format_quantity(peak, unit);
  return format_by("%.0f %% of ", 100 * efficiency) + format_quantity(peak, unit);
}

Json time_json(const plan::Outlook& outlook) {
  if (!outlook.throughput || !outlook.step) return nullptr;
  const plan::Throughput& throughput = *outlook.throughput;
  const plan::ComputingTime computing = outlook.step->computing();
  return {{"source", throughput.source},
          {"matrix_flops_per_second", throughput.matrix_flops_per_second},
          {"attention_flops_per_second", throughput.attention_flops_per_second},
          {"bytes_per_second", throughput.bytes_per_second},
          {"matrix_efficiency", throughput.matrix_efficiency},
          {"attention_efficiency", throughput.attention_efficiency},
          {"memory_efficiency", throughput.memory_efficiency},
          {"matrix_seconds", computing.matrix_seconds},
          {"attention_seconds", computing.attention_seconds},
          {"memory_seconds", computing.memory_seconds},
          {"forward_seconds", outlook.step->parts.forward.seconds()},
          {"backward_seconds", outlook.step->parts.backward.seconds()},
          {"optimizer_step_seconds", outlook.step->parts.update.seconds()},
          {"exposed_communication_seconds", outlook.step->exposed_seconds},
          {"exposed_host_seconds", outlook.step->host_seconds},
          {"step_seconds", outlook.step->seconds()},
          {"tokens_per_second", outlook.tokens_per_second() ? Json(*outlook.tokens_per_second()) : Json(nullptr)}};
}

Json communication_json(const plan::Outlook& outlook) {
  if (!outlook.communication) return nullptr;
  const plan::Communication& communication = *outlook.communication;
  const plan::Interconnect& between = *outlook.throughput->interconnect;
  return {{"processes", outlook.processes},
          {"gpus_per_node", between.gpus_per_node},
          {"link_bytes_per_second", between.link_bytes_per_second},
          {"network_bytes_per_second", between.network_bytes_per_second},
          {"efficiency", plan::kCollectiveEfficiency},
          {"gathered_bytes", communication.traffic.gathered},
          {"reduced_bytes", communication.traffic.reduced},
          {"summed_bytes", communication.traffic.summed},
          {"link_bytes", communication.traffic.over_links},
          {"network_bytes", communication.traffic.over_network},
          {"seconds", communication.seconds},
          {"hidden_seconds", communication.hidden()},
          {"exposed_seconds", communication.exposed},
          {"tokens_per_second_of_all", *outlook.tokens_per_second() * static_cast<double>(outlook.processes)}};
}

// Of a table of what a step takes: the bytes, the slower of the ways that they go, and what is not hidden.
std::vector<std::string> communication_row(const plan::Outlook& outlook) {
  const plan::Communication& communication = *outlook.communication;
  const plan::Interconnect& between = *outlook.throughput->interconnect;
  const bool far = communication.traffic.over_network > 0;
  return {
      "communication", format_quantity(static_cast<double>(communication.traffic.bytes()), "B"),
      share(plan::kCollectiveEfficiency, far ? between.network_bytes_per_second : between.link_bytes_per_second, "B/s"),
      format_seconds(communication.exposed)};
}

std::string describe_communication(const plan::Outlook& outlook) {
  if (!outlook.communication) {
    return "Communication between the " + format_count(outlook.processes) +
           " processes is not reckoned: how fast it is, is not known.\n";
  }
  const plan::Communication& communication = *outlook.communication;
  const plan::Traffic& traffic = communication.traffic;
  std::string parts;
  const auto add = [&](int64_t bytes, const char* what) {
    if (bytes == 0) return;
    parts += (parts.empty() ? "" : ", ") + format_quantity(static_cast<double>(bytes), "B") + " " + what;
  };
  add(traffic.gathered, "of parameters");
  add(traffic.reduced, "of gradients to where they are kept");
  add(traffic.summed, "of gradients summed over copies");
  std::string text = "Each GPU sends and receives " + parts;
  if (traffic.over_network > 0) {
    text += "; between nodes " + format_quantity(static_cast<double>(traffic.over_network), "B");
  }
  return text + ". Of " + format_seconds(communication.seconds) + " that takes, " +
         format_seconds(communication.hidden()) + " are taken to be hidden behind computing.\n";
}

}  // namespace

std::string describe_unknown_speed(config::Device device) {
  return device == config::Device::kCpu ? "No expected time: this CPU is not calibrated (fathom doctor --calibrate)."
                                        : "No expected time: configs/gpus.yaml does not list this GPU's speed.";
}

std::string format_time(const plan::Plan& plan, const plan::Outlook& outlook) {
  const plan::Arithmetic work = plan.arithmetic.whole();
  const auto& speed = outlook.throughput;
  Table table({{"work of a step", Align::kLeft}, {"amount"}, {speed ? "speed" : ""}, {speed ? "time" : ""}});
  const auto add = [&](const char* name, int64_t amount, const char* unit, double peak, double efficiency,
                       double seconds) {
    table.add_row({name, format_quantity(static_cast<double>(amount), unit),
                   speed ? share(efficiency, peak, std::string(unit) + "/s") : "",
                   speed ? format_seconds(seconds) : ""});
  };
  const plan::Throughput at = speed.value_or(plan::Throughput{});
  const plan::ExpectedTime time = outlook.step.value_or(plan::ExpectedTime{});
  const plan::ComputingTime computing = time.computing();
  add("matrix products", work.matrix_flops, "FLOP", at.matrix_flops_per_second, at.matrix_efficiency,
      computing.matrix_seconds);
  add("attention", work.attention_flops, "FLOP", at.attention_flops_per_second, at.attention_efficiency,
      computing.attention_seconds);
  add("everything else", work.bytes_moved, "B", at.bytes_per_second, at.memory_efficiency, computing.memory_seconds);
  if (speed && outlook.communication) table.add_row(communication_row(outlook));
  if (speed && speed->host_link) {
    table.add_row(
        {speed->host_link->hides > 0 ? "from the host's memory, not hidden" : "from the host's memory, and back",
         format_quantity(static_cast<double>(outlook.host_traffic), "B"),
         share(plan::kHostLinkEfficiency, speed->host_link->bytes_per_second, "B/s"),
         format_seconds(time.host_seconds)});
  }
  if (speed) {
    table.add_rule();
    table.add_row({format_count(outlook.step_tokens) + " tokens", "", "", format_seconds(time.seconds())});
  }
  std::string text = table.format();
  if (!speed) return text + describe_unknown_speed(plan.target.device) + "\n";
  std::string expected =
      "Expected, by " + speed->source + ": " + rounded_count(*outlook.tokens_per_second()) + " tokens a second";
  if (outlook.run) {
    expected += "; all " + format_count(outlook.run->steps) + " steps " + format_seconds(outlook.run->seconds) +
                " besides evaluation and saving";
  }
  expected += ".\nComputing takes " + format_seconds(time.parts.forward.seconds()) + " forward, " +
              format_seconds(time.parts.backward.seconds()) + " backward and " +
              format_seconds(time.parts.update.seconds()) + " for the update.\n";
  if (outlook.processes > 1) {
    expected += describe_communication(outlook);
    expected += "All " + format_count(outlook.processes) +
                " together: " + rounded_count(*outlook.tokens_per_second() * static_cast<double>(outlook.processes)) +
                " tokens a second" + (outlook.communication ? "" : ", without a loss to communication") +
                "; expected, and measured by nobody.\n";
  }
  return text + folded(expected);
}

std::string format_cost(const plan::Outlook& outlook) {
  const plan::Budget& budget = outlook.budget;
  std::string text;
  if (outlook.cost && !outlook.fits && !budget.gpu_hours) text += "The run does not fit. If it did: ";
  if (outlook.cost && budget.tokens && !budget.gpu_hours) text += short_count(*budget.tokens) + " tokens: ";
  return folded(outlook.cost ? text + describe_price(budget, *outlook.cost) : text);
}

std::string describe_price(const plan::Budget& budget, const plan::Cost& cost) {
  const auto hours = [](double count) { return count >= 100 ? rounded_count(count) : format_by("%.3g", count); };
  std::string text = hours(cost.gpu_hours) + " GPU hours";
  if (budget.gpus > 1) text += ", " + hours(cost.hours) + " hours on " + format_count(budget.gpus) + " GPUs";
  if (cost.price_per_hour > 0) {
    text += ", $" + (cost.dollars() >= 100 ? rounded_count(cost.dollars()) : format_by("%.2f", cost.dollars()));
    text += format_by(" at $%.2f an hour", cost.price_per_hour);
    if (budget.gpus > 1) text += " for all of them";
  } else {
    text += "; no price is known (--price-per-hour)";
  }
  return text + ".\n";
}

std::string format_host(const plan::HostMemory& host) {
  std::string text = "Host memory, at least: " + format_bytes(host.load_peak) + " to load, " +
                     format_bytes(host.train_peak) + " to train, " + format_bytes(host.save_peak) + " to save";
  text += "; the program itself takes " + format_bytes(host.program);
  if (host.offloaded > 0) text += ", what lies here for the GPU, pinned, " + format_bytes(host.offloaded);
  if (host.mapped_files > 0) {
    text += ". The weights' files, " + format_bytes(host.mapped_files) + ", are mapped and need no memory of their own";
  }
  return folded(text + ".\n");
}

std::string format_inference(const plan::Inference& inference, const std::optional<config::GpuSpec>& gpu) {
  bool exceeded = false;
  const auto cell = [&](int64_t bytes) {
    const bool exceeds = gpu && bytes > gpu->memory_bytes;
    exceeded = exceeded || exceeds;
    return exceeds ? std::string("(").append(format_gigabytes(bytes)).append(")") : format_gigabytes(bytes);
  };
  std::vector<Table::Column> columns = {{"sequences × tokens", Align::kLeft}};
  for (const auto& weights : inference.weights) columns.push_back({weights.format});
  columns.push_back({"cache alone"});
  Table table(columns);
  const auto add = [&](const std::string& what, int64_t cache_bytes) {
    std::vector<std::string> cells = {what};
    for (const auto& weights : inference.weights) cells.push_back(cell(weights.bytes + cache_bytes));
    cells.push_back(cache_bytes > 0 ? cell(cache_bytes) : std::string(kMissing));
    table.add_row(cells);
  };
  add("weights alone", 0);
  for (const auto& cache : inference.caches) {
    add(format_count(cache.batch) + " × " + format_count(cache.length), cache.bytes);
  }
  std::string text = "Weights and a 16-bit cache of keys and values, " + format_bytes(inference.cache_bytes_per_token) +
                     " a token. 8- and 4-bit weights without their scales.\n";
  if (gpu) {
    text += (exceeded ? "In parentheses: more than " : "All of it is less than ") + gpu->name + "'s " +
            format_gigabytes(gpu->memory_bytes) + " GB.\n";
  }
  return "Inference, in GB of 10^9 bytes as such figures are told (1 GiB = 1.074 GB)\n" + table.format() + folded(text);
}

std::string format_largest_blocks(const memory::Timeline& timeline, size_t rows) {
  const std::vector<memory::BlockGroup> groups = memory::groups_at_peak(timeline).in_order();
  if (groups.empty()) return "";
  Table table({{.title = "largest at the peak", .align = Align::kLeft, .folds = true},
               {"component", Align::kLeft},
               {"each"},
               {""},
               {"in all"}});
  for (size_t i = 0; i < std::min(rows, groups.size()); ++i) {
    const memory::BlockGroup& group = groups[i];
    table.add_row({group.what.empty() ? std::string(kMissing) : group.what,
                   std::string(component_name(group.component)), format_count(group.each),
                   group.count > 1 ? std::string("× ").append(format_count(group.count)) : std::string(),
                   format_bytes(group.bytes())});
  }
  return table.format();
}

std::string format_outlook(const plan::Plan& plan, const plan::Outlook& outlook) {
  std::string text;
  const std::string cost = format_cost(outlook);
  const auto add = [&](const std::string& section) {
    if (!section.empty()) text.append("\n").append(section);
  };
  add(format_largest_blocks(plan.timeline));
  add(format_host(outlook.host));
  text.append("\n").append(format_time(plan, outlook)).append(cost);
  return folded(text);
}

Json outlook_json(const plan::Plan& plan, const plan::Outlook& outlook) {
  Json json;
  const plan::Arithmetic work = plan.arithmetic.whole();
  json["arithmetic"] = {{"matrix_flops", work.matrix_flops},
                        {"attention_flops", work.attention_flops},
                        {"bytes_moved", work.bytes_moved},
                        {"tokens", outlook.step_tokens}};
  json["time"] = time_json(outlook);
  json["communication"] = communication_json(outlook);
  json["run"] = nullptr;
  if (outlook.run) {
    json["run"] = {{"steps", outlook.run->steps}, {"tokens", outlook.run->tokens}, {"seconds", outlook.run->seconds}};
  }
  json["cost"] = nullptr;
  if (outlook.cost) {
    const plan::Cost& cost = *outlook.cost;
    json["cost"] = {{"fits", outlook.fits},
                    {"gpu_hours", cost.gpu_hours},
                    {"gpus", outlook.budget.gpus},
                    {"hours", cost.hours},
                    {"price_per_hour", cost.price_per_hour > 0 ? Json(cost.price_per_hour) : Json(nullptr)},
                    {"dollars", cost.price_per_hour > 0 ? Json(cost.dollars()) : Json(nullptr)}};
  }
  json["host"] = {{"program", outlook.host.program},     {"mapped_files", outlook.host.mapped_files},
                  {"load_peak", outlook.host.load_peak}, {"train_peak", outlook.host.train_peak},
                  {"save_peak", outlook.host.save_peak}, {"offloaded", outlook.host.offloaded}};
  json["largest_blocks"] = Json::array();
  const memory::BlockGroups groups = memory::groups_at_peak(plan.timeline);
  for (const memory::BlockGroup& group : groups.in_order()) {
    if (json["largest_blocks"].size() == 10) break;
    json["largest_blocks"].push_back({{"what", group.what},
                                      {"component", component_name(group.component)},
                                      {"bytes", group.each},
                                      {"count", group.count}});
  }
  return json;
}

Json inference_json(const plan::Inference& inference) {
  Json weights = Json::array(), caches = Json::array();
  for (const auto& each : inference.weights) weights.push_back({{"format", each.format}, {"bytes", each.bytes}});
  for (const auto& each : inference.caches) {
    caches.push_back({{"batch", each.batch}, {"length", each.length}, {"bytes", each.bytes}});
  }
  return {{"parameters", inference.parameters},
          {"cache_bytes_per_token", inference.cache_bytes_per_token},
          {"weights", weights},
          {"caches", caches}};
}

}  // namespace fathom::report

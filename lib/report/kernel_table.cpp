// Rows are added up twice: by phase and part, and by operator.
#include "report/kernel_table.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "report/table.h"

namespace fathom::report {
namespace {

struct Sum {
  int64_t launches = 0, flops = 0, bytes = 0;
  double seconds = 0;  // at least
};

class Sums {
 public:
  Sums(const std::optional<config::GpuSpec>& gpu, bool tf32) : gpu_(gpu), tf32_(tf32) {}

  Sum of(const plan::KernelRow& row) const {
    const std::optional<double> seconds = gpu_ ? plan::least_seconds(row, *gpu_, tf32_) : std::nullopt;
    return {row.launches, row.flops(), row.bytes, seconds.value_or(0)};
  }
  bool have_times() const { return gpu_ && gpu_->memory_bytes_per_second > 0; }

  std::vector<std::string> cells(std::string name, const Sum& sum) const {
    std::vector<std::string> cells = {std::move(name)};
    if (gpu_) cells.push_back(format_count(sum.launches));
    cells.push_back(format_quantity(static_cast<double>(sum.bytes), "B"));
    cells.push_back(sum.flops == 0 ? "" : format_quantity(static_cast<double>(sum.flops), "FLOP"));
    if (have_times()) cells.push_back(format_seconds(sum.seconds));
    return cells;
  }
  Table table(const char* title) const {
    std::vector<Table::Column> columns = {{title, Align::kLeft, 0, true}};
    if (gpu_) columns.push_back({"launches"});
    columns.push_back({"moved"});
    columns.push_back({"products"});
    if (have_times()) columns.push_back({"at least"});
    return Table(columns);
  }

 private:
  const std::optional<config::GpuSpec>& gpu_;
  bool tf32_;
};

void add(const Sum& more, Sum& sum) {
  sum.launches += more.launches;
  sum.flops += more.flops;
  sum.bytes += more.bytes;
  sum.seconds += more.seconds;
}

std::vector<std::pair<std::string, Sum>> longest_first(const std::map<std::string, Sum>& sums) {
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.seconds, a.second.bytes) > std::pair(b.second.seconds, b.second.bytes);
  });
  return sorted;
}

// Without the words that every part begins with.
std::string shown(const std::string& part) {
  constexpr std::string_view kModel = "model.";
  if (part.empty()) return "all parameters";
  return part.starts_with(kModel) ? part.substr(kModel.size()) : part;
}

// What is little beside the whole, as one row at the end.
void add_rows(const Sums& sums, const std::map<std::string, Sum>& by_name, const Sum& all, Table& table) {
  constexpr int64_t kLittle = 200;  // the part of all bytes, products and launches below which a row is little
  Sum rest;
  int64_t left_out = 0;
  for (const auto& [name, sum] : longest_first(by_name)) {
    const bool little =
        sum.bytes < all.bytes / kLittle && sum.flops < all.flops / kLittle && sum.launches <= all.launches / kLittle;
    if (!little) {
      table.add_row(sums.cells(name, sum));
      continue;
    }
    add(sum, rest);
    left_out += 1;
  }
  if (left_out > 0) table.add_row(sums.cells(format_counted(left_out, "operator") + " more", rest));
}

}  // namespace

std::string format_kernels(const plan::KernelList& list, const std::optional<config::GpuSpec>& gpu, bool tf32) {
  const Sums sums(gpu, tf32);
  std::map<memory::Phase, std::map<std::string, Sum>> by_part;
  std::map<std::string, Sum> by_operator;
  Sum all;
  for (const plan::KernelRow& row : list.rows) {
    const Sum sum = sums.of(row);
    const std::string type = row.flops() > 0 ? ", " + std::string(dtype_name(row.type)) : "";
    add(sum, by_part[row.phase][shown(row.part)]);
    add(sum, by_operator[row.op + type]);
    add(sum, all);
  }
  all.launches = list.launches;
  Table parts = sums.table("part");
  for (const auto& [phase, its_parts] : by_part) {
    Sum of_phase;
    for (const auto& [part, sum] : its_parts) add(sum, of_phase);
    parts.add_row(sums.cells(std::string(memory::phase_name(phase)), of_phase));
    for (const auto& [part, sum] : longest_first(its_parts)) parts.add_row(sums.cells("  " + part, sum));
    parts.add_rule();
  }
  parts.add_row(sums.cells("step", all));
  Table operators = sums.table("operator");
  add_rows(sums, by_operator, all, operators);
  std::string text = parts.format() + "\n" + operators.format() + "\n";
  if (!gpu) return text;
  if (list.host_launches < list.launches) {
    text +=
        folded("Most of it is recorded: the host launches " + format_count(list.host_launches) + " times a step.\n");
  }
  return text + folded("The host gave the GPU this work in " + format_seconds(list.host_seconds) +
                       ", on this machine and without a driver. What a row takes at least is the longer of its bytes "
                       "and its products at the speeds of configs/gpus.yaml.\n");
}

Json kernels_json(const plan::KernelList& list, const std::optional<config::GpuSpec>& gpu, bool tf32) {
  Json json = plan::to_json(list);
  for (size_t i = 0; i < list.rows.size(); ++i) {
    const auto seconds = gpu ? plan::least_seconds(list.rows[i], *gpu, tf32) : std::nullopt;
    json["rows"][i]["least_seconds"] = seconds ? Json(*seconds) : Json(nullptr);
  }
  return json;
}

}  // namespace fathom::report

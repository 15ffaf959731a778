// Draws one bar: components at the peak, what the allocator adds, what is left or missing.
#include "page/verdict.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/json_value.h"
#include "page/html.h"
#include "page/run_record.h"

namespace fathom::page {
namespace {

constexpr const char* kThisMachine = "this machine";

using memory::Component;

// A stretch of the bar.
struct Part {
  std::string style, name;
  int64_t bytes = 0;
};

// What is held against the capacity; older files do not say it in one figure.
std::optional<int64_t> needed_of(const Json& memory, int64_t capacity) {
  if (const auto needed = bytes_at(memory, {"needed"})) return needed;
  if (const auto missing = bytes_at(memory, {"missing"}); missing && *missing > 0) {
    return checked_add(capacity, *missing, "what is needed");
  }
  for (const char* figure : {"reserved", "peak_with_scratch", "peak"}) {
    if (const auto bytes = bytes_at(memory, {figure, "dry_run"})) return bytes;
  }
  return std::nullopt;
}

// What the process of a run on the CPU takes at most, tensors and all; a memory_budget is of tensors alone.
std::optional<int64_t> most_resident_of(const Json& memory) {
  if (text_at(memory, {"target", "bounded_by"}) == "memory_budget") return std::nullopt;
  return bytes_at(memory, {"resident", "dry_run"});
}

// " reserved", " of tensors".
std::string kind_of_need(const Json& memory) {
  if (bytes_at(memory, {"reserved", "dry_run"})) return " reserved";
  const auto peak = bytes_at(memory, {"peak", "dry_run"}),
             with_scratch = bytes_at(memory, {"peak_with_scratch", "dry_run"});
  return peak && with_scratch && *with_scratch > *peak ? " of tensors and kernel scratch" : " of tensors";
}

std::vector<Part> parts_of(const Json& memory, int64_t needed) {
  std::vector<Part> parts;
  int64_t sum = 0;
  for (const Component component : memory::kComponents) {
    const std::string name(component_name(component));
    const auto bytes = bytes_at(memory, {"components", name.c_str(), "dry_run"}).value_or(0);
    if (bytes == 0) continue;
    parts.push_back({component_class(component), component_title(component), bytes});
    sum = checked_add(sum, bytes, "the components");
  }
  const auto most = most_resident_of(memory);
  const auto add_process = [&] {
    if (most && *most > needed) parts.push_back({"beside", "the process besides, at most", *most - needed});
  };
  if (sum > needed) {
    parts = {{"c3", "needed", needed}};
    add_process();
    return parts;
  }
  const bool gpu = bytes_at(memory, {"reserved", "dry_run"}).has_value();
  if (needed > sum) {
    parts.push_back(
        {"beside", gpu ? "rounding and gaps of the caching allocator" : "beside the components", needed - sum});
  }
  add_process();
  return parts;
}

std::string bar(const std::vector<Part>& parts, int64_t needed, const Capacity& capacity) {
  const auto whole = static_cast<double>(std::max<int64_t>({needed, capacity.bytes, 1}));
  const double limit = static_cast<double>(capacity.bytes) / whole;
  std::string stretches;
  for (const Part& part : parts) {
    stretches += "<i class=\"" + part.style + "\" style=\"width:" + percent(static_cast<double>(part.bytes) / whole) +
                 "\" title=\"" + escaped(part.name) + " " + format_bytes(part.bytes) + "\"></i>";
  }
  std::string text = "<div class=\"room\" aria-hidden=\"true\"><div class=\"bar\">" + stretches + "</div>";
  if (limit < 1) text += "<div class=\"over\" style=\"left:" + percent(limit) + "\"></div>";
  return text + "<div class=\"limit" + std::string(limit > 0.5 ? " before" : "") + "\" style=\"left:" + percent(limit) +
         "\"><span>" + escaped(capacity.name) + ": " + format_bytes(capacity.bytes) + "</span></div></div>\n";
}

}  // namespace

Capacity capacity_of(const Json& memory) {
  const bool budget = text_at(memory, {"target", "bounded_by"}) == "memory_budget";
  const std::string name = text_at(memory, {"target", "name"});
  return {budget                          ? "memory_budget"
          : name == "CPU" || name.empty() ? kThisMachine
                                          : name,
          bytes_at(memory, {"target", "capacity"}).value_or(0)};
}

std::string verdict_section(const Json& memory) {
  const Capacity capacity = capacity_of(memory);
  const auto needed = needed_of(memory, capacity.bytes);
  if (capacity.bytes == 0 || !needed) return "";
  const bool gpu = bytes_at(memory, {"reserved", "dry_run"}).has_value();
  const auto missing = bytes_at(memory, {"missing"}).value_or(std::max<int64_t>(0, *needed - capacity.bytes));
  const std::string has = escaped(capacity.name) + (capacity.name == "memory_budget" ? " is " : " has ") +
                          format_bytes(capacity.bytes) + (capacity.name == kThisMachine ? " free" : "");
  std::string takes = "The run needs " + format_bytes(*needed) + kind_of_need(memory);
  int64_t largest = *needed;
  if (const auto most = most_resident_of(memory); most && missing == 0) {
    takes += ", and at most " + format_bytes(*most) + " with all that the process takes besides";
    largest = std::max(largest, *most);
  }
  const int64_t room = capacity.bytes - largest;
  std::string style = "good", title = "Fits", detail = takes + ", " + has;
  if (room >= 0) detail += ": " + format_bytes(room) + " of headroom";
  if (missing > 0) {
    style = "bad";
    const std::string ran_out = text_at(memory, {"ran_out"});
    title = "Does not fit" + (ran_out.empty() ? ": " + format_bytes(missing) + " missing" : "");
    detail =
        !ran_out.empty()
            ? escaped(ran_out) + ". The figures below are of what was had until then"
            : takes + ", " + has +
                  ". The figures below are those of a run without limit. <code>fathom advise</code> finds what fits";
  } else if (text_at(memory, {"fit"}) == "not known") {
    style = "unsure";
    title = "Not known whether it fits";
    detail = takes + " until then, and " + has + "; " + escaped(text_at(memory, {"why_not_known"}));
  } else if (text_at(memory, {"fit"}) == "not proved") {
    style = "unsure";
    title = "Near the limit: not proved to fit";
    if (gpu) detail += ", less what the driver takes beside the allocator, which is not known here";
  } else if (gpu) {
    const auto whole = bytes_at(memory, {"device", "dry_run"});
    detail += whole ? ", of which the driver takes " + format_bytes(std::max<int64_t>(*whole - *needed, 0))
                    : ", enough for the driver's own share";
  }
  return "<section id=\"verdict\" class=\"" + style + "\">\n<h2>" + title + "</h2>\n<p>" + detail + ".</p>\n" +
         bar(parts_of(memory, *needed), largest, capacity) + "</section>\n";
}

}  // namespace fathom::page

// One table of all filters, and the names of those that are refused.
#include "jinja/filters.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "jinja/filter_table.h"

namespace fathom::jinja {
namespace {

constexpr std::array<std::string_view, 15> kRefused = {
    "attr",      "batch",    "filesizeformat", "forceescape", "groupby",   "pprint",   "random", "slice",
    "striptags", "truncate", "urlencode",      "urlize",      "wordcount", "wordwrap", "xmlattr"};

const FilterEntry* find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters(), order_filters()}) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const FilterEntry& entry) { return entry.name == name; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

bool has_filter(const std::string& name) { return find_filter(name) != nullptr; }

std::string missing_filter(const std::string& name) {
  const bool known = std::find(kRefused.begin(), kRefused.end(), name) != kRefused.end();
  return known ? "the filter '" + name + "' is not supported in chat templates" : "No filter named '" + name + "'.";
}

Value apply_filter(const std::string& name, const Value& operand, CallArguments arguments, Meter& meter) {
  meter.step();
  const FilterEntry* filter = find_filter(name);
  if (filter == nullptr) meter.fail(missing_filter(name));
  const Meter::Level level(meter);  // map('map', …) applies filters within filters
  return filter->apply(operand, std::move(arguments), meter);
}

}  // namespace fathom::jinja

// All filters by their names, and the names of those that are refused.
#include "jinja/filters.h"

#include <algorithm>
#include <iterator>

namespace fathom::jinja {
namespace {

constexpr std::string_view kRefused[] = {
    "abs",         "attr",      "batch",  "center",    "e",        "escape", "filesizeformat", "float",
    "forceescape", "groupby",   "pprint", "random",    "round",    "slice",  "striptags",      "sum",
    "truncate",    "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"};

const FilterEntry* find_filter(std::string_view name) {
  for (const auto table : {value_filters(), sequence_filters()}) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const FilterEntry& entry) { return entry.name == name; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

bool has_filter(const std::string& name) { return find_filter(name) != nullptr; }

std::string missing_filter(const std::string& name) {
  const bool known = std::find(std::begin(kRefused), std::end(kRefused), name) != std::end(kRefused);
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

// Adds up an instant and writes it out.
#include "plan/analytic_instant.h"

#include <utility>

#include "base/bytes.h"

namespace fathom::plan {

int64_t bytes_of(const Product& product) {
  int64_t bytes = 1;
  for (const Factor& factor : product) bytes = checked_multiply(bytes, factor.count, "a tensor of the plan");
  return bytes;
}

std::string format_product(const Product& product) {
  std::string text;
  for (const Factor& factor : product) {
    if (!text.empty() && !text.ends_with(" of ")) text += " × ";
    text += format_count(factor.count);
    if (*factor.unit != '\0') text += std::string(" ") + factor.unit;
    if (text.ends_with(" of")) text += " ";
  }
  return text;
}

Instant::Instant(std::string name) : name_(std::move(name)) {}

void Instant::add(ledger::Component component, const std::string& what, const Product& product) {
  const int64_t bytes = bytes_of(product);
  if (bytes == 0) return;
  alive_.push_back({component, what, product, bytes});
  components_[component] = checked_add(components_[component], bytes, what);
  total_ = checked_add(total_, bytes, what);
}

Analytic Instant::written_out() const {
  Analytic analytic;
  analytic.instant = name_;
  analytic.at_peak = components_;
  analytic.peak = total_;
  for (const ledger::Component component : ledger::kComponents) {
    for (const Alive& alive : alive_) {
      if (alive.component != component) continue;
      analytic.terms.push_back({component, alive.what, format_product(alive.product), 0, alive.bytes, ""});
    }
  }
  return analytic;
}

}  // namespace fathom::plan

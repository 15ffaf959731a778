// The derivation, component by component.
#include "plan/estimate/alive.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace fathom::plan {

std::vector<Analytic::Term> terms_of(const std::vector<Alive>& alive) {
  struct Line {
    const Alive* first;
    int64_t count = 0;
    std::set<int64_t> layers = {};
  };
  std::vector<Analytic::Term> terms;
  for (const memory::Component component : memory::kComponents) {
    std::vector<Line> lines;
    for (const Alive& each : alive) {
      if (each.component != component) continue;
      auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
        return (line.first->layer > 0) == (each.layer > 0) &&
               std::strcmp(line.first->tensor->what, each.tensor->what) == 0 &&
               line.first->tensor->product == each.tensor->product;
      });
      if (same == lines.end()) same = lines.insert(lines.end(), {&each});
      same->count += 1;
      if (each.layer > 0) same->layers.insert(each.layer);
    }
    for (const Line& line : lines) {
      auto layers = static_cast<int64_t>(line.layers.size());
      if (layers > 0 && line.count % layers != 0) layers = 0;
      const int64_t in_one = layers == 0 ? line.count : line.count / layers;
      Product product = line.first->tensor->product;
      if (in_one > 1) product.insert(product.begin(), {in_one, "of"});
      terms.push_back({component, line.first->tensor->what, format_product(product), layers,
                       line.count * line.first->bytes, line.first->tensor->source});
    }
  }
  return terms;
}

}  // namespace fathom::plan

// Sums over the events, and the largest of them written out.
#include "plan/analytic_account.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/bytes.h"

namespace fathom::plan {

using ledger::Component;

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

Account::~Account() {
  closing_ = true;
  kept_.clear();
}

Tensor Account::take(const char* what, const char* source, const Product& product) {
  const int64_t bytes = bytes_of(product);
  if (bytes == 0) return nullptr;
  live_ = checked_add(live_, bytes, what);
  blocks_.push_back({what, source, product, bytes, layer_});
  alive_.push_back(true);
  events_.push_back(static_cast<int64_t>(blocks_.size()));
  return std::make_shared<Held>(*this, blocks_.size() - 1);
}

Tensor Account::take(Component component, const char* what, const char* source, const Product& product) {
  Tensor tensor = take(what, source, product);
  claim(tensor, component);
  return tensor;
}

void Account::claim(const Tensor& tensor, Component component) {
  if (tensor) claim_block(tensor->block(), component);
}

void Account::claim_block(size_t block, Component component) {
  blocks_[block].component = component;
  blocks_[block].claimed = true;
}

void Account::keep(Tensor tensor) { kept_.push_back(std::move(tensor)); }

void Account::give_back(size_t block) {
  if (closing_) return;
  alive_[block] = false;
  live_ -= blocks_[block].bytes;
  events_.push_back(-static_cast<int64_t>(block) - 1);
}

void Account::begin_forward() { forwards_.push_back(blocks_.size()); }

void Account::end_forward() {
  for (size_t block = forwards_.back(); block < blocks_.size(); ++block) {
    if (alive_[block] && !blocks_[block].claimed) claim_block(block, Component::kActivations);
  }
  forwards_.pop_back();
}

void Account::enter(const char* pass, const char* part, int64_t layer) {
  places_.push_back({events_.size(), pass, part, layer});
}

std::string Account::Place::in_words() const {
  std::string words = pass;
  if (*part != '\0') words.append(" of ").append(part);
  return layer > 0 ? words + " in layer " + std::to_string(layer) : words;
}

Analytic Account::largest() const {
  Analytic analytic;
  ledger::ComponentBytes now;
  int64_t live = 0;
  size_t peak_event = 0;
  for (size_t event = 0; event < events_.size(); ++event) {
    const bool taken = events_[event] > 0;
    const Block& block = blocks_[static_cast<size_t>(std::abs(events_[event])) - 1];
    now[block.component] += taken ? block.bytes : -block.bytes;
    live += taken ? block.bytes : -block.bytes;
    analytic.maximum[block.component] = std::max(analytic.maximum[block.component], now[block.component]);
    if (live <= analytic.peak) continue;
    analytic.peak = live;
    analytic.at_peak = now;
    peak_event = event;
  }
  std::vector<bool> alive(blocks_.size());
  for (size_t event = 0; event <= peak_event && event < events_.size(); ++event) {
    alive[static_cast<size_t>(std::abs(events_[event])) - 1] = events_[event] > 0;
  }
  const auto next = std::upper_bound(places_.begin(), places_.end(), peak_event,
                                     [](size_t event, const Place& place) { return event < place.first_event; });
  if (next != places_.begin()) analytic.instant = std::prev(next)->in_words();
  write_out(alive, analytic);
  return analytic;
}

void Account::write_out(const std::vector<bool>& alive, Analytic& analytic) const {
  struct Line {
    const Block* block;
    int64_t count = 0;  // blocks of this kind: one for each layer that holds it, or several in one layer
    std::vector<int64_t> layers;
  };
  for (const Component component : ledger::kComponents) {
    std::vector<Line> lines;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      if (!alive[i] || block.component != component) continue;
      auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
        return std::strcmp(line.block->what, block.what) == 0 && (line.block->layer > 0) == (block.layer > 0) &&
               line.block->product == block.product;
      });
      if (same == lines.end()) same = lines.insert(lines.end(), {&block, 0, {}});
      same->count += 1;
      same->layers.push_back(block.layer);
    }
    for (Line& line : lines) {
      std::sort(line.layers.begin(), line.layers.end());
      int64_t layers = std::unique(line.layers.begin(), line.layers.end()) - line.layers.begin();
      if (line.block->layer == 0 || line.count % layers != 0) layers = 0;
      const int64_t in_one = layers == 0 ? line.count : line.count / layers;
      Product product = line.block->product;
      if (in_one > 1) product.insert(product.begin(), {in_one, "of"});
      analytic.terms.push_back({component, line.block->what, format_product(product), layers,
                                line.count * line.block->bytes, line.block->source});
    }
  }
}

}  // namespace fathom::plan

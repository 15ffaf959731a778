// Sums of products: what is alive at one instant of a step, each part with its numbers. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace fathom::plan {

// One number of a product, with the word that follows it: {8192, "tokens"}.
struct Factor {
  int64_t count = 0;
  const char* unit = "";
};
using Product = std::vector<Factor>;
// Throws Error where the product leaves int64.
int64_t bytes_of(const Product& product);
// "2 of 8,192 tokens × 4,096 × 4 bytes".
std::string format_product(const Product& product);

class Instant {
 public:
  explicit Instant(std::string name);
  // Products of 0 bytes are left out. Throws Error where the sum leaves int64.
  void add(ledger::Component component, const std::string& what, const Product& product);
  int64_t total() const { return total_; }
  const ledger::ComponentBytes& components() const { return components_; }
  // The instant as an estimate (all but `maximum`), terms in the order of components.
  Analytic written_out() const;

 private:
  struct Alive {
    ledger::Component component;
    std::string what;
    Product product;
    int64_t bytes;
  };
  std::string name_;
  std::vector<Alive> alive_;
  ledger::ComponentBytes components_;
  int64_t total_ = 0;
};

}  // namespace fathom::plan

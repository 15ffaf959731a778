// The account of a run: which tensors are taken and given back, in order, each as a product of numbers that a person
// can check. No torch header.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace fathom::plan {

// One number of a product, with the word that follows it: {8192, "tokens"}.
struct Factor {
  int64_t count = 0;
  const char* unit = "";
  bool operator==(const Factor&) const = default;
};
using Product = std::vector<Factor>;
// Throws Error where the product leaves int64.
int64_t bytes_of(const Product& product);
// "2 of 8,192 tokens × 4,096 × 4 bytes".
std::string format_product(const Product& product);

class Account {
 public:
  // Keeps one tensor alive; the tensor is given back when the last one that holds it lets go, as in LibTorch.
  class Held;
  using Tensor = std::shared_ptr<Held>;

  Account() = default;
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  // what and source (where the formula comes from) must outlive the account. Throws Error where the size or the sum of
  // all that is alive leaves int64. A product of 0 bytes gives no tensor.
  Tensor take(const char* what, const char* source, const Product& product);
  // The tensor belongs to this component from its beginning.
  Tensor take(ledger::Component component, const char* what, const char* source, const Product& product);
  void claim(const Tensor& tensor, ledger::Component component);
  // Forgets without giving back: it stays for ever.
  void keep(Tensor tensor);

  // Tensors that are taken between these two, that nobody claims and that are still alive at the second, are
  // activations; all others are temporary buffers.
  void begin_forward();
  void end_forward();
  // What is taken from now on belongs to this decoder layer (from 1) or to none (0); shows in the derivation.
  void enter_layer(int64_t layer) { layer_ = layer; }
  int64_t layer() const { return layer_; }
  // Where the run is from now on: enter("backward pass", "attention", 3). layer 0: of none. The words must outlive the
  // account.
  void enter(const char* pass, const char* part, int64_t layer);

  // Over all that was recorded: the first instant of the largest sum, written out, and every component's own maximum.
  Analytic largest() const;

 private:
  struct Block {
    const char* what;
    const char* source;
    Product product;
    int64_t bytes;
    int64_t layer;
    ledger::Component component = ledger::Component::kTemporaryBuffers;
    bool claimed = false;
  };
  struct Place {
    size_t first_event;
    const char *pass, *part;
    int64_t layer;
    std::string in_words() const;
  };
  void give_back(size_t block);
  void claim_block(size_t block, ledger::Component component);
  void write_out(const std::vector<bool>& alive, Analytic& analytic) const;

  std::deque<Block> blocks_;
  std::vector<int64_t> events_;  // block + 1 when it is taken, -(block + 1) when it is given back
  std::vector<Place> places_;
  std::vector<bool> alive_;
  std::vector<size_t> forwards_;  // first block of each forward pass that is open
  std::vector<Tensor> kept_;
  int64_t layer_ = 0, live_ = 0;
  bool closing_ = false;
};
using Tensor = Account::Tensor;

class Account::Held {
 public:
  Held(Account& account, size_t block) : account_(account), block_(block) {}
  ~Held() { account_.give_back(block_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  size_t block() const { return block_; }

 private:
  Account& account_;
  size_t block_;
};

}  // namespace fathom::plan

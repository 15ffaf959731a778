// Numbers that lie end to end and of which every rank keeps a piece: parameters of a unit, or states of these.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/group.h"
#include "ledger/ledger.h"
#include "model/units.h"

namespace fathom::dist {

// [first, first + count).
struct Range {
  int64_t first = 0, count = 0;
};

inline Range overlap(const Range& a, const Range& b) {
  const int64_t first = std::max(a.first, b.first);
  return {first, std::max<int64_t>(0, std::min(a.first + a.count, b.first + b.count) - first)};
}

// The whole is there while it is gathered: the memory of one storage comes and goes under tensors that keep their
// shapes, so that to autograd they stay what they are.
class ShardedRun {
 public:
  // A parameter or a state, whole, in the run's storage.
  struct Item {
    std::string name;
    at::Tensor tensor;
    Range range;  // of the run's numbers
  };
  struct Part {
    int64_t first = 0;  // in this rank's piece
    at::Tensor numbers;
  };

  // type: of the numbers; bytes, where the types of items are mixed.
  ShardedRun(Group& group, ledger::Ledger& ledger, int64_t unit, const at::TensorOptions& options, at::ScalarType type);

  // Gives the tensors the run's storage, one behind the other; they begin where cache lines do. block: a power of two;
  // pieces divide each only between so many numbers and the next.
  void lay_out(const std::vector<std::pair<std::string, at::Tensor>>& tensors, int64_t block);
  // Tensors of their own, which lie as those of `other` do and are called "<kind>.<name>". block: of how many numbers
  // of those each number is; as there, or 1.
  void lay_out_as(const ShardedRun& other, const std::string& kind, int64_t block);
  // The given tensors lie as the items of `other` do, of which each is a cast: this rank's piece is that one's, cast
  // when it is gathered.
  void lay_out_as_casts(const ShardedRun& other, const std::vector<at::Tensor>& tensors);
  // What this rank's piece is made of.
  void add_part(Part part) { parts_.push_back(std::move(part)); }

  int64_t unit() const { return unit_; }
  const std::vector<Item>& items() const { return items_; }
  const std::vector<Part>& parts() const { return parts_; }
  const at::TensorOptions& options() const { return options_; }
  at::ScalarType type() const { return c10::typeMetaToScalarType(options_.dtype()); }
  const c10::StorageImpl* storage() const { return whole_.storage().unsafeGetStorageImpl(); }
  int64_t piece() const { return piece_; }  // numbers
  Range piece_of(int64_t rank) const { return {rank * piece_, piece_}; }
  Range own() const { return piece_of(group_.rank()); }
  bool is_there() const { return is_there_; }
  bool is_filled() const { return is_filled_; }
  void set_filled() { is_filled_ = true; }

  void take();  // memory, uninitialised
  // Where it is not there: takes memory, and every rank's piece begins to come.
  void begin_gather();
  void finish_gather();
  void let_go();
  void store();  // this rank's piece of what is there
  // As UnitKeeper has it.
  std::vector<model::UnitKeeper::Kept> kept(const at::Tensor& tensor) const;

 private:
  void make_whole();

  Group& group_;
  ledger::Ledger& ledger_;
  int64_t unit_;
  at::TensorOptions options_;
  std::vector<Item> items_;
  std::vector<Part> parts_;
  at::Tensor whole_;
  int64_t piece_ = 0;
  bool is_there_ = false, is_filled_ = false;
  std::unique_ptr<Transfer> gathering_;
};

}  // namespace fathom::dist

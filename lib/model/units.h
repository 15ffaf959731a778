// The units that a pass through a model comes to one after the other, for who keeps their parameters elsewhere
// meanwhile: a process of several that hold the model in shares, or the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fathom::model {

// Unit 0 has the embeddings and what else belongs to no layer, each layer is one, and the last has the last norm and an
// untied head.
class UnitKeeper {
 public:
  virtual ~UnitKeeper() = default;
  // The unit's parameters are read from here on. A unit may come again before `after`.
  virtual void before(int64_t unit) = 0;
  // They were read. made: what is read next; where it needs a gradient, that is there before the backward pass reads
  // the unit's parameters again, and once all of the units behind have theirs.
  virtual void after(int64_t unit, const at::Tensor& made) = 0;
  // Instead of a forward pass without gradients, which others make.
  virtual void idle_pass() = 0;
  // Outside passes: what the storage of this parameter holds can be read and written until `close`, or until a
  // parameter of another unit is opened.
  virtual void open(const at::Tensor& parameter) = 0;
  virtual void close() = 0;
  // Outside passes: of the numbers of `from`, on the host, of the shape of the parameter or a view of it, takes those
  // that are kept here.
  virtual void fill(const at::Tensor& parameter, const at::Tensor& from) = 0;

  struct Kept {
    int64_t first = 0;  // byte of the tensor's memory
    at::Tensor bytes;   // [n], where they are kept
  };
  // Outside passes: what is kept here of the memory of a parameter, or of a view of it without gaps; in ascending
  // order. Nothing is gathered for it.
  virtual std::vector<Kept> kept(const at::Tensor& parameter) const = 0;
};

// Frees the memory of a tensor that keeps its shape. Nothing may read it until its storage is given other memory.
void let_go(const at::Tensor& tensor);

}  // namespace fathom::model

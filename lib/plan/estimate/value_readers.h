// Who reads a value of a layer, and what of it they want in their backward passes.
#pragma once

#include "arch/layer_program.h"
#include "plan/estimate/layer_operators.h"

namespace fathom::plan {

class ValueReaders {
 public:
  // Refers to both.
  ValueReaders(const LayerSubject& subject, const arch::LayerProgram& program) : subject_(subject), program_(program) {}

  // Projections or experts want it as it is.
  bool keep(size_t value) const;
  // Gradients that are made apart of it, and added up.
  int64_t gradients(size_t value) const;
  // How many branches read it behind the step.
  int64_t branches_behind(size_t value, size_t number) const;
  // Parallel branches read it, and it is made again: the feed-forward part, which goes backward first, has had it made,
  // and the step or one before it in the other branch wants it still.
  bool want_still(size_t value, size_t number) const;
  // Its readers keep it as it is, and round what they read (qat_activations): what attention made, narrow rows, and a
  // source. Other values are rounded by who makes them.
  bool round(size_t value) const;
  // A projection before that of this step has cast what both read to the type of adapters.
  bool cast_before(const arch::Step& step, size_t number) const;
  // In bytes of a number, where it is made again: cast for adapters.
  int64_t bytes_made_again(size_t value) const;

 private:
  bool keeps(const arch::Step& step, size_t value) const;

  const LayerSubject& subject_;
  const arch::LayerProgram& program_;
};

}  // namespace fathom::plan

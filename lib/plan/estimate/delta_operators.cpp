// By the sizes of the layer and of its texts.
#include "plan/estimate/delta_operators.h"

#include "base/rounding.h"
#include "footprint/delta.h"
#include "plan/estimate/parameter_gradients.h"

namespace fathom::plan {

footprint::Footprint delta_rule(const LayerSubject& subject) {
  const auto& its = std::get<arch::GatedDelta>(subject.spec.mixer);
  footprint::DeltaSizes sizes = {its.key_heads, its.value_heads, its.key_dim, its.value_dim};
  // A GPU takes a row of documents as one text.
  if (subject.batch.document_lengths.empty() || subject.step.cuda) {
    const int64_t length = subject.step.tokens / subject.batch.rows;
    sizes.texts = subject.batch.rows;
    sizes.chunks = sizes.texts * divide_up(length, footprint::kDeltaChunk);
    sizes.ragged = sizes.texts > 1 && length % footprint::kDeltaChunk != 0;
  } else {
    for (const int64_t length : subject.batch.document_lengths)
      sizes.chunks += divide_up(length, footprint::kDeltaChunk);
  }
  return footprint::delta_footprint(subject.step, sizes);
}

footprint::Tensors gradients_of_delta(const LayerSubject& subject) {
  const arch::DeltaNames names = subject.spec.names().delta;
  footprint::Tensors all;
  for (const char* name : {names.convolution, names.decay_rate, names.decay_bias}) {
    for (footprint::Bytes& each : gradients_of(subject.rows, name)) all.push_back(std::move(each));
  }
  return all;
}

}  // namespace fathom::plan

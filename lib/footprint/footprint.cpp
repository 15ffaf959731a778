// Sums of what is declared.
#include "footprint/footprint.h"

#include "base/bytes.h"

namespace fathom::footprint {

int64_t bytes_of(const Tensors& moment) {
  int64_t sum = 0;
  for (const Bytes& bytes : moment) sum = checked_add(sum, value_of(bytes.product), bytes.what);
  return sum;
}

Footprint elementwise(Footprint footprint) {
  for (const Tensors& moment : footprint.forward) footprint.forward_work.bytes += bytes_of(moment);
  footprint.backward_work.bytes = bytes_of(footprint.kept);
  for (const Tensors& moment : footprint.backward) footprint.backward_work.bytes += bytes_of(moment);
  return footprint;
}

}  // namespace fathom::footprint

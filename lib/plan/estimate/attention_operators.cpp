// Sizes of one layer's attention over one batch.
#include "plan/estimate/attention_operators.h"

#include "footprint/attention_output.h"
#include "footprint/biased_attention.h"
#include "plan/estimate/parameter_gradients.h"

namespace fathom::plan {

footprint::AttentionKernel kernel_of(const Target& target, int64_t head_size) {
  for (const auto kernel : {footprint::AttentionKernel::kMath, footprint::AttentionKernel::kMemoryEfficient,
                            footprint::AttentionKernel::kCudnn}) {
    if (target.attention_kernel.ends_with(footprint::kernel_name(kernel))) return kernel;
  }
  const bool beyond_flash = target.device == config::Device::kCuda && head_size > footprint::kLargestFlashHead;
  return beyond_flash ? footprint::AttentionKernel::kMemoryEfficient : footprint::AttentionKernel::kFlash;
}

footprint::Tensors gradients_of_sinks(const LayerSubject& subject) {
  if (!subject.spec.attention().sinks) return {};
  return gradients_of(subject.rows, subject.spec.names().attention.sinks);
}

namespace {

footprint::AttentionSizes attention_sizes(const LayerSubject& subject) {
  const arch::Attention& attention = subject.spec.attention();
  footprint::AttentionSizes sizes = {kernel_of(subject.target, attention.head_dim), subject.batch.rows,
                                     subject.batch.document_lengths};
  sizes.packed = !sizes.lengths.empty();
  if (!sizes.packed) sizes.lengths.assign(static_cast<size_t>(subject.batch.rows), subject.batch.length);
  sizes.heads = attention.heads;
  sizes.key_heads = attention.key_value_heads;
  sizes.head_size = attention.head_dim;
  sizes.window = attention.window;
  sizes.sinks = attention.sinks;
  sizes.trains_sinks = !gradients_of_sinks(subject).empty();
  sizes.amx = subject.target.amx && !subject.step.cuda && sizes.kernel == footprint::AttentionKernel::kFlash &&
              subject.run.precision.computed == DType::kBF16;
  sizes.threads = subject.target.threads;
  sizes.multiprocessors = subject.target.multiprocessors;
  sizes.wide_tiles = subject.target.compute_capability == "8.0" || subject.target.compute_capability == "9.0" ||
                     subject.target.compute_capability.starts_with("10.");
  return sizes;
}

}  // namespace

bool output_is_apart(const LayerSubject& subject) {
  return footprint::output_is_apart(subject.step, attention_sizes(subject));
}

footprint::Footprint kernel_attention(const LayerSubject& subject, bool differentiated, bool output_is_kept) {
  footprint::AttentionSizes sizes = attention_sizes(subject);
  sizes.output_is_kept = output_is_kept && !footprint::output_is_apart(subject.step, sizes);
  sizes.differentiated = differentiated;
  return footprint::attention_footprint(subject.step, sizes);
}

footprint::Footprint scores_attention(const LayerSubject& subject, int64_t keys, bool by_distance,
                                      bool differentiated) {
  const arch::Attention& attention = subject.spec.attention();
  footprint::BiasedAttentionSizes sizes;
  sizes.rows = subject.batch.rows;
  sizes.heads = attention.heads;
  sizes.key_heads = attention.key_value_heads;
  sizes.head_size = attention.head_dim;
  sizes.queries = subject.step.tokens / subject.batch.rows;
  sizes.keys = keys;
  sizes.by_distance = by_distance;
  sizes.trains_bias = by_distance && subject.gradients && subject.run.config.method == config::Method::kFull &&
                      subject.run.architecture.relative.has_value();
  sizes.dropout = subject.gradients && subject.run.architecture.dropout > 0;
  sizes.capped = by_distance && attention.softcap > 0;
  sizes.differentiated = differentiated;
  return footprint::biased_attention_footprint(subject.step, sizes);
}

}  // namespace fathom::plan

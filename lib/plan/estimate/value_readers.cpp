// By the steps of the layer's program.
#include "plan/estimate/value_readers.h"

#include <algorithm>
#include <set>

#include "plan/estimate/linear_sizes.h"

namespace fathom::plan {

using arch::Branch;
using arch::Step;
using arch::StepKind;

bool ValueReaders::keeps(const Step& step, size_t value) const {
  if (step.reads.front() != value) return false;
  if (step.kind == StepKind::kLinear) return linear_sizes(subject_, step.module).keeps_input();
  if (step.kind != StepKind::kExperts) return false;
  const char* experts = subject_.spec.names().feed_forward.experts;
  return linear_sizes(subject_, step.module).keeps_input() || linear_sizes(subject_, experts).keeps_input();
}

bool ValueReaders::keep(size_t value) const {
  return std::any_of(program_.steps.begin(), program_.steps.end(),
                     [&](const Step& step) { return keeps(step, value); });
}

int64_t ValueReaders::gradients(size_t value) const {
  const bool rounds = subject_.run.settings.fake_scheme.has_value();
  int64_t sum = 0;
  for (size_t number = 0; number < program_.steps.size(); ++number) {
    const Step& step = program_.steps[number];
    if (step.reads.front() != value) continue;
    if (step.kind == StepKind::kLinear) sum += rounds || step.sharing.front() == number ? 1 : 0;
    if (step.kind == StepKind::kExperts) sum += 2;
  }
  return sum;
}

int64_t ValueReaders::branches_behind(size_t value, size_t number) const {
  std::set<Branch> branches;
  for (++number; number < program_.steps.size(); ++number) {
    const Step& later = program_.steps[number];
    if (std::find(later.reads.begin(), later.reads.end(), value) != later.reads.end()) branches.insert(later.branch);
  }
  return std::ssize(branches);
}

bool ValueReaders::want_still(size_t value, size_t number) const {
  if (!subject_.spec.parallel || program_.steps[number].branch != Branch::kMixer) return false;
  bool by_mixer = false, by_feed_forward = false;
  for (size_t each = 0; each < program_.steps.size(); ++each) {
    if (!keeps(program_.steps[each], value)) continue;
    const bool mixes = program_.steps[each].branch == Branch::kMixer;
    by_mixer = by_mixer || (mixes && each <= number);
    by_feed_forward = by_feed_forward || !mixes;
  }
  return by_mixer && by_feed_forward;
}

bool ValueReaders::round(size_t value) const {
  if (subject_.run.config.qat_activations != config::QatActivations::kInt8) return false;
  if (program_.is_given(value)) return value == arch::LayerProgram::kSource;
  const StepKind made_by = program_.steps[program_.values[value].made_by].kind;
  return made_by == StepKind::kAttend || made_by == StepKind::kAttendSource || made_by == StepKind::kRowNorm ||
         made_by == StepKind::kSplit;
}

bool ValueReaders::cast_before(const Step& step, size_t number) const {
  if (subject_.step.adapter_bytes == subject_.step.compute_bytes || subject_.run.settings.fake_scheme) return false;
  return std::any_of(step.sharing.begin(), step.sharing.end(), [&](size_t each) {
    return each < number && linear_sizes(subject_, program_.steps[each].module).adapted;
  });
}

int64_t ValueReaders::bytes_made_again(size_t value) const {
  const bool adapted = std::any_of(program_.steps.begin(), program_.steps.end(), [&](const Step& step) {
    return keeps(step, value) && linear_sizes(subject_, step.module).adapted;
  });
  const bool casts = adapted && !subject_.run.settings.fake_scheme;
  return casts ? subject_.step.adapter_bytes : subject_.step.compute_bytes;
}

}  // namespace fathom::plan

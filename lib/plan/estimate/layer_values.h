// The values of a layer's program, while its operators are told one by one: what is known of each, and what it is
// called.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "arch/layer_program.h"
#include "plan/estimate/layer_operators.h"
#include "plan/estimate/value_readers.h"

namespace fathom::plan {

inline constexpr const char* kLayer = "a value of a layer; lib/model/decoder_layer.cpp";

// For who tells operators of the steps. Refers to the subject.
class LayerValues {
 protected:
  // What is known of a value of the program.
  struct Known {
    bool needs_gradient = false;
    bool is_kept = false;     // for backward passes, from the forward pass on, as it is
    bool made_again = false;  // for the backward passes of who reads it, from what is kept anyway
  };

  explicit LayerValues(const LayerSubject& subject)
      : subject_(subject),
        step_(subject.step),
        program_(arch::layer_program(subject.run.architecture, subject.spec)),
        readers_(subject, program_),
        rounds_(subject.run.config.qat_activations == config::QatActivations::kInt8),
        values_(program_.values.size()) {
    known(arch::LayerProgram::kStream).needs_gradient = subject.input_needs_gradient;
    known(arch::LayerProgram::kSource).needs_gradient = subject.source_needs_gradient;
  }

  Known& known(size_t value) { return values_[value]; }
  const Known& known(size_t value) const { return values_[value]; }
  bool any_needs_gradient(const arch::Step& step) const {
    return std::any_of(step.reads.begin(), step.reads.end(), [&](size_t read) { return known(read).needs_gradient; });
  }
  int64_t numbers_of(size_t value) const { return program_.values[value].width; }
  int64_t all_of(const std::vector<size_t>& values) const {
    return std::accumulate(values.begin(), values.end(), int64_t{0},
                           [&](int64_t sum, size_t value) { return sum + numbers_of(value); });
  }
  const footprint::StepSizes& step_of(size_t value) const {
    return program_.values[value].of_source ? subject_.source : step_;
  }
  Product wide(size_t value) const { return step_of(value).wide(numbers_of(value), step_.compute_bytes); }
  bool made_by(size_t value, arch::StepKind kind) const {
    return !program_.is_given(value) && program_.steps[program_.values[value].made_by].kind == kind;
  }
  bool is_stream(size_t value) const {
    return value == arch::LayerProgram::kStream || made_by(value, arch::StepKind::kAdd) ||
           made_by(value, arch::StepKind::kScaleStream);
  }
  bool is_stream_itself(size_t value) const {
    return made_by(value, arch::StepKind::kRead) && !step_.casts() && !rounds_;
  }
  bool is_input_of_branch(size_t value) const {
    return made_by(value, arch::StepKind::kNorm) || made_by(value, arch::StepKind::kRead);
  }
  footprint::Bytes input_of_branch(size_t value) const { return {"input of a branch", kLayer, wide(value)}; }
  footprint::Bytes alive(size_t value) const {
    if (is_input_of_branch(value)) return input_of_branch(value);
    if (is_stream(value)) {
      return {"residual stream, after attention", kLayer, step_.wide(numbers_of(value), step_.stored_bytes)};
    }
    return {"values of a branch so far", kLayer, wide(value)};
  }
  footprint::Bytes gradient_of_value(size_t value) const {
    const char* what = value == arch::LayerProgram::kSource ? "gradient of a source"
                       : is_input_of_branch(value)          ? "gradient of the layers' input"
                                                            : "gradients of values of a branch";
    return {what, footprint::kGradientSource, wide(value)};
  }
  footprint::Tensors kept_alone(size_t value, const char* what) const {
    return readers_.keep(value) ? footprint::Tensors{{what, kLayer, wide(value)}} : footprint::Tensors();
  }

  const LayerSubject& subject_;
  const footprint::StepSizes& step_;
  const arch::LayerProgram program_;
  const ValueReaders readers_;
  const bool rounds_;  // what linear layers read

 private:
  std::vector<Known> values_;
};

}  // namespace fathom::plan

// Texts and key heads are given to threads; what one of them does is in key_head.h.
#include "ops/delta/delta_heads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "ops/delta/key_head.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

// What one thread takes: a key head of a text.
struct Task {
  int64_t text = 0, head = 0, first = 0, length = 0, first_chunk = 0;
};

std::vector<Task> tasks_of(const arch::GatedDelta& delta, const DeltaTexts& texts) {
  std::vector<Task> tasks;
  Task task;
  for (const int64_t length : texts.lengths) {
    task.length = length;
    for (task.head = 0; task.head < delta.key_heads; ++task.head) tasks.push_back(task);
    ++task.text, task.first += length, task.first_chunk += divide_up(length, kDeltaChunk);
  }
  return tasks;
}

template <typename Use>
void for_each(const std::vector<Task>& tasks, const Use& use) {
  at::parallel_for(0, std::ssize(tasks), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) use(tasks[static_cast<size_t>(i)]);
  });
}

HeadRows rows_of(const DeltaInputs& inputs) {
  return {rows(inputs.mixed_TD), rows(inputs.strengths_TH), rows(inputs.decays_TH),
          inputs.rates_H.const_data_ptr<float>(), inputs.biases_H.const_data_ptr<float>()};
}

void add_up_into(const at::Tensor& sum_H, const std::vector<float>& of_texts) {
  if (!sum_H.defined()) return;
  const auto heads = static_cast<size_t>(sum_H.size(0));
  std::vector<float> sums(heads);
  for (size_t i = 0; i < of_texts.size(); ++i) sums[i % heads] += of_texts[i];
  cpu::convert({sums.data(), cpu::RowType::kF32}, rows(sum_H), 0, sum_H.size(0));
}

}  // namespace

bool has_delta_kernel(const DeltaInputs& inputs) {
  return has_kernel(inputs.mixed_TD) && has_kernel(inputs.strengths_TH) && has_kernel(inputs.decays_TH) &&
         inputs.rates_H.scalar_type() == at::kFloat && inputs.biases_H.scalar_type() == at::kFloat;
}

at::Tensor delta_of_heads(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts,
                          const at::Tensor& states) {
  at::Tensor out_TD = at::empty({inputs.mixed_TD.size(0), delta.values()}, inputs.mixed_TD.options());
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_delta", traffic(inputs.mixed_TD, out_TD));
  if (!out_TD.is_cpu()) return out_TD;
  const HeadRows its = rows_of(inputs);
  for_each(tasks_of(delta, texts), [&](const Task& task) {
    KeyHead head(delta, its, task.head);
    std::vector<float> zeros(states.defined() ? 0 : head.states_size());
    float* state = states.defined() ? states.data_ptr<float>() + task.text * delta.value_heads * head.state_size() +
                                          head.value_head(0) * head.state_size()
                                    : zeros.data();
    for (int64_t done = 0; done < task.length; done += kDeltaChunk) {
      head.load_chunk(task.first + done, std::min(kDeltaChunk, task.length - done));
      for (int64_t member = 0; member < head.group(); ++member) {
        float* its_state = state + member * head.state_size();
        head.load_value_head(member, its_state);
        head.answer(its_state, rows(out_TD));
        head.move_on(its_state);
      }
    }
  });
  return out_TD;
}

void delta_of_heads_backward(const arch::GatedDelta& delta, const DeltaInputs& inputs, const DeltaTexts& texts,
                             const at::Tensor& grad_TD, const DeltaGradients& made) {
  const at::Tensor borders = at::empty({texts.chunks(), delta.value_heads, delta.key_dim, delta.value_dim},
                                       grad_TD.options().dtype(at::kFloat));
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_delta_backward",
                                traffic(inputs.mixed_TD, inputs.mixed_TD, grad_TD, borders, borders));
  if (!grad_TD.is_cpu()) return;
  const HeadRows its = rows_of(inputs);
  const size_t heads = texts.lengths.size() * static_cast<size_t>(delta.value_heads);
  std::vector<float> of_rates(heads), of_biases(heads);
  for_each(tasks_of(delta, texts), [&](const Task& task) {
    KeyHead head(delta, its, task.head);
    const int64_t chunks = divide_up(task.length, kDeltaChunk), size = head.state_size();
    const auto border = [&](int64_t chunk, int64_t member) {
      return borders.data_ptr<float>() +
             ((task.first_chunk + chunk) * delta.value_heads + head.value_head(member)) * size;
    };
    const auto load = [&](int64_t chunk) {
      const int64_t done = chunk * kDeltaChunk;
      head.load_chunk(task.first + done, std::min(kDeltaChunk, task.length - done));
    };
    std::vector<float> states(head.states_size());
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      load(chunk);
      for (int64_t member = 0; member < head.group(); ++member) {
        float* state = states.data() + member * size;
        std::copy_n(state, size, border(chunk, member));
        if (chunk + 1 == chunks) continue;
        head.load_value_head(member, state);
        head.move_on(state);
      }
    }
    std::fill(states.begin(), states.end(), 0.0F);  // they are gradients of states from here on
    const int64_t first_head = task.text * delta.value_heads;
    const DeltaGradientRows to = {rows(grad_TD), rows(made.strengths_TH), rows(made.decays_TH),
                                  of_rates.data() + first_head, of_biases.data() + first_head};
    for (int64_t chunk = chunks - 1; chunk >= 0; --chunk) {
      load(chunk);
      head.begin_gradients();
      for (int64_t member = 0; member < head.group(); ++member) {
        head.load_value_head(member, border(chunk, member));
        const float* after = chunk + 1 < chunks ? border(chunk + 1, member) : nullptr;
        head.take_back(border(chunk, member), after, states.data() + member * size, to);
      }
      head.end_gradients();
    }
  });
  add_up_into(made.rates_H, of_rates);
  add_up_into(made.biases_H, of_biases);
}

}  // namespace fathom::ops

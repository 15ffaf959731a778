// The order of a run, whole where it is short or has few shapes, else by representatives.
#include "schedule/schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "schedule/frontier.h"

namespace fathom::schedule {
namespace {

bool is_due(config::Cadence cadence, int64_t every, const StepOrder& order, int64_t step) {
  switch (cadence) {
    case config::Cadence::kNo:
      return false;
    case config::Cadence::kSteps:
      return step % every == 0;
    case config::Cadence::kEpoch:
      return step % order.steps_per_epoch() == 0 || step == order.total_steps();
  }
  return false;
}

// Numbers the different values in the order in which they come.
template <typename Value>
class Numbers {
 public:
  int32_t of(const Value& value) {
    const auto [place, is_new] = numbers_.try_emplace(value, static_cast<int32_t>(values_.size()));
    if (is_new) values_.push_back(value);
    return place->second;
  }
  const std::vector<Value>& values() const { return values_; }

 private:
  std::map<Value, int32_t> numbers_;
  std::vector<Value> values_;
};

constexpr size_t kMostEvents = 20'000;  // of a list that is played as it is

// A run's order as it is found, both ways: as it is, and by representatives for the case that it is too long.
class Scheduler {
 public:
  // most_work: micro-batches, forwards and backwards, that may be played.
  Scheduler(int64_t window, int64_t most_work) : window_(window), most_work_(most_work) {}

  void set_evaluation(const std::vector<BatchShape>& batches) {
    Numbers<BatchShape> numbers;
    for (const BatchShape& batch : batches) {
      const int32_t number = numbers.of(batch);
      if (whole_.evaluation_order.size() < kMostEvents) whole_.evaluation_order.push_back(number);
    }
    whole_.all_events = std::ssize(whole_.evaluation_order) == std::ssize(batches);
    whole_.evaluation = numbers.values();
    // A forward pass alone takes a third.
    work_ += std::ssize(whole_.evaluation) / 3;
  }

  void set_answers(std::vector<AnswerShape> answers) { whole_.answers = std::move(answers); }

  void step(const StepShape& step) {
    const int64_t event = events_++;
    if (event < kFirst) {
      first_.push_back(step);
    } else {
      by_size_.add(step, event);
    }
    largest_.add(step, event);
    if (!fits()) return;
    const size_t known = numbers_.values().size();
    const int32_t number = numbers_.of(step);
    if (numbers_.values().size() > known) work_ += std::ssize(step);
    note(number);
  }

  void evaluate() {
    if (whole_.evaluation.empty()) return;
    if (!first_evaluation_) first_evaluation_ = events_;
    evaluations_ += 1;
    events_ += 1;
    if (fits()) note(Schedule::kEvaluation);
  }

  Schedule schedule() {
    if (!first_evaluation_) {
      whole_.evaluation.clear();
      whole_.evaluation_order.clear();
      whole_.answers.clear();
    }
    if (!fits()) return representatives();
    whole_.steps = numbers_.values();
    return whole_;
  }

 private:
  // Steps at the beginning, where libraries take their workspaces: they are played in any case.
  static constexpr int64_t kFirst = 2;

  bool fits() const { return work_ <= most_work_; }

  void note(int32_t event) {
    if (whole_.events.size() < kMostEvents) {
      whole_.events.push_back(event);
    } else {
      whole_.all_events = false;
    }
  }

  // Of a step with many micro-batches the first ones do: each later one finds the memory as the one before it did.
  static StepShape begin_of(const StepShape& step) {
    return {step.begin(), step.begin() + std::min<int64_t>(3, std::ssize(step))};
  }

  Schedule representatives() const {
    Schedule schedule;
    schedule.all_events = schedule.all_shapes = false;
    schedule.answers = whole_.answers;
    Frontier batches(window_, Frontier::Within::kSize);
    for (const BatchShape& batch : whole_.evaluation) batches.add(batch);
    for (const Frontier::Member& member : batches.members()) {
      schedule.evaluation_order.push_back(static_cast<int32_t>(schedule.evaluation.size()));
      schedule.evaluation.push_back(member.shape);
    }
    std::vector<StepFrontier::Member> members = by_size_.members();
    const auto work_of = [](const std::vector<StepFrontier::Member>& of) {
      int64_t work = 0;
      for (const StepFrontier::Member& member : of) work += 2 * std::ssize(member.step);
      return work;
    };
    if (work_of(members) > most_work_) members = largest_.members();
    std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    bool evaluated = false;
    const auto evaluate_before = [&](int64_t event) {
      if (evaluated || !first_evaluation_ || *first_evaluation_ > event) return;
      schedule.events.push_back(Schedule::kEvaluation);
      evaluated = true;
    };
    const auto add = [&](const StepShape& step, bool again) {
      const auto number = static_cast<int32_t>(schedule.steps.size());
      schedule.steps.push_back(step);
      schedule.events.insert(schedule.events.end(), again ? 2 : 1, number);
    };
    int64_t event = 0;
    for (const StepShape& step : first_) {
      evaluate_before(event++);
      add(begin_of(step), false);
    }
    for (const StepFrontier::Member& member : members) {
      evaluate_before(member.first);
      add(member.step, member.again);
    }
    // The last one finds all that the steps before it left. A run that evaluates before its first step alone has none.
    if (first_evaluation_ && (!evaluated || evaluations_ > 1)) schedule.events.push_back(Schedule::kEvaluation);
    return schedule;
  }

  int64_t window_, most_work_, work_ = 0, events_ = 0, evaluations_ = 0;
  Schedule whole_;
  Numbers<StepShape> numbers_;
  std::vector<StepShape> first_;
  StepFrontier by_size_{window_, Frontier::Within::kSize}, largest_{window_, Frontier::Within::kRows};
  std::optional<int64_t> first_evaluation_;
};

}  // namespace

bool evaluates_after(const config::RunConfig& config, const StepOrder& order, int64_t step) {
  return is_due(config.eval_strategy, evaluation_steps(config), order, step);
}

bool saves_after(const config::RunConfig& config, const StepOrder& order, int64_t step) {
  return is_due(config.save_strategy, config.save_steps, order, step);
}

Schedule make_schedule(const config::RunConfig& config, const arch::Architecture& architecture,
                       const data::Dataset& train, const data::Dataset& validation, const Start& start, int64_t played,
                       int64_t rank) {
  StepOrder order(config, train);
  order.seek(start.position);
  // What a step does beside its layers counts as two of them.
  Scheduler scheduler(architecture.sliding_window(), played / (architecture.num_hidden_layers() + 2));
  scheduler.set_evaluation(evaluation_shapes(config, validation, rank));
  scheduler.set_answers(answer_shapes(config, validation));
  if (start.evaluation_due) scheduler.evaluate();
  int64_t others = 0;
  for (int64_t step = start.step + 1; step <= order.total_steps(); ++step) {
    std::vector<std::vector<int64_t>> batches = order.next();
    const int64_t of_all = std::ssize(batches);
    const StepShape shape = shapes_of(config, train, std::move(batches), rank);
    scheduler.step(shape);
    if (shape.empty()) others = of_all;
    if (evaluates_after(config, order, step)) scheduler.evaluate();
  }
  Schedule schedule = scheduler.schedule();
  schedule.rank = rank;
  schedule.others = others;
  return schedule;
}

Schedule imagined_schedule(const std::vector<StepShape>& steps, const std::vector<BatchShape>& evaluation) {
  constexpr int kRepetitions = 6;  // more than any step took to settle
  Schedule schedule;
  schedule.all_events = false;
  schedule.steps = steps;
  schedule.evaluation = evaluation;
  for (int32_t number = 0; number < std::ssize(evaluation); ++number) schedule.evaluation_order.push_back(number);
  for (int32_t number = 0; number < std::ssize(steps); ++number) {
    schedule.events.insert(schedule.events.end(), kRepetitions, number);
  }
  if (!evaluation.empty()) schedule.events.push_back(Schedule::kEvaluation);
  return schedule;
}

}  // namespace fathom::schedule

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
  // most_work: micro-batches, forwards and backwards, that may be played. processes: that share the batches.
  Scheduler(int64_t window, int64_t most_work, int64_t processes)
      : window_(window), most_work_(most_work), processes_(processes) {}

  void set_evaluation(const std::vector<BatchShape>& batches, bool others_evaluate_one_more) {
    Numbers<BatchShape> numbers;
    for (const BatchShape& batch : batches) {
      const int32_t number = numbers.of(batch);
      if (whole_.evaluation_order.size() < kMostEvents) whole_.evaluation_order.push_back(number);
    }
    whole_.all_events = std::ssize(whole_.evaluation_order) == std::ssize(batches);
    whole_.evaluation = numbers.values();
    whole_.others_evaluate_one_more = others_evaluate_one_more;
    // A forward pass alone takes a third.
    work_ += std::ssize(whole_.evaluation) / 3;
  }

  void set_answers(std::vector<AnswerShape> answers) { whole_.answers = std::move(answers); }

  // batches: of all processes in it.
  void step(const StepShape& step, int64_t batches) {
    const int64_t event = events_++, of_all = batches == std::ssize(step) * processes_ ? 0 : batches;
    if (of_all > 0 && !uneven_) uneven_ = begin_of({step, of_all});
    if (event < kFirst) {
      first_.push_back(begin_of({step, of_all}));
    } else {
      by_size_.add(step, event);
    }
    largest_.add(step, event);
    if (!fits()) return;
    const size_t known = numbers_.values().size();
    const int32_t number = numbers_.of({step, of_all});
    if (numbers_.values().size() > known) work_ += std::ssize(step);
    note(number);
  }

  void evaluate() {
    if (whole_.evaluation.empty() && !whole_.others_evaluate_one_more) return;
    if (!first_evaluation_) first_evaluation_ = events_;
    evaluations_ += 1;
    events_ += 1;
    if (fits()) note(Schedule::kEvaluation);
  }

  Schedule schedule() {
    if (!first_evaluation_) {
      whole_.evaluation.clear();
      whole_.evaluation_order.clear();
      whole_.others_evaluate_one_more = false;
      whole_.answers.clear();
    }
    if (!fits()) return representatives();
    for (const Step& step : numbers_.values()) add(step, whole_);
    return whole_;
  }

 private:
  struct Step {
    StepShape shape;
    int64_t of_all = 0;
    auto operator<=>(const Step&) const = default;  // NOLINT(modernize-use-nullptr): of what the compiler writes
  };

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
  Step begin_of(const Step& step) const {
    const int64_t kept = std::min<int64_t>(3, std::ssize(step.shape));
    const int64_t left_out = (std::ssize(step.shape) - kept) * processes_;
    return {{step.shape.begin(), step.shape.begin() + kept}, step.of_all > 0 ? step.of_all - left_out : 0};
  }

  static int32_t add(const Step& step, Schedule& schedule) {
    schedule.steps.push_back(step.shape);
    schedule.of_all.push_back(step.of_all);
    return static_cast<int32_t>(schedule.steps.size()) - 1;
  }

  Schedule representatives() const {
    Schedule schedule;
    schedule.all_events = schedule.all_shapes = false;
    schedule.answers = whole_.answers;
    schedule.others_evaluate_one_more = whole_.others_evaluate_one_more;
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
    int64_t event = 0;
    for (const Step& step : first_) {
      evaluate_before(event++);
      schedule.events.push_back(add(step, schedule));
    }
    for (const StepFrontier::Member& member : members) {
      evaluate_before(member.first);
      schedule.events.insert(schedule.events.end(), member.again ? 2 : 1, add({member.step}, schedule));
    }
    if (uneven_) schedule.events.push_back(add(*uneven_, schedule));
    // The last one finds all that the steps before it left. A run that evaluates before its first step alone has none.
    if (first_evaluation_ && (!evaluated || evaluations_ > 1)) schedule.events.push_back(Schedule::kEvaluation);
    return schedule;
  }

  int64_t window_, most_work_, processes_, work_ = 0, events_ = 0, evaluations_ = 0;
  Schedule whole_;
  Numbers<Step> numbers_;
  std::vector<Step> first_;
  std::optional<Step> uneven_;  // the first one of which not all have as many batches
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
  Scheduler scheduler(architecture.sliding_window(), played / (architecture.num_hidden_layers() + 2),
                      config.num_processes);
  std::vector<std::vector<int64_t>> evaluated = evaluation_rows(config, validation);
  const bool others_evaluate_one_more = others_have_one_more(std::ssize(evaluated), rank, config.num_processes);
  scheduler.set_evaluation(shapes_of(config, validation, std::move(evaluated), rank), others_evaluate_one_more);
  scheduler.set_answers(answer_shapes(config, validation));
  if (start.evaluation_due) scheduler.evaluate();
  for (int64_t step = start.step + 1; step <= order.total_steps(); ++step) {
    std::vector<std::vector<int64_t>> batches = order.next();
    const int64_t of_all = std::ssize(batches);
    scheduler.step(shapes_of(config, train, std::move(batches), rank), of_all);
    if (evaluates_after(config, order, step)) scheduler.evaluate();
  }
  Schedule schedule = scheduler.schedule();
  schedule.rank = rank;
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

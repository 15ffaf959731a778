// The order of a run, whole where it is short or has few shapes, else by representatives.
#include "schedule/schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "schedule/frontier.h"
#include "schedule/recordings.h"

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
  // most_work: micro-batches, forwards and backwards, that may be played. processes: that share the batches. records:
  // the layers, of steps of one batch.
  Scheduler(const KernelTraits& traits, int64_t most_work, int64_t processes, bool records)
      : traits_(traits), most_work_(most_work), processes_(processes) {
    if (records) recordings_.emplace();
  }

  // Before set_evaluation.
  void set_reference(const std::vector<BatchShape>& batches) {
    add_passes(batches, whole_.reference_order);
    references_ = whole_.evaluation.size();
    if (references_ > 0) whole_.events.push_back(Schedule::kReference);
  }

  void set_evaluation(const std::vector<BatchShape>& batches, bool others_evaluate_one_more) {
    add_passes(batches, whole_.evaluation_order);
    whole_.others_evaluate_one_more = others_evaluate_one_more;
    work_ += evaluation_work(1);
  }

  void set_answers(std::vector<AnswerShape> answers) { whole_.answers = std::move(answers); }

  // batches: of all processes in it.
  void step(const StepShape& shape, int64_t batches) {
    const int64_t event = events_++;
    const Step step{shape, batches == std::ssize(shape) * processes_ ? 0 : batches};
    if (step.of_all > 0 && !uneven_) uneven_ = step;
    if (event < kFirst) first_.push_back(step);
    const int64_t stage = recordings_ && !shape.empty() ? recordings_->stage_of(shape.front(), event) : 0;
    by_size_.add(shape, event, stage);
    by_rows_.add(shape, event, stage);
    for (const BatchShape& batch : shape) whole_.extent.widen(batch);
    if (!fits()) return;
    const size_t known = numbers_.values().size();
    const int32_t number = numbers_.of(step);
    if (numbers_.values().size() > known) work_ += std::ssize(shape);
    note(number);
  }

  void evaluate() {
    if (whole_.evaluation.empty() && !whole_.others_evaluate_one_more) return;
    if (!first_evaluation_) first_evaluation_ = events_;
    last_evaluation_ = events_;
    evaluations_ += 1;
    events_ += 1;
    if (fits()) note(Schedule::kEvaluation);
  }

  Schedule schedule() {
    if (!first_evaluation_) {
      whole_.evaluation.resize(references_);
      whole_.evaluation_order.clear();
      whole_.others_evaluate_one_more = false;
      whole_.answers.clear();
    }
    for (const BatchShape& batch : whole_.evaluation) whole_.extent.widen(batch);
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
  // Of members of the frontiers.
  struct MadeUp {
    StepShape shape;
    int64_t first = 0;  // event at which all of them had come
    bool again = false;
    void take(const Frontier::Member& member) {
      shape.push_back(member.shape);
      first = std::max(first, member.first);
      again = again || member.again;
    }
  };

  // Steps at the beginning, where libraries take their workspaces: they are played in any case.
  static constexpr int64_t kFirst = 2;

  // The different ones of these batches behind what there is to evaluate, and their order, in which each of them stands
  // however long it is.
  void add_passes(const std::vector<BatchShape>& batches, std::vector<int32_t>& order) {
    Numbers<BatchShape> numbers;
    const auto before = static_cast<int32_t>(whole_.evaluation.size());
    for (const BatchShape& batch : batches) {
      const size_t known = numbers.values().size();
      const int32_t number = numbers.of(batch);
      const bool is_new = numbers.values().size() > known;
      if (is_new || order.size() < kMostEvents) order.push_back(before + number);
    }
    whole_.all_events = whole_.all_events && std::ssize(order) == std::ssize(batches);
    whole_.evaluation.insert(whole_.evaluation.end(), numbers.values().begin(), numbers.values().end());
  }

  bool fits() const { return work_ <= most_work_; }

  void note(int32_t event) {
    if (whole_.events.size() < kMostEvents) {
      whole_.events.push_back(event);
    } else {
      whole_.all_events = false;
    }
  }

  static int32_t add(const Step& step, Schedule& schedule) {
    schedule.steps.push_back(step.shape);
    schedule.of_all.push_back(step.of_all);
    return static_cast<int32_t>(schedule.steps.size()) - 1;
  }

  Step with_fewer(const Step& step, Frontier::Within within) const {
    Step fewer{reduced(step.shape, traits_, within), 0};
    const int64_t left_out = (std::ssize(step.shape) - std::ssize(fewer.shape)) * processes_;
    if (step.of_all > 0) fewer.of_all = step.of_all - left_out;
    return fewer;
  }

  // Steps in which every member of the frontiers has its role that the first steps do not have, or that came again; and
  // those that lead to recordings, as they come.
  std::vector<MadeUp> made_up(const RoleFrontiers& frontiers) const {
    const std::map<int64_t, BatchShape> recorded =
        recordings_ ? recordings_->needed() : std::map<int64_t, BatchShape>();
    const auto wanted = [&](Role role) {
      std::vector<Frontier::Member> members = frontiers.of(role).members();
      std::erase_if(members, [&](const Frontier::Member& member) {
        return !member.again && (member.first < kFirst || recorded.contains(member.first));
      });
      return members;
    };
    std::vector<MadeUp> steps;
    for (const auto& [event, batch] : recorded) {
      if (event >= kFirst) steps.push_back({{batch}, event});
    }
    for (const Frontier::Member& only : wanted(Role::kOnly)) steps.emplace_back().take(only);
    const std::vector<Frontier::Member> between = wanted(Role::kBetween);
    std::vector<Frontier::Member> first = wanted(Role::kFirst), last = wanted(Role::kLast);
    const size_t count = std::max({first.size(), last.size(), size_t{between.empty() ? 0U : 1U}});
    if (count > 0 && first.empty()) first.push_back(frontiers.of(Role::kFirst).members().front());
    if (count > 0 && last.empty()) last.push_back(frontiers.of(Role::kLast).members().front());
    for (size_t i = 0; i < count; ++i) {
      MadeUp& step = steps.emplace_back();
      step.take(first[std::min(i, first.size() - 1)]);
      for (size_t j = i * between.size() / count; j < (i + 1) * between.size() / count; ++j) step.take(between[j]);
      step.take(last[std::min(i, last.size() - 1)]);
    }
    std::stable_sort(steps.begin(), steps.end(), [](const MadeUp& a, const MadeUp& b) { return a.first < b.first; });
    return steps;
  }

  struct Representatives {
    std::vector<Step> first;
    std::vector<MadeUp> others;
    std::optional<Step> uneven;
    int64_t work() const {
      int64_t micro_batches = 0;
      for (const Step& step : first) micro_batches += std::ssize(step.shape);
      for (const MadeUp& step : others) micro_batches += 2 * std::ssize(step.shape);
      return micro_batches;
    }
  };
  Representatives represented(const RoleFrontiers& frontiers, Frontier::Within within) const {
    Representatives by{{}, made_up(frontiers), std::nullopt};
    for (const Step& step : first_) by.first.push_back(with_fewer(step, within));
    if (uneven_) by.uneven = with_fewer(*uneven_, within);
    return by;
  }

  // In micro-batches: a forward pass alone takes a third.
  int64_t evaluation_work(int64_t times) const { return times * std::ssize(whole_.evaluation) / 3; }

  // As it is, where all of it, played twice, is no more than `work`.
  void represent_evaluation(Schedule& schedule, int64_t work) const {
    const bool listed = std::max(whole_.evaluation_order.size(), whole_.reference_order.size()) < kMostEvents;
    if (listed && evaluation_work(2) <= work) {
      schedule.evaluation = whole_.evaluation;
      schedule.evaluation_order = whole_.evaluation_order;
      schedule.reference_order = whole_.reference_order;
      return;
    }
    const auto represent = [&](size_t begin, size_t end, std::vector<int32_t>& order) {
      Frontier batches(traits_, Frontier::Within::kSize);
      for (size_t i = begin; i < end; ++i) batches.add(whole_.evaluation[i]);
      for (const Frontier::Member& member : batches.members()) {
        order.push_back(static_cast<int32_t>(schedule.evaluation.size()));
        schedule.evaluation.push_back(member.shape);
      }
    };
    represent(0, references_, schedule.reference_order);
    represent(references_, whole_.evaluation.size(), schedule.evaluation_order);
  }

  // Every shape of every step is one of these, or covered by one of these that a step treats alike.
  Schedule representatives() const {
    Schedule schedule;
    schedule.all_events = schedule.all_shapes = false;
    schedule.extent = whole_.extent;
    schedule.answers = whole_.answers;
    schedule.others_evaluate_one_more = whole_.others_evaluate_one_more;
    Representatives steps = represented(by_size_, Frontier::Within::kSize);
    if (steps.work() > most_work_) steps = represented(by_rows_, Frontier::Within::kRows);
    // The last one finds all that the steps before it left; what is recorded behind it is not among that.
    std::vector<int64_t> evaluations;
    if (first_evaluation_) evaluations.push_back(*first_evaluation_);
    if (evaluations_ > 1) evaluations.push_back(recordings_ ? last_evaluation_ : events_);
    represent_evaluation(schedule, most_work_ - steps.work());
    size_t evaluated = 0;
    const auto evaluate_before = [&](int64_t event) {
      for (; evaluated < evaluations.size() && evaluations[evaluated] <= event; ++evaluated) {
        schedule.events.push_back(Schedule::kEvaluation);
      }
    };
    int64_t event = 0;
    if (references_ > 0) schedule.events.push_back(Schedule::kReference);
    for (const Step& step : steps.first) {
      evaluate_before(event++);
      schedule.events.push_back(add(step, schedule));
    }
    for (const MadeUp& step : steps.others) {
      evaluate_before(step.first);
      schedule.events.insert(schedule.events.end(), step.again ? 2 : 1, add({step.shape}, schedule));
    }
    if (steps.uneven) schedule.events.push_back(add(*steps.uneven, schedule));
    evaluate_before(events_);
    return schedule;
  }

  KernelTraits traits_;
  size_t references_ = 0;  // of what there is to evaluate, the first: batches of the reference's pass
  int64_t most_work_, processes_, work_ = 0, events_ = 0, evaluations_ = 0;
  Schedule whole_;
  Numbers<Step> numbers_;
  std::vector<Step> first_;
  std::optional<Step> uneven_;  // the first one of which not all have as many batches
  RoleFrontiers by_size_{traits_, Frontier::Within::kSize}, by_rows_{traits_, Frontier::Within::kRows};
  std::optional<int64_t> first_evaluation_;
  int64_t last_evaluation_ = 0;
  std::optional<Recordings> recordings_;  // set: the layers are recorded
};

}  // namespace

bool evaluates_after(const config::RunConfig& config, const StepOrder& order, int64_t step) {
  return is_due(config.eval_strategy, evaluation_steps(config), order, step);
}

bool saves_after(const config::RunConfig& config, const StepOrder& order, int64_t step) {
  return is_due(config.save_strategy, config.save_steps, order, step);
}

Schedule make_schedule(const arch::Run& run, const data::Dataset& train, const data::Dataset& validation,
                       const Start& start, int64_t played, int64_t rank) {
  const config::RunConfig& config = run.config;
  const KernelTraits traits = kernel_traits(run.architecture);
  StepOrder order(config, train);
  order.seek(start.position);
  // What a step does beside its layers counts as two of them.
  Scheduler scheduler(traits, played / (run.architecture.num_hidden_layers() + 2), config.num_processes,
                      config.cuda_graphs);
  if (config::row_of(config.objective).needs_reference && !start.resumed) {
    std::vector<BatchShape> reference = shapes_of(config, train, evaluation_rows(config, train));
    for (BatchShape& batch : shapes_of(config, validation, evaluation_rows(config, validation))) {
      reference.push_back(std::move(batch));
    }
    scheduler.set_reference(reference);
  }
  std::vector<std::vector<int64_t>> evaluated = evaluation_rows(config, validation);
  const bool others_evaluate_one_more = others_have_one_more(std::ssize(evaluated), rank, config.num_processes);
  scheduler.set_evaluation(shapes_of(config, validation, std::move(evaluated), rank), others_evaluate_one_more);
  scheduler.set_answers(answer_shapes(config, validation, traits));
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

Schedule imagined_schedule(const std::vector<StepShape>& steps, const std::vector<BatchShape>& evaluation,
                           const std::vector<BatchShape>& reference) {
  constexpr int kRepetitions = 6;  // more than any step took to settle
  Schedule schedule;
  schedule.all_events = false;
  schedule.steps = steps;
  const auto add_passes = [&](const std::vector<BatchShape>& batches, std::vector<int32_t>& order) {
    for (const BatchShape& batch : batches) {
      order.push_back(static_cast<int32_t>(schedule.evaluation.size()));
      schedule.evaluation.push_back(batch);
      schedule.extent.widen(batch);
    }
  };
  add_passes(reference, schedule.reference_order);
  add_passes(evaluation, schedule.evaluation_order);
  if (!reference.empty()) schedule.events.push_back(Schedule::kReference);
  for (const StepShape& step : steps) {
    for (const BatchShape& batch : step) schedule.extent.widen(batch);
  }
  for (int32_t number = 0; number < std::ssize(steps); ++number) {
    schedule.events.insert(schedule.events.end(), kRepetitions, number);
  }
  if (!evaluation.empty()) schedule.events.push_back(Schedule::kEvaluation);
  return schedule;
}

}  // namespace fathom::schedule

// Lines in, a tree of processes, the most that its branches hold at once.
#include "launch/facts.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <sstream>

#include "base/error.h"

namespace fathom::launch {
namespace {

constexpr size_t kNone = SIZE_MAX;

Share operator+(const Share& a, const Share& b) { return {a.bytes + b.bytes, a.processes + b.processes}; }
Share operator-(const Share& a, const Share& b) { return {a.bytes - b.bytes, a.processes - b.processes}; }

// What a process does, in its own order.
struct Event {
  enum Kind { kBecomes, kHas, kStarts, kKnowsEnd } kind;
  int64_t number = 0;    // kHas: of the device; kStarts: of its fork, 0: it was no fork
  int64_t bytes = 0;     // of the device
  size_t child = kNone;  // kStarts: none as long as the child of the fork has told nothing
};

// What runs in a process until another program takes its place.
struct Program {
  std::string command;
  bool is_python = false, has_agent = false, has_ended = false, has_torch = false;
  bool is_late = false;  // it has found torch where its agent could not prepare for it
  bool is_unfollowed() const { return is_late || (!has_agent && (has_torch || (is_python && !has_ended))); }
};

struct Process {
  int64_t number = 0;
  size_t parent = kNone;
  bool started = false;                              // its parent has told when
  bool reaped = false, known_to_have_ended = false;  // by its parent
  bool ignores_interrupts = false;                   // as what a shell has in the background, where the shell does not
  Program program = {};
  std::vector<Event> events = {};
  std::vector<size_t> starts = {};  // of these, the places of kStarts
  std::vector<size_t> waited = {};  // for one of any, while others ran: which one came first is chance
};

// What a process and those that it started hold at most while it runs, and those that go on after its end.
struct Most {
  Share peak, after;
};

class Reader {
 public:
  void read(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    int64_t pid = 0;
    words >> what >> pid;
    if (what == "begins") {
      begins(pid, words);
    } else if (what == "ends") {
      Program& program = of(pid).program;
      words >> program.has_torch;
      program.has_ended = true;
    } else if (what == "forks") {
      int64_t number = 0;
      words >> number >> of(pid).ignores_interrupts;
      starts(index_of(pid), {Event::kStarts, number});
    } else if (what == "forked") {
      int64_t parent = 0, number = 0;
      words >> parent >> number;
      forked(pid, parent, number);
    } else if (what == "started") {
      int64_t parent = 0;
      words >> parent;
      started(pid, parent);
    } else if (what == "waited" || what == "waited-any" || what == "reaped") {
      int64_t child = 0;
      words >> child >> of(pid).ignores_interrupts;
      ended(index_of(pid), child, what);
    } else if (what == "has") {
      Event event{Event::kHas};
      words >> event.number >> event.bytes;
      of(pid).events.push_back(event);
      devices_.insert(event.number);
    } else if (what == "agent") {
      of(pid).program.has_agent = true;
    } else if (what == "late") {
      of(pid).program.is_late = true;
    } else if (what == "torch") {
      facts_.with_torch.push_back(pid);
    } else if (what == "lacks") {
      words >> facts_.lacks.emplace_back();
    } else {
      words.setstate(std::ios::failbit);
    }
    if (words.fail()) throw Error("'" + line + "' is no fact of a process");
  }

  Facts facts() {
    for (const Process& process : processes_) look_at(process.program);
    for (const int64_t device : devices_) {
      Share& most = facts_.devices[device];
      for (size_t i = 0; i < processes_.size(); ++i) {
        if (processes_[i].parent == kNone) most = most + most_of(i, device).peak;
      }
    }
    return facts_;
  }

 private:
  size_t index_of(int64_t pid) {
    const auto found = latest_.find(pid);
    return found != latest_.end() ? found->second : add(pid, kNone);
  }
  Process& of(int64_t pid) { return processes_[index_of(pid)]; }

  size_t add(int64_t pid, size_t parent) {
    Process process{.number = pid, .parent = parent};
    if (parent != kNone) process.ignores_interrupts = processes_[parent].ignores_interrupts;
    processes_.push_back(std::move(process));
    return latest_[pid] = processes_.size() - 1;
  }

  void look_at(const Program& program) {
    auto& all = facts_.unfollowed;
    if (!program.is_unfollowed() || std::find(all.begin(), all.end(), program.command) != all.end()) return;
    all.push_back(program.command);
  }

  void begins(int64_t pid, std::istringstream& words) {
    int64_t parent = 0;
    Program program;
    bool ignores_interrupts = false;
    words >> parent >> ignores_interrupts >> program.is_python;
    std::getline(words >> std::ws, program.command);
    if (words.eof()) words.clear();  // a command without words
    if (!latest_.contains(pid)) add(pid, latest_.contains(parent) ? latest_[parent] : kNone);
    Process& process = of(pid);
    process.ignores_interrupts = ignores_interrupts;
    look_at(process.program);
    process.program = std::move(program);
    process.events.push_back({Event::kBecomes});
  }

  void forked(int64_t pid, int64_t parent, int64_t number) {
    const size_t from = index_of(parent), child = add(pid, from);
    Process& process = processes_[child];
    process.program = processes_[from].program;
    process.program.has_ended = false;
    const auto& starts = processes_[from].starts;
    auto& events = processes_[from].events;
    const auto fork = std::find_if(starts.rbegin(), starts.rend(), [&](size_t place) {
      return events[place].number == number && events[place].child == kNone;
    });
    if (fork == starts.rend()) return;
    events[*fork].child = child;
    process.started = true;
  }

  // Each place where a program is looked for may tell it.
  void started(int64_t pid, int64_t parent) {
    const size_t from = index_of(parent);
    const auto found = latest_.find(pid);
    const bool is_known =
        found != latest_.end() && processes_[found->second].parent == from && !processes_[found->second].reaped;
    const size_t child = is_known ? found->second : add(pid, from);
    if (processes_[child].started) return;
    processes_[child].started = true;
    starts(from, {.kind = Event::kStarts, .child = child});
  }

  void starts(size_t index, const Event& event) {
    Process& process = processes_[index];
    process.starts.push_back(process.events.size());
    process.events.push_back(event);
  }

  void ended(size_t waiter, int64_t pid, const std::string& how) {
    const auto found = latest_.find(pid);
    if (found == latest_.end() || processes_[found->second].parent != waiter) return;
    const size_t child = found->second;
    processes_[child].reaped = true;
    auto& waited = processes_[waiter].waited;
    if (how == "waited") knows_end(child);
    if (how == "waited-any" && !is_in_background(child)) waited.push_back(child);
    if (how == "reaped" || has_others(waiter)) return;
    for (const size_t each : waited) knows_end(each);
    waited.clear();
  }

  void knows_end(size_t child) {
    Process& process = processes_[child];
    if (process.known_to_have_ended) return;
    process.known_to_have_ended = true;
    processes_[process.parent].events.push_back({.kind = Event::kKnowsEnd, .child = child});
  }

  bool is_in_background(size_t child) const {
    const Process& process = processes_[child];
    return process.ignores_interrupts && !processes_[process.parent].ignores_interrupts;
  }

  // Whether one has still to be waited for that is not in the background.
  bool has_others(size_t waiter) const {
    const Process& process = processes_[waiter];
    return std::any_of(process.starts.begin(), process.starts.end(), [&](size_t place) {
      const size_t child = process.events[place].child;
      return child == kNone || (!processes_[child].reaped && !is_in_background(child));
    });
  }

  Most most_of(size_t index, int64_t device) const {
    Share own, others, after;
    Most most;
    std::map<size_t, Most> children;
    const auto look = [&] {
      const Share now = own + others + after;
      if (now.bytes > most.peak.bytes) most.peak = now;
    };
    const auto start = [&](size_t child) {
      const Most of_child = most_of(child, device);
      children.emplace(child, of_child);
      others = others + of_child.peak;
      look();
    };
    for (size_t child = index + 1; child < processes_.size(); ++child) {
      if (processes_[child].parent == index && !processes_[child].started) start(child);
    }
    for (const Event& event : processes_[index].events) {
      if (event.kind == Event::kBecomes) own = {};
      if (event.kind == Event::kHas && event.number == device) own = {event.bytes, event.bytes > 0 ? 1 : 0};
      if (event.kind == Event::kStarts && event.child != kNone) start(event.child);
      if (event.kind == Event::kKnowsEnd) {
        const Most& child = children.at(event.child);
        others = others - child.peak;
        after = after + child.after;
      }
      look();
    }
    most.after = others + after;
    return most;
  }

  std::vector<Process> processes_;
  std::map<int64_t, size_t> latest_;  // by their numbers, which the system gives again
  std::set<int64_t> devices_;
  Facts facts_;
};

}  // namespace

Facts Facts::from_text(const std::string& text, const std::string& origin) try {
  Reader reader;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) reader.read(line);
  return reader.facts();
} catch (const Error& error) {
  throw Error(origin + ": " + error.what());
}

}  // namespace fathom::launch

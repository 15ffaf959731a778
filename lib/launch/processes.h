// Which process of how many this one is, or which of them it has to start, in the words of those that start several for
// one run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace fathom::launch {

// One process of a run.
struct Processes {
  std::string launcher;  // who started them, for messages
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  // of those on this machine
  std::string address = "127.0.0.1";       // of rank 0's machine
  int64_t port = 0;                        // where the store of their addresses listens
  bool agent_has_store = false;            // torchrun's own process holds the store, over restarts: rank 0 is a client
  std::string generation = "0";            // changes where a launcher starts them again, at the same address
  int listening_socket = -1;               // rank 0: the store's, bound by the process that started it; -1: none
  bool operator==(const Processes&) const = default;
};

// The value of a variable, null where it is not set: std::getenv, or a test's.
using Environment = std::function<const char*(const char* name)>;

// What torchrun (and accelerate, DeepSpeed), srun, Open MPI, MPICH and Intel MPI tell each process, and start_processes
// those that it starts. nullopt: a process alone. Throws UsageError, naming the variable, where one is missing, is no
// number, or contradicts another.
std::optional<Processes> processes_of(const Environment& environment);
// How often a launcher has started the run again: torchrun after a process failed, Slurm a requeued job. 0: it has not,
// or no launcher says so. Throws UsageError, naming the variable, where it is no number.
int64_t restarts_of(const Environment& environment);

// Processes of a run that a program starts on its machine, where something started that program once on each.
struct Node {
  int64_t first_rank = 0, processes = 1;  // of those on this machine
  int64_t size = 1;                       // of the run
  std::string address = "127.0.0.1";      // of the first machine
  int64_t port = 0;                       // 0: this is the only one, which chooses a port
  bool operator==(const Node&) const = default;
};

// What Kubeflow's trainer tells the one program of each machine, in variables that are torchrun's own options. nullopt:
// nothing, or that this process is alone, or one that torchrun has started there. Throws as processes_of.
std::optional<Node> node_of(const Environment& environment);

// The first machine of Slurm's list: "gpu[08-11,14],login" begins with "gpu08".
std::string first_host(const std::string& list);

}  // namespace fathom::launch

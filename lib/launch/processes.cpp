// One row a launcher.
#include "launch/processes.h"

#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/error.h"

namespace fathom::launch {
namespace {

constexpr int64_t kDefaultPort = 29500;  // torchrun's
constexpr int64_t kMostProcesses = 1 << 20, kMostPort = 65535;

// Variables that a launcher sets in each process; null: it has none for this.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// Open MPI, MPICH and srun may start what then has torchrun's variables, which are more exact. Slurm counts the
// processes of a step, which srun starts: SLURM_NTASKS is in a batch script, too, which runs once.
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const char* name) const {
    const char* value = name == nullptr ? nullptr : environment_(name);
    return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
  }
  // In [least, most].
  std::optional<int64_t> number(const char* name, int64_t least, int64_t most) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    int64_t result = 0;
    const char* end = value->data() + value->size();
    const auto [stopped, failure] = std::from_chars(value->data(), end, result);
    if (failure != std::errc() || stopped != end || result < least || result > most) {
      throw UsageError(std::string(name) + " is '" + *value + "', not a number from " + std::to_string(least) + " to " +
                           std::to_string(most),
                       "start fathom by a launcher that sets it, or unset it");
    }
    return result;
  }

 private:
  const Environment& environment_;
};

[[noreturn]] void throw_missing(const std::string& launcher, const char* given, const char* missing) {
  throw UsageError(std::string(given) + " is set, as " + launcher + " does, and " + missing + " is not",
                   std::string("set ") + missing + ", or unset " + given + " to train in one process");
}

// Several processes of Slurm or MPI find rank 0 by themselves only where all run on its machine.
void find_store(const Variables& variables, const Launcher& launcher, Processes& processes) {
  if (const auto port = variables.number("MASTER_PORT", 1, kMostPort)) {
    processes.port = *port;
  } else if (const auto job = variables.number("SLURM_JOB_ID", 0, INT64_MAX)) {
    processes.port = 20000 + *job % 20000;  // each job of a machine its own
  } else {
    processes.port = kDefaultPort;
  }
  if (const auto address = variables.text("MASTER_ADDR")) {
    processes.address = *address;
  } else if (const auto hosts = variables.text("SLURM_STEP_NODELIST")) {
    processes.address = first_host(*hosts);
  } else if (processes.local_size < processes.size) {
    throw_missing(launcher.name, launcher.size, "MASTER_ADDR");
  }
}

// "4(x2),3": two nodes of four, one of three. 0 where the node is none of them.
int64_t tasks_of_node(const std::string& list, int64_t node) {
  std::istringstream groups(list);
  for (std::string group; std::getline(groups, group, ',');) {
    const size_t times = group.find("(x");
    const int64_t nodes = times == std::string::npos ? 1 : std::strtoll(group.c_str() + times + 2, nullptr, 10);
    if (node < nodes) return std::strtoll(group.c_str(), nullptr, 10);
    node -= nodes;
  }
  return 0;
}

// Of a step of Slurm, on this node.
int64_t tasks_here(const Variables& variables, const Launcher& launcher, int64_t size) {
  constexpr const char* kTasks = "SLURM_STEP_TASKS_PER_NODE";
  const auto tasks = variables.text(kTasks);
  const auto node = variables.number("SLURM_NODEID", 0, kMostProcesses);
  if (tasks && node) {
    const int64_t here = tasks_of_node(*tasks, *node);
    if (here >= 1 && here <= size) return here;
    throw UsageError(std::string(kTasks) + " is '" + *tasks + "', which says nothing of node " + std::to_string(*node),
                     "start fathom by srun");
  }
  const std::string hosts = variables.text("SLURM_STEP_NODELIST").value_or("");
  if (hosts.find_first_of(",[") != std::string::npos) throw_missing(launcher.name, launcher.size, kTasks);
  return size;
}

}  // namespace

std::string first_host(const std::string& list) {
  const size_t comma = list.find(','), bracket = list.find('[');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of(",-]", bracket + 1);
  const size_t close = list.find(']', bracket);
  const std::string behind =
      close == std::string::npos ? "" : list.substr(close + 1, list.find(',', close) - close - 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) + behind;
}

std::optional<Processes> processes_of(const Environment& environment) {
  const Variables variables(environment);
  for (const Launcher& launcher : kLaunchers) {
    const auto size = variables.number(launcher.size, 1, kMostProcesses);
    if (!size || *size == 1) continue;
    const auto rank = variables.number(launcher.rank, 0, *size - 1);
    if (!rank) throw_missing(launcher.name, launcher.size, launcher.rank);
    Processes processes;
    processes.launcher = launcher.name;
    processes.rank = *rank;
    processes.size = *size;
    processes.local_size = variables.number(launcher.local_size, 1, *size).value_or(*size);
    if (processes.launcher == "Slurm") processes.local_size = tasks_here(variables, launcher, *size);
    processes.local_rank = variables.number(launcher.local_rank, 0, *size - 1).value_or(*rank % processes.local_size);
    if (processes.local_rank >= processes.local_size) {
      throw UsageError(std::string(launcher.local_rank) + " is " + std::to_string(processes.local_rank) + ", of " +
                           std::to_string(processes.local_size) + " processes on this machine",
                       "start fathom by a launcher that sets both");
    }
    find_store(variables, launcher, processes);
    processes.agent_has_store = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    processes.generation = variables.text("SLURM_RESTART_COUNT").value_or("0");
    processes.listening_socket = static_cast<int>(variables.number("FATHOM_STORE_SOCKET", 0, INT32_MAX).value_or(-1));
    return processes;
  }
  return std::nullopt;
}

int64_t restarts_of(const Environment& environment) {
  const Variables variables(environment);
  int64_t restarts = 0;
  for (const char* count : {"TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"}) {
    restarts = std::max(restarts, variables.number(count, 0, INT32_MAX).value_or(0));
  }
  return restarts;
}

std::optional<Node> node_of(const Environment& environment) {
  constexpr const char *kNodes = "PET_NNODES", *kProcesses = "PET_NPROC_PER_NODE", *kRank = "PET_NODE_RANK";
  const Variables variables(environment);
  const auto each = variables.text(kProcesses);
  if (!each || variables.text("LOCAL_RANK")) return std::nullopt;
  const int64_t nodes = variables.number(kNodes, 1, kMostProcesses).value_or(1);
  // "auto" is of torchrun, which counts GPUs, then cores; on one machine num_processes says how many.
  const bool counted = each->find_first_not_of("0123456789") == std::string::npos;
  if (!counted && nodes == 1) return std::nullopt;
  if (!counted) {
    throw UsageError(std::string(kProcesses) + " is '" + *each + "' on each of " + std::to_string(nodes) +
                         " machines, which leaves open how many processes the run has",
                     "set a number: numProcPerNode of Kubeflow's TrainJob");
  }
  Node node;
  node.processes = *variables.number(kProcesses, 1, kMostProcesses / nodes);
  node.size = nodes * node.processes;
  if (node.size == 1) return std::nullopt;
  if (nodes == 1) return node;
  const auto rank = variables.number(kRank, 0, nodes - 1);
  if (!rank) throw_missing("Kubeflow", kNodes, kRank);
  const auto address = variables.text("PET_MASTER_ADDR");
  if (!address) throw_missing("Kubeflow", kNodes, "PET_MASTER_ADDR");
  node.first_rank = *rank * node.processes;
  node.address = *address;
  node.port = variables.number("PET_MASTER_PORT", 1, kMostPort).value_or(kDefaultPort);
  return node;
}

}  // namespace fathom::launch

// What launchers say, as they say it.
#include "launch/processes.h"

#include <gmock/gmock.h>

#include <map>

#include "base/error.h"

namespace fathom::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Environment environment(const Variables& variables) {
  return [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

std::optional<Processes> processes(const Variables& variables) { return processes_of(environment(variables)); }

std::string refusal(const std::map<std::string, std::string>& variables) {
  try {
    processes(variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Processes, NoneIsTold) {
  EXPECT_EQ(processes({}), std::nullopt);
  EXPECT_EQ(processes({{"WORLD_SIZE", "1"}, {"RANK", "0"}}), std::nullopt);
  // A batch script of Slurm runs once, whatever its job has room for.
  EXPECT_EQ(processes({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}), std::nullopt);
}

TEST(Processes, Torchrun) {
  const auto told = processes({{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node1"},
                               {"MASTER_PORT", "1234"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(told, (Processes{"torchrun", 5, 8, 1, 4, "node1", 1234, true, "0", -1}));
}

TEST(Processes, Slurm) {
  const auto told = processes({{"SLURM_PROCID", "3"},
                               {"SLURM_STEP_NUM_TASKS", "4"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_JOB_ID", "123456"},
                               {"SLURM_STEP_NODELIST", "gpu[08-09]"},
                               {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                               {"SLURM_NODEID", "1"}});
  EXPECT_EQ(told, (Processes{"Slurm", 3, 4, 1, 2, "gpu08", 20000 + 123456 % 20000, false, "0", -1}));
}

TEST(Processes, OfSlurmAreCountedNodeByNode) {
  std::map<std::string, std::string> variables = {{"SLURM_PROCID", "10"},
                                                  {"SLURM_STEP_NUM_TASKS", "11"},
                                                  {"SLURM_LOCALID", "2"},
                                                  {"SLURM_STEP_NODELIST", "gpu[1-3]"},
                                                  {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"},
                                                  {"SLURM_NODEID", "2"}};
  EXPECT_EQ(processes(variables)->local_size, 3);
  variables["SLURM_NODEID"] = "1";
  EXPECT_EQ(processes(variables)->local_size, 4);
  variables["SLURM_NODEID"] = "3";
  EXPECT_THROW(processes(variables), UsageError);
  variables.erase("SLURM_NODEID");  // several nodes, and nothing says how many each has
  EXPECT_THROW(processes(variables), UsageError);
  variables["SLURM_STEP_NODELIST"] = "gpu1";
  EXPECT_EQ(processes(variables)->local_size, 11);
}

// A requeued job is another start: what is left of the one before does not meet it.
TEST(Processes, SlurmsRequeuedJob) {
  const std::map<std::string, std::string> first = {
      {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NODELIST", "a"}};
  std::map<std::string, std::string> again = first;
  again["SLURM_RESTART_COUNT"] = "1";
  EXPECT_EQ(processes(first)->generation, "0");
  EXPECT_EQ(processes(again)->generation, "1");
  EXPECT_EQ(processes(again)->port, processes(first)->port);
}

TEST(Processes, AreStartedAgain) {
  const auto restarts = [](const Variables& variables) { return restarts_of(environment(variables)); };
  EXPECT_EQ(restarts({}), 0);
  EXPECT_EQ(restarts({{"TORCHELASTIC_RESTART_COUNT", "0"}, {"SLURM_RESTART_COUNT", ""}}), 0);
  EXPECT_EQ(restarts({{"TORCHELASTIC_RESTART_COUNT", "2"}}), 2);
  EXPECT_EQ(restarts({{"SLURM_RESTART_COUNT", "1"}}), 1);
  EXPECT_THROW(restarts({{"SLURM_RESTART_COUNT", "once"}}), UsageError);
}

TEST(Processes, OthersOnOneMachineNeedNoAddress) {
  const auto mpi = processes({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(mpi, (Processes{"Open MPI", 1, 2, 1, 2, "127.0.0.1", 29500, false, "0", -1}));
  const auto pmi = processes({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(pmi, (Processes{"PMI", 0, 2, 0, 2, "127.0.0.1", 29500, false, "0", -1}));
  EXPECT_THAT(
      refusal({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
      HasSubstr("set MASTER_ADDR"));
}

TEST(Processes, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}}), AllOf(HasSubstr("RANK is not"), HasSubstr("unset WORLD_SIZE")));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}, {"RANK", "2"}}), HasSubstr("RANK is '2', not a number from 0 to 1"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "two"}}), HasSubstr("WORLD_SIZE is 'two'"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "2"}, {"RANK", "0"}, {"MASTER_PORT", "70000"}}), HasSubstr("MASTER_PORT"));
}

std::optional<Node> node(const std::map<std::string, std::string>& variables) {
  return node_of([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of_node(const std::map<std::string, std::string>& variables) {
  try {
    node(variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// As its plugin for torch sets them: pkg/runtime/framework/plugins/torch/torch.go.
const std::map<std::string, std::string> kSecondOfKubeflow = {{"PET_NNODES", "2"},
                                                              {"PET_NPROC_PER_NODE", "4"},
                                                              {"PET_NODE_RANK", "1"},
                                                              {"PET_MASTER_ADDR", "tune-node-0-0.tune"},
                                                              {"PET_MASTER_PORT", "29500"}};

TEST(Nodes, OfKubeflow) {
  EXPECT_EQ(node(kSecondOfKubeflow), (Node{4, 4, 8, "tune-node-0-0.tune", 29500}));
  EXPECT_EQ(processes(kSecondOfKubeflow), std::nullopt);
  std::map<std::string, std::string> alone = kSecondOfKubeflow;
  alone["PET_NNODES"] = "1";
  EXPECT_EQ(node(alone), (Node{0, 4, 4, "127.0.0.1", 0}));
  alone["PET_NPROC_PER_NODE"] = "1";
  EXPECT_EQ(node(alone), std::nullopt);
  // Where the job says nothing it is left to torchrun.
  alone["PET_NPROC_PER_NODE"] = "auto";
  EXPECT_EQ(node(alone), std::nullopt);
  EXPECT_EQ(node({}), std::nullopt);
}

TEST(Nodes, AreNoneForWhatTorchrunHasStartedThere) {
  std::map<std::string, std::string> started = kSecondOfKubeflow;
  started.insert({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}});
  EXPECT_EQ(node(started), std::nullopt);
}

TEST(Nodes, WhatDoesNotFitIsNamed) {
  const auto with = [](const char* name, const char* value) {
    std::map<std::string, std::string> variables = kSecondOfKubeflow;
    variables[name] = value;
    return refusal_of_node(variables);
  };
  EXPECT_THAT(with("PET_NPROC_PER_NODE", "auto"),
              AllOf(HasSubstr("PET_NPROC_PER_NODE is 'auto' on each of 2 machines"), HasSubstr("numProcPerNode")));
  EXPECT_THAT(with("PET_NPROC_PER_NODE", "0"), HasSubstr("PET_NPROC_PER_NODE is '0', not a number from 1"));
  EXPECT_THAT(with("PET_NNODES", "1:4"), HasSubstr("PET_NNODES is '1:4', not a number"));
  EXPECT_THAT(with("PET_NODE_RANK", "2"), HasSubstr("PET_NODE_RANK is '2', not a number from 0 to 1"));
  EXPECT_THAT(with("PET_NODE_RANK", ""), HasSubstr("PET_NODE_RANK is not"));
  EXPECT_THAT(with("PET_MASTER_ADDR", ""), HasSubstr("PET_MASTER_ADDR is not"));
}

TEST(Processes, FirstHostOfAList) {
  EXPECT_EQ(first_host("login"), "login");
  EXPECT_EQ(first_host("login,gpu[1-2]"), "login");
  EXPECT_EQ(first_host("gpu[08-11,14],login"), "gpu08");
  EXPECT_EQ(first_host("rack[1,3]-gpu,x"), "rack1-gpu");
  EXPECT_EQ(first_host("gpu["), "gpu");
}

}  // namespace
}  // namespace fathom::launch

// A small run for several processes, and what is expected of each.
#pragma once

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {

class SeveralProcesses : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    std::string lines;
    for (int i = 0; i < 41; ++i) {
      const std::string text = "one and one is " + std::string(static_cast<size_t>(i % 7), '1') + std::to_string(i);
      lines += Json{{"text", text}}.dump() + "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", "model_name_or_path: " FATHOM_SOURCE_DIR R"(/data/model
device: cpu
num_threads: 1
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 2
per_device_eval_batch_size: 4
max_length: 16
max_steps: 8
method: lora
lora_r: 2
eval_strategy: steps
eval_steps: 4
logging_steps: 1
save_steps: 100000
ddp_timeout: 20
)");
  }

  // One that nobody listens at, and that no connection gets by itself: Linux gives these ports from 32768 on.
  static std::string free_port() {
    for (int port = 20000 + getpid() % 12000; port < 32768; ++port) {
      const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port));
      if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0)
        return std::to_string(port);
    }
    throw Error("no port is free");
  }

  // Losses, norms and evaluations.
  std::string numbers(const std::string& run) const {
    std::ifstream lines(folder_ / run / "metrics.jsonl");
    std::string all;
    for (std::string line; std::getline(lines, line);) {
      const Json entry = Json::parse(line);
      for (const char* key : {"loss", "grad_norm", "eval_loss", "tokens"}) {
        if (entry.contains(key)) all += std::string(key) + " " + entry.at(key).dump() + "\n";
      }
    }
    return all;
  }
  std::string weights(const std::string& run) const {
    for (const char* name : {"adapter_model.safetensors", "model.safetensors"}) {
      if (std::filesystem::exists(folder_ / run / name)) return read_file(folder_ / run / name);
    }
    return "";
  }
  // events: what is said of each rank's besides.
  void expect_planned(const Outcome& outcome, int processes, const std::string& events = "") const {
    EXPECT_THAT(outcome.output, ::testing::Not(::testing::HasSubstr("Dry run and measured differ")));
    for (int rank = 0; rank < processes; ++rank) {
      if (!events.empty()) {
        EXPECT_THAT(outcome.output, ::testing::ContainsRegex("rank " + std::to_string(rank) + events));
      }
      const size_t place = outcome.output.find("rank " + std::to_string(rank) + ": peak of live bytes");
      ASSERT_NE(place, std::string::npos) << outcome.output;
      EXPECT_THAT(outcome.output.substr(place, outcome.output.find('\n', place) - place),
                  ::testing::HasSubstr(" 0 off"))
          << rank;
    }
  }
};

}  // namespace fathom

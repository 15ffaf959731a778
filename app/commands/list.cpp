// `fathom list gpus|models`: what can be named without being there.
#include <cstdio>
#include <memory>
#include <string>

#include "app/installation.h"
#include "app/words/shared_options.h"
#include "arch/read_folder.h"
#include "base/bytes.h"
#include "base/json_value.h"
#include "base/output.h"
#include "config/devices.h"
#include "report/table.h"
#include "weights/folder.h"

namespace fathom::app {
namespace {

using report::Align;
using report::Table;

class List final : public Command {
 public:
  List() : Command("list", "The known GPUs, or the known shapes of models") {}
  std::vector<Option> options() override {
    return {Option("WHAT", what_, "", "gpus (configs/gpus.yaml) or models (configs/models)")
                .require()
                .one_of({"gpus", "models"}),
            json_option(json_)};
  }
  int run() const override;

 private:
  std::string what_;
  bool json_ = false;
};

// A figure of the list, in its unit; what is not listed is missing.
std::string figure(double value, double unit, int digits = 0) {
  if (value <= 0) return std::string(report::kMissing);
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value / unit);
  return text;
}

Json or_null(double value) { return value > 0 ? Json(value) : Json(nullptr); }

void list_gpus(bool json) {
  constexpr double kGiga = 1e9, kTera = 1e12;
  Json list = Json::array();
  Table table({{"GPU", Align::kLeft}, {"memory"}, {"capability"}, {"16-bit TFLOP/s"}, {"GB/s"}, {"$ an hour"}});
  for (const auto& [name, gpu] : config::load_gpus(gpus_file())) {
    const double narrow = gpu.fp16_flops > 0 ? gpu.fp16_flops : gpu.bf16_flops;
    const bool supported = config::is_supported(gpu.compute_capability);
    list.push_back({{"name", name},
                    {"product", gpu.product},
                    {"memory_bytes", gpu.memory_bytes},
                    {"compute_capability", gpu.compute_capability},
                    {"supported", supported},
                    {"bf16", config::has_bf16(gpu.compute_capability)},
                    {"flops_in_16_bits", or_null(narrow)},
                    {"memory_bytes_per_second", or_null(gpu.memory_bytes_per_second)},
                    {"price_per_hour", or_null(gpu.price_per_hour)}});
    table.add_row({name, format_bytes(gpu.memory_bytes), gpu.compute_capability, figure(narrow, kTera),
                   figure(gpu.memory_bytes_per_second, kGiga), figure(gpu.price_per_hour, 1, 2)});
  }
  const std::string text =
      json ? format_json({{"gpus", list}})
           : table.format() +
                 report::folded(
                     "For --gpu NAME. Below 8.0 there is no BF16 (fp16: true); below 7.5 LibTorch has no kernels.\n"
                     "Yours to add to: " +
                     gpus_file().string() + "\n");
  print(text);
}

void list_models(bool json) {
  Json list = Json::array();
  Table table({{"model", Align::kLeft}, {"parameters"}, {"active"}, {"depth"}, {"width"}, {"context"}});
  for (const std::string& name : known_models()) {
    const weights::ModelFolder folder(models_folder() / name, /*weights_required=*/false);
    const arch::Architecture architecture = arch::read_architecture(folder);
    const int64_t parameters = arch::parameter_count(architecture);
    const int64_t active = arch::active_parameter_count(architecture);
    list.push_back({{"name", name},
                    {"parameters", parameters},
                    {"active_parameters", active},
                    {"layers", architecture.num_hidden_layers()},
                    {"hidden_size", architecture.hidden_size},
                    {"positions", architecture.max_position_embeddings}});
    table.add_row({name, format_count(parameters), active == parameters ? "" : format_count(active),
                   format_count(architecture.num_hidden_layers()), format_count(architecture.hidden_size),
                   format_count(architecture.max_position_embeddings)});
  }
  const std::string text =
      json ? format_json({{"models", list}})
           : table.format() + report::folded(
                                  "Shapes without weights, for `estimate` and `advise`; also by their names on the hub "
                                  "(meta-llama/Llama-3.1-8B-Instruct). active: where a token goes to some of many "
                                  "experts alone.\n");
  print(text);
}

int List::run() const {
  if (what_ == "gpus") list_gpus(json_);
  if (what_ == "models") list_models(json_);
  return 0;
}

}  // namespace

std::unique_ptr<Command> make_list() { return std::make_unique<List>(); }

}  // namespace fathom::app

#include "tests/phantom_gpu/gpu_probe/predictions.h"

#include "base/json_value.h"
#include "memory/memory_json.h"
#include "play/dry_run.h"
#include "play/make_plan.h"
#include "tests/phantom_gpu/gpu_probe/training.h"
#include "tests/play/analytic_sample.h"
#include "tests/play/matrix_run.h"

namespace fathom::phantom {

Json predict_sample(const Json& request) {
  ledger::CudaDevice& cuda = cuda_device();
  Json rows = Json::array();
  for (auto& run :
       play::testing::analytic_sample(request.at("seed").get<uint64_t>(), request.at("count").get<size_t>())) {
    run.config.cuda_kernels = request.value("cuda_kernels", false);
    const train::Placement placement = {at::Device(at::kCUDA, 0), &cuda.ledger(), &cuda};
    const std::string kernel = play::attention_kernel(arch::resolve(run.config, run.architecture), placement.device);
    const plan::Workload workload = play::testing::workload_of(run);
    const memory::Memory memory =
        play::dry_run(arch::resolve(run.config, run.architecture), nullptr, workload, placement).memory;
    rows.push_back({{"name", run.name}, {"attention_kernel", kernel}, {"memory", memory::to_json(memory)}});
    cuda.start_over();
  }
  return rows;
}

}  // namespace fathom::phantom

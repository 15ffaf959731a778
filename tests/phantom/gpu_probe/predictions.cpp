#include "phantom/gpu_probe/predictions.h"

#include "ledger/memory_json.h"
#include "phantom/gpu_probe/training.h"
#include "plan/dry_run.h"
#include "plan/make_plan.h"
#include "tests/plan/analytic_sample.h"
#include "tests/plan/matrix_run.h"

namespace fathom::phantom {

Json predict_sample(const Json& request) {
  ledger::CudaDevice& cuda = cuda_device();
  Json rows = Json::array();
  for (auto& run :
       plan::testing::analytic_sample(request.at("seed").get<uint64_t>(), request.at("count").get<size_t>())) {
    run.config.cuda_kernels = request.value("cuda_kernels", false);
    const train::Placement placement = {at::Device(at::kCUDA, 0), &cuda.ledger(), &cuda};
    const std::string kernel = plan::attention_kernel(run.config, run.architecture, placement.device);
    const plan::Workload workload = plan::testing::workload_of(run);
    const ledger::Memory memory = plan::dry_run(run.config, run.architecture, nullptr, workload, placement).memory;
    rows.push_back({{"name", run.name}, {"attention_kernel", kernel}, {"memory", ledger::to_json(memory)}});
    cuda.start_over();
  }
  return rows;
}

}  // namespace fathom::phantom

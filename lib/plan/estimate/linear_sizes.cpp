// Finds a module's matrix among the rows of its layer.
#include "plan/estimate/linear_sizes.h"

#include "plan/estimate/parameter_gradients.h"

namespace fathom::plan {

using arch::Role;

footprint::LinearSizes linear_sizes(const LayerSubject& subject, std::string_view module) {
  footprint::LinearSizes sizes;
  for (const arch::ParameterRow* row : subject.rows) {
    const Role role = row->spec.role;
    const bool reads = role == Role::kProjection || role == Role::kRouter ||
                       (role == Role::kExperts && row->spec.name.ends_with(".gate_up_proj"));
    if (!reads || !belongs_to(*row, module)) continue;
    sizes.out = row->spec.shape[0];
    sizes.in = row->spec.shape[1];
    sizes.trained = row->trained;
    sizes.adapted = row->adapted();
    sizes.comes_cast = subject.run.gathered_casts.have(*row);
    sizes.codes = row->codes;
    sizes.fake_codes = subject.run.settings.fake_scheme;
  }
  return sizes;
}

}  // namespace fathom::plan

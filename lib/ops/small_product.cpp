// BLAS takes columns end to end, for which rows of a product are columns of the product of its factors in turn.
#include "ops/small_product.h"

// By reference as Fortran passes it (Dongarra et al. 1990, doi 10.1145/77626.79170).
extern "C" void sgemm_(const char* transposes_a, const char* transposes_b, const int* rows, const int* columns,
                       const int* inner, const float* alpha, const float* a, const int* a_apart, const float* b,
                       const int* b_apart, const float* beta, float* out, const int* out_apart);

namespace fathom::ops {

void multiply_into(float* out, int64_t rows, int64_t columns, int64_t inner, Operand a, Operand b, float keep) {
  const float one = 1;
  const int m = static_cast<int>(columns), n = static_cast<int>(rows), k = static_cast<int>(inner);
  sgemm_(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &m, &n, &k, &one, b.data, b.transposed ? &k : &m, a.data,
         a.transposed ? &n : &k, &keep, out, &m);
}

}  // namespace fathom::ops

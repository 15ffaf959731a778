// Attention by scores, a few queries at a time: what lies between the products of queries and keys and those of
// probabilities and values, forwards and backwards.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "ops/attention/biased_attention.h"

namespace fathom::ops {

// G = B * K groups of T queries in R heads each, N = T * R, and S keys; M = R times the queries that are there at once.
struct Pairs {
  at::Tensor q_GNE, k_GSE, v_GSE;
  Scores scores;
  int64_t repeats = 1;  // R

  int64_t groups() const { return q_GNE.size(0); }
  int64_t queries() const { return q_GNE.size(1) / repeats; }
  int64_t keys() const { return k_GSE.size(1); }
  int64_t queries_at_once() const;
  // K; 1 where no score depends on it.
  int64_t key_heads() const;
  // Of the queries [first, first + count), a view.
  at::Tensor stretch(const at::Tensor& x_GNE, int64_t first, int64_t count) const;
  at::Tensor products_GMS(int64_t first, int64_t count) const;
};

// The gradients of keys or values, to which every stretch of queries adds: several in FP32.
class StretchSum {
 public:
  void add(const at::Tensor& of_scores_GMS, const at::Tensor& of_queries_GME);
  at::Tensor take(at::ScalarType type) { return sum_GSE_.to(type); }

 private:
  at::Tensor sum_GSE_;
};

class ScoreStretches {
 public:
  struct Gradients {
    at::Tensor q_GNE;  // written, a stretch at a time
    StretchSum k_GSE, v_GSE;
  };

  virtual ~ScoreStretches() = default;
  // Of the queries [first, first + count), [G, M, S] in the type of the keys; dropout: the share that is left out.
  virtual at::Tensor probabilities(int64_t first, int64_t count, double dropout) = 0;
  // Adds what these queries give, grad_GME being the gradient of their output. Draws what probabilities() drew.
  virtual void back(int64_t first, int64_t count, double dropout, const at::Tensor& grad_GME, Gradients& gradients) = 0;
  // Of all that went back, [H, N]; undefined where it is not asked for.
  virtual at::Tensor gradient_of_bias() const = 0;
};

// By one kernel on a CPU, by operators of ATen elsewhere. pairs: outlives what is returned.
std::unique_ptr<ScoreStretches> score_stretches(const Pairs& pairs, bool gradient_of_bias);

}  // namespace fathom::ops

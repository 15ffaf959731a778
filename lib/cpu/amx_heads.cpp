// Forwards a row holds a query's scores, backwards a key's: so each product finds one factor as it was written.
#include "cpu/amx_heads.h"

#ifdef FATHOM_AMX

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/rounding.h"
#include "cpu/amx_rows.h"

namespace fathom::cpu::amx {
namespace {

// Query heads that read the stretch's key head.
struct Group {
  Group(const Attention& attention, const AttentionStretch& stretch)
      : first(attention.heads / attention.key_heads * stretch.key_head),
        last(first + attention.heads / attention.key_heads) {}
  int64_t first, last;
};

// A block of queries of one head: [first, last) of the document, and their number with padding.
struct Block {
  Block(const AttentionStretch& stretch, int64_t head_in, int64_t first_in)
      : head(head_in),
        first(first_in),
        last(std::min(first_in + kQueriesAtOnce, stretch.last_query)),
        token(stretch.first_token + first_in),
        rows(round_up(last - first, kSide)),
        keys(first + rows) {}
  int64_t head, first, last;
  int64_t token;       // of the first query
  int64_t rows, keys;  // keys: padded, none after them is seen
  int64_t count() const { return last - first; }
};

Matrix rows_of(const Heads& heads, int64_t token, int64_t head) { return {heads.at(token, head), heads.token_stride}; }

double scale_of(const Attention& attention) { return 1 / std::sqrt(static_cast<double>(attention.head_size)); }
float scale_in_base_two(const Attention& attention) {
  return static_cast<float>(scale_of(attention) * std::numbers::log2e);
}

void pack_forward(const Attention& attention, const AttentionStretch& stretch, const ForwardScratch& scratch) {
  const Sides& sides = scratch.sides;
  const Matrix keys = rows_of(attention.keys, stretch.first_token, stretch.key_head);
  const Matrix values = rows_of(attention.values, stretch.first_token, stretch.key_head);
  const int64_t length = round_up(stretch.last_query, kSide);
  for (int64_t row = 0; row < length; row += kSide) {
    const int64_t count = std::min(kSide, stretch.last_query - row);
    copy_rows({keys.data + row * keys.stride, keys.stride}, count, attention.head_size, scratch.strip_E, kSide,
              sides.width);
    transpose({scratch.strip_E, sides.width}, kSide, sides.width, {}, {scratch.keys_ES + 2 * row, 2 * sides.length});
  }
  pair_rows(values, stretch.last_query, attention.head_size, scratch.values_SE, length, sides.width);
}

void attend_block(const Attention& attention, const Block& block, const ForwardScratch& scratch) {
  const Sides& sides = scratch.sides;
  RunningSoftmax softmax[kQueriesAtOnce];
  std::fill_n(softmax, block.rows, RunningSoftmax{-std::numeric_limits<float>::infinity(), 0});
  copy_rows(rows_of(attention.queries, block.token, block.head), block.count(), attention.head_size, scratch.queries_QE,
            block.rows, sides.width);
  for (int64_t key = 0; key < block.keys; key += sides.keys) {
    const int64_t keys = std::min(sides.keys, block.keys - key);
    multiply({scratch.queries_QE, sides.width}, {scratch.keys_ES + 2 * key, 2 * sides.length},
             {scratch.scores_QC, sides.keys}, block.rows, keys, sides.width, /*adds=*/false);
    for (int64_t row = 0; row < block.rows; ++row) {
      const int64_t seen = std::min(keys, block.first + row + 1 - key);
      const float factor = softmax_part(scratch.scores_QC + row * sides.keys, seen, keys, scale_in_base_two(attention),
                                        softmax[row], scratch.probabilities_QC + row * sides.keys);
      if (key > 0) scale_row(scratch.out_QE + row * sides.width, factor, sides.width);
    }
    multiply({scratch.probabilities_QC, sides.keys}, {scratch.values_SE + key * sides.width, 2 * sides.width},
             {scratch.out_QE, sides.width}, block.rows, sides.width, keys, /*adds=*/key > 0);
  }
  for (int64_t row = 0; row < block.count(); ++row) {
    const int64_t token = block.token + row;
    round_row(scratch.out_QE + row * sides.width, 1, 1 / softmax[row].sum, attention.out.at(token, block.head),
              attention.head_size);
    attention.logsumexp_TH[token * attention.heads + block.head] = softmax[row].most + std::log2(softmax[row].sum);
  }
}

void pack_backward(const Attention& attention, const AttentionStretch& stretch, const BackwardScratch& scratch) {
  const Sides& sides = scratch.sides;
  const int64_t length = round_up(stretch.last_query, kSide);
  copy_rows(rows_of(attention.keys, stretch.first_token, stretch.key_head), stretch.last_query, attention.head_size,
            scratch.keys_SE, length, sides.width);
  copy_rows(rows_of(attention.values, stretch.first_token, stretch.key_head), stretch.last_query, attention.head_size,
            scratch.values_SE, length, sides.width);
  transpose({scratch.keys_SE, sides.width}, length, sides.width, {scratch.keys_ES, sides.length}, {});
}

// Queries and the gradient of their output in both orders, and what each query subtracts.
void pack_queries(const Attention& attention, const Block& block, const BackwardScratch& scratch) {
  const Sides& sides = scratch.sides;
  const auto pack = [&](const Heads& heads, uint16_t* turned_EQ, uint16_t* paired_QE) {
    const Matrix rows = rows_of(heads, block.token, block.head);
    copy_rows(rows, block.count(), attention.head_size, scratch.rows_QE, block.rows, sides.width);
    transpose({scratch.rows_QE, sides.width}, block.rows, sides.width, {}, {turned_EQ, 2 * sides.queries});
    pair_rows(rows, block.count(), attention.head_size, paired_QE, block.rows, sides.width);
  };
  pack(attention.queries, scratch.queries_EQ, scratch.queries_QE);
  pack(attention.grad_out, scratch.gradient_EQ, scratch.gradient_QE);
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t token = block.token + row;
    const bool is_padding = row >= block.count();
    scratch.logsumexp_Q[row] = is_padding ? 0 : attention.logsumexp_TH[token * attention.heads + block.head];
    scratch.shift_Q[row] = is_padding ? 0
                                      : dot(attention.grad_out.at(token, block.head),
                                            attention.out.at(token, block.head), attention.head_size);
  }
}

// Probabilities of a block of keys with the queries [first, rows) of the block, and the gradients of their scores.
void differentiate_scores(const Attention& attention, const Block& block, int64_t key, int64_t keys, int64_t first,
                          const BackwardScratch& scratch) {
  const Sides& sides = scratch.sides;
  const auto row = [&](auto* matrix_CQ, int64_t i) { return matrix_CQ + i * sides.queries; };
  for (int64_t i = 0; i < keys; i += 2) {
    const KeyPair pair = {{row(scratch.scores_CQ, i), row(scratch.scores_CQ, i + 1)},
                          {row(scratch.probability_gradients_CQ, i), row(scratch.probability_gradients_CQ, i + 1)},
                          {row(scratch.probabilities_CQ, i), row(scratch.probabilities_CQ, i + 1)},
                          {row(scratch.score_gradients_CQ, i), row(scratch.score_gradients_CQ, i + 1)},
                          row(scratch.paired_gradients_CQ, i),
                          key + i - block.first - first,
                          block.rows - first};
    score_gradients(pair, scale_in_base_two(attention), scratch.logsumexp_Q + first, scratch.shift_Q + first);
  }
}

void attend_block_backward(const Attention& attention, const Block& block, const BackwardScratch& scratch,
                           const KeySums& sums) {
  const Sides& sides = scratch.sides;
  pack_queries(attention, block, scratch);
  for (int64_t key = 0; key < block.keys; key += sides.keys) {
    const int64_t keys = std::min(sides.keys, block.keys - key);
    const int64_t first = std::max<int64_t>(0, key - block.first), seeing = block.rows - first;
    const auto multiply_blocks = [&](const uint16_t* keys_SE, const uint16_t* queries_EQ, float* out_CQ) {
      multiply({keys_SE + key * sides.width, sides.width}, {queries_EQ + 2 * first, 2 * sides.queries},
               {out_CQ, sides.queries}, keys, seeing, sides.width, /*adds=*/false);
    };
    multiply_blocks(scratch.keys_SE, scratch.queries_EQ, scratch.scores_CQ);
    multiply_blocks(scratch.values_SE, scratch.gradient_EQ, scratch.probability_gradients_CQ);
    differentiate_scores(attention, block, key, keys, first, scratch);
    const auto add_to_keys = [&](const uint16_t* factors_CQ, const uint16_t* queries_QE, float* sums_SE) {
      multiply({factors_CQ, sides.queries}, {queries_QE + first * sides.width, 2 * sides.width},
               {sums_SE + key * sides.width, sides.width}, keys, sides.width, seeing, /*adds=*/true);
    };
    add_to_keys(scratch.probabilities_CQ, scratch.gradient_QE, sums.values_SE);
    add_to_keys(scratch.score_gradients_CQ, scratch.queries_QE, sums.keys_SE);
    multiply({scratch.keys_ES + key, sides.length}, {scratch.paired_gradients_CQ, 2 * sides.queries},
             {scratch.grad_queries_EQ + first, sides.queries}, sides.width, seeing, keys, /*adds=*/key > 0);
  }
  for (int64_t row = 0; row < block.count(); ++row) {
    round_row(scratch.grad_queries_EQ + row, sides.queries, static_cast<float>(scale_of(attention)),
              attention.grad_queries.at(block.token + row, block.head), attention.head_size);
  }
}

}  // namespace

void attend(const Attention& attention, const AttentionStretch& stretch, const ForwardScratch& scratch) {
  const TileScope tiles;
  pack_forward(attention, stretch, scratch);
  const Group group(attention, stretch);
  for (int64_t head = group.first; head < group.last; ++head) {
    for (int64_t query = stretch.first_query; query < stretch.last_query; query += kQueriesAtOnce) {
      attend_block(attention, Block(stretch, head, query), scratch);
    }
  }
}

void attend_backward(const Attention& attention, const AttentionStretch& stretch, const BackwardScratch& scratch,
                     const KeySums& sums) {
  const TileScope tiles;
  pack_backward(attention, stretch, scratch);
  const int64_t count = round_up(stretch.last_query, kSide) * scratch.sides.width;
  std::fill_n(sums.keys_SE, count, 0.0f);
  std::fill_n(sums.values_SE, count, 0.0f);
  const Group group(attention, stretch);
  for (int64_t head = group.first; head < group.last; ++head) {
    for (int64_t query = stretch.first_query; query < stretch.last_query; query += kQueriesAtOnce) {
      attend_block_backward(attention, Block(stretch, head, query), scratch, sums);
    }
  }
}

void add_sums(const Attention& attention, const AttentionStretch& earlier, const KeySums& of_earlier,
              const KeySums& sums) {
  const int64_t count = round_up(earlier.last_query, kSide) * round_up(attention.head_size, kSide);
  add_row(sums.keys_SE, of_earlier.keys_SE, count);
  add_row(sums.values_SE, of_earlier.values_SE, count);
}

void write_sums(const Attention& attention, const AttentionStretch& stretch, const KeySums& sums) {
  const int64_t width = round_up(attention.head_size, kSide);
  for (int64_t row = 0; row < stretch.length; ++row) {
    const int64_t token = stretch.first_token + row;
    round_row(sums.keys_SE + row * width, 1, static_cast<float>(scale_of(attention)),
              attention.grad_keys.at(token, stretch.key_head), attention.head_size);
    round_row(sums.values_SE + row * width, 1, 1, attention.grad_values.at(token, stretch.key_head),
              attention.head_size);
  }
}

}  // namespace fathom::cpu::amx

#endif

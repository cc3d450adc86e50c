// One call of attention with its arrays and an oracle.
#pragma once

#include <cstdint>
#include <string>

#include "bench/kernels/blocks.h"
#include "gnomon/attention/attention.h"
#include "gnomon/bias/t5.h"

namespace gnomon::bench {

enum class Term {
  plain = 1,  // no bias
  alibi,
  t5,     // a strip, from a table of 32 buckets
  dense,  // a matrix [H, T, S]
};

// Letters: T queries, S keys (the queries are the last T of them), Hq query heads, Hk key
// heads, D head dimension. Causal.
struct AttentionSizes {
  std::int64_t queries = 0, keys = 0, heads = 0, key_heads = 0, size = 0;

  double pairs() const {  // pairs of a query and a key that it sees, of one head
    const auto t = static_cast<double>(queries), s = static_cast<double>(keys);
    return t * (s - t) + t * (t + 1) / 2;
  }
};

// " in pages of 16"; empty without pages.
std::string pages_text(std::int64_t page);

template <typename T>
class AttentionCall {
 public:
  AttentionCall(const AttentionSizes& sizes, Term term, bool gradients);

  // Stores keys and values in shuffled blocks of `page` tokens, which `forward` then reads.
  void store_in_pages(std::int64_t page);
  void forward();
  std::string explain() const;  // explain_attention of `forward`
  void backward();
  // A training step: lowers the table to a strip, both passes, and the gradient of the table.
  void train();

  // The largest difference from a computation in double, over some rows of some heads.
  double forward_error() const;
  // The largest error of the gradients of the last queries, the last keys and the largest
  // distances, as in forward_error.
  double gradient_error() const;

  // The arrays that `forward` reads.
  const Block<T, 4>& keys() const { return k_pages_ ? *k_pages_ : *k_; }
  const Block<T, 4>& values() const { return v_pages_ ? *v_pages_ : *v_; }

 private:
  struct Row;
  Row exact_row(std::int64_t head, std::int64_t query) const;
  double bias(std::int64_t head, std::int64_t query, std::int64_t key) const;

  AttentionSizes n_;
  AttentionPlan plan_;
  T5Bias t5_;
  Shared<float, 2> table_, table_grad_;
  Shared<float, 4> dense_;
  Shared<T, 4> q_, k_, v_, out_, out_grad_, q_grad_, k_grad_, v_grad_;
  Shared<T, 4> k_pages_, v_pages_;
  std::vector<std::int32_t> blocks_;
  View<const std::int32_t, 2> block_table_;
  std::vector<std::int64_t> lengths_;
  Shared<float, 3> lse_;
  BiasGradient bias_grad_;
};

}  // namespace gnomon::bench

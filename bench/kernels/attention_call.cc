#include "bench/kernels/attention_call.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gnomon/bias/alibi.h"

namespace gnomon::bench {
namespace {

using std::int64_t;

template <typename T>
double element(const Block<T, 4>& x, int64_t row, int64_t head, int64_t d) {
  return as_double(x.view(0, row, head, d));
}

// The dot product of rows of two arrays.
template <typename A, typename B>
double dot(const Block<A, 4>& a, int64_t a_row, int64_t a_head, const Block<B, 4>& b,
           int64_t b_row, int64_t b_head) {
  double sum = 0;
  for (int64_t d = 0; d < a.view.extent(3); ++d)
    sum += element(a, a_row, a_head, d) * element(b, b_row, b_head, d);
  return sum;
}

// The row sum_j weights[j] x[first + j].
template <typename T>
std::vector<double> weighted_sum(const std::vector<double>& weights, const Block<T, 4>& x,
                                 int64_t first, int64_t head) {
  std::vector<double> sum(at(x.view.extent(3)));
  for (int64_t j = 0; j < std::ssize(weights); ++j)
    for (std::size_t d = 0; d < sum.size(); ++d)
      sum[d] += weights[at(j)] * element(x, first + j, head, static_cast<int64_t>(d));
  return sum;
}

template <typename T>
double difference(const Block<T, 4>& x, int64_t row, int64_t head,
                  const std::vector<double>& exact) {
  double worst = 0;
  for (int64_t d = 0; d < std::ssize(exact); ++d)
    worst = std::max(worst, std::fabs(element(x, row, head, d) - exact[at(d)]));
  return worst;
}

}  // namespace

std::string pages_text(int64_t page) {
  return page ? " in pages of " + std::to_string(page) : "";
}

template <typename T>
AttentionCall<T>::AttentionCall(const AttentionSizes& n, Term term, bool gradients)
    : n_(n),
      plan_{.mask = {.visibility = Visibility::causal, .offset = n.keys - n.queries}},
      t5_{.heads = n.heads, .direction = T5Direction::causal} {
  q_ = random_block<T, 4>({1, n.queries, n.heads, n.size}, 1);
  k_ = random_block<T, 4>({1, n.keys, n.key_heads, n.size}, 2);
  v_ = random_block<T, 4>({1, n.keys, n.key_heads, n.size}, 3);
  out_ = zeros<T, 4>(q_->view.extents());
  lse_ = zeros<float, 3>({1, n.heads, n.queries});
  if (gradients) {
    out_grad_ = random_block<T, 4>(q_->view.extents(), 4);
    q_grad_ = zeros<T, 4>(q_->view.extents());
    k_grad_ = zeros<T, 4>(k_->view.extents());
    v_grad_ = zeros<T, 4>(v_->view.extents());
  }
  if (term == Term::alibi) plan_.bias = lower(Alibi{.heads = n.heads});
  if (term == Term::t5) {
    table_ = random_block<float, 2>({t5_.buckets, n.heads}, 5);
    table_grad_ = zeros<float, 2>({t5_.buckets, n.heads});
    plan_.bias = lower(t5_, table_->view, 1 - n.keys, n.keys);
  }
  if (term == Term::dense) {
    dense_ = random_block<float, 4>({1, n.heads, n.queries, n.keys}, 6);
    plan_.bias = DenseBias{dense_->view};
  }
}

template <typename T>
void AttentionCall<T>::store_in_pages(int64_t page) {
  const int64_t count = (n_.keys + page - 1) / page;
  for (int64_t n = 0; n < count; ++n) blocks_.push_back(static_cast<std::int32_t>(n));
  std::shuffle(blocks_.begin(), blocks_.end(), std::minstd_rand(1));
  const auto stored = [&](const Block<T, 4>& rows) {
    auto pages = zeros<T, 4>({count, page, n_.key_heads, n_.size});
    const int64_t row = n_.key_heads * n_.size;
    for (int64_t j = 0; j < n_.keys; ++j)
      std::copy_n(rows.data.get() + j * row, row,
                  pages->data.get() + (blocks_[at(j / page)] * page + j % page) * row);
    return pages;
  };
  k_pages_ = stored(*k_), v_pages_ = stored(*v_);
  block_table_ = {blocks_.data(), {1, count}};
  lengths_ = {n_.keys};
  plan_.mask.offset = 0;
  plan_.ragged = {.key_lengths = lengths_, .block_table = block_table_};
}

template <typename T>
void AttentionCall<T>::forward() {
  if (k_pages_)
    attention({q_->view, k_pages_->view, v_pages_->view}, plan_, out_->view, lse_->view);
  else
    attention({q_->view, k_->view, v_->view}, plan_, out_->view, lse_->view);
}

template <typename T>
std::string AttentionCall<T>::explain() const {
  return explain_attention({q_->view, keys().view, values().view}, plan_);
}

template <typename T>
void AttentionCall<T>::backward() {
  attention_backward({q_->view, k_->view, v_->view}, plan_, out_->view, lse_->view,
                     out_grad_->view,
                     {.q = q_grad_->view,
                      .k = k_grad_->view,
                      .v = v_grad_->view,
                      .bias = table_ ? &bias_grad_ : nullptr});
}

template <typename T>
void AttentionCall<T>::train() {
  if (table_) plan_.bias = lower(t5_, table_->view, 1 - n_.keys, n_.keys);
  forward();
  backward();
  if (table_) lower_backward(t5_, bias_grad_.values, 1 - n_.keys, n_.keys, table_grad_->view);
}

template <typename T>
double AttentionCall<T>::bias(int64_t head, int64_t query, int64_t key) const {
  const int64_t distance = key - query - (n_.keys - n_.queries);
  if (const auto* slope = std::get_if<SlopeBias>(&plan_.bias))
    return -slope->slopes[at(head)] * std::fabs(static_cast<double>(distance));
  if (table_) return double{table_->view(bucket(t5_, distance), head)};
  return dense_ ? double{dense_->view(0, head, query, key)} : 0.0;
}

template <typename T>
struct AttentionCall<T>::Row {
  std::vector<double> weights;  // weights of the keys that the query sees
  std::vector<double> out;
};

template <typename T>
typename AttentionCall<T>::Row AttentionCall<T>::exact_row(int64_t head, int64_t query) const {
  const int64_t shared = head / (n_.heads / n_.key_heads);
  Row row;
  row.weights.resize(at(query + n_.keys - n_.queries + 1));
  double most = -HUGE_VAL, sum = 0;
  for (int64_t j = 0; j < std::ssize(row.weights); ++j) {
    const double product = dot(*q_, query, head, *k_, j, shared);
    row.weights[at(j)] =
        product / std::sqrt(static_cast<double>(n_.size)) + bias(head, query, j);
    most = std::max(most, row.weights[at(j)]);
  }
  for (double& weight : row.weights) sum += weight = std::exp(weight - most);
  for (double& weight : row.weights) weight /= sum;
  row.out = weighted_sum(row.weights, *v_, 0, shared);
  return row;
}

template <typename T>
double AttentionCall<T>::forward_error() const {
  double worst = 0;
  for (const int64_t head : {int64_t{0}, n_.heads - 1})
    for (const int64_t query : {int64_t{0}, n_.queries / 3, n_.queries - 1})
      worst = std::max(worst, difference(*out_, query, head, exact_row(head, query).out));
  return worst;
}

// The last keys and the largest distances are seen by the last queries only.
template <typename T>
double AttentionCall<T>::gradient_error() const {
  const int64_t first = std::max<int64_t>(0, n_.queries - 4), near = n_.queries - first;
  const double scale = 1 / std::sqrt(static_cast<double>(n_.size));
  double worst = 0;
  for (const int64_t head : {int64_t{0}, n_.heads - 1}) {
    std::vector<std::vector<double>> products(at(near)), shares(at(near));
    std::vector<double> far(at(near));  // indexed by distance, largest distance first
    for (int64_t i = first; i < n_.queries; ++i) {
      const Row row = exact_row(head, i);
      std::vector<double> slopes(row.weights.size());  // derivatives of the loss by score
      double level = 0;
      for (int64_t d = 0; d < n_.size; ++d)
        level += element(*out_grad_, i, head, d) * row.out[at(d)];
      for (int64_t j = 0; j <= i; ++j) {
        slopes[at(j)] = row.weights[at(j)] * (dot(*out_grad_, i, head, *v_, j, head) - level);
        if (i - j >= n_.queries - near) far[at(n_.queries - 1 - (i - j))] += slopes[at(j)];
      }
      std::vector<double> exact = weighted_sum(slopes, *k_, 0, head);
      for (double& x : exact) x *= scale;
      worst = std::max(worst, difference(*q_grad_, i, head, exact));
      for (int64_t j = first; j < n_.queries; ++j) {
        products[at(j - first)].push_back(j <= i ? scale * slopes[at(j)] : 0);
        shares[at(j - first)].push_back(j <= i ? row.weights[at(j)] : 0);
      }
    }
    for (int64_t j = 0; j < near; ++j) {
      const auto k_exact = weighted_sum(products[at(j)], *q_, first, head),
                 v_exact = weighted_sum(shares[at(j)], *out_grad_, first, head);
      worst = std::max({worst, difference(*k_grad_, first + j, head, k_exact),
                        difference(*v_grad_, first + j, head, v_exact)});
      if (table_)
        worst =
            std::max(worst, std::fabs(bias_grad_.values[at(head * n_.keys + j)] - far[at(j)]));
    }
  }
  return worst;
}

template class AttentionCall<float>;
template class AttentionCall<Half>;
template class AttentionCall<BFloat16>;

}  // namespace gnomon::bench

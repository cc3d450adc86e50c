#include "gnomon/attention/compressed_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

constexpr std::string_view compression_operation = "compressed_keys";
constexpr internal::Argument compression_argument(std::string_view name) {
  return {compression_operation, name};
}

void check(const KeyCompression& compression) {
  if (compression.rate < 1)
    refuse(compression_operation, "rate must be at least 1", compression.rate);
  if (compression.series != 1 && compression.series != 2)
    refuse(compression_operation, "series must be 1 or 2", compression.series);
  if (!(compression.epsilon >= 0) || !std::isfinite(compression.epsilon))
    refuse(compression_operation, "epsilon must be finite and not negative",
           compression.epsilon);
}

// Checks the plan. Returns the elements of the bias, m N D.
int64_t check(const KeyCompressionPlan& plan) {
  check(plan.compression);
  if (plan.head_dim < 1)
    refuse(compression_operation, "head_dim must be at least 1", plan.head_dim);
  const int64_t size = internal::checked_product(
      compression_operation, "rate x series x head_dim",
      {plan.compression.rate, plan.compression.series, plan.head_dim});
  if (std::ssize(plan.bias) != size)
    refuse(compression_operation,
           "the bias must have rate x series x head_dim elements, " + std::to_string(size),
           static_cast<int64_t>(plan.bias.size()));
  if (!plan.weight.empty() && std::ssize(plan.weight) != plan.head_dim)
    refuse(
        compression_operation,
        "the weight must be empty or have head_dim elements, " + std::to_string(plan.head_dim),
        static_cast<int64_t>(plan.weight.size()));
  return size;
}

template <std::size_t Rank>
void check_compressed_extents(std::string_view name, const std::array<std::int64_t, Rank>& got,
                              const std::array<int64_t, Rank>& wanted) {
  for (std::size_t axis = 0; axis < Rank; ++axis)
    if (got[axis] != wanted[axis])
      refuse(compression_operation,
             std::string(name) + " must be " + shape_text(std::span(wanted)), shape_text(got));
}

template <typename T>
double exact_value(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return static_cast<double>(static_cast<float>(x));
}

// The tokens of one entry: rows of `values` and their series, [slots].
struct Slot {
  int64_t row, series, bias_row;  // bias_row: of [m N]
};

// One entry before its rotation. Buffers are [slots, D] and [D].
template <typename T>
class Entry {
 public:
  Entry(const KeyCompressionPlan& plan, View<const T, 4> values, View<const T, 4> gates)
      : plan_(plan),
        values_(values),
        gates_(gates),
        size_(plan.head_dim),
        weights_(to_size(plan.compression.series * plan.compression.rate * size_)),
        mean_(to_size(size_)),
        sums_(to_size(size_)) {}

  // Computes the weights p and the mean x of the entry of a window of the rows.
  void mix(int64_t b, int64_t window) {
    const int64_t rate = plan_.compression.rate, series = plan_.compression.series;
    slots_.clear();
    for (int64_t n = window > 0 ? 0 : series - 1; n < series; ++n)
      for (int64_t s = 0; s < rate; ++s)
        slots_.push_back({(window - (series - 1 - n)) * rate + s, n, s * series + n});
    std::vector<double>& most = mean_;
    std::fill(most.begin(), most.end(), -std::numeric_limits<double>::infinity());
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      const auto [row, n, bias_row] = slots_[s];
      const float* const bias = plan_.bias.data() + bias_row * size_;
      const T* const gates = &gates_(b, row, n, 0);
      double* const weights = weights_.data() + s * to_size(size_);
      for (int64_t d = 0; d < size_; ++d) {
        weights[d] = exact_value(gates[d * gates_.stride(3)]) + double{bias[d]};
        most[to_size(d)] = std::max(most[to_size(d)], weights[d]);
      }
    }
    std::fill(sums_.begin(), sums_.end(), 0);
    for (std::size_t s = 0; s < slots_.size(); ++s)
      for (std::size_t d = 0; d < sums_.size(); ++d) {
        double& weight = weights_[s * sums_.size() + d];
        weight = std::exp(weight - most[d]);
        sums_[d] += weight;
      }
    std::fill(mean_.begin(), mean_.end(), 0);
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      const auto [row, n, bias_row] = slots_[s];
      const T* const values = &values_(b, row, n, 0);
      double* const weights = weights_.data() + s * to_size(size_);
      for (int64_t d = 0; d < size_; ++d) {
        weights[d] /= sums_[to_size(d)];
        mean_[to_size(d)] += weights[d] * exact_value(values[d * values_.stride(3)]);
      }
    }
    double squares = 0;
    for (const double x : mean_) squares += x * x;
    factor_ = 1 / std::sqrt(squares / static_cast<double>(size_) + plan_.compression.epsilon);
  }

  const std::vector<Slot>& slots() const { return slots_; }
  double weight(std::size_t slot, int64_t d) const {
    return weights_[slot * sums_.size() + to_size(d)];
  }
  double mean(int64_t d) const { return mean_[to_size(d)]; }  // x
  double factor() const { return factor_; }                   // of the norm
  double norm_weight(int64_t d) const {
    return plan_.weight.empty() ? 1 : double{plan_.weight[to_size(d)]};
  }

 private:
  const KeyCompressionPlan& plan_;
  View<const T, 4> values_, gates_;
  int64_t size_;
  std::vector<Slot> slots_;
  std::vector<double> weights_, mean_, sums_;
  double factor_ = 0;
};

// Rotates entries of windows first, first + 1, ...; x: [B, W, 1, D].
template <typename T>
void rotate_entries(const KeyCompressionPlan& plan, int64_t first, Direction direction,
                    View<T, 4> x) {
  if (!plan.frequencies || x.size() == 0) return;
  std::vector<int64_t> positions(to_size(x.extent(1)));
  for (std::size_t w = 0; w < positions.size(); ++w)
    positions[w] = (first + static_cast<int64_t>(w)) * plan.compression.rate;
  rotate(x, RotaryTable(*plan.frequencies, positions), direction);
}

// The first window of the rows that gets an entry.
int64_t skipped(const KeyCompression& compression, int64_t first) {
  return compression.series == 2 && first > 0 ? 1 : 0;
}

template <typename T>
void compress(View<const T, 4> values, View<const T, 4> gates, const KeyCompressionPlan& plan,
              int64_t first, View<T, 4> entries) {
  check(plan);
  const int64_t batch = values.extent(0), tokens = values.extent(1), size = plan.head_dim;
  const int64_t count = entries_of(plan.compression, tokens, first);
  const std::array wanted{batch, tokens, plan.compression.series, size};
  check_compressed_extents("values", values.extents(), wanted);
  check_compressed_extents("gates", gates.extents(), wanted);
  check_compressed_extents("entries", entries.extents(), {batch, count, 1, size});
  const int64_t before = skipped(plan.compression, first);
  parallel_for(batch * count, 1, [&](int64_t begin, int64_t end) {
    Entry<T> entry(plan, values, gates);
    for (int64_t n = begin; n < end; ++n) {
      const int64_t b = n / count, w = n % count;
      entry.mix(b, w + before);
      for (int64_t d = 0; d < size; ++d)
        entries(b, w, 0, d) =
            static_cast<T>(entry.norm_weight(d) * entry.factor() * entry.mean(d));
    }
  });
  rotate_entries(plan, first + before, Direction::forward, entries);
}

template <typename T>
void clear_rows(View<T, 4> x) {
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t n = 0; n < x.extent(2); ++n)
        for (std::ptrdiff_t d = 0; d < x.extent(3); ++d) x(b, t, n, d) = T(0.0F);
}

// Sums of the gradients of the parameters, of a part of the entries.
struct ParameterSums {
  std::vector<double> bias, weight;
};

template <typename T>
void compress_backward(View<const T, 4> values, View<const T, 4> gates,
                       const KeyCompressionPlan& plan, View<const T, 4> entries_grad,
                       View<T, 4> values_grad, View<T, 4> gates_grad,
                       std::span<double> bias_grad, std::span<double> weight_grad) {
  const int64_t elements = check(plan);
  const int64_t batch = values.extent(0), tokens = values.extent(1), size = plan.head_dim;
  const int64_t count = entries_of(plan.compression, tokens);
  const std::array wanted{batch, tokens, plan.compression.series, size};
  check_compressed_extents("values", values.extents(), wanted);
  check_compressed_extents("gates", gates.extents(), wanted);
  check_compressed_extents("entries_grad", entries_grad.extents(), {batch, count, 1, size});
  if (values_grad.data())
    check_compressed_extents("the gradient of values", values_grad.extents(), wanted);
  if (gates_grad.data())
    check_compressed_extents("the gradient of gates", gates_grad.extents(), wanted);
  if (!bias_grad.empty() && std::ssize(bias_grad) != elements)
    refuse(compression_operation,
           "the gradient of the bias must have " + std::to_string(elements) + " elements",
           static_cast<int64_t>(bias_grad.size()));
  if (!weight_grad.empty() && std::ssize(weight_grad) != size)
    refuse(compression_operation,
           "the gradient of the weight must have " + std::to_string(size) + " elements",
           static_cast<int64_t>(weight_grad.size()));
  std::vector<T> unrotated(internal::checked_size(
      compression_operation, "batch x entries x head_dim", {batch, count, size}));
  const View<T, 4> grad(unrotated.data(), {batch, count, 1, size});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t w = 0; w < count; ++w)
      for (int64_t d = 0; d < size; ++d) grad(b, w, 0, d) = entries_grad(b, w, 0, d);
  rotate_entries(plan, 0, Direction::inverse, grad);
  if (values_grad.data()) clear_rows(values_grad);
  if (gates_grad.data()) clear_rows(gates_grad);
  // The parts depend on the shapes only, because the sums depend on them.
  const int64_t parts = std::clamp<int64_t>(batch * count, 1, 16);
  std::vector<ParameterSums> sums(to_size(parts));
  for (ParameterSums& one : sums) {
    one.bias.resize(bias_grad.size());
    one.weight.resize(weight_grad.size());
  }
  parallel_for(parts, 1, [&](int64_t part_begin, int64_t part_end) {
    Entry<T> entry(plan, values, gates);
    std::vector<double> of_mean(to_size(size));  // gradient of x
    for (int64_t part = part_begin; part < part_end; ++part) {
      ParameterSums& sum = sums[to_size(part)];
      for (int64_t n = batch * count * part / parts; n < batch * count * (part + 1) / parts;
           ++n) {
        const int64_t b = n / count, w = n % count;
        entry.mix(b, w);
        const double factor = entry.factor();
        double dot = 0;
        for (int64_t d = 0; d < size; ++d) {
          const double one = exact_value(grad(b, w, 0, d)), x = entry.mean(d);
          if (!sum.weight.empty()) sum.weight[to_size(d)] += one * factor * x;
          of_mean[to_size(d)] = one * entry.norm_weight(d);
          dot += of_mean[to_size(d)] * x;
        }
        dot *= factor * factor / static_cast<double>(size);
        for (int64_t d = 0; d < size; ++d)
          of_mean[to_size(d)] = factor * (of_mean[to_size(d)] - dot * entry.mean(d));
        for (std::size_t s = 0; s < entry.slots().size(); ++s) {
          const auto [row, series, bias_row] = entry.slots()[s];
          for (int64_t d = 0; d < size; ++d) {
            const double of_value = entry.weight(s, d) * of_mean[to_size(d)];
            const double of_gate =
                of_value * (exact_value(values(b, row, series, d)) - entry.mean(d));
            if (values_grad.data()) values_grad(b, row, series, d) = static_cast<T>(of_value);
            if (gates_grad.data()) gates_grad(b, row, series, d) = static_cast<T>(of_gate);
            if (!sum.bias.empty()) sum.bias[to_size(bias_row * size + d)] += of_gate;
          }
        }
      }
    }
  });
  std::fill(bias_grad.begin(), bias_grad.end(), 0);
  std::fill(weight_grad.begin(), weight_grad.end(), 0);
  for (const ParameterSums& one : sums) {
    for (std::size_t i = 0; i < bias_grad.size(); ++i) bias_grad[i] += one.bias[i];
    for (std::size_t i = 0; i < weight_grad.size(); ++i) weight_grad[i] += one.weight[i];
  }
}

}  // namespace

int64_t entries_of(const KeyCompression& compression, int64_t tokens, int64_t first) {
  check(compression);
  if (tokens < 0) refuse(compression_operation, "tokens must not be negative", tokens);
  if (first < 0) refuse(compression_operation, "first must not be negative", first);
  const int64_t windows = tokens / compression.rate;
  return std::max<int64_t>(windows - skipped(compression, first), 0);
}

void compress_keys(const ConstTensor& values, const ConstTensor& gates,
                   const KeyCompressionPlan& plan, const Tensor& entries, int64_t first) {
  internal::by_type(compression_argument("values"), values, [&]<typename T>(T) {
    compress(internal::read<T, 4>(compression_argument("values"), values),
             internal::read<T, 4>(compression_argument("gates"), gates), plan, first,
             internal::write<T, 4>(compression_argument("entries"), entries));
  });
}

void compress_keys_backward(const ConstTensor& values, const ConstTensor& gates,
                            const KeyCompressionPlan& plan, const ConstTensor& entries_grad,
                            const KeyCompressionGradient& gradient) {
  internal::by_type(compression_argument("values"), values, [&]<typename T>(T) {
    compress_backward(
        internal::read<T, 4>(compression_argument("values"), values),
        internal::read<T, 4>(compression_argument("gates"), gates), plan,
        internal::read<T, 4>(compression_argument("entries_grad"), entries_grad),
        internal::write_if<T, 4>(compression_argument("the gradient of values"),
                                 gradient.values),
        internal::write_if<T, 4>(compression_argument("the gradient of gates"), gradient.gates),
        gradient.bias, gradient.weight);
  });
}

template <typename T>
CompressedKeys<T>::CompressedKeys(std::shared_ptr<const KeyCompressionPlan> plan, int64_t batch,
                                  int64_t capacity)
    : plan_(std::move(plan)), batch_(batch), capacity_(capacity) {
  if (!plan_) refuse(compression_operation, "the plan must be given", "none");
  check(*plan_);
  if (batch < 1) refuse(compression_operation, "batch must be at least 1", batch);
  if (capacity < 1) refuse(compression_operation, "capacity must be at least 1", capacity);
  const KeyCompression& compression = plan_->compression;
  entries_.resize(internal::checked_size(compression_operation, "batch x capacity x head_dim",
                                         {batch, capacity, plan_->head_dim}));
  const std::size_t rows = internal::checked_size(
      compression_operation, "batch x rate x series x head_dim",
      {batch, 2 * compression.rate - 1, compression.series, plan_->head_dim});
  values_.resize(rows), gates_.resize(rows);
}

template <typename T>
View<const T, 4> CompressedKeys<T>::entries() const noexcept {
  const int64_t size = plan_->head_dim;
  return {entries_.data(),
          {batch_, tokens_ / plan_->compression.rate, 1, size},
          {capacity_ * size, size, size, 1}};
}

template <typename T>
void CompressedKeys<T>::append(View<const T, 4> values, View<const T, 4> gates) {
  const auto& [rate, series, epsilon] = plan_->compression;
  const int64_t size = plan_->head_dim, tokens = values.extent(1), row = series * size;
  const std::array wanted{batch_, tokens, series, size};
  check_compressed_extents("values", values.extents(), wanted);
  check_compressed_extents("gates", gates.extents(), wanted);
  if (tokens > std::numeric_limits<int64_t>::max() / 2 - tokens_ ||
      (tokens_ + tokens) / rate > capacity_)
    refuse(compression_operation, "entries must be at most " + std::to_string(capacity_),
           (tokens_ / rate + tokens / rate));
  // The kept rows and the new ones, from the first kept row on.
  const int64_t all = kept_ + tokens, first = (tokens_ - kept_) / rate;
  std::vector<T> joined[2];
  for (auto& one : joined) one.resize(to_size(batch_ * all * row));
  const int64_t capacity = 2 * rate - 1;
  for (const auto& [to, kept, added] :
       {std::tuple(&joined[0], &values_, &values), {&joined[1], &gates_, &gates}})
    for (int64_t b = 0; b < batch_; ++b) {
      T* at = std::copy_n(kept->data() + b * capacity * row, kept_ * row,
                          to->data() + b * all * row);
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t n = 0; n < series; ++n)
          for (int64_t d = 0; d < size; ++d) *at++ = (*added)(b, t, n, d);
    }
  const std::array shape{batch_, all, series, size};
  const View<const T, 4> values_of(joined[0].data(), shape), gates_of(joined[1].data(), shape);
  // With two series, the second window computes the entry of the first one again.
  if (const int64_t count = entries_of(plan_->compression, all, first); count > 0)
    compress(values_of, gates_of, *plan_, first,
             View<T, 4>(entries_.data() + (first + skipped(plan_->compression, first)) * size,
                        {batch_, count, 1, size}, {capacity_ * size, size, size, 1}));
  tokens_ += tokens;
  // Kept: the rows of the unfinished window, and of the window before it if series overlap.
  const int64_t windows = tokens_ / rate;
  const int64_t begin = std::max<int64_t>(windows - (series - 1), 0) * rate;
  kept_ = tokens_ - begin;
  for (const auto& [from, kept] : {std::pair(&joined[0], &values_), {&joined[1], &gates_}})
    for (int64_t b = 0; b < batch_; ++b)
      std::copy_n(from->data() + (b * all + all - kept_) * row, kept_ * row,
                  kept->data() + b * capacity * row);
}

template class CompressedKeys<float>;
template class CompressedKeys<Half>;
template class CompressedKeys<BFloat16>;
template class CompressedKeys<double>;

}  // namespace gnomon

// Compressed keys: entries that stand for windows of tokens. An entry is a key and a value at
// once. DeepSeek-V4 attends to them beside the keys of a sliding window.
//
// Source: the code of DeepSeek-V4 (transformers 5.23, models/deepseek_v4), which cites sections
// 2.3.1 and 2.3.2 of its report.
//
// The layer projects its input to values c and gates z, both [T, N, D]. Window w has the tokens
// w m to w m + m - 1. With a trained bias b [m, N, D], the entry of window w is
//
//   one series (N = 1):   p[s, d] = softmax over s < m of z[w m + s, 0, d] + b[s, 0, d]
//                         x[d] = sum_s p[s, d] c[w m + s, 0, d]
//   two series (N = 2):   the softmax is over 2 m tokens: series 0 of window w - 1 and series 1
//                         of window w. Window 0 has no window before it: m tokens.
//   entry[w] = R(w m) (g x / sqrt(mean(x^2) + epsilon))
//
// with trained weights g [D] and the rotation R by the angles of position w m. The softmax is
// separate for each channel d. The tokens of an unfinished window have no entry yet.
//
//   CompressedKeys<float> kept(plan, batch, capacity);  // one layer
//   kept.append(values, gates);                         // a prompt, then token by token
//   kept.entries();                                     // [B, W, 1, D]
//
// Letters: B batch, T tokens, m tokens of a window, N series, D head dimension, W entries.
//
// Naive version: tests/attention/compressed_keys_test.cc, `naive_compress`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gnomon/rotary/rotary.h"
#include "gnomon/tensor.h"
#include "gnomon/view.h"

namespace gnomon {

// A plain value.
struct KeyCompression {
  std::int64_t rate = 0;    // m; at least 1
  std::int64_t series = 0;  // N; 1: windows stand alone, 2: entries overlap the window before
  double epsilon = 1e-6;    // of the norm; finite, not negative

  bool operator==(const KeyCompression&) const = default;
};

// The spec with its trained parameters.
struct KeyCompressionPlan {
  KeyCompression compression;
  std::int64_t head_dim = 0;                          // D
  std::vector<float> bias = {};                       // b [m, N, D]
  std::vector<float> weight = {};                     // g [D]; empty: weights of 1
  std::optional<RotaryFrequencies> frequencies = {};  // R; nullopt: no rotation
};

// Returns W, the entries of `tokens` tokens of which the first is the first of window `first`.
// With two series and first > 0, window `first` has its entry already and is given for its
// series 0 only: one entry less than complete windows.
//
// Throws std::invalid_argument if the compression is invalid or a number is negative.
std::int64_t entries_of(const KeyCompression& compression, std::int64_t tokens,
                        std::int64_t first = 0);

// Computes entries [B, W, 1, D], W = entries_of(T, first). values, gates: [B, T, N, D], any
// strides, of the type of `entries`: float, Half, BFloat16, double. Rows of unfinished windows
// are not read.
//
// Error bound: the norm is computed in double and rounded once, |y - exact| <= half an ulp +
// 2^-44 max |c| max |g| / sqrt(mean(x^2) + epsilon), before the rotation, whose bound is that
// of `rotate`. Cost: one exponential for each element of `gates`. Deterministic: the same bits
// for any number of threads, and for a text in parts. Allocates O(N m D) for each thread, and
// the rotary table [W, R].
//
// Throws std::invalid_argument if the plan is invalid or shapes do not match.
void compress_keys(const ConstTensor& values, const ConstTensor& gates,
                   const KeyCompressionPlan& plan, const Tensor& entries,
                   std::int64_t first = 0);

// The gradients of compress_keys with first = 0. Tensors without data and empty spans are not
// computed, all others are overwritten; rows without an entry get zeros.
struct KeyCompressionGradient {
  Tensor values = {}, gates = {};  // [B, T, N, D], of the type of the values
  std::span<double> bias = {};     // [m, N, D], summed over the batch
  std::span<double> weight = {};   // [D]
};
// entries_grad: [B, W, 1, D], the gradient of the rotated entries, of the type of the values.
// Computed in double; the gradient is rotated back in its own type first. Deterministic.
void compress_keys_backward(const ConstTensor& values, const ConstTensor& gates,
                            const KeyCompressionPlan& plan, const ConstTensor& entries_grad,
                            const KeyCompressionGradient& gradient);

// The entries of a text that arrives in parts, and the rows that later entries require: those
// of the unfinished window, and with two series those of the window before it. T: float, Half,
// BFloat16, double. A call that throws changes nothing.
//
// Entries have the same bits as those of the whole text. Memory: B (capacity D + 4 m N D)
// elements at most, allocated by the constructor.
template <typename T>
class CompressedKeys {
 public:
  // capacity: the most entries. Throws std::invalid_argument if the plan is null or invalid, or
  // an extent is below 1.
  CompressedKeys(std::shared_ptr<const KeyCompressionPlan> plan, std::int64_t batch,
                 std::int64_t capacity);

  const KeyCompressionPlan& plan() const noexcept { return *plan_; }
  std::int64_t tokens() const noexcept { return tokens_; }  // appended so far
  std::int64_t capacity() const noexcept { return capacity_; }
  View<const T, 4> entries() const noexcept;  // [B, W, 1, D], W = tokens() / m

  // Appends values and gates [B, T, N, D] of the next tokens. Throws std::invalid_argument if
  // shapes do not match or the capacity is exceeded.
  void append(View<const T, 4> values, View<const T, 4> gates);
  void clear() noexcept { tokens_ = kept_ = 0; }

 private:
  std::shared_ptr<const KeyCompressionPlan> plan_;
  std::int64_t batch_, capacity_;
  std::int64_t tokens_ = 0, kept_ = 0;       // kept_: rows of the buffers
  std::vector<T> entries_, values_, gates_;  // [B, capacity, D]; [B, 2 m - 1, N, D]
};

}  // namespace gnomon

#include "gnomon/attention/compressed_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/attention/merge.h"
#include "gnomon/error.h"
#include "gnomon/parallel.h"
#include "src/core/size.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

using internal::to_size;
using std::int64_t;

constexpr std::string_view compressed_operation = "compressed_attention";
constexpr internal::Argument compressed_argument(std::string_view name) {
  return {compressed_operation, name};
}

constexpr int64_t gathered_queries = 16;  // of which the selected entries are gathered at once

// A new tensor of rows [B, T, H, D].
template <typename T>
struct Rows {
  std::vector<T> values;
  View<T, 4> view;
  explicit Rows(const std::array<std::int64_t, 4>& shape)
      : values(internal::checked_size(compressed_operation, "the elements of a result",
                                      {shape[0], shape[1], shape[2], shape[3]})),
        view(values.data(), shape) {}
};

void check_plan(const AttentionPlan& plan) {
  const std::pair<bool, const char*> terms[] = {
      {plan.product != PairProduct::dot || plan.polar, "another product"},
      {plan.query_rotary || plan.key_rotary || plan.token_rotation, "a rotation"},
      {!std::holds_alternative<NoBias>(plan.bias) || plan.cumulative || plan.gated ||
           plan.key_slopes || plan.edges,
       "a bias"},
      {!plan.relative.empty(), "relative vectors"},
      {plan.stick_breaking.has_value(), "stick-breaking"},
      {!plan.ragged.empty(), "a ragged batch"}};
  for (const auto& [has, name] : terms)
    if (has) refuse(compressed_operation, "the plan must have a mask and a softmax only", name);
}

// The plan of attention over the entries.
AttentionPlan plan_of_entries(const AttentionPlan& plan, const AttentionMask& mask) {
  AttentionPlan entries{.mask = mask, .softmax = plan.softmax};
  entries.softmax.sinks.clear();
  return entries;
}

// One call: views of the inputs.
template <typename T>
struct CompressedCall {
  View<const T, 4> q, kv, entries;
  View<const std::int32_t, 3> selected;

  explicit CompressedCall(const CompressedInput& input)
      : q(internal::read<T, 4>(compressed_argument("q"), input.q)),
        kv(internal::read<T, 4>(compressed_argument("kv"), input.kv)),
        entries(internal::read<T, 4>(compressed_argument("entries"), input.entries)),
        selected(internal::read_if<std::int32_t, 3>(compressed_argument("selected"),
                                                    input.selected)) {
    for (const std::size_t axis : {0, 2, 3})
      if (entries.extent(axis) != kv.extent(axis))
        refuse(compressed_operation,
               "axis " + std::to_string(axis) + " of entries must be " +
                   std::to_string(kv.extent(axis)),
               int64_t{entries.extent(axis)});
    if (!selected.data()) return;
    if (selected.extent(0) != q.extent(0) || selected.extent(1) != q.extent(1))
      refuse(compressed_operation, "selected must be [B, T, K]",
             shape_text(selected.extents()));
    for (int64_t b = 0; b < selected.extent(0); ++b)
      for (int64_t t = 0; t < selected.extent(1); ++t)
        for (int64_t i = 0; i < selected.extent(2); ++i)
          if (selected(b, t, i) < -1 || selected(b, t, i) >= entries.extent(1))
            refuse(compressed_operation,
                   "selected must be -1 or an entry below " + std::to_string(entries.extent(1)),
                   int64_t{selected(b, t, i)});
  }

  // The queries of a block, each a row of the batch.
  template <typename U>
  static View<U, 4> as_batch(View<U, 4> x, int64_t b, int64_t t, int64_t count) {
    return {&x(b, t, 0, 0),
            {count, 1, x.extent(2), x.extent(3)},
            {x.stride(1), x.stride(1), x.stride(2), x.stride(3)}};
  }
  template <typename A>
  static View<A, 3> as_batch(View<A, 3> lse, int64_t b, int64_t t, int64_t count) {
    return {&lse(b, 0, t),
            {count, lse.extent(1), 1},
            {lse.stride(2), lse.stride(1), lse.stride(2)}};
  }

  // Gathers the entries of queries t to t + count - 1 of row b, and calls body(the number of
  // entries of each, plan).
  template <typename Body>
  void gather(const AttentionPlan& plan, int64_t b, int64_t t, int64_t count,
              std::vector<T>& rows, const Body& body) const {
    const int64_t heads = entries.extent(2), size = entries.extent(3);
    int64_t most = 1;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t n = 0; n < selected.extent(2); ++n)
        if (selected(b, t + i, n) >= 0) most = std::max(most, n + 1);
    rows.assign(to_size(count * most * heads * size), T(0.0F));
    Positions keys{.batch = count, .tokens = most};
    keys.ids.resize(to_size(count * most));
    keys.sequences.assign(to_size(count * most), Positions::padding);
    T* to = rows.data();
    for (int64_t i = 0; i < count; ++i)
      for (int64_t n = 0; n < most; ++n, to += heads * size) {
        const int64_t entry = n < selected.extent(2) ? selected(b, t + i, n) : -1;
        if (entry < 0) continue;
        keys.sequences[to_size(i * most + n)] = 0;
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t d = 0; d < size; ++d) to[h * size + d] = entries(b, entry, h, d);
      }
    const Positions queries = consecutive(1);
    AttentionPlan gathered{.mask = {.visibility = Visibility::bidirectional},
                           .softmax = plan.softmax};
    gathered.softmax.sinks.clear();
    gathered.queries = borrowed(queries), gathered.keys = borrowed(keys);
    body(View<const T, 4>(rows.data(), {count, most, heads, size}), gathered);
  }

  // Calls body(b, t, count) for blocks of queries.
  template <typename Body>
  void for_blocks(const Body& body) const {
    for (int64_t b = 0; b < q.extent(0); ++b)
      for (int64_t t = 0; t < q.extent(1); t += gathered_queries)
        body(b, t, std::min(gathered_queries, q.extent(1) - t));
  }
};

template <typename T>
void attend(const CompressedInput& input, const AttentionPlan& plan,
            const AttentionMask& entry_mask, const Tensor& out_tensor,
            const Tensor& lse_tensor) {
  using A = Accumulator<T>;
  check_plan(plan);
  const CompressedCall<T> call(input);
  const auto out = internal::write<T, 4>(compressed_argument("out"), out_tensor);
  const std::array<std::int64_t, 3> rows{out.extent(0), out.extent(2), out.extent(1)};
  std::vector<A> own(lse_tensor.has_data() ? 0 : to_size(rows[0] * rows[1] * rows[2]));
  const View<A, 3> lse = lse_tensor.has_data()
                             ? internal::write<A, 3>(compressed_argument("lse"), lse_tensor)
                             : View<A, 3>(own.data(), rows);
  attention({input.q, input.kv, input.kv}, plan, out, lse);
  if (call.entries.extent(1) == 0 || out.size() == 0) return;
  Rows<T> other(out.extents());
  std::vector<A> other_lse(to_size(rows[0] * rows[1] * rows[2]));
  const View<A, 3> other_view(other_lse.data(), rows);
  if (!call.selected.data()) {
    attention({input.q, input.entries, input.entries}, plan_of_entries(plan, entry_mask),
              other.view, other_view);
  } else {
    std::vector<T> gathered;
    call.for_blocks([&](int64_t b, int64_t t, int64_t count) {
      call.gather(plan, b, t, count, gathered,
                  [&](View<const T, 4> kv, const AttentionPlan& of_block) {
                    attention({call.as_batch(call.q, b, t, count), kv, kv}, of_block,
                              call.as_batch(other.view, b, t, count),
                              call.as_batch(other_view, b, t, count));
                  });
    });
  }
  merge_attention(out, lse, other.view, other_view);
}

template <typename T>
void add_rows(View<T, 4> to, View<const T, 4> from) {
  using A = Accumulator<T>;
  for (std::ptrdiff_t b = 0; b < to.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < to.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < to.extent(2); ++h)
        for (std::ptrdiff_t d = 0; d < to.extent(3); ++d)
          to(b, t, h, d) =
              static_cast<T>(static_cast<A>(to(b, t, h, d)) + static_cast<A>(from(b, t, h, d)));
}

template <typename T>
void attend_backward(const CompressedInput& input, const AttentionPlan& plan,
                     const AttentionMask& entry_mask, const ConstTensor& out_tensor,
                     const ConstTensor& lse_tensor, const ConstTensor& out_grad_tensor,
                     const CompressedGradient& gradient) {
  using A = Accumulator<T>;
  check_plan(plan);
  const CompressedCall<T> call(input);
  const auto out = internal::read<T, 4>(compressed_argument("out"), out_tensor);
  const auto out_grad = internal::read<T, 4>(compressed_argument("out_grad"), out_grad_tensor);
  const auto lse = internal::read<A, 3>(compressed_argument("lse"), lse_tensor);
  const auto q_grad =
      internal::write<T, 4>(compressed_argument("the gradient of q"), gradient.q);
  const auto kv_grad =
      internal::write<T, 4>(compressed_argument("the gradient of kv"), gradient.kv);
  const auto entries_grad =
      internal::write<T, 4>(compressed_argument("the gradient of entries"), gradient.entries);
  if (entries_grad.extents() != call.entries.extents())
    refuse(compressed_operation,
           "the gradient of entries must be " + shape_text(call.entries.extents()),
           shape_text(entries_grad.extents()));
  {
    Rows<T> of_values(call.kv.extents());
    attention_backward(
        {input.q, input.kv, input.kv}, plan, out, lse, out_grad,
        {.q = q_grad, .k = kv_grad, .v = of_values.view, .sinks = gradient.sinks});
    add_rows<T>(kv_grad, of_values.view);
  }
  if (call.entries.size() == 0 || out.size() == 0) return;
  Rows<T> of_queries(call.q.extents());
  if (!call.selected.data()) {
    Rows<T> of_values(call.entries.extents());
    attention_backward({input.q, input.entries, input.entries},
                       plan_of_entries(plan, entry_mask), out, lse, out_grad,
                       {.q = of_queries.view, .k = entries_grad, .v = of_values.view});
    add_rows<T>(entries_grad, of_values.view);
    return add_rows<T>(q_grad, of_queries.view);
  }
  const int64_t count = call.entries.extent(1), heads = call.entries.extent(2);
  const int64_t size = call.entries.extent(3);
  std::vector<A> sums(to_size(call.entries.size()));
  std::vector<T> gathered;
  call.for_blocks([&](int64_t b, int64_t t, int64_t queries) {
    call.gather(plan, b, t, queries, gathered,
                [&](View<const T, 4> kv, const AttentionPlan& of_block) {
                  Rows<T> of_keys(kv.extents()), of_values(kv.extents());
                  attention_backward({call.as_batch(call.q, b, t, queries), kv, kv}, of_block,
                                     call.as_batch(out, b, t, queries),
                                     call.as_batch(lse, b, t, queries),
                                     call.as_batch(out_grad, b, t, queries),
                                     {.q = call.as_batch(of_queries.view, b, t, queries),
                                      .k = of_keys.view,
                                      .v = of_values.view});
                  for (int64_t i = 0; i < queries; ++i)
                    for (int64_t n = 0; n < kv.extent(1); ++n) {
                      if (n >= call.selected.extent(2)) continue;
                      const int64_t entry = call.selected(b, t + i, n);
                      if (entry < 0) continue;
                      A* const to = sums.data() + (b * count + entry) * heads * size;
                      for (int64_t h = 0; h < heads; ++h)
                        for (int64_t d = 0; d < size; ++d)
                          to[h * size + d] += static_cast<A>(of_keys.view(i, n, h, d)) +
                                              static_cast<A>(of_values.view(i, n, h, d));
                    }
                });
  });
  const A* from = sums.data();
  for (int64_t b = 0; b < call.entries.extent(0); ++b)
    for (int64_t w = 0; w < count; ++w)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t d = 0; d < size; ++d) entries_grad(b, w, h, d) = static_cast<T>(*from++);
  add_rows<T>(q_grad, of_queries.view);
}

}  // namespace

void compressed_attention(const CompressedInput& input, const AttentionPlan& plan,
                          const AttentionMask& entry_mask, const Tensor& out,
                          const Tensor& lse) {
  internal::by_type(compressed_argument("q"), input.q,
                    [&]<typename T>(T) { attend<T>(input, plan, entry_mask, out, lse); });
}

void compressed_attention_backward(const CompressedInput& input, const AttentionPlan& plan,
                                   const AttentionMask& entry_mask, const ConstTensor& out,
                                   const ConstTensor& lse, const ConstTensor& out_grad,
                                   const CompressedGradient& gradient) {
  internal::by_type(compressed_argument("q"), input.q, [&]<typename T>(T) {
    attend_backward<T>(input, plan, entry_mask, out, lse, out_grad, gradient);
  });
}

}  // namespace gnomon

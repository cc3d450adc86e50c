#include "gnomon/attention/layer_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gnomon/attention/cosine.h"
#include "gnomon/error.h"
#include "src/attention/check.h"
#include "src/core/tensor.h"

namespace gnomon {
namespace {

constexpr internal::Argument layer_argument(std::string_view name) { return {"layer", name}; }

template <typename T>
void add_rows(const EmbeddingTable& table, View<T, 3> x) {
  const std::int64_t batch = x.extent(0), tokens = x.extent(1);
  if (table.tokens == tokens) return add_table(x, table.view());
  if (table.tokens != batch * tokens)
    refuse("layer", "x must have " + std::to_string(table.tokens) + " tokens", batch * tokens);
  for (std::int64_t b = 0; b < batch; ++b)
    add_table(x.slice(0, b, 1), table.view().slice(0, b * tokens, tokens));
}

void add_rows(const EmbeddingTable& table, const Tensor& x) {
  internal::by_type(layer_argument("x"), x, [&]<typename T>(T) {
    add_rows(table, internal::write<T, 3>(layer_argument("x"), x));
  });
}

void normalise_by(const std::optional<WeightedNorm>& norm, const Tensor& x) {
  if (!norm || !x.has_data()) return;
  const auto weights = [&](const std::vector<float>& numbers) {
    if (numbers.empty()) return View<const float, 2>();
    if (norm->heads < 1 || norm->head_dim < 1 || norm->heads > std::ssize(numbers) ||
        std::ssize(numbers) % norm->heads != 0 ||
        std::ssize(numbers) / norm->heads != norm->head_dim)
      refuse("layer",
             "weights and biases of a norm must have " + std::to_string(norm->heads) + " x " +
                 std::to_string(norm->head_dim) + " elements",
             std::ssize(numbers));
    return View<const float, 2>(numbers.data(), {norm->heads, norm->head_dim});
  };
  normalise_heads(x, norm->norm, weights(norm->weight), weights(norm->bias));
}

template <typename T>
void scale_by(double factor, View<T, 4> x) {
  for (std::ptrdiff_t b = 0; b < x.extent(0); ++b)
    for (std::ptrdiff_t t = 0; t < x.extent(1); ++t)
      for (std::ptrdiff_t h = 0; h < x.extent(2); ++h)
        for (std::ptrdiff_t d = 0; d < x.extent(3); ++d) {
          T& one = x(b, t, h, d);
          one = static_cast<T>(static_cast<Accumulator<T>>(one) *
                               static_cast<Accumulator<T>>(factor));
        }
}

void rotate_by(const std::vector<HeadRotation>& rotations, const Tensor& x) {
  if (!x.has_data()) return;
  for (const HeadRotation& one : rotations)
    std::visit([&](const auto& table) { rotate(x, table); }, one);
}

void rotate_by_terms(const LayerPlan& plan, const TokenTerms& terms, const Tensor& x) {
  if (plan.prepared_rotation && x.has_data())
    rotate_by_angles(x, terms.angles, *plan.prepared_rotation);
}

// Whether a rotation of `prepare` turns elements that the table of attention turns, too.
bool rotates_twice(const std::vector<HeadRotation>& prepared,
                   const std::optional<RotaryTable>& table) {
  if (!table) return false;
  const auto end_of = [](const RotaryFrequencies& f) { return f.head_offset + f.rotary_dim(); };
  const RotaryFrequencies& inside = table->frequencies();
  return std::any_of(prepared.begin(), prepared.end(), [&](const HeadRotation& one) {
    const auto* const before = std::get_if<RotaryTable>(&one);
    if (!before) return true;
    const RotaryFrequencies& of = before->frequencies();
    return of.head_offset < end_of(inside) && inside.head_offset < end_of(of);
  });
}

}  // namespace

void internal::check_rotated_once(const LayerPlan& plan) {
  const auto refuse_if = [](bool twice, const char* what) {
    if (twice)
      refuse("layer", std::string(what) + " must be rotated in prepare or in attention, not in",
             "both");
  };
  if (!plan.polar) {  // its tables do not rotate
    refuse_if(rotates_twice(plan.query_rotations, plan.query_rotary), "queries");
    refuse_if(rotates_twice(plan.key_rotations, plan.key_rotary), "keys");
  }
  refuse_if(plan.prepared_rotation && plan.token_rotation, "queries and keys");
}

const HeadAngles* head_angles(const std::vector<HeadRotation>& rotations) noexcept {
  for (const HeadRotation& one : rotations)
    if (const auto* angles = std::get_if<HeadAngles>(&one)) return angles;
  return nullptr;
}

std::span<const double> trained_values(const LayerPlan& plan) noexcept {
  if (!plan.trained_frequencies) return {};
  if (plan.query_rotary) return plan.query_rotary->frequencies().inv_freq;
  const HeadAngles* const angles = head_angles(plan.query_rotations);
  if (angles) return angles->frequencies().inv_freq;
  return {};
}

void add_position(const LayerPlan& plan, const Tensor& x) {
  if (plan.table && !plan.table_in_layers) add_rows(*plan.table, x);
}

bool has_own_input(const LayerPlan& plan) noexcept {
  return plan.hidden_rotary || (plan.table && plan.table_in_layers);
}

void prepare_input(const LayerPlan& plan, std::int64_t heads, const Tensor& x) {
  if (plan.table && plan.table_in_layers) add_rows(*plan.table, x);
  if (!plan.hidden_rotary) return;
  internal::by_type(layer_argument("x"), x, [&]<typename T>(T) {
    const auto input = internal::write<T, 3>(layer_argument("x"), x);
    if (heads < 1 || input.extent(2) % heads)
      refuse("layer", "heads must divide the width of x, " + std::to_string(input.extent(2)),
             heads);
    const std::int64_t head_dim = input.extent(2) / heads;
    rotate(View<T, 4>(
               input.data(), {input.extent(0), input.extent(1), heads, head_dim},
               {input.stride(0), input.stride(1), head_dim * input.stride(2), input.stride(2)}),
           *plan.hidden_rotary);
  });
}

void prepare(const LayerPlan& plan, const Tensor& q, const Tensor& k, const Tensor& v,
             const TokenTerms& terms) {
  internal::check_rotated_once(plan);
  if (plan.prepared_rotation.has_value() != terms.angles.has_data())
    refuse("layer", "angles must be given if, and only if, the plan has a prepared_rotation",
           terms.angles.has_data() ? "angles" : "no angles");
  const auto norms = [&](NormOrder order) {
    if (plan.norm_order != order) return;
    normalise_by(plan.query_norm, q);
    normalise_by(plan.key_norm, k);
  };
  norms(NormOrder::before_rotation);
  rotate_by(plan.query_rotations, q);
  rotate_by(plan.key_rotations, k);
  rotate_by_terms(plan, terms, q);
  rotate_by_terms(plan, terms, k);
  norms(NormOrder::after_rotation);
  normalise_by(plan.value_norm, v);
  if (plan.value_scale != 1 && v.has_data())
    internal::by_type(layer_argument("v"), v, [&]<typename T>(T) {
      scale_by(plan.value_scale, internal::write<T, 4>(layer_argument("v"), v));
    });
  if (!plan.cosine.empty()) {
    if (q.has_data()) normalise(q, plan.cosine, q);
    if (k.has_data()) normalise(k, {}, k);
  }
  if (plan.query_scale && q.has_data()) {
    if (!plan.scale_positions) refuse("layer", "query_scale requires scale_positions", "none");
    scale_queries(q, *plan.query_scale, *plan.scale_positions);
  }
}

void finish(const LayerPlan& plan, const Tensor& out) {
  if (plan.output_rotary) rotate(out, *plan.output_rotary, Direction::inverse);
}

void finish_backward(const LayerPlan& plan, const Tensor& out_grad) {
  if (plan.output_rotary) rotate(out_grad, *plan.output_rotary);
}

void rotate_in_prepare(LayerPlan& plan) {
  if (plan.polar) return;
  internal::check_rotated_once(plan);
  // If this throws, the plan is as before.
  plan.query_rotations.reserve(plan.query_rotations.size() + 1);
  plan.key_rotations.reserve(plan.key_rotations.size() + 1);
  if (plan.query_rotary) plan.query_rotations.push_back(*std::move(plan.query_rotary));
  if (plan.key_rotary) plan.key_rotations.push_back(*std::move(plan.key_rotary));
  if (plan.token_rotation) {
    plan.prepared_rotation = std::exchange(plan.token_rotation, {});
    plan.prepared_rotation->term = AngleTerm::angles;
  }
  plan.query_rotary.reset();
  plan.key_rotary.reset();
}

}  // namespace gnomon

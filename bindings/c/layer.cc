// gnomon.h: the plan of a layer, and attention with it.
#include <cmath>
#include <cstring>
#include <vector>

#include "bindings/c/handles.h"
#include "gnomon/attention/weights.h"
#include "gnomon/bias/alibi.h"
#include "src/attention/check.h"
#include "src/attention/ragged.h"
#include "src/core/tensor.h"

using gnomon::c::given;
using gnomon::c::guarded;
using gnomon::c::make;
using gnomon::c::tensor;
using gnomon::c::tensor_if;

namespace gnomon::c {
namespace {

// Returns all elements in row-major order.
template <std::size_t Rank>
std::vector<double> doubles(const char* name, const Tensor& from) {
  const auto view = internal::read<double, Rank>({"c", name}, from);
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(view.size()));
  if constexpr (Rank == 1) {
    for (std::ptrdiff_t i = 0; i < view.extent(0); ++i) all.push_back(view(i));
  } else {
    for (std::ptrdiff_t i = 0; i < view.extent(0); ++i)
      for (std::ptrdiff_t j = 0; j < view.extent(1); ++j) all.push_back(view(i, j));
  }
  return all;
}

std::shared_ptr<const Positions> positions_of(const char* name, const gnomon_tensor* ids,
                                              const gnomon_tensor* sequences) {
  std::vector<Positions> axes = axes_of(name, ids, sequences);
  if (axes.size() != 1)
    refuse("c", std::string(name) + " must be of one axis",
           static_cast<std::int64_t>(axes.size()));
  return std::make_shared<const Positions>(std::move(axes.front()));
}

// Appends the extents and, in row-major order, the elements of a view to an array.
template <std::size_t Rank>
void copy(View<const float, Rank> from, TermArrays::Array& to) {
  to.shape.assign(from.extents().begin(), from.extents().end());
  const auto append = [&](const auto& append_part, auto part) -> void {
    for (std::int64_t i = 0; i < part.extent(0); ++i)
      if constexpr (std::tuple_size_v<std::decay_t<decltype(part.extents())>> == 1)
        to.values.push_back(part(i));
      else
        append_part(append_part, part[i]);
  };
  append(append, from);
}

// The terms of a call. Angles belong to the call that rotates: preparation, or attention.
TokenTerms terms_of(const gnomon_terms* terms, bool is_rotating) {
  if (!terms) return {};
  TokenTerms all = terms->terms;
  if (!is_rotating) all.angles = {};
  return all;
}
TokenTerms terms_of(const gnomon_attention_input& input, const AttentionPlan& plan) {
  TokenTerms terms = terms_of(input.terms, plan.token_rotation.has_value());
  if (input.gates) terms.gates = tensor_if(input.gates);
  return terms;
}

void check_has_mask(const LayerPlan& plan) {
  if (plan.mask.visibility == Visibility{})
    refuse("c", "the plan must have a mask: gnomon_layer_plan_set_mask", "none");
}

AttentionInput input_of(const gnomon_attention_input* from, const AttentionPlan& plan) {
  const gnomon_attention_input& input = sized("gnomon_attention_input", "input", from);
  return {.q = tensor("q", input.q),
          .k = tensor("k", input.k),
          .v = tensor("v", input.v),
          .k_scales = tensor_if(input.k_scales),
          .v_scales = tensor_if(input.v_scales),
          .terms = terms_of(input, plan)};
}

}  // namespace

void attend(const gnomon_attention_input* input, const LayerPlan& plan,
            const RaggedBatch& ragged, const Tensor& out, const Tensor& lse) {
  check_has_mask(plan);
  internal::check_rotated_once(plan);
  if (plan.compression)
    refuse("c", "a plan with compressed keys requires the C++ functions of",
           "compressed_attention.h");
  internal::attend(input_of(input, plan), plan, ragged, out, lse);
  finish(plan, out);
}

namespace {

LayerPlan& plan_of(gnomon_layer_plan* plan) { return given("plan", plan).plan; }
const LayerPlan& plan_of(const gnomon_layer_plan* plan) { return given("plan", plan).plan; }

}  // namespace
}  // namespace gnomon::c

using gnomon::c::plan_of;

gnomon_status gnomon_layer_plan_create(gnomon_layer_plan** out) {
  return guarded([&] { make(out); });
}

void gnomon_layer_plan_destroy(gnomon_layer_plan* plan) { delete plan; }

gnomon_status gnomon_layer_plan_set_mask(gnomon_layer_plan* plan, int32_t visibility,
                                         int64_t offset, int64_t left, int64_t right) {
  return guarded([&] {
    gnomon::AttentionMask mask{.visibility = static_cast<gnomon::Visibility>(visibility)};
    if (mask.visibility != gnomon::Visibility::causal &&
        mask.visibility != gnomon::Visibility::bidirectional)
      gnomon::refuse("c", "visibility must be causal or bidirectional", visibility);
    if (offset < -1) gnomon::refuse("c", "offset must be -1 or more", offset);
    if (offset != -1) mask.offset = offset;
    if (left != -1) mask.left = left;
    if (right != -1) mask.right = right;
    plan_of(plan).mask = mask;
  });
}

gnomon_status gnomon_layer_plan_set_softmax(gnomon_layer_plan* plan, double scale, double cap,
                                            const gnomon_tensor* sinks) {
  return guarded([&] {
    gnomon::Softmax softmax;
    if (!std::isnan(scale)) softmax.scale = scale;
    if (cap != 0) softmax.cap = cap;
    if (sinks) softmax.sinks = gnomon::c::doubles<1>("sinks", tensor_if(sinks));
    softmax.factor = plan_of(plan).softmax.factor;
    softmax.rounds_weights = plan_of(plan).softmax.rounds_weights;
    plan_of(plan).softmax = std::move(softmax);
  });
}

gnomon_status gnomon_layer_plan_round_weights(gnomon_layer_plan* plan, int32_t allowed) {
  return guarded([&] {
    if (allowed != 0 && allowed != 1) gnomon::refuse("plan", "allowed must be 0 or 1", allowed);
    plan_of(plan).softmax.rounds_weights = allowed == 1;
  });
}

gnomon_status gnomon_layer_plan_set_rotary(gnomon_layer_plan* plan,
                                           const gnomon_rotary_table* queries,
                                           const gnomon_rotary_table* keys) {
  return guarded([&] {
    gnomon::LayerPlan& to = plan_of(plan);
    auto of_queries = queries ? std::optional(queries->table) : std::nullopt;
    auto of_keys = keys ? std::optional(keys->table) : std::nullopt;
    to.query_rotary = std::move(of_queries), to.key_rotary = std::move(of_keys);
  });
}

gnomon_status gnomon_layer_plan_set_slopes(gnomon_layer_plan* plan,
                                           const gnomon_tensor* slopes) {
  return guarded([&] {
    plan_of(plan).bias =
        gnomon::SlopeBias{gnomon::c::doubles<1>("slopes", tensor("slopes", slopes))};
  });
}

gnomon_status gnomon_layer_plan_set_strip(gnomon_layer_plan* plan, const gnomon_tensor* strip,
                                          int64_t min_distance) {
  return guarded([&] {
    const gnomon::Tensor from = tensor("strip", strip);
    auto values = gnomon::c::doubles<2>("strip", from);
    plan_of(plan).bias = gnomon::StripBias{
        .heads = from.extent(0), .min_distance = min_distance, .values = std::move(values)};
  });
}

gnomon_status gnomon_layer_plan_rotate_in_prepare(gnomon_layer_plan* plan) {
  return guarded([&] { gnomon::rotate_in_prepare(plan_of(plan)); });
}

gnomon_status gnomon_layer_plan_set_dense(gnomon_layer_plan* plan, const gnomon_tensor* bias) {
  return guarded([&] {
    plan_of(plan).bias = gnomon::DenseBias{
        gnomon::internal::read<float, 4>({"c", "bias"}, tensor("bias", bias))};
  });
}

gnomon_status gnomon_layer_plan_set_positions(gnomon_layer_plan* plan,
                                              const gnomon_tensor* query_ids,
                                              const gnomon_tensor* query_sequences,
                                              const gnomon_tensor* key_ids,
                                              const gnomon_tensor* key_sequences) {
  return guarded([&] {
    gnomon::LayerPlan& to = plan_of(plan);
    auto queries = gnomon::c::positions_of("query_ids", query_ids, query_sequences);
    auto keys = gnomon::c::positions_of("key_ids", key_ids, key_sequences);
    to.queries = std::move(queries), to.keys = std::move(keys);
  });
}

gnomon_status gnomon_alibi_slopes(int64_t heads, int64_t first_head, const gnomon_tensor* out) {
  return guarded([&] {
    const auto to = gnomon::internal::write<double, 1>({"c", "out"}, tensor("out", out));
    if (to.extent(0) < 1)  // 0 local heads would be all heads
      gnomon::refuse("c", "out must have at least 1 element", std::int64_t{to.extent(0)});
    const auto slopes = gnomon::slopes(
        {.heads = heads, .head_offset = first_head, .local_heads = to.extent(0)});
    for (std::size_t h = 0; h < slopes.size(); ++h)
      to(static_cast<std::int64_t>(h)) = slopes[h];
  });
}

gnomon_status gnomon_layer_plan_bias(const gnomon_layer_plan* plan, int64_t offset,
                                     const gnomon_tensor* out) {
  return guarded([&] { gnomon::dense(plan_of(plan).bias, offset, tensor("out", out)); });
}

gnomon_status gnomon_add_position(const gnomon_tensor* x, const gnomon_layer_plan* plan) {
  return guarded([&] { gnomon::add_position(plan_of(plan), tensor("x", x)); });
}

gnomon_status gnomon_prepare_input(const gnomon_tensor* x, const gnomon_layer_plan* plan,
                                   int64_t heads) {
  return guarded([&] { gnomon::prepare_input(plan_of(plan), heads, tensor("x", x)); });
}

gnomon_status gnomon_prepare(const gnomon_tensor* q, const gnomon_tensor* k,
                             const gnomon_tensor* v, const gnomon_layer_plan* plan) {
  return guarded(
      [&] { gnomon::prepare(plan_of(plan), tensor("q", q), tensor_if(k), tensor_if(v)); });
}

gnomon_status gnomon_terms_create(gnomon_terms** out) {
  return guarded([&] { make(out); });
}
void gnomon_terms_destroy(gnomon_terms* terms) { delete terms; }

gnomon_status gnomon_terms_set(gnomon_terms* terms, const char* name,
                               const gnomon_tensor* values) {
  return guarded([&] {
    gnomon_terms& to = given("terms", terms);
    const std::string_view term(&given("name", name));
    for (const auto& one : gnomon::named_terms<gnomon::ConstTensor>) {
      if (one.name != term) continue;
      gnomon::TermArrays::Array array{.name = one.name, .shape = {}, .values = {}};
      const gnomon::Tensor from = tensor("values", values);
      const gnomon::internal::Argument argument{"c", "values"};
      if (one.rank == 3)
        gnomon::c::copy(gnomon::internal::read<float, 3>(argument, from), array);
      else
        gnomon::c::copy(gnomon::internal::read<float, 4>(argument, from), array);
      std::erase_if(to.own.arrays, [&](const auto& old) { return old.name == term; });
      to.own.arrays.push_back(std::move(array));
      to.terms = to.own.terms<gnomon::ConstTensor>();
      return;
    }
    gnomon::refuse("c", "name must be that of a token term", term);
  });
}

gnomon_status gnomon_prepare_with(const gnomon_tensor* q, const gnomon_tensor* k,
                                  const gnomon_tensor* v, const gnomon_layer_plan* plan,
                                  const gnomon_terms* terms) {
  return guarded([&] {
    const gnomon::LayerPlan& layer = plan_of(plan);
    gnomon::prepare(layer, tensor("q", q), tensor_if(k), tensor_if(v),
                    gnomon::c::terms_of(terms, layer.prepared_rotation.has_value()));
  });
}

gnomon_status gnomon_attention(const gnomon_attention_input* input,
                               const gnomon_layer_plan* plan, const gnomon_tensor* out,
                               const gnomon_tensor* lse) {
  return guarded(
      [&] { gnomon::c::attend(input, plan_of(plan), {}, tensor("out", out), tensor_if(lse)); });
}

gnomon_status gnomon_attention_weights(const gnomon_attention_input* input,
                                       const gnomon_layer_plan* plan,
                                       const gnomon_tensor* weights,
                                       const gnomon_tensor* scores) {
  return guarded([&] {
    gnomon::c::check_has_mask(plan_of(plan));
    gnomon::c::sized("gnomon_attention_input", "input", input);
    gnomon::AttentionInput from{.q = tensor("q", input->q),
                                .k = tensor("k", input->k),
                                .v = {},
                                .terms = gnomon::c::terms_of(*input, plan_of(plan))};
    gnomon::attention_weights(from, plan_of(plan), tensor_if(weights), tensor_if(scores));
  });
}

gnomon_status gnomon_plan_gradient_create(gnomon_plan_gradient** out) {
  return guarded([&] { make(out); });
}
void gnomon_plan_gradient_destroy(gnomon_plan_gradient* gradient) { delete gradient; }

gnomon_status gnomon_plan_gradient_bias(const gnomon_plan_gradient* gradient,
                                        const gnomon_tensor* out) {
  return guarded([&] {
    const std::vector<double>& from = given("gradient", gradient).bias.values;
    const gnomon::Tensor to = tensor("out", out);
    const gnomon::internal::Argument named{"c", "out"};
    gnomon::internal::check_tensor(named, to, to.rank == 1 ? 1 : 2);
    if (to.size() != std::ssize(from))
      gnomon::refuse("c", "out must have " + std::to_string(from.size()) + " elements",
                     to.size());
    if (to.rank == 1) {
      const auto row = gnomon::internal::write<double, 1>(named, to);
      for (std::ptrdiff_t i = 0; i < row.extent(0); ++i)
        row(i) = from[static_cast<std::size_t>(i)];
    } else {
      const auto rows = gnomon::internal::write<double, 2>(named, to);
      for (std::ptrdiff_t i = 0, at = 0; i < rows.extent(0); ++i)
        for (std::ptrdiff_t j = 0; j < rows.extent(1); ++j)
          rows(i, j) = from[static_cast<std::size_t>(at++)];
    }
  });
}

gnomon_status gnomon_attention_backward(const gnomon_attention_input* input,
                                        const gnomon_layer_plan* plan, const gnomon_tensor* out,
                                        const gnomon_tensor* lse, const gnomon_tensor* out_grad,
                                        const gnomon_attention_gradient* gradient) {
  return guarded([&] {
    if (plan_of(plan).output_rotary)
      gnomon::refuse("c", "attention_backward requires a plan that does not rotate the output",
                     "output_rotary");
    gnomon::c::check_has_mask(plan_of(plan));
    const gnomon_attention_gradient& to =
        gnomon::c::sized("gnomon_attention_gradient", "gradient", gradient);
    gnomon::BiasGradient own_bias;
    gnomon::BiasGradient* const bias =
        to.plan ? &to.plan->bias : (to.dense ? &own_bias : nullptr);
    if (bias)
      bias->dense = to.dense
                        ? gnomon::internal::write<float, 4>({"c", "dense"}, tensor_if(to.dense))
                        : gnomon::View<float, 4>();
    gnomon::AttentionGradient grads{.q = tensor("the gradient of q", to.q),
                                    .k = tensor("the gradient of k", to.k),
                                    .v = tensor("the gradient of v", to.v),
                                    .bias = bias,
                                    .relative = to.plan ? &to.plan->relative : nullptr,
                                    .terms = {.gates = tensor_if(to.gates)}};
    if (to.sinks) {
      const auto sinks =
          gnomon::internal::write<double, 1>({"c", "sinks"}, tensor_if(to.sinks));
      if (!sinks.contiguous()) gnomon::refuse("c", "sinks must be contiguous", sinks.stride(0));
      grads.sinks = {sinks.data(), static_cast<std::size_t>(sinks.extent(0))};
    }
    gnomon::attention_backward(gnomon::c::input_of(input, plan_of(plan)), plan_of(plan),
                               tensor("out", out), tensor("lse", lse),
                               tensor("out_grad", out_grad), grads);
    if (bias) bias->dense = {};
  });
}

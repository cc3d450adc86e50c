// Attention with position written in LibTorch's operators.
#include <torch/torch.h>

#include <limits>
#include <variant>

#include "bindings/torch/forms.h"
#include "bindings/torch/functions.h"
#include "gnomon/attention/cosine.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

at::Tensor heads_first(const at::Tensor& x) { return x.transpose(1, 2); }

// x: [B, T, H, D].
at::Tensor normalised(const at::Tensor& x) {
  return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(least_norm);
}

Places places_of(const model::Window& window, const at::Tensor& like) {
  const auto tensor = [&](const Positions& positions) {
    return at::tensor(positions.ids, at::kLong).to(like.device());
  };
  return {tensor(window.query_positions()), tensor(window.key_positions())};
}

// Which keys a query does not see: [T, S], by rows.
at::Tensor hidden_from(const model::Window& window, const AttendOptions& options,
                       const at::Tensor& like) {
  const auto whole = like.options().dtype(at::kLong);
  const at::Tensor distance =
      at::arange(window.keys, whole) -
      (at::arange(window.queries, whole) + window.offset()).unsqueeze(1);
  at::Tensor hidden = at::zeros_like(distance, at::kBool);
  if (options.visibility == Visibility::causal) hidden = hidden | (distance > 0);
  if (options.before) hidden = hidden | (distance < -*options.before);
  if (options.after) hidden = hidden | (distance > *options.after);
  return hidden;
}

}  // namespace

at::Tensor attend_composed(const model::Mixture& mixture,
                           const std::vector<at::Tensor>& parameters, const at::Tensor& q_in,
                           const at::Tensor& k_in, const at::Tensor& v,
                           const AttendOptions& options) {
  if (options.visibility != Visibility::causal &&
      options.visibility != Visibility::bidirectional)
    refuse("attention", "visibility must be causal or bidirectional",
           static_cast<int>(options.visibility));
  const model::Window window = window_of(q_in, k_in.size(1), options);
  const AtWork work{mixture, parameters};
  const LoweredTensors numbers = lowered_tensors(work, window);
  const LayerPlan& lowered = *numbers.plan;
  const RelativeForm& relative = lowered.relative;
  const Places places = places_of(window, q_in);
  const auto there = [&](const at::Tensor& x) { return x.to(q_in.options()); };

  at::Tensor q = q_in, k = k_in;
  for (const HeadRotation& one : lowered.query_rotations)
    q = std::visit([&](const auto& table) { return turned(q, table); }, one);
  for (const HeadRotation& one : lowered.key_rotations)
    k = std::visit([&](const auto& table) { return turned(k, table); }, one);
  double scale = window.softmax_scale * lowered.softmax.factor;
  if (numbers.cosine.defined()) {
    q = normalised(q) * there(numbers.cosine).view({-1, 1});
    k = normalised(k);
    scale = 1;
  }
  if (lowered.query_rotary) q = turned(q, *lowered.query_rotary);
  if (lowered.key_rotary) k = turned(k, *lowered.key_rotary);
  if (numbers.shift.defined()) q = q + there(numbers.shift).view({q.size(2), q.size(3)});

  const std::int64_t group = q.size(2) / k.size(2);
  const at::Tensor queries = heads_first(q), keys = heads_first(k).repeat_interleave(group, 1);
  at::Tensor scores = at::matmul(queries, keys.transpose(-1, -2));
  for (std::size_t i = 0; i < relative.keys.size(); ++i)
    scores =
        scores + met_by_queries(relative.keys[i],
                                at::matmul(queries, there(numbers.keys[i]).transpose(-1, -2)),
                                places);
  for (std::size_t i = 0; i < relative.queries.size(); ++i)
    scores = scores + met_by_keys(relative.queries[i],
                                  at::matmul(keys, there(numbers.queries[i]).transpose(-1, -2)),
                                  places);
  scores = scores * at::scalar_tensor(scale, q.options());
  if (numbers.bias.defined()) {
    at::Tensor bias = bias_of(lowered.bias, there(numbers.bias), places);
    if (const at::Tensor gates = gates_of(work, options.hidden, q.size(2)); gates.defined())
      bias = bias * there(gates).unsqueeze(-1);
    scores = scores + bias;
  }

  const at::Tensor hidden = hidden_from(window, options, q);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor weights = at::softmax(scores, -1).masked_fill(hidden.all(-1, true), 0);
  at::Tensor out = at::matmul(weights, heads_first(v).repeat_interleave(group, 1));
  for (std::size_t i = 0; i < relative.values.size(); ++i)
    out = out + at::matmul(weight_of_each(relative.values[i], weights, places),
                           there(numbers.values[i]));
  return heads_first(out);
}

}  // namespace gnomon::libtorch

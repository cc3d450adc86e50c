// Attention with position written in LibTorch's operators.
#include <torch/torch.h>

#include <variant>

#include "bindings/torch/functions.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

using at::indexing::Ellipsis;
using at::indexing::Slice;

at::Tensor on_device(View<const float, 3> table, const at::Tensor& like) {
  return at::from_blob(const_cast<float*>(table.data()),
                       {table.extent(0), table.extent(1), 1, table.extent(2)})
      .to(like.options(), /*non_blocking=*/false, /*copy=*/true);
}

// x: [B, T, H, D]; turned as the table says.
at::Tensor turned(const at::Tensor& x, const RotaryTable& table) {
  const RotarySchedule& rotary = table.schedule();
  const std::int64_t first = rotary.first, middle = first + rotary.dim() / 2,
                     end = first + rotary.dim();
  const at::Tensor cos = on_device(table.cos(), x), sin = on_device(table.sin(), x);
  const bool halves = rotary.pairing == Pairing::halves;
  const auto a = x.index({Ellipsis, halves ? Slice(first, middle) : Slice(first, end, 2)});
  const auto b = x.index({Ellipsis, halves ? Slice(middle, end) : Slice(first + 1, end, 2)});
  const at::Tensor c = a * cos - b * sin, d = a * sin + b * cos;
  const at::Tensor pairs = halves ? at::cat({c, d}, -1) : at::stack({c, d}, -1).flatten(-2);
  return at::cat({x.index({Ellipsis, Slice(0, first)}), pairs,
                  x.index({Ellipsis, Slice(end, at::indexing::None)})},
                 -1);
}

// The paper's formula: [H, T, S].
at::Tensor fire_bias(const Fire& fire, const std::vector<at::Tensor>& parameters,
                     const at::Tensor& rows, const at::Tensor& distance,
                     const at::TensorOptions& options) {
  const auto flat = [&](std::size_t i) { return parameters[i].to(options).flatten(); };
  const at::Tensor c = flat(4).abs(), threshold = flat(5).abs() * fire.threshold;
  const auto psi = [&](const at::Tensor& n) { return at::log1p(c * n); };
  const at::Tensor whole = psi(at::maximum(rows.to(options), threshold)) + fire.epsilon;
  const at::Tensor x = psi(distance.abs().to(options)) / whole.unsqueeze(1);
  const at::Tensor hidden = at::relu(x.unsqueeze(-1) * flat(0) + flat(1));
  return (at::matmul(hidden, parameters[2].to(options).t()) + flat(3)).permute({2, 0, 1});
}

// Rows of the table by their indices: [H, T, S].
at::Tensor swin_bias(const Swin& swin, const at::Tensor& table, const model::Window& window,
                     const at::Tensor& distance) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < window.queries; ++i)
    for (std::int64_t j = 0; j < window.keys; ++j)
      indices.push_back(offset_index(swin, window.offset() + i, j));
  return table.index_select(0, at::tensor(indices, distance.options()))
      .view({window.queries, window.keys, swin.heads})
      .permute({2, 0, 1});
}

}  // namespace

at::Tensor attend_composed(const model::Encoding& encoding,
                           const std::vector<at::Tensor>& parameters, const at::Tensor& q,
                           const at::Tensor& k, const at::Tensor& v,
                           const AttendOptions& options) {
  if (options.visibility != Visibility::causal &&
      options.visibility != Visibility::bidirectional)
    refuse("attention", "visibility must be causal or bidirectional",
           static_cast<int>(options.visibility));
  const model::Window window{q.size(1), k.size(1)};
  std::vector<at::Tensor> here;
  std::vector<View<const float, 2>> values;
  for (const at::Tensor& one : parameters) {
    here.push_back(one.detach().to(at::kCPU, at::kFloat).contiguous());
    values.emplace_back(here.back().data_ptr<float>(),
                        std::array<std::ptrdiff_t, 2>{one.size(0), one.size(1)});
  }
  const model::Lowered lowered = model::lower(encoding, window, values);

  const at::Tensor turned_q = lowered.query_rotary ? turned(q, *lowered.query_rotary) : q;
  const at::Tensor turned_k = lowered.key_rotary ? turned(k, *lowered.key_rotary) : k;
  const std::int64_t group = q.size(2) / k.size(2);
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const at::Tensor keys = heads_first(turned_k).repeat_interleave(group, 1);
  const at::Tensor scale =
      at::scalar_tensor(options.softmax_scale.value_or(softmax_scale(q.size(3))), q.options());
  at::Tensor scores = at::matmul(heads_first(turned_q), keys.transpose(-1, -2)) * scale;

  const at::Tensor rows =
      at::arange(window.queries, q.options().dtype(at::kLong)) + window.offset();
  const at::Tensor distance =  // [T, S]
      at::arange(window.keys, q.options().dtype(at::kLong)) - rows.unsqueeze(1);
  if (const auto* slope = std::get_if<SlopeBias>(&lowered.bias)) {
    const at::Tensor slopes = at::tensor(slope->slopes, at::kDouble).to(q.options());
    scores = scores - slopes.view({-1, 1, 1}) * distance.abs();
  } else if (const auto* strip = std::get_if<StripBias>(&lowered.bias)) {
    const at::Tensor numbers = lowered_numbers(encoding, parameters, window).to(q.options());
    scores = scores + numbers.index({Slice(), distance - strip->first});
  } else if (const auto* fire = std::get_if<Fire>(&encoding)) {
    scores = scores + fire_bias(*fire, parameters, rows, distance, q.options());
  } else if (const auto* swin = std::get_if<Swin>(&encoding)) {
    scores = scores + swin_bias(*swin, parameters[0].to(q.options()), window, distance);
  } else if (!std::holds_alternative<NoBias>(lowered.bias)) {
    refuse("attention", "composed operators know no such bias", model::info(encoding).name);
  }
  at::Tensor hidden = at::zeros_like(distance, at::kBool);
  if (options.visibility == Visibility::causal) hidden = hidden | (distance > 0);
  if (options.before) hidden = hidden | (distance < -*options.before);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor weights = at::softmax(scores, -1).masked_fill(hidden.all(-1, true), 0);
  return heads_first(at::matmul(weights, heads_first(v).repeat_interleave(group, 1)));
}

}  // namespace gnomon::libtorch

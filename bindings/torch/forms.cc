#include "bindings/torch/forms.h"

#include <torch/autograd.h>

#include <utility>
#include <variant>
#include <vector>

#include "bindings/torch/device.h"
#include "bindings/torch/setting.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

using at::indexing::Ellipsis;
using at::indexing::None;
using at::indexing::Slice;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// A table [B or 1, T, R/2] in float32 on the device of a tensor.
at::Tensor on_device(View<const float, 3> table, const at::Tensor& like) {
  return at::from_blob(const_cast<float*>(table.data()),
                       {table.extent(0), table.extent(1), table.extent(2)})
      .to(like.device(), at::kFloat, /*non_blocking=*/false, /*copy=*/true);
}
// Returns [B or 1, T, 1, R/2] for heads [B, T, H, D], of the type of the heads.
at::Tensor for_heads(const at::Tensor& table, const at::Tensor& x) {
  return table.unsqueeze(2).to(x.scalar_type());
}

// Distances position(key) - position(query), or distances of coordinates along an axis: [B or
// 1, T, S].
at::Tensor distances(const Places& places, const std::vector<std::int64_t>& coordinates = {}) {
  const auto at = [&](const at::Tensor& positions) {
    if (coordinates.empty()) return positions;
    return at::tensor(coordinates, positions.options()).index({positions});
  };
  return at(places.keys).unsqueeze(1) - at(places.queries).unsqueeze(2);
}

at::Tensor strip(const at::Tensor& numbers, std::int64_t first, const at::Tensor& distance) {
  return numbers.index({Slice(), distance - first}).transpose(0, 1);
}

// The column of a grid bias for each pair of query and key: [B or 1, T, S].
at::Tensor grid_columns(const GridBias& grid, const Places& places) {
  const at::Tensor q = (places.queries - grid.leading).unsqueeze(2),
                   k = (places.keys - grid.leading).unsqueeze(1);
  const auto row = [&](const at::Tensor& x) { return at::div(x, grid.width, "floor"); };
  const auto column = [&](const at::Tensor& x) { return at::remainder(x, grid.width); };
  at::Tensor index = (row(q) - row(k) + (grid.height - 1)) * (2 * grid.width - 1) + column(q) -
                     column(k) + (grid.width - 1);
  if (grid.leading == 0) return index;
  const std::int64_t count = grid.offsets();
  index = at::where(q < 0, at::full_like(index, count - 3), index);
  index = at::where(k < 0, at::full_like(index, count - 2), index);
  return at::where(at::logical_and(q < 0, k < 0), at::full_like(index, count - 1), index);
}

at::Tensor piecewise_log(const PiecewiseLogBias& form, const at::Tensor& numbers,
                         const Places& places) {
  const std::int64_t pieces = form.pieces();
  const auto number = [&](std::int64_t i) { return numbers.select(1, i).view({1, -1, 1, 1}); };
  const at::Tensor c = number(2 * pieces), threshold = number(2 * pieces + 1);
  const auto psi = [&](const at::Tensor& n) { return at::log1p(c * n); };
  const at::Tensor back = places.queries.to(numbers.scalar_type()).unsqueeze(1).unsqueeze(-1);
  const at::Tensor x =
      psi(distances(places).abs().to(numbers.scalar_type()).unsqueeze(1)) /
      (psi(at::where(back >= threshold, back, threshold)) + form.epsilon);  // [B or 1, H, T, S]
  const at::Tensor knots = at::tensor(form.knots, at::kDouble).to(numbers.options());
  const at::Tensor piece =
      (at::searchsorted(knots, x.detach().contiguous(), false, /*right=*/true) - 1).flatten(2);
  const auto of_piece = [&](std::int64_t first) {
    return numbers.slice(1, first, first + pieces)
        .expand({piece.size(0), -1, -1})
        .gather(2, piece)
        .view(x.sizes());
  };
  return of_piece(0) + of_piece(pieces) * x;
}

// The row of a table of vectors for each pair of query and key: [B or 1, 1, T, S].
at::Tensor rows_of(const RelativeVectors& table, const Places& places) {
  const at::Tensor rows = at::tensor(table.rows, at::kLong).to(places.keys.device());
  return rows.index({distances(places, table.coordinates) - table.min_distance}).unsqueeze(1);
}

at::Tensor bias_by_operators(const BiasForm& form, const at::Tensor& numbers,
                             const Places& places) {
  if (std::holds_alternative<SlopeBias>(form))
    return -numbers.view({1, -1, 1, 1}) * distances(places).abs().unsqueeze(1);
  if (const auto* one = std::get_if<StripBias>(&form))
    return strip(numbers, one->min_distance, distances(places));
  if (const auto* grid = std::get_if<GridBias>(&form))
    return numbers.index({Slice(), grid_columns(*grid, places)}).transpose(0, 1);
  if (const auto* one = std::get_if<PiecewiseLogBias>(&form))
    return piecewise_log(*one, numbers, places);
  if (const auto* axes = std::get_if<AxesBias>(&form)) {
    at::Tensor sum;
    std::int64_t first = 0;
    for (std::size_t a = 0; a < axes->axes.size(); ++a) {
      const AxisStrip& axis = axes->axes[a];
      const std::int64_t count = axes->distances(a);
      const at::Tensor part = strip(numbers.slice(1, first, first + count), axis.min_distance,
                                    distances(places, axis.coordinates));
      sum = sum.defined() ? sum + part : part;
      first += count;
    }
    return sum;
  }
  refuse("attention", "composed operators must support the bias form",
         static_cast<int>(form.index()));
}

// The sums of grad [B or 1, H, T, S] by column [B or 1, T, S]: [H, columns].
at::Tensor sum_by_column(const at::Tensor& grad, const at::Tensor& column,
                         std::int64_t columns) {
  const std::int64_t heads = grad.size(1);
  return at::zeros({columns, heads}, grad.options())
      .index_put({column.reshape(-1)}, grad.permute({0, 2, 3, 1}).reshape({-1, heads}),
                 /*accumulate=*/true)
      .t();
}

// Arguments of a differentiable function that are not tensors.
template <typename Value>
struct Kept : torch::CustomClassHolder {
  explicit Kept(Value given) : value(std::move(given)) {}
  Value value;
};
template <typename Value>
void keep(AutogradContext* context, Value value) {
  context->saved_data["kept"] =
      at::IValue::make_capsule(c10::make_intrusive<Kept<Value>>(std::move(value)));
}
template <typename Value>
const Value& kept(AutogradContext* context) {
  return static_cast<const Kept<Value>&>(*context->saved_data["kept"].toCapsule()).value;
}

struct RotateHeads : Function<RotateHeads> {
  using Call = std::pair<Rotation, Direction>;

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Call& call) {
    keep(context, call);
    return std::visit([&](const auto* one) { return rotate_heads(x, *one, call.second); },
                      call.first.table);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto [rotation, direction] = kept<Call>(context);
    const Direction other =
        direction == Direction::forward ? Direction::inverse : Direction::forward;
    return {RotateHeads::apply(grads[0], Call(rotation, other)), at::Tensor()};
  }
};

struct BiasMatrix : Function<BiasMatrix> {
  using Call = std::pair<std::shared_ptr<const BiasForm>, Places>;

  static at::Tensor forward(AutogradContext* context, const at::Tensor& numbers,
                            const Call& call) {
    keep(context, call);
    context->save_for_backward({numbers});
    return bias_by_operators(*call.first, numbers, call.second);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto& [form, places] = kept<Call>(context);
    const variable_list numbers = context->get_saved_variables();
    if (!at::GradMode::is_enabled())
      return {bias_gradient(*form, numbers[0], places, grads[0]), at::Tensor()};
    variable_list result = differentiable_gradients(
        numbers, grads[0],
        [&](const variable_list& x) { return bias_by_operators(*form, x[0], places); });
    result.emplace_back();  // the form and the places
    return result;
  }
};

}  // namespace

at::Tensor rotate_heads(const at::Tensor& x, const RotaryTable& table, Direction direction) {
  const RotaryFrequencies& rotary = table.frequencies();
  const std::int64_t first = rotary.head_offset, middle = first + rotary.rotary_dim() / 2,
                     end = first + rotary.rotary_dim();
  const at::Tensor all_cos = on_device(table.cos(), x), all_sin = on_device(table.sin(), x);
  const at::Tensor out = rotate_on_device(x, all_cos, all_sin, rotary, direction);
  if (out.defined()) return out;
  const at::Tensor cos = for_heads(all_cos, x);
  at::Tensor sin = for_heads(all_sin, x);
  if (direction == Direction::inverse) sin = -sin;
  const bool halves = rotary.pairing == Pairing::halves;
  const auto a = x.index({Ellipsis, halves ? Slice(first, middle) : Slice(first, end, 2)});
  const auto b = x.index({Ellipsis, halves ? Slice(middle, end) : Slice(first + 1, end, 2)});
  const at::Tensor c = a * cos - b * sin, d = a * sin + b * cos;
  const at::Tensor pairs = halves ? at::cat({c, d}, -1) : at::stack({c, d}, -1).flatten(-2);
  return at::cat(
      {x.index({Ellipsis, Slice(0, first)}), pairs, x.index({Ellipsis, Slice(end, None)})}, -1);
}

// The elements of a pair have different angles, so the inverse direction is the transpose and
// not the rotation by the negative angles.
at::Tensor rotate_heads(const at::Tensor& x, const Vjepa2Table& table, Direction direction) {
  const at::Tensor cos = for_heads(on_device(table.cos(), x), x),
                   sin = for_heads(on_device(table.sin(), x), x);
  const std::int64_t elements = cos.size(-1);  // three blocks; the rest does not change
  const at::Tensor met = x.narrow(-1, 0, elements);
  const bool forward = direction == Direction::forward;
  const at::Tensor from = forward ? met : met * sin;
  const at::Tensor a = from.index({Ellipsis, Slice(0, None, 2)}),
                   b = from.index({Ellipsis, Slice(1, None, 2)});
  const at::Tensor crossed =
      forward ? at::stack({-b, a}, -1).flatten(-2) * sin : at::stack({b, -a}, -1).flatten(-2);
  return at::cat({met * cos + crossed, x.index({Ellipsis, Slice(elements, None)})}, -1);
}

at::Tensor rotated(const at::Tensor& x, const Rotation& rotation) {
  return RotateHeads::apply(x, RotateHeads::Call(rotation, Direction::forward));
}

at::Tensor bias_gradient(const BiasForm& form, const at::Tensor& numbers, const Places& places,
                         const at::Tensor& grad) {
  const std::int64_t count = numbers.size(1);
  if (std::holds_alternative<SlopeBias>(form))
    return -(grad * distances(places).abs().unsqueeze(1))
                .sum(at::IntArrayRef{0, 2, 3})
                .unsqueeze(1);
  if (const auto* one = std::get_if<StripBias>(&form))
    return sum_by_column(grad, distances(places) - one->min_distance, count);
  if (const auto* grid = std::get_if<GridBias>(&form))
    return sum_by_column(grad, grid_columns(*grid, places), count);
  if (const auto* axes = std::get_if<AxesBias>(&form)) {
    std::vector<at::Tensor> parts;
    for (std::size_t a = 0; a < axes->axes.size(); ++a)
      parts.push_back(sum_by_column(
          grad, distances(places, axes->axes[a].coordinates) - axes->axes[a].min_distance,
          axes->distances(a)));
    return at::cat(parts, 1);
  }
  const at::AutoGradMode enabled(true);
  const at::Tensor own = numbers.detach().requires_grad_(true);
  return torch::autograd::grad({bias_by_operators(form, own, places)}, {own}, {grad})[0];
}

at::Tensor bias_of(std::shared_ptr<const BiasForm> form, const at::Tensor& numbers,
                   const Places& places) {
  return BiasMatrix::apply(numbers, BiasMatrix::Call(std::move(form), places));
}

at::Tensor met_by_queries(const RelativeVectors& table, const at::Tensor& products,
                          const Places& places) {
  const at::Tensor rows = rows_of(table, places);
  return products.gather(
      -1, rows.expand({products.size(0), products.size(1), rows.size(2), rows.size(3)}));
}

at::Tensor met_within(const RelativeVectors& table, const at::Tensor& products,
                      const Places& places) {
  const at::Tensor n =
      places.keys.unsqueeze(-2) - places.queries.unsqueeze(-1) - table.min_distance;
  const at::Tensor inside = n.ge(0).logical_and(n.lt(table.distances())).unsqueeze(1);
  const at::Tensor rows = at::tensor(table.rows, at::kLong).to(n.device());
  const at::Tensor index = rows.index({n.clamp(0, table.distances() - 1)}).unsqueeze(1);
  return products
      .gather(-1, index.expand({products.size(0), products.size(1), n.size(-2), n.size(-1)}))
      .masked_fill(inside.logical_not(), 0);
}

at::Tensor met_by_keys(const RelativeVectors& table, const at::Tensor& products,
                       const Places& places) {
  const at::Tensor rows = rows_of(table, places).transpose(-1, -2);
  return products
      .gather(-1, rows.expand({products.size(0), products.size(1), rows.size(2), rows.size(3)}))
      .transpose(-1, -2);
}

at::Tensor weight_of_each(const RelativeVectors& table, const at::Tensor& weights,
                          const Places& places) {
  const at::Tensor zeros = at::zeros(
      {weights.size(0), weights.size(1), weights.size(2), table.vectors()}, weights.options());
  return zeros.scatter_add(-1, rows_of(table, places).expand(weights.sizes()), weights);
}

}  // namespace gnomon::libtorch

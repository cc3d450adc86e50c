#include "gnomon/cuda/bias_gradient.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "gnomon/error.h"
#include "src/cuda/arguments.h"
#include "src/cuda/bias_gradient_kernel.h"
#include "src/cuda/bias_gradient_sums.h"
#include "src/cuda/launch.h"

namespace gnomon::cuda {
namespace {

using std::int32_t;
using std::int64_t;

constexpr const char* operation = "bias_gradient";
constexpr int64_t target_blocks = 4096;  // enough for any device; limits the workspace
constexpr int64_t least_tiles = 4;       // least tiles of a segment
constexpr int64_t most_pieces = 256;

struct Plan {
  int64_t batch, queries, keys, heads, key_heads, key_size, value_size;
  int64_t offset = 0;               // of the mask
  int64_t lowest = 1, highest = 0;  // visible differences of rows; empty: no visible pair
  Bands bands = {};
  int64_t record = 0;         // floats of a segment
  int64_t gradient_size = 0;  // values per head
  int device = 0;

  int64_t delta_bytes() const { return (4 * batch * heads * queries + 255) / 256 * 256; }
  int64_t segments() const { return heads * bands.count * bands.segments; }
  int64_t bytes() const { return delta_bytes() + 4 * record * segments(); }
};

int64_t floor_division(int64_t a, int64_t b) { return a / b - (a % b < 0); }

void check_axes(Arguments& arguments, const char* name, const ConstTensor& tensor,
                std::initializer_list<int64_t> extents, const char* letters) {
  int32_t axis = 0;
  for (const int64_t extent : extents) {
    if (tensor.extent(axis) != extent)
      arguments.refuse_shape(
          name,
          std::string(letters) + " = " +
              shape_text(std::span<const int64_t>(extents.begin(), extents.size())),
          tensor);
    ++axis;
  }
}

// Copies are of 16 bytes.
void check_aligned(const char* name, const ConstTensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(data<char>(tensor));
  if (address % 16)
    refuse(operation, std::string("the data of ") + name + " must be aligned to 16 bytes",
           "a remainder of " + std::to_string(address % 16));
  for (int32_t axis = 0; axis + 1 < tensor.rank; ++axis)
    if (tensor.extent(axis) > 1 && tensor.stride(axis) * (tensor.dtype.bits / 8) % 16)
      refuse(
          operation,
          "stride " + std::to_string(axis) + " of " + name + " must be a multiple of 16 bytes",
          std::to_string(tensor.stride(axis)) + " elements");
}

void check_vectors(Arguments& arguments, const char* name, const ConstTensor& tensor,
                   const ConstTensor& q) {
  arguments.check_rows(name, tensor, 4, 4);
  arguments.check_type(name, tensor, q.dtype);
  const int64_t size = tensor.extent(3);
  if (size < 8 || size % 8)
    refuse(operation, std::string("the head dimension of ") + name + " must be a multiple of 8",
           size);
  check_aligned(name, tensor);
}

void check_mask(const AttentionMask& mask) {
  if (mask.visibility != Visibility::causal && mask.visibility != Visibility::bidirectional)
    refuse(operation, "visibility must be causal or bidirectional",
           static_cast<int>(mask.visibility));
  constexpr int64_t most = 1 << 30;
  if (mask.offset && (*mask.offset < 0 || *mask.offset > most))
    refuse(operation, "offset must be 0 to 2^30", *mask.offset);
  if (mask.left && *mask.left < 0) refuse(operation, "left must not be negative", *mask.left);
  if (mask.right && *mask.right < 0)
    refuse(operation, "right must not be negative", *mask.right);
}

// The bands of the tiles that have a visible pair. Depends on shapes and the mask only.
void divide(Plan& plan, const AttentionMask& mask) {
  const int64_t offset = plan.offset;
  if (plan.batch == 0 || plan.queries == 0 || plan.keys == 0 || plan.heads == 0) return;
  int64_t lowest = 1 - plan.queries, highest = plan.keys - 1;
  if (mask.visibility == Visibility::causal) highest = std::min(highest, offset);
  if (mask.right && *mask.right < highest - offset) highest = offset + *mask.right;
  if (mask.left && -*mask.left > lowest - offset) lowest = offset - *mask.left;
  if (lowest > highest) return;
  plan.lowest = lowest;
  plan.highest = highest;
  const int64_t query_tiles = (plan.queries - 1) / tile_size + 1,
                key_tiles = (plan.keys - 1) / tile_size + 1;
  // Band b has the differences 128 b - 127 to 128 b + 127.
  const int64_t first =
      std::max(1 - query_tiles, -floor_division(tile_size - 1 - lowest, tile_size));
  const int64_t last =
      std::min(key_tiles - 1, floor_division(highest + tile_size - 1, tile_size));
  Bands& bands = plan.bands;
  bands.batch = static_cast<int32_t>(plan.batch);
  bands.query_tiles = static_cast<int32_t>(query_tiles);
  bands.key_tiles = static_cast<int32_t>(key_tiles);
  bands.first = static_cast<int32_t>(first);
  bands.count = static_cast<int32_t>(last - first + 1);
  const int64_t center = std::clamp((key_tiles - query_tiles) / 2, first, last);
  bands.center = static_cast<int32_t>(center);
  const int64_t tiles =
      plan.batch * (std::min(query_tiles, key_tiles - center) - std::max<int64_t>(0, -center));
  bands.segments =
      static_cast<int32_t>(std::clamp<int64_t>(target_blocks / (plan.heads * bands.count), 1,
                                               std::max<int64_t>(1, tiles / least_tiles)));
}

void check_bias(Plan& plan, const BiasView& bias) {
  const int64_t heads = std::visit([](const auto& one) { return one.heads; }, bias);
  if (heads != plan.heads)
    refuse(operation, "the bias must have " + std::to_string(plan.heads) + " heads", heads);
  const bool visible = plan.lowest <= plan.highest;
  plan.record = DiagonalForm::record();
  plan.gradient_size = 1;
  if (const auto* const strip = std::get_if<StripView>(&bias)) {
    plan.gradient_size = strip->distances;
    const int64_t nearest = plan.lowest - plan.offset, farthest = plan.highest - plan.offset;
    const int64_t last = strip->min_distance + strip->distances - 1;
    if (visible && (nearest < strip->min_distance || farthest > last))
      refuse(operation,
             "the strip must contain the distances " + std::to_string(nearest) + " to " +
                 std::to_string(farthest),
             std::to_string(strip->min_distance) + " to " + std::to_string(last));
  } else if (const auto* const grid = std::get_if<GridView>(&bias)) {
    plan.record = GridForm::record();
    plan.gradient_size = offsets(*grid);
    const int64_t positions = grid->leading + int64_t{grid->height} * grid->width;
    const int64_t most = std::max(plan.keys, plan.queries + plan.offset);
    if (most > positions)
      refuse(operation, "positions on the grid must be fewer than " + std::to_string(positions),
             most - 1);
  } else if (const auto* const pieces = std::get_if<PiecewiseLogView>(&bias)) {
    if (pieces->pieces < 1 || pieces->pieces > most_pieces)
      refuse(operation, "a piecewise logarithmic bias must have 1 to 256 pieces",
             pieces->pieces);
    plan.gradient_size = 2 * int64_t{pieces->pieces} + 2;
    plan.record = plan.gradient_size;
  }
}

Plan checked(Arguments& arguments, const BiasGradientInput& input, const BiasView& bias,
             const BiasGradientOptions& options) {
  check_mask(options.mask);
  if (options.softmax_scale && !std::isfinite(*options.softmax_scale))
    refuse(operation, "softmax_scale must be finite", *options.softmax_scale);
  if (options.cap && !(*options.cap > 0))
    refuse(operation, "cap must be positive", *options.cap);
  arguments.check_rows("q", input.q, 4, 4);
  by_type(operation, "q", input.q, [](auto) {});
  check_vectors(arguments, "q", input.q, input.q);
  check_vectors(arguments, "k", input.k, input.q);
  check_vectors(arguments, "v", input.v, input.q);
  check_vectors(arguments, "out", input.out, input.q);
  check_vectors(arguments, "out_grad", input.out_grad, input.q);
  arguments.check("lse", input.lse, 3, data_type_of<float>);
  Plan plan{.batch = input.q.extent(0),
            .queries = input.q.extent(1),
            .keys = input.k.extent(1),
            .heads = input.q.extent(2),
            .key_heads = input.k.extent(2),
            .key_size = input.q.extent(3),
            .value_size = input.v.extent(3)};
  constexpr int64_t most = 1 << 30;
  if (std::max({plan.batch, plan.queries, plan.keys, plan.heads}) > most)
    arguments.refuse_shape("q", "of extents up to 2^30", input.q);
  check_axes(arguments, "k", input.k, {plan.batch, plan.keys, plan.key_heads, plan.key_size},
             "[B, S, Hk, D]");
  check_axes(arguments, "v", input.v, {plan.batch, plan.keys, plan.key_heads, plan.value_size},
             "[B, S, Hk, Dv]");
  for (const auto& [name, tensor] :
       {std::pair("out", &input.out), {"out_grad", &input.out_grad}})
    check_axes(arguments, name, *tensor,
               {plan.batch, plan.queries, plan.heads, plan.value_size}, "[B, T, Hq, Dv]");
  check_axes(arguments, "lse", input.lse, {plan.batch, plan.heads, plan.queries}, "[B, Hq, T]");
  if (plan.key_heads == 0 ? plan.heads != 0 : plan.heads % plan.key_heads != 0)
    refuse(operation,
           "the key heads must divide the " + std::to_string(plan.heads) + " query heads",
           plan.key_heads);
  if (!options.mask.offset && plan.queries != plan.keys)
    refuse(operation, "a mask without an offset requires T = S",
           "T = " + std::to_string(plan.queries) + ", S = " + std::to_string(plan.keys));
  plan.offset = options.mask.offset.value_or(0);
  divide(plan, options.mask);
  check_bias(plan, bias);
  if (plan.segments() > 0x7fffffff || plan.batch * plan.heads * plan.queries > int64_t{1} << 35)
    arguments.refuse_shape("q", "of fewer rows and heads", input.q);
  plan.device = arguments.device();
  return plan;
}

Matrix matrix_of(Arguments& arguments, const char* name, const ConstTensor& tensor,
                 int64_t rows, int64_t columns, const char* letters, int32_t least_rank = 2) {
  arguments.check(name, tensor, least_rank, 2);
  if (!tensor.holds<float>() && !tensor.holds<double>())
    refuse(arguments.operation(), std::string(name) + " must have elements of f32 or f64",
           gnomon::name(tensor.dtype));
  if (tensor.extent(0) != rows || (tensor.rank == 2 && tensor.extent(1) != columns))
    arguments.refuse_shape(name,
                           std::string(letters) + " = [" + std::to_string(rows) + ", " +
                               std::to_string(columns) + "]",
                           tensor);
  Matrix matrix;
  if (tensor.holds<float>())
    matrix.floats = data<float>(tensor);
  else
    matrix.doubles = data<double>(tensor);
  matrix.row = tensor.stride(0);
  matrix.column = tensor.rank == 2 ? tensor.stride(1) : 0;
  return matrix;
}

// [B, rows, H, size].
template <typename T>
HeadRows<T> rows_of(const ConstTensor& tensor) {
  return {data<const T>(tensor), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

Records records_of(const Plan& plan, const float* data) {
  return {.data = data,
          .bands = plan.bands,
          .size = static_cast<int32_t>(plan.record),
          .lowest = static_cast<int32_t>(plan.lowest),
          .highest = static_cast<int32_t>(plan.highest),
          .offset = static_cast<int32_t>(plan.offset)};
}

template <typename T>
void launch_delta(const Plan& plan, const BiasGradientInput& input, float* deltas,
                  Stream stream) {
  DeltaKernel<T> kernel;
  kernel.out = rows_of<T>(input.out);
  kernel.out_grad = rows_of<T>(input.out_grad);
  kernel.size = static_cast<int32_t>(plan.value_size);
  kernel.heads = static_cast<int32_t>(plan.heads);
  kernel.queries = static_cast<int32_t>(plan.queries);
  kernel.rows = plan.batch * plan.heads * plan.queries;
  kernel.deltas = deltas;
  constexpr int64_t rows = DeltaKernel<T>::max_threads / 8;
  launch(kernel, {(kernel.rows + rows - 1) / rows, DeltaKernel<T>::max_threads, 0}, stream);
}

// E: the elements as the kernel sees them.
template <typename E, class Form>
void launch_bands(const Plan& plan, const BiasGradientInput& input,
                  const BiasGradientOptions& options, const Form& form, const float* deltas,
                  float* records, Stream stream) {
  BiasGradientKernel<E, Form> kernel;
  kernel.q = rows_of<E>(input.q);
  kernel.k = rows_of<E>(input.k);
  kernel.v = rows_of<E>(input.v);
  kernel.out_grad = rows_of<E>(input.out_grad);
  kernel.format = input.q.holds<BFloat16>() ? Format::bf16 : Format::f16;
  kernel.key_size = static_cast<int32_t>(plan.key_size);
  kernel.value_size = static_cast<int32_t>(plan.value_size);
  kernel.lse = data<const float>(input.lse);
  kernel.lse_batch = input.lse.stride(0);
  kernel.lse_head = input.lse.stride(1);
  kernel.lse_row = input.lse.stride(2);
  kernel.deltas = deltas;
  kernel.bands = plan.bands;
  kernel.heads = static_cast<int32_t>(plan.heads);
  kernel.group = static_cast<int32_t>(plan.heads / plan.key_heads);
  kernel.queries = static_cast<int32_t>(plan.queries);
  kernel.keys = static_cast<int32_t>(plan.keys);
  kernel.offset = static_cast<int32_t>(plan.offset);
  kernel.lowest = static_cast<int32_t>(plan.lowest);
  kernel.highest = static_cast<int32_t>(plan.highest);
  const double scale = options.softmax_scale.value_or(softmax_scale(plan.key_size));
  kernel.scale = static_cast<float>(scale * M_LOG2E);
  kernel.cap = static_cast<float>(options.cap.value_or(0) * M_LOG2E);
  kernel.form = form;
  kernel.records = records;
  launch(kernel,
         {plan.segments(), tile_threads, static_cast<std::size_t>(kernel.shared_bytes())},
         stream);
}

}  // namespace

std::size_t bias_gradient_workspace(const BiasGradientInput& input, const BiasView& bias,
                                    const BiasGradientOptions& options) {
  Arguments arguments(operation);
  return static_cast<std::size_t>(checked(arguments, input, bias, options).bytes());
}

void bias_gradient(const BiasGradientInput& input, const BiasView& bias,
                   const BiasGradientOptions& options, const Tensor& values_grad,
                   const Tensor& workspace, Stream stream) {
  Arguments arguments(operation);
  const Plan plan = checked(arguments, input, bias, options);
  const auto* const slope = std::get_if<SlopeView>(&bias);
  const auto* const strip = std::get_if<StripView>(&bias);
  const auto* const grid = std::get_if<GridView>(&bias);
  const auto* const pieces = std::get_if<PiecewiseLogView>(&bias);
  const Matrix out = matrix_of(arguments, "values_grad", values_grad, plan.heads,
                               plan.gradient_size, "[Hq, gradient_size]", slope ? 1 : 2);
  arguments.check("workspace", workspace, 1, data_type_of<std::uint8_t>);
  if (workspace.size() < plan.bytes() ||
      (workspace.rank == 1 && workspace.extent(0) > 1 && workspace.stride(0) != 1))
    refuse(operation,
           "workspace must have at least " + std::to_string(plan.bytes()) + " contiguous bytes",
           workspace.size());
  check_aligned("workspace", workspace);

  const DeviceScope scope(plan.device);
  auto* const deltas = data<float>(workspace);
  float* const records = deltas + plan.delta_bytes() / 4;
  if (plan.bands.count > 0)
    by_type(operation, "q", input.q, [&]<typename T>(T) {
      launch_delta<T>(plan, input, deltas, stream);
      const auto go = [&](const auto& form) {
        using E = std::conditional_t<sizeof(T) == 4, float, std::uint16_t>;
        launch_bands<E>(plan, input, options, form, deltas, records, stream);
      };
      if (grid) return go(GridForm{*grid});
      if (pieces) return go(PiecewiseLogForm{*pieces});
      go(DiagonalForm{slope ? slope->slopes : nullptr, strip ? *strip : StripView()});
    });
  const Records all = records_of(plan, records);
  if (slope)
    return launch(LowerSlopeKernel{all, out}, {plan.heads, 256, 256 * sizeof(double)}, stream);
  LowerKernel kernel;
  kernel.records = all;
  kernel.lowering = strip ? Lowering::strip : grid ? Lowering::grid : Lowering::piecewise_log;
  if (strip) kernel.min_distance = strip->min_distance;
  if (grid) kernel.grid = *grid;
  kernel.columns = static_cast<int32_t>(plan.gradient_size);
  kernel.values = plan.heads * plan.gradient_size;
  kernel.out = out;
  launch(kernel, {(kernel.values + 255) / 256, 256, 0}, stream);
}

void strip_to_table(const ConstTensor& strip_grad, const ConstTensor& buckets,
                    const Tensor& table_grad, Stream stream) {
  Arguments arguments("strip_to_table");
  arguments.check("strip_grad", strip_grad, 2, 2);
  const int64_t heads = strip_grad.extent(0), distances = strip_grad.extent(1);
  StripToTableKernel kernel;
  kernel.strip = matrix_of(arguments, "strip_grad", strip_grad, heads, distances, "[H, N]");
  arguments.check("buckets", buckets, 1, data_type_of<int32_t>);
  if (buckets.extent(0) != distances)
    arguments.refuse_shape("buckets", "[N] = [" + std::to_string(distances) + "]", buckets);
  arguments.check("table_grad", table_grad, 2, 2);
  const int64_t rows = table_grad.extent(0);
  kernel.table = matrix_of(arguments, "table_grad", table_grad, rows, heads, "[rows, H]");
  kernel.buckets = data<const int32_t>(buckets);
  kernel.stride = buckets.stride(0);
  kernel.distances = distances;
  kernel.heads = static_cast<int32_t>(heads);
  if (rows * heads > 0x7fffffff)
    arguments.refuse_shape("table_grad", "of fewer than 2^31 entries", table_grad);
  const DeviceScope scope(arguments.device());
  launch(kernel, {rows * heads, 256, 256 * sizeof(double)}, stream);
}

}  // namespace gnomon::cuda

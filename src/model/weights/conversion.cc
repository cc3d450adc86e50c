#include "gnomon/model/conversion.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "gnomon/error.h"
#include "src/core/overflow.h"
#include "src/model/weights/weight_names.h"

namespace gnomon::model {
namespace {

using internal::Leaf;
using internal::Role;
using internal::TensorName;
using std::int64_t;

[[noreturn]] void refuse_tensor(std::string_view rule, std::string_view tensor,
                                std::span<const int64_t> shape) {
  refuse("conversion", rule, std::string(tensor) + " " + shape_text(shape));
}

void check(const AttentionSizes& sizes) {
  // Bounds, so that no product below overflows.
  const auto bounded = [](const char* what, int64_t value, int64_t least) {
    if (value < least || value > int64_t{1} << 20)
      refuse("conversion", std::string(what) + " must be " + std::to_string(least) + " to 2^20",
             value);
  };
  bounded("heads", sizes.heads, 1);
  bounded("kv_heads", sizes.key_heads, 1);
  bounded("head_dim", sizes.head_dim, 1);
  bounded("rotary_dim", sizes.rotary_dim, 2);
  bounded("first", sizes.head_offset, 0);
  bounded("kv_lora_rank", sizes.kv_lora_rank, 0);
  bounded("scale_rows", sizes.scale_rows, 1);
  if (sizes.rotary_dim % 2) refuse("conversion", "rotary_dim must be even", sizes.rotary_dim);
  if (sizes.head_offset + sizes.rotary_dim > sizes.head_dim)
    refuse("conversion",
           "first + rotary_dim must be at most head_dim, " + std::to_string(sizes.head_dim),
           sizes.head_offset + sizes.rotary_dim);
}

// Adds `heads` heads of `stride` rows, from `row` on.
void add_heads(RowPermutation& plan, const AttentionSizes& sizes, int64_t row, int64_t heads,
               int64_t stride) {
  for (int64_t head = 0; head < heads; ++head)
    plan.starts.push_back(row + head * stride + sizes.head_offset);
}

void plan_fused(RowPermutation& plan, const WeightLayout& layout, const AttentionSizes& sizes,
                std::string_view tensor, std::span<const int64_t> shape) {
  const int64_t heads = sizes.heads, keys = sizes.key_heads, dim = sizes.head_dim;
  switch (layout.fused) {
    case Fused::stacked:
      plan.rows = (heads + 2 * keys) * dim;
      add_heads(plan, sizes, 0, heads + keys, dim);
      return;
    case Fused::grouped: {
      if (heads % keys)
        refuse("conversion", "heads must be a multiple of kv_heads, " + std::to_string(keys),
               heads);
      const int64_t group = heads / keys + 2;
      plan.rows = keys * group * dim;
      for (int64_t key = 0; key < keys; ++key)
        add_heads(plan, sizes, key * group * dim, group - 1, dim);
      return;
    }
    case Fused::quarters: {
      if (heads % 4 || keys != heads)
        refuse("conversion", "heads must be a multiple of 4 and equal to kv_heads", heads);
      const int64_t part = heads / 4;
      plan.rows = 3 * heads * dim;
      for (int64_t quarter = 0; quarter < 4; ++quarter) {
        add_heads(plan, sizes, quarter * 3 * part * dim, part, dim);
        add_heads(plan, sizes, (quarter * 3 + 2) * part * dim, part, dim);
      }
      return;
    }
    case Fused::none:
      break;
  }
  refuse_tensor("the layout of fused q, k and v must be known for the model_type", tensor,
                shape);
}

// Returns the rows of a projection. For norms: the rows of a norm of all heads.
RowPermutation plan_role(const WeightLayout& layout, const AttentionSizes& sizes, Role role,
                         std::string_view tensor, std::span<const int64_t> shape) {
  RowPermutation plan{.rows = 0, .rotary_dim = sizes.rotary_dim, .starts = {}};
  switch (role) {
    case Role::query: {
      const int64_t stride = sizes.head_dim * (layout.query == QueryRows::gated ? 2 : 1);
      plan.rows = sizes.heads * stride;
      add_heads(plan, sizes, 0, sizes.heads, stride);
      break;
    }
    case Role::query_norm:
      plan.rows = sizes.heads * sizes.head_dim;
      add_heads(plan, sizes, 0, sizes.heads, sizes.head_dim);
      break;
    case Role::key:
    case Role::key_norm:
      plan.rows = sizes.key_heads * sizes.head_dim;
      add_heads(plan, sizes, 0, sizes.key_heads, sizes.head_dim);
      break;
    case Role::fused:
      plan_fused(plan, layout, sizes, tensor, shape);
      break;
    case Role::shared_key:
      if (sizes.kv_lora_rank == 0)
        refuse_tensor("kv_lora_rank must be given for latent attention", tensor, shape);
      plan.rows = sizes.kv_lora_rank + sizes.rotary_dim;
      plan.starts.push_back(sizes.kv_lora_rank);
      break;
    case Role::none:
    case Role::unsure:
      break;
  }
  return plan;
}

int64_t count_of(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t a, int64_t b) {
    int64_t product = 0;
    return gnomon::internal::multiply_overflow(a, b, &product) ? INT64_MAX : product;
  });
}

// A scale is permuted with its row. It stays if all rows of a slice share it. It is refused if
// rows would move to the scale of another block.
std::optional<RowPermutation> plan_scale(RowPermutation plan, const AttentionSizes& sizes,
                                         std::string_view tensor,
                                         std::span<const int64_t> shape) {
  if (count_of(shape) == 1) return std::nullopt;
  if (shape[0] == plan.rows) return plan;
  const int64_t block = sizes.scale_rows;
  const auto in_one = [&](int64_t start) {
    return start / block == (start + plan.rotary_dim - 1) / block;
  };
  if (shape[0] == (plan.rows + block - 1) / block &&
      std::all_of(plan.starts.begin(), plan.starts.end(), in_one))
    return std::nullopt;
  refuse_tensor("the scale of q or k must be one value, one per row, or one per block of " +
                    std::to_string(block) + " rows with whole rotated slices",
                tensor, shape);
}

}  // namespace

std::optional<RowPermutation> plan_rows(const WeightLayout& layout, const AttentionSizes& sizes,
                                        std::string_view tensor,
                                        std::span<const int64_t> shape) {
  const TensorName name = internal::read_name(tensor);
  if (name.role == Role::none) return std::nullopt;
  check(sizes);
  if (name.leaf == Leaf::single && count_of(shape) == 1) return std::nullopt;
  if (name.leaf == Leaf::unmoved) return std::nullopt;
  const bool is_norm = name.role == Role::query_norm || name.role == Role::key_norm;
  // The norms of latent attention are applied before the split into heads.
  if (is_norm && sizes.kv_lora_rank > 0) return std::nullopt;
  if (name.role == Role::unsure || name.leaf == Leaf::unsure || name.leaf == Leaf::single)
    refuse_tensor("a tensor of q or k must be a weight, bias, lora_B or scale", tensor, shape);
  if (layout.outputs != Outputs::rows)
    refuse_tensor("the rows of a tensor of q or k must be its outputs", tensor, shape);
  RowPermutation plan = plan_role(layout, sizes, name.role, tensor, shape);
  if (shape.empty() && name.leaf != Leaf::scale)
    refuse_tensor("a tensor of q or k must have rows", tensor, shape);
  if (name.leaf == Leaf::scale) return plan_scale(std::move(plan), sizes, tensor, shape);
  if (is_norm && count_of(shape) == sizes.head_dim) {
    plan.rows = sizes.head_dim;
    plan.starts = {sizes.head_offset};
    return plan;
  }
  const bool flat = is_norm || name.leaf == Leaf::magnitude;
  if (shape[0] != plan.rows && !(flat && count_of(shape) == plan.rows))
    refuse_tensor(std::string("a tensor of q or k must have ") +
                      (is_norm ? std::to_string(sizes.head_dim) + " or " : std::string()) +
                      std::to_string(plan.rows) + " rows",
                  tensor, shape);
  return plan;
}

bool is_of_tower(std::string_view tensor) { return internal::is_of_tower(tensor); }

int64_t source_element(Pairing to, int64_t rotary_dim, int64_t element) {
  const int64_t half = rotary_dim / 2;
  if (to == Pairing::adjacent) return element / 2 + (element % 2) * half;
  return element < half ? 2 * element : 2 * (element - half) + 1;
}

int64_t source_row(const RowPermutation& plan, Pairing to, int64_t row) {
  const auto next = std::upper_bound(plan.starts.begin(), plan.starts.end(), row);
  if (next == plan.starts.begin()) return row;
  const int64_t start = *(next - 1);
  if (row >= start + plan.rotary_dim) return row;
  return start + source_element(to, plan.rotary_dim, row - start);
}

void permute_rows(const RowPermutation& plan, Pairing to, std::span<const std::byte> from,
                  std::span<std::byte> out) {
  if (to != Pairing::halves && to != Pairing::adjacent)
    refuse("conversion", "pairing must be halves or adjacent", static_cast<int>(to));
  if (plan.rows < 1) refuse("conversion", "rows must be at least 1", plan.rows);
  const auto rows = static_cast<std::size_t>(plan.rows);
  if (from.size() % rows)
    refuse("conversion", "the bytes must be " + std::to_string(rows) + " equal rows",
           static_cast<int64_t>(from.size()));
  if (out.size() != from.size())
    refuse("conversion", "out must have " + std::to_string(from.size()) + " bytes",
           static_cast<int64_t>(out.size()));
  const std::size_t width = from.size() / rows;
  if (width == 0) return;
  for (int64_t row = 0; row < plan.rows; ++row) {
    const auto source = static_cast<std::size_t>(source_row(plan, to, row));
    std::memcpy(out.data() + static_cast<std::size_t>(row) * width,
                from.data() + source * width, width);
  }
}

}  // namespace gnomon::model

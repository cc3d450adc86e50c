#include "src/attention/key_elements.h"

#include <string>

#include "gnomon/error.h"
#include "src/core/tensor.h"

namespace gnomon::internal {
namespace {

using std::int64_t;

constexpr Argument named(std::string_view name) { return {"attention", name}; }

}  // namespace

bool is_e4m3(const ConstTensor& tensor) {
  return tensor.holds<std::uint8_t>() ||
         tensor.dtype == DataType{TypeCode::float8_e4m3fn, 8, 1};
}

void check_type_of_keys(std::string_view name, const ConstTensor& q, const ConstTensor& keys,
                        const ConstTensor& scales) {
  const bool has_8_bits = keys.holds<std::int8_t>() || is_e4m3(keys);
  if (has_8_bits != scales.has_data())
    refuse("attention",
           std::string(name) + "_scales must be given if and only if " + std::string(name) +
               " is int8 or E4M3",
           scales.has_data() ? gnomon::name(keys.dtype) : "no scales");
  if (keys.dtype == q.dtype || (has_8_bits && !q.holds<double>())) return;
  if (q.holds<float>() && (keys.holds<Half>() || keys.holds<BFloat16>())) return;
  refuse_type(named(name),
              q.holds<float>()    ? "f32, f16, bf16, i8 or E4M3, as q has f32"
              : q.holds<double>() ? "f64, as q has"
                                  : gnomon::name(q.dtype) + ", as q has, i8 or E4M3",
              keys.dtype);
}

View<const float, 3> scales_of(std::string_view name, const ConstTensor& scales,
                               const ConstTensor& keys) {
  if (is_e4m3(keys)) {
    const auto view = read<float, 1>(named(name), scales);
    const int64_t heads = keys.extent(2);
    if (view.extent(0) != 1 && view.extent(0) != heads)
      refuse("attention",
             std::string(name) + " must have 1 element or " + std::to_string(heads),
             int64_t{view.extent(0)});
    return {view.data(), {1, 1, heads}, {0, 0, view.extent(0) == 1 ? 0 : view.stride(0)}};
  }
  const auto view = read_if<float, 3>(named(name), scales);
  for (std::size_t axis = 0; view.data() && axis < 3; ++axis)
    if (view.extent(axis) != keys.shape[axis])
      refuse("attention",
             "axis " + std::to_string(axis) + " of " + std::string(name) + " must be " +
                 std::to_string(keys.shape[axis]),
             int64_t{view.extent(axis)});
  return view;
}

}  // namespace gnomon::internal

// Arrays of Python as tensors, without copies: NumPy, PyTorch, JAX, CuPy and all others that
// support DLPack.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "gnomon/tensor.h"

namespace gnomon::python {

namespace nb = nanobind;

// An array that is borrowed for a call. Not copyable.
class Array {
 public:
  enum class Access { read = 1, write };

  // None: no data. Throws std::invalid_argument if the object is not an array, and for
  // Access::write if it is read-only or overlaps itself. `name`: of the argument, for the
  // message.
  Array(const char* operation, const char* name, nb::handle object, Access access);
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  const Tensor& tensor() const noexcept { return tensor_; }
  operator const Tensor&() const noexcept { return tensor_; }  // NOLINT: a conversion

 private:
  bool borrow(nb::handle object);  // through the C exchange API (PyTorch)
  bool take(const char* operation, const char* name, nb::handle object, Access access);
  bool take_ml_dtype(const char* operation, const char* name, nb::handle object, Access access);

  Tensor tensor_;
  nb::ndarray<> written_;
  nb::ndarray<nb::ro> read_;
  nb::object owner_;
};

// A tensor [B, H, T, D] with the axes 1 and 2 exchanged, if `heads_tokens`; other tensors as
// they are.
struct TokensFirst {
  TokensFirst(const Tensor& from, bool heads_tokens) noexcept : tensor(from) {
    if (!heads_tokens || from.rank != 4 || !from.shape) return;
    for (int to = 0; to < 4; ++to) {
      const int axis = to == 1 ? 2 : to == 2 ? 1 : to;
      shape[to] = from.shape[axis], strides[to] = from.stride(axis);
    }
    tensor.shape = shape, tensor.strides = strides;
  }
  TokensFirst(const TokensFirst&) = delete;
  TokensFirst& operator=(const TokensFirst&) = delete;
  Tensor tensor;
  std::int64_t shape[4], strides[4];
};

// Returns the elements of an array of integers (or of a sequence of Python integers), and its
// shape. Throws std::invalid_argument unless the elements are integers and the array has 1 or 2
// axes.
struct Integers {
  std::vector<std::int64_t> shape, values;
};
Integers integers(const char* operation, const char* name, nb::handle object);

// Returns the elements of a list, a tuple or another iterable.
nb::list sequence(const char* operation, const char* name, nb::handle object);

// Returns a new NumPy array of the element type of `like`. Throws std::invalid_argument, with
// the rule "out must be given unless `whose` f32, f16 or f64", if NumPy has no such type.
nb::object new_array(const char* operation, const char* whose, const ConstTensor& like,
                     std::initializer_list<std::int64_t> shape);
// Returns a new NumPy array that owns `values`.
template <typename T>
nb::object numpy(std::vector<T> values, std::vector<std::size_t> shape) {
  auto* const kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept,
                    [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
}
// Returns a read-only NumPy array of memory that `owner` keeps.
template <typename T, std::size_t Rank>
nb::object numpy_view(const View<const T, Rank>& view, nb::handle owner) {
  std::vector<std::size_t> shape(view.extents().begin(), view.extents().end());
  std::vector<std::int64_t> strides(view.strides().begin(), view.strides().end());
  return nb::cast(
      nb::ndarray<nb::numpy, const T>(view.data(), Rank, shape.data(), owner, strides.data()));
}

}  // namespace gnomon::python

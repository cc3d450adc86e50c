#include "src/attention/matrix_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/attention/matrix_product_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/highway.h"
#include "src/attention/multiply-inl.h"
#include "src/core/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

template <Left left, Into into>
void MultiplyMatrices(const internal::MatrixProduct& from) {
  Product<float> product;
  product.depth = from.depth, product.a = from.a, product.a_stride = from.a_stride;
  product.b = from.b, product.b_row = from.b_row;
  product.c = from.c, product.c_row = from.c_row;
  product.factors = from.finite ? Factors::all : Factors::nonzero;
  Multiply<left, into>(product, from.rows, from.columns);
}

void StoreProduct(const internal::MatrixProduct& product) {
  MultiplyMatrices<Left::by_row, Into::store>(product);
}
void AddProduct(const internal::MatrixProduct& product) {
  MultiplyMatrices<Left::by_row, Into::add>(product);
}
void AddTransposedProduct(const internal::MatrixProduct& product) {
  MultiplyMatrices<Left::by_column, Into::add>(product);
}

void AddLeaky(std::int64_t rows, std::int64_t columns, const float* HWY_RESTRICT constants,
              float slope, float* HWY_RESTRICT u, float* HWY_RESTRICT v) {
  const hn::ScalableTag<float> tag;
  const auto factor = hn::Set(tag, slope), zero = hn::Zero(tag);
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto constant = hn::Set(tag, constants[i]);
    for (std::int64_t j = 0; j < columns; j += static_cast<std::int64_t>(hn::Lanes(tag))) {
      const std::int64_t at = i * columns + j;
      const auto sum = hn::Add(hn::Load(tag, u + at), constant);
      hn::Store(sum, tag, u + at);
      hn::Store(hn::IfThenElse(hn::Lt(sum, zero), hn::Mul(factor, sum), sum), tag, v + at);
    }
  }
}

void LeakyBackward(std::int64_t count, const float* HWY_RESTRICT u, float slope,
                   float* HWY_RESTRICT grad) {
  const hn::ScalableTag<float> tag;
  const auto factor = hn::Set(tag, slope), zero = hn::Zero(tag);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(tag))) {
    const auto own = hn::Load(tag, grad + i);
    const auto negative = hn::Lt(hn::Load(tag, u + i), zero);
    hn::Store(hn::IfThenElse(negative, hn::Mul(factor, own), own), tag, grad + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(StoreProduct);
HWY_EXPORT(AddProduct);
HWY_EXPORT(AddTransposedProduct);
HWY_EXPORT(AddLeaky);
HWY_EXPORT(LeakyBackward);

void internal::store_product(const MatrixProduct& product) {
  GNOMON_DISPATCH(StoreProduct)(product);
}
void internal::add_product(const MatrixProduct& product) {
  GNOMON_DISPATCH(AddProduct)(product);
}
void internal::add_transposed_product(const MatrixProduct& product) {
  GNOMON_DISPATCH(AddTransposedProduct)(product);
}
void internal::add_leaky(std::int64_t rows, std::int64_t columns, const float* constants,
                         float slope, float* u, float* v) {
  GNOMON_DISPATCH(AddLeaky)(rows, columns, constants, slope, u, v);
}
void internal::leaky_backward(std::int64_t count, const float* u, float slope, float* grad) {
  GNOMON_DISPATCH(LeakyBackward)(count, u, slope, grad);
}

}  // namespace gnomon
#endif  // HWY_ONCE

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

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gnomon {

HWY_EXPORT(StoreProduct);
HWY_EXPORT(AddProduct);
HWY_EXPORT(AddTransposedProduct);

void internal::store_product(const MatrixProduct& product) {
  GNOMON_DISPATCH(StoreProduct)(product);
}
void internal::add_product(const MatrixProduct& product) {
  GNOMON_DISPATCH(AddProduct)(product);
}
void internal::add_transposed_product(const MatrixProduct& product) {
  GNOMON_DISPATCH(AddTransposedProduct)(product);
}

}  // namespace gnomon
#endif  // HWY_ONCE

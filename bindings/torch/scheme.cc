#include "gnomon/torch/scheme.h"

#include <string>
#include <utility>

#include "bindings/torch/refuse_archive.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {

PositionSchemeImpl::PositionSchemeImpl(model::Scheme scheme,
                                       std::optional<at::Generator> generator)
    : scheme_(std::move(scheme)), generator_(std::move(generator)) {
  model::check(scheme_);
  reset();
}

void PositionSchemeImpl::reset() {
  table_ =
      register_module("table", PositionEncoding(model::before_layers(scheme_), generator_));
  layers_.clear();
  for (std::int64_t layer = 0; layer < std::ssize(scheme_.layers); ++layer) {
    const model::Mixture mixture = model::within_layer(scheme_, layer);
    PositionEncoding encoding{nullptr};
    if (model::sharing(mixture) == model::Sharing::all_layers)
      for (const PositionEncoding& earlier : layers_)
        if (earlier->mixture() == mixture) encoding = earlier;
    if (!encoding)
      encoding = register_module("layer" + std::to_string(layer),
                                 PositionEncoding(mixture, generator_));
    layers_.push_back(encoding);
  }
}

void PositionSchemeImpl::save(torch::serialize::OutputArchive&) const {
  refuse_save("a PositionScheme");
}
void PositionSchemeImpl::load(torch::serialize::InputArchive&) {
  refuse_load("a PositionScheme");
}

at::Tensor PositionSchemeImpl::embed(const at::Tensor& x, std::int64_t offset) {
  return layers_.front()->embed(table_->embed(x, offset), offset);
}

at::Tensor PositionSchemeImpl::embed(const at::Tensor& x, const Positions& positions) {
  return layers_.front()->embed(table_->embed(x, positions), positions);
}

at::Tensor PositionSchemeImpl::attend(std::int64_t layer_index, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const AttendOptions& options) {
  PositionEncoding encoding = layer(layer_index);
  return encoding->attend(q, k, v, options);
}

at::Tensor PositionSchemeImpl::attend_packed(std::int64_t layer_index, const at::Tensor& qkv,
                                             std::int64_t key_heads,
                                             const AttendOptions& options) {
  PositionEncoding encoding = layer(layer_index);
  return encoding->attend_packed(qkv, key_heads, options);
}

const PositionEncoding& PositionSchemeImpl::layer(std::int64_t layer) const {
  if (layer < 0 || layer >= std::ssize(layers_))
    refuse("scheme", "layer must be 0 to " + std::to_string(std::ssize(layers_) - 1), layer);
  return layers_[static_cast<std::size_t>(layer)];
}

}  // namespace gnomon::libtorch

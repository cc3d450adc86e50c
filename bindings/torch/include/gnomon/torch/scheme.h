// The position encodings of all layers of a LibTorch model, as one module.
//
//   using namespace gnomon;
//   libtorch::PositionScheme position(model::parse_scheme("rotary*3/none", shape, 12));
//   x = position->embed(token_embedding(ids));
//   for (std::int64_t layer = 0; layer < 12; ++layer)
//     y = position->attend(layer, q, k, v,
//                          {.visibility = Visibility::causal,
//                           .layout = libtorch::Layout::tokens_heads});
//
// Letters: as in gnomon/torch/position.h.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "gnomon/model/scheme.h"
#include "gnomon/torch/position.h"

namespace gnomon::libtorch {

// Owns each parameter once. Layers with the same mixture share one PositionEncoding if
// model::sharing(mixture) is Sharing::all_layers; otherwise each layer has its own. Submodules:
// "table" contains the encodings that only act on the embeddings, and "layer<l>" is named after
// the first layer that uses it.
class PositionSchemeImpl : public torch::nn::Cloneable<PositionSchemeImpl> {
 public:
  // Parameters are drawn in the order table, layer 0, layer 1, ... Throws like model::check.
  explicit PositionSchemeImpl(model::Scheme scheme,
                              std::optional<at::Generator> generator = std::nullopt);
  void reset() override;
  // Throw std::invalid_argument, like those of PositionEncoding.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  // Adds the tables of all encodings that act on the embeddings. Call it once, before layer 0.
  at::Tensor embed(const at::Tensor& x, std::int64_t offset = 0);
  at::Tensor embed(const at::Tensor& x, const Positions& positions);

  // Like PositionEncoding. Throws std::invalid_argument if there is no such layer.
  at::Tensor attend(std::int64_t layer, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const AttendOptions& options);
  at::Tensor attend_packed(std::int64_t layer, const at::Tensor& qkv, std::int64_t key_heads,
                           const AttendOptions& options);

  const model::Scheme& scheme() const noexcept { return scheme_; }
  const PositionEncoding& table() const noexcept { return table_; }
  const PositionEncoding& layer(std::int64_t layer) const;

 private:
  model::Scheme scheme_;
  std::optional<at::Generator> generator_;
  PositionEncoding table_{nullptr};
  std::vector<PositionEncoding> layers_;  // by layer; layers that share parameters share one
};
TORCH_MODULE(PositionScheme);

}  // namespace gnomon::libtorch

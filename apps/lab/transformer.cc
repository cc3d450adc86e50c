#include "apps/lab/transformer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <utility>

#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::LinearOptions;

// GPT-2's initial deviation. Token embeddings have a larger deviation, so that a table of sines
// that is added to them does not dominate.
constexpr double weight_deviation = 0.02, embedding_deviation = 0.5;

LayerNorm norm(std::int64_t width) { return LayerNorm(LayerNormOptions({width})); }
torch::nn::Linear matrix(std::int64_t in, std::int64_t out) {
  return torch::nn::Linear(LinearOptions(in, out).bias(false));
}

void draw(at::Tensor weight, double spread, at::Generator& generator) {
  const at::NoGradGuard no_grad;
  weight.normal_(0.0, spread, generator);
}

}  // namespace

TransformerImpl::Block::Block(std::int64_t width, std::int64_t head_count)
    : heads(head_count),
      attention_norm(register_module("attention_norm", norm(width))),
      feed_norm(register_module("feed_norm", norm(width))),
      qkv(register_module("qkv", matrix(width, 3 * width))),
      attention_out(register_module("attention_out", matrix(width, width))),
      feed_in(register_module("feed_in", matrix(width, 4 * width))),
      feed_out(register_module("feed_out", matrix(4 * width, width))) {}

TransformerImpl::TransformerImpl(const Settings& settings, model::Scheme scheme,
                                 std::uint64_t seed)
    : embedding_(
          register_module("embedding", torch::nn::Embedding(vocabulary, settings.width))),
      norm_(register_module("norm", norm(settings.width))),
      head_(register_module("head", matrix(settings.width, vocabulary))) {
  if (std::ssize(scheme.layers) != settings.layers)
    refuse("lab",
           "a scheme must have the " + std::to_string(settings.layers) + " layers of the model",
           std::ssize(scheme.layers));
  // Separate generators: LibTorch's default generator is shared by all threads.
  at::Generator shared = at::make_generator<at::CPUGeneratorImpl>(2 * seed);
  draw(embedding_->weight, embedding_deviation, shared);
  const double residual =
      weight_deviation / std::sqrt(2.0 * static_cast<double>(settings.layers));
  for (std::int64_t layer = 0; layer < settings.layers; ++layer) {
    blocks_.push_back(register_module("block" + std::to_string(layer),
                                      std::make_shared<Block>(settings.width, settings.heads)));
    Block& block = *blocks_.back();
    draw(block.qkv->weight, weight_deviation, shared);
    draw(block.attention_out->weight, residual, shared);
    draw(block.feed_in->weight, weight_deviation, shared);
    draw(block.feed_out->weight, residual, shared);
  }
  draw(head_->weight, weight_deviation, shared);
  at::Generator own = at::make_generator<at::CPUGeneratorImpl>(2 * seed + 1);
  position_ = register_module("position", libtorch::PositionScheme(std::move(scheme), own));
}

TransformerImpl::TransformerImpl(const Settings& settings, const model::Encoding& encoding,
                                 std::uint64_t seed)
    : TransformerImpl(settings, model::every_layer({encoding}, settings.layers), seed) {}

at::Tensor TransformerImpl::forward(const at::Tensor& bytes, const ForwardOptions& options) {
  const std::int64_t windows = bytes.size(0), length = bytes.size(1),
                     width = embedding_->weight.size(1);
  at::Tensor x = embedding_(bytes);
  libtorch::AttendOptions attend{.visibility = options.visibility};
  if (options.ids.empty()) {
    x = position_->embed(x);
  } else {
    attend.positions = explicit_ids(options.ids);
    x = position_->embed(x, *attend.positions);
  }
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    Block& block = *blocks_[layer];
    attend.hidden = block.attention_norm(x);
    const at::Tensor attended = position_->attend_packed(
        static_cast<std::int64_t>(layer),
        block.qkv(attend.hidden).view({windows, length, 3 * block.heads, width / block.heads}),
        block.heads, attend);
    x = x + block.attention_out(attended.view({windows, length, width}));
    x = x + block.feed_out(at::gelu(block.feed_in(block.feed_norm(x))));
  }
  return head_(norm_(x));
}

std::int64_t TransformerImpl::parameter_count() const {
  std::int64_t count = 0;
  for (const at::Tensor& one : parameters()) count += one.numel();
  return count;
}

std::int64_t TransformerImpl::position_parameter_count() const {
  std::int64_t count = 0;
  for (const at::Tensor& one : position_->parameters()) count += one.numel();
  return count;
}

}  // namespace gnomon::lab

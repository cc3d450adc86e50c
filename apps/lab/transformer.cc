#include "apps/lab/transformer.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
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
    : embedding_(register_module("embedding",
                                 torch::nn::Embedding(vocabulary(settings), settings.width))),
      norm_(register_module("norm", norm(settings.width))),
      head_(register_module("head", matrix(settings.width, vocabulary(settings)))) {
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

at::Tensor TransformerImpl::attend_cached(std::int64_t layer, const at::Tensor& qkv,
                                          KeyValues& cache, libtorch::AttendOptions options) {
  const auto at = static_cast<std::size_t>(layer);
  const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
  if (cache.keys.size() <= at) {
    cache.keys.push_back(parts[1]);
    cache.values.push_back(parts[2]);
  } else {
    cache.keys[at] = at::cat({cache.keys[at], parts[1]}, 1);
    cache.values[at] = at::cat({cache.values[at], parts[2]}, 1);
  }
  options.layout = libtorch::Layout::tokens_heads;
  return position_->attend(layer, parts[0], cache.keys[at], cache.values[at], options);
}

at::Tensor TransformerImpl::attend_remembered(std::int64_t layer, const at::Tensor& qkv,
                                              SegmentMemory<float>& memory,
                                              libtorch::AttendOptions options) {
  const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
  const auto view = [](const at::Tensor& own) {
    std::array<std::ptrdiff_t, 4> extents, strides;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      extents[axis] = own.size(static_cast<std::int64_t>(axis));
      strides[axis] = own.stride(static_cast<std::int64_t>(axis));
    }
    return View<const float, 4>(own.data_ptr<float>(), extents, strides);
  };
  const at::Tensor keys = parts[1].detach().to(at::kCPU),
                   values = parts[2].detach().to(at::kCPU);
  const auto segment = memory.append(view(keys), view(values));
  const auto joined = [&](const View<const float, 4>& all, const at::Tensor& own) {
    const std::vector<std::int64_t> strides(all.strides().begin(), all.strides().end());
    const at::Tensor past = at::from_blob(
        const_cast<float*>(all.data()), {own.size(0), segment.offset, own.size(2), own.size(3)},
        strides, own.options().device(at::kCPU).requires_grad(false));
    return at::cat({past.to(own.device()), own}, 1);
  };
  options.layout = libtorch::Layout::tokens_heads;
  options.left = memory.shape().memory;
  return position_->attend(layer, parts[0], joined(segment.keys, parts[1]),
                           joined(segment.values, parts[2]), options);
}

// Attention is linear in the values. So the weights are the outputs for unit vectors as values,
// D keys at a time, minus the output for zeros (vectors that an encoding adds to the values).
at::Tensor TransformerImpl::weights(std::int64_t layer, const at::Tensor& qkv,
                                    libtorch::AttendOptions options) {
  options.layout = libtorch::Layout::tokens_heads;
  const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
  const at::Tensor zeros = at::zeros_like(parts[2]);
  const auto outputs = [&](const at::Tensor& values) {
    return position_->attend(layer, parts[0], parts[1], values, options);
  };
  const at::Tensor without = outputs(zeros);
  const std::int64_t keys = qkv.size(1), head_dim = qkv.size(3);
  std::vector<at::Tensor> blocks;
  for (std::int64_t begin = 0; begin < keys; begin += head_dim) {
    const std::int64_t count = std::min(head_dim, keys - begin);
    at::Tensor units = zeros.clone();
    for (std::int64_t i = 0; i < count; ++i) units.select(1, begin + i).select(2, i).fill_(1);
    blocks.push_back((outputs(units) - without).narrow(3, 0, count));
  }
  return at::cat(blocks, 3);
}

at::Tensor TransformerImpl::forward(const at::Tensor& tokens, const ForwardOptions& options) {
  const std::int64_t windows = tokens.size(0), length = tokens.size(1),
                     width = embedding_->weight.size(1);
  at::Tensor x = embedding_(tokens);
  libtorch::AttendOptions attend{.visibility = options.visibility};
  if (options.positions) {
    attend.positions = options.positions;
    x = position_->embed(x, *options.positions);
  } else {
    x = position_->embed(x, options.cache    ? options.cache->tokens()
                            : options.memory ? options.memory->front().next()
                                             : 0);
  }
  for (std::int64_t layer = 0; layer < std::ssize(blocks_); ++layer) {
    Block& block = *blocks_[static_cast<std::size_t>(layer)];
    attend.hidden = block.attention_norm(x);
    const at::Tensor qkv =
        block.qkv(attend.hidden).view({windows, length, 3 * block.heads, width / block.heads});
    if (options.weights) options.weights->push_back(weights(layer, qkv, attend));
    const at::Tensor attended =
        options.cache ? attend_cached(layer, qkv, *options.cache, attend)
        : options.memory
            ? attend_remembered(layer, qkv, (*options.memory)[static_cast<std::size_t>(layer)],
                                attend)
            : position_->attend_packed(layer, qkv, block.heads, attend);
    x = x + block.attention_out(attended.reshape({windows, length, width}));
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

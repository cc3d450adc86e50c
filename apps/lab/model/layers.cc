#include "apps/lab/model/layers.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace gnomon::lab {
namespace {

double deviation(Init init, std::int64_t inputs, std::int64_t residual_layers = 1) {
  const double size =
      init == Init::gpt2 ? Block::weight_deviation : 1 / std::sqrt(static_cast<double>(inputs));
  return size / std::sqrt(static_cast<double>(residual_layers));
}

}  // namespace

at::Generator seeded_generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

std::int64_t parameter_count(const torch::nn::Module& module, std::string_view prefix) {
  std::int64_t count = 0;
  for (const auto& item : module.named_parameters())
    if (item.key().starts_with(prefix)) count += item.value().numel();
  return count;
}

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

torch::nn::Linear drawn_linear(std::int64_t in, std::int64_t out, double spread,
                               at::Generator& generator) {
  torch::nn::Linear layer(torch::nn::LinearOptions(in, out).bias(false));
  const at::NoGradGuard no_grad;
  layer->weight.normal_(0.0, spread, generator);
  return layer;
}

torch::nn::Embedding drawn_embedding(std::int64_t rows, std::int64_t width, double spread,
                                     at::Generator& generator) {
  torch::nn::Embedding table(rows, width);
  const at::NoGradGuard no_grad;
  table->weight.normal_(0.0, spread, generator);
  return table;
}

Block::Block(std::int64_t width, std::int64_t head_count, std::int64_t residual_layers,
             Init init, at::Generator& generator)
    : heads(head_count),
      attention_norm(register_module("attention_norm", layer_norm(width))),
      feed_norm(register_module("feed_norm", layer_norm(width))),
      qkv(register_module("qkv",
                          drawn_linear(width, 3 * width, deviation(init, width), generator))),
      attention_out(register_module(
          "attention_out",
          drawn_linear(width, width, deviation(init, width, residual_layers), generator))),
      feed_in(register_module(
          "feed_in", drawn_linear(width, 4 * width, deviation(init, width), generator))),
      feed_out(register_module(
          "feed_out", drawn_linear(4 * width, width,
                                   deviation(init, 4 * width, residual_layers), generator))) {}

at::Tensor Block::project(const at::Tensor& hidden) {
  const std::int64_t width = hidden.size(2);
  return qkv(hidden).view({hidden.size(0), hidden.size(1), 3 * heads, width / heads});
}

at::Tensor Block::add_attention(const at::Tensor& x, const at::Tensor& attended) {
  return x + attention_out(attended.reshape(x.sizes()));
}

at::Tensor Block::add_feed(const at::Tensor& x) {
  return x + feed_out(at::gelu(feed_in(feed_norm(x))));
}

CrossBlock::CrossBlock(std::int64_t width, std::int64_t head_count,
                       std::int64_t residual_layers, Init init, at::Generator& generator)
    : Block(width, head_count, residual_layers, init, generator),
      memory_norm(register_module("memory_norm", layer_norm(width))),
      memory_q(register_module("memory_q",
                               drawn_linear(width, width, deviation(init, width), generator))),
      memory_kv(register_module(
          "memory_kv", drawn_linear(width, 2 * width, deviation(init, width), generator))),
      memory_out(register_module(
          "memory_out",
          drawn_linear(width, width, deviation(init, width, residual_layers), generator))),
      no_position(model::Encoding(model::NoPosition{})) {}

CrossBlock::Memory CrossBlock::project_memory(const at::Tensor& memory) {
  const std::vector<at::Tensor> parts =
      memory_kv(memory)
          .view({memory.size(0), memory.size(1), 2 * heads, memory.size(2) / heads})
          .chunk(2, 2);
  return {parts[0], parts[1]};
}

// Queries do not depend on each other, so the n rows of x that share a row of the memory are
// one row of n T queries.
at::Tensor CrossBlock::add_memory(const at::Tensor& x, const Memory& memory) {
  const at::Tensor queries =
      memory_q(memory_norm(x)).view({memory.keys.size(0), -1, heads, x.size(2) / heads});
  const at::Tensor attended =
      no_position->attend(queries, memory.keys, memory.values,
                          {.visibility = Visibility::bidirectional,
                           .layout = libtorch::Layout::tokens_heads,
                           .positions = consecutive(memory.keys.size(1)),
                           .query_positions = consecutive(queries.size(1))});
  return x + memory_out(attended.reshape(x.sizes()));
}

}  // namespace gnomon::lab

#include "apps/lab/tasks/translation_model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

namespace gnomon::lab::translation_task {
namespace translator {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::LinearOptions;

// As the Transformer of the lab (transformer.cc).
constexpr double weight_deviation = 0.02, embedding_deviation = 0.5;

LayerNorm norm(std::int64_t width) { return LayerNorm(LayerNormOptions({width})); }
torch::nn::Linear matrix(std::int64_t in, std::int64_t out) {
  return torch::nn::Linear(LinearOptions(in, out).bias(false));
}

void draw(at::Tensor weight, double spread, at::Generator& generator) {
  const at::NoGradGuard no_grad;
  weight.normal_(0.0, spread, generator);
}

// Appends the tokens of `parts`, keys and values, and returns all of them.
std::pair<at::Tensor, at::Tensor> appended(KeyValues& to, std::int64_t layer,
                                           const at::Tensor& keys, const at::Tensor& values) {
  const auto at = static_cast<std::size_t>(layer);
  if (to.keys.size() <= at) {
    to.keys.push_back(keys);
    to.values.push_back(values);
  } else {
    to.keys[at] = at::cat({to.keys[at], keys}, 1);
    to.values[at] = at::cat({to.values[at], values}, 1);
  }
  return {to.keys[at], to.values[at]};
}

}  // namespace translator

TranslatorImpl::Block::Block(std::int64_t width, std::int64_t head_count)
    : heads(head_count),
      attention_norm(register_module("attention_norm", translator::norm(width))),
      feed_norm(register_module("feed_norm", translator::norm(width))),
      qkv(register_module("qkv", translator::matrix(width, 3 * width))),
      attention_out(register_module("attention_out", translator::matrix(width, width))),
      feed_in(register_module("feed_in", translator::matrix(width, 4 * width))),
      feed_out(register_module("feed_out", translator::matrix(4 * width, width))) {}

at::Tensor TranslatorImpl::Block::feed(const at::Tensor& x) {
  return x + feed_out(at::gelu(feed_in(feed_norm(x))));
}

TranslatorImpl::DecoderBlock::DecoderBlock(std::int64_t width, std::int64_t head_count)
    : Block(width, head_count),
      source_norm(register_module("source_norm", translator::norm(width))),
      source_q(register_module("source_q", translator::matrix(width, width))),
      source_kv(register_module("source_kv", translator::matrix(width, 2 * width))),
      source_out(register_module("source_out", translator::matrix(width, width))) {}

TranslatorImpl::TranslatorImpl(const Settings& settings, Sizes sizes, std::uint64_t seed)
    : source_embedding_(register_module("source_embedding",
                                        torch::nn::Embedding(sizes.source, settings.width))),
      target_embedding_(register_module("target_embedding",
                                        torch::nn::Embedding(sizes.target, settings.width))),
      encoder_norm_(register_module("encoder_norm", translator::norm(settings.width))),
      decoder_norm_(register_module("decoder_norm", translator::norm(settings.width))),
      head_(register_module("head", translator::matrix(settings.width, sizes.target))) {
  using translator::draw;
  // Separate generators: LibTorch's default generator is shared by all threads.
  at::Generator shared = at::make_generator<at::CPUGeneratorImpl>(2 * seed);
  const auto residual_deviation = [](std::int64_t branches) {
    return translator::weight_deviation / std::sqrt(static_cast<double>(branches));
  };
  const auto draw_block = [&](Block& block, double residual) {
    draw(block.qkv->weight, translator::weight_deviation, shared);
    draw(block.attention_out->weight, residual, shared);
    draw(block.feed_in->weight, translator::weight_deviation, shared);
    draw(block.feed_out->weight, residual, shared);
  };
  draw(source_embedding_->weight, translator::embedding_deviation, shared);
  draw(target_embedding_->weight, translator::embedding_deviation, shared);
  for (std::int64_t layer = 0; layer < std::ssize(sizes.encoder.layers); ++layer) {
    encoder_.push_back(
        register_module("encoder" + std::to_string(layer),
                        std::make_shared<Block>(settings.width, settings.heads)));
    draw_block(*encoder_.back(), residual_deviation(2 * std::ssize(sizes.encoder.layers)));
  }
  const double residual = residual_deviation(3 * std::ssize(sizes.decoder.layers));
  for (std::int64_t layer = 0; layer < std::ssize(sizes.decoder.layers); ++layer) {
    decoder_.push_back(
        register_module("decoder" + std::to_string(layer),
                        std::make_shared<DecoderBlock>(settings.width, settings.heads)));
    DecoderBlock& block = *decoder_.back();
    draw_block(block, residual);
    draw(block.source_q->weight, translator::weight_deviation, shared);
    draw(block.source_kv->weight, translator::weight_deviation, shared);
    draw(block.source_out->weight, residual, shared);
  }
  draw(head_->weight, translator::weight_deviation, shared);
  at::Generator own = at::make_generator<at::CPUGeneratorImpl>(2 * seed + 1);
  encoder_position_ = register_module("position_encoder",
                                      libtorch::PositionScheme(std::move(sizes.encoder), own));
  decoder_position_ = register_module("position_decoder",
                                      libtorch::PositionScheme(std::move(sizes.decoder), own));
}

at::Tensor TranslatorImpl::encode(const at::Tensor& source,
                                  const std::vector<std::int64_t>& ids) {
  libtorch::AttendOptions options{.visibility = Visibility::bidirectional};
  at::Tensor x = source_embedding_(source);
  if (ids.empty()) {
    x = encoder_position_->embed(x);
  } else {
    options.positions = explicit_ids(ids);
    x = encoder_position_->embed(x, *options.positions);
  }
  for (std::int64_t layer = 0; layer < std::ssize(encoder_); ++layer) {
    Block& block = *encoder_[static_cast<std::size_t>(layer)];
    options.hidden = block.attention_norm(x);
    const at::Tensor qkv =
        block.qkv(options.hidden)
            .view({x.size(0), x.size(1), 3 * block.heads, x.size(2) / block.heads});
    const at::Tensor y = encoder_position_->attend_packed(layer, qkv, block.heads, options);
    x = block.feed(x + block.attention_out(y.reshape(x.sizes())));
  }
  return encoder_norm_(x);
}

at::Tensor TranslatorImpl::attend_source(std::int64_t layer, const at::Tensor& x,
                                         const at::Tensor& memory, DecoderCache* cache) {
  DecoderBlock& block = *decoder_[static_cast<std::size_t>(layer)];
  const std::int64_t head_dim = x.size(2) / block.heads;
  const auto at = static_cast<std::size_t>(layer);
  at::Tensor keys, values;
  if (cache && cache->source.keys.size() > at) {
    keys = cache->source.keys[at];
    values = cache->source.values[at];
  } else {
    const std::vector<at::Tensor> parts =
        block.source_kv(memory)
            .view({memory.size(0), memory.size(1), 2 * block.heads, head_dim})
            .chunk(2, 2);
    keys = parts[0], values = parts[1];
    if (cache) translator::appended(cache->source, layer, keys, values);
  }
  const at::Tensor q =
      block.source_q(block.source_norm(x)).view({x.size(0), x.size(1), block.heads, head_dim});
  const at::Tensor y = no_position_->attend(q, keys, values,
                                            {.visibility = Visibility::bidirectional,
                                             .layout = libtorch::Layout::tokens_heads,
                                             .positions = consecutive(memory.size(1)),
                                             .query_positions = consecutive(x.size(1))});
  return block.source_out(y.reshape(x.sizes()));
}

at::Tensor TranslatorImpl::decode(const at::Tensor& memory, const at::Tensor& inputs,
                                  const std::vector<std::int64_t>& ids, DecoderCache* cache) {
  libtorch::AttendOptions options{.visibility = Visibility::causal,
                                  .layout = libtorch::Layout::tokens_heads};
  at::Tensor x = target_embedding_(inputs);
  if (ids.empty()) {
    x = decoder_position_->embed(x, cache ? cache->past.tokens() : 0);
  } else {
    options.positions = explicit_ids(ids);
    x = decoder_position_->embed(x, *options.positions);
  }
  for (std::int64_t layer = 0; layer < std::ssize(decoder_); ++layer) {
    DecoderBlock& block = *decoder_[static_cast<std::size_t>(layer)];
    options.hidden = block.attention_norm(x);
    const at::Tensor qkv =
        block.qkv(options.hidden)
            .view({x.size(0), x.size(1), 3 * block.heads, x.size(2) / block.heads});
    at::Tensor y;
    if (cache) {
      const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
      const auto [keys, values] = translator::appended(cache->past, layer, parts[1], parts[2]);
      y = decoder_position_->attend(layer, parts[0], keys, values, options);
    } else {
      y = decoder_position_->attend_packed(layer, qkv, block.heads, options);
    }
    x = x + block.attention_out(y.reshape(x.sizes()));
    x = block.feed(x + attend_source(layer, x, memory, cache));
  }
  return head_(decoder_norm_(x));
}

std::vector<Ids> TranslatorImpl::translate(const at::Tensor& source, std::int64_t most) {
  const at::NoGradGuard no_grad;
  const at::Tensor memory = encode(source);
  const auto rows = static_cast<std::size_t>(source.size(0));
  std::vector<Ids> all(rows);
  std::vector<bool> ended(rows, false);
  DecoderCache cache;
  at::Tensor next = at::full({source.size(0), 1}, Vocabulary::end, source.options());
  for (std::int64_t i = 0; i < most; ++i) {
    next = decode(memory, next, {}, &cache).argmax(2);
    const at::Tensor found = next.to(at::kCPU).contiguous();
    const std::int64_t* id = found.data_ptr<std::int64_t>();
    for (std::size_t row = 0; row < rows; ++row) {
      ended[row] = ended[row] || id[row] == Vocabulary::end;
      if (!ended[row]) all[row].push_back(id[row]);
    }
    if (std::find(ended.begin(), ended.end(), false) == ended.end()) break;
  }
  return all;
}

}  // namespace gnomon::lab::translation_task

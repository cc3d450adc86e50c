#include "apps/lab/tasks/translation_model.h"

#include <algorithm>

namespace gnomon::lab::translation_examples {

TranslatorImpl::TranslatorImpl(const Settings& settings, Sizes sizes, std::uint64_t seed) {
  const std::int64_t width = settings.width, decoder_depth = std::ssize(sizes.decoder.layers);
  at::Generator shared = seeded_generator(2 * seed);
  source_embedding_ =
      register_module("source_embedding",
                      drawn_embedding(sizes.source, width, Block::embedding_deviation, shared));
  target_embedding_ =
      register_module("target_embedding",
                      drawn_embedding(sizes.target, width, Block::embedding_deviation, shared));
  encoder_ = register_module(
      "encoder",
      Bidirectional(EncoderSizes{std::ssize(sizes.encoder.layers), width, settings.heads},
                    CrossAttention::none, Init::gpt2, shared));
  for (std::int64_t layer = 0; layer < decoder_depth; ++layer)
    decoder_.push_back(
        register_module("decoder" + std::to_string(layer),
                        std::make_shared<CrossBlock>(width, settings.heads, 3 * decoder_depth,
                                                     Init::gpt2, shared)));
  norm_ = register_module("norm", layer_norm(width));
  head_ = register_module("head",
                          drawn_linear(width, sizes.target, Block::weight_deviation, shared));
  at::Generator own = seeded_generator(2 * seed + 1);
  encoder_position_ = register_module("position_encoder",
                                      libtorch::PositionScheme(std::move(sizes.encoder), own));
  decoder_position_ = register_module("position_decoder",
                                      libtorch::PositionScheme(std::move(sizes.decoder), own));
}

at::Tensor TranslatorImpl::encode(const at::Tensor& source,
                                  const std::vector<std::int64_t>& ids) {
  std::optional<Positions> positions;
  if (!ids.empty()) positions = explicit_ids(ids);
  return encoder_->encode(source_embedding_(source), encoder_position_, positions);
}

at::Tensor TranslatorImpl::decode(const at::Tensor& memory, const at::Tensor& inputs,
                                  const std::vector<std::int64_t>& ids, DecoderCache* cache) {
  libtorch::AttendOptions options{.visibility = Visibility::causal};
  at::Tensor x = target_embedding_(inputs);
  if (ids.empty()) {
    x = decoder_position_->embed(x, cache ? cache->past.tokens() : 0);
  } else {
    options.positions = explicit_ids(ids);
    x = decoder_position_->embed(x, *options.positions);
  }
  if (cache && cache->source.empty())
    for (const auto& block : decoder_) cache->source.push_back(block->project_memory(memory));
  for (std::int64_t layer = 0; layer < std::ssize(decoder_); ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    CrossBlock& block = *decoder_[at];
    options.hidden = block.attention_norm(x);
    const at::Tensor qkv = block.project(options.hidden);
    at::Tensor attended;
    if (cache) {
      const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
      cache->past.append(layer, parts[1], parts[2]);
      options.layout = libtorch::Layout::tokens_heads;
      attended = decoder_position_->attend(layer, parts[0], cache->past.keys[at],
                                           cache->past.values[at], options);
    } else {
      attended = decoder_position_->attend_packed(layer, qkv, block.heads, options);
    }
    x = block.add_attention(x, attended);
    x = block.add_memory(x, cache ? cache->source[at] : block.project_memory(memory));
    x = block.add_feed(x);
  }
  return head_(norm_(x));
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

}  // namespace gnomon::lab::translation_examples

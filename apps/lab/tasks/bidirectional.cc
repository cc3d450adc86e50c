#include "apps/lab/tasks/bidirectional.h"

namespace gnomon::lab {

BidirectionalImpl::BidirectionalImpl(const EncoderSizes& sizes, CrossAttention cross, Init init,
                                     at::Generator& generator)
    : heads_(sizes.heads), norm_(register_module("norm", layer_norm(sizes.width))) {
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    std::shared_ptr<Block> block;
    if (cross == CrossAttention::memory)
      block = std::make_shared<CrossBlock>(sizes.width, sizes.heads, 3 * sizes.layers, init,
                                           generator);
    else
      block =
          std::make_shared<Block>(sizes.width, sizes.heads, 2 * sizes.layers, init, generator);
    blocks_.push_back(register_module("block" + std::to_string(layer), block));
  }
}

BidirectionalImpl::BidirectionalImpl(const Settings& settings, at::Generator& generator)
    : BidirectionalImpl({settings.layers, settings.width, settings.heads}, CrossAttention::none,
                        Init::gpt2, generator) {}

at::Tensor BidirectionalImpl::forward(at::Tensor x, const Attend& attend,
                                      const at::Tensor& memory) {
  for (std::int64_t layer = 0; layer < std::ssize(blocks_); ++layer) {
    Block& block = *blocks_[static_cast<std::size_t>(layer)];
    const at::Tensor hidden = block.attention_norm(x);
    x = block.add_attention(x, attend(layer, block.project(hidden), hidden));
    if (auto* cross = dynamic_cast<CrossBlock*>(&block))
      x = cross->add_memory(x, cross->project_memory(memory));
    x = block.add_feed(x);
  }
  return norm_(x);
}

at::Tensor BidirectionalImpl::encode(const at::Tensor& x, libtorch::PositionScheme position,
                                     const std::optional<Positions>& positions,
                                     const at::Tensor& memory) {
  libtorch::AttendOptions options{.visibility = Visibility::bidirectional};
  options.positions = positions;
  return forward(
      positions ? position->embed(x, *positions) : position->embed(x),
      [&](std::int64_t layer, const at::Tensor& qkv, const at::Tensor& hidden) {
        options.hidden = hidden;
        return position->attend_packed(layer, qkv, heads_, options);
      },
      memory);
}

}  // namespace gnomon::lab

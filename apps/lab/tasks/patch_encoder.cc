#include "apps/lab/tasks/patch_encoder.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "gnomon/embedding/resize.h"
#include "gnomon/error.h"

namespace gnomon::lab::image_task {
namespace {

torch::nn::LayerNorm norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

// The settings of a trained encoding at another grid.
struct OtherGrid {
  std::int64_t from, to;
  Tables tables;

  bool resized() const { return tables == Tables::resized; }
  void operator()(SinusoidalGrid& s) const { s.grid = {to, to}; }
  void operator()(AxialRotary& s) const { s.grid = {to, to}; }
  void operator()(model::DetrPage& s) const { s.grid_height = s.grid_width = to; }
  void operator()(LayoutBias& s) const { s.columns = to; }
  void operator()(SwinV2& s) const {
    s.pretrained_height = s.height, s.pretrained_width = s.width;
    s.height = s.width = to;
  }
  void operator()(Swin& s) const {
    if (resized()) s.height = s.width = to;
  }
  void operator()(Learned& s) const {
    if (resized()) s.rows = to * to;
  }
  void operator()(AxialLearned& s) const {
    if (resized()) s.rows = {to, to};
  }
  void operator()(Decomposed& s) const {
    if (!resized()) return;
    s.table_height = table_height(s), s.table_width = table_width(s);
    s.height = s.width = to;
  }
  void operator()(auto&) const {}
};

View<float, 2> view(const at::Tensor& table) {
  return {table.data_ptr<float>(), {table.size(0), table.size(1)}};
}

// The trained parameter of an encoding in the shape of the other grid.
at::Tensor resized_parameter(const model::Encoding& encoding, const at::Tensor& trained,
                             at::IntArrayRef sizes, std::int64_t from, std::int64_t to) {
  if (trained.sizes() == sizes) return trained;
  const at::Tensor table = trained.to(at::kCPU).contiguous();
  at::Tensor out = at::empty(sizes, at::kFloat);
  if (std::holds_alternative<AxialLearned>(encoding)) {
    resize_table(resize_linear(), View<const float, 2>(view(table)), view(out));
  } else {
    // Swin's table has a row for each offset of two cells.
    const bool offsets = std::holds_alternative<Swin>(encoding);
    const auto cells = [&](std::int64_t side) { return offsets ? 2 * side - 1 : side; };
    resize_table(resize_vit(0), View<const float, 2>(view(table)), {cells(from), cells(from)},
                 view(out), {cells(to), cells(to)});
  }
  return out.to(trained.device());
}

void copy_parameters(const libtorch::PositionEncoding& trained,
                     const libtorch::PositionEncoding& other, std::int64_t from,
                     std::int64_t to) {
  const std::vector<at::Tensor> source = trained->parameters(), target = other->parameters();
  std::size_t i = 0;
  for (const model::Encoding& encoding : trained->mixture())
    for (std::size_t n = model::parameters(encoding).size(); n > 0; --n, ++i)
      at::Tensor(target[i]).copy_(
          resized_parameter(encoding, source[i], target[i].sizes(), from, to));
}

}  // namespace

at::Tensor patches_of(const at::Tensor& pixels, std::int64_t patch) {
  const std::int64_t rows = pixels.size(0), side = pixels.size(1) / patch;
  return pixels.view({rows, side, patch, side, patch})
      .permute({0, 1, 3, 2, 4})
      .reshape({rows, side * side, patch * patch});
}

torch::nn::Linear linear(std::int64_t in, std::int64_t out, double factor,
                         at::Generator& generator) {
  torch::nn::Linear layer(torch::nn::LinearOptions(in, out).bias(false));
  const at::NoGradGuard no_grad;
  layer->weight.normal_(0.0, factor / std::sqrt(static_cast<double>(in)), generator);
  return layer;
}

EncoderImpl::EncoderImpl(const EncoderSizes& sizes, CrossAttention cross,
                         at::Generator& generator)
    : heads_(sizes.heads), no_position_(model::Encoding(model::NoPosition{})) {
  const std::int64_t width = sizes.width;
  const double residual = 1 / std::sqrt(2.0 * static_cast<double>(sizes.layers));
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    auto block = std::make_shared<Block>();
    const auto add_norm = [&](torch::nn::LayerNorm& its, const char* name) {
      its = block->register_module(name, norm(width));
    };
    const auto add = [&](torch::nn::Linear& its, const char* name, std::int64_t in,
                         std::int64_t out, double factor) {
      its = block->register_module(name, linear(in, out, factor, generator));
    };
    add_norm(block->attention_norm, "attention_norm");
    add(block->qkv, "qkv", width, 3 * width, 1);
    add(block->attention_out, "attention_out", width, width, residual);
    if (cross == CrossAttention::memory) {
      add_norm(block->cross_norm, "cross_norm");
      add(block->cross_query, "cross_query", width, width, 1);
      add(block->cross_keys, "cross_keys", width, 2 * width, 1);
      add(block->cross_out, "cross_out", width, width, residual);
    }
    add_norm(block->feed_norm, "feed_norm");
    add(block->feed_in, "feed_in", width, 4 * width, 1);
    add(block->feed_out, "feed_out", 4 * width, width, residual);
    blocks_.push_back(register_module("block" + std::to_string(layer), block));
  }
  norm_ = register_module("norm", norm(width));
}

// The n rows of x that share a row of the memory are one row of n T queries: queries do not
// depend on each other.
at::Tensor EncoderImpl::across(Block& block, const at::Tensor& x, const at::Tensor& memory) {
  const std::int64_t rows = memory.size(0), width = x.size(2), head_dim = width / heads_;
  const at::Tensor queries =
      block.cross_query(block.cross_norm(x)).view({rows, -1, heads_, head_dim});
  const at::Tensor keys =
      block.cross_keys(memory).view({rows, memory.size(1), 2 * heads_, head_dim});
  const std::vector<at::Tensor> parts = keys.chunk(2, 2);
  libtorch::AttendOptions options{.visibility = Visibility::bidirectional,
                                  .layout = libtorch::Layout::tokens_heads};
  if (queries.size(1) > keys.size(1)) {
    options.positions = consecutive(keys.size(1));
    options.query_positions = consecutive(queries.size(1));
  }
  return block.cross_out(
      no_position_->attend(queries, parts[0], parts[1], options).reshape(x.sizes()));
}

at::Tensor EncoderImpl::forward(const at::Tensor& tokens, libtorch::PositionScheme position,
                                const at::Tensor& memory) {
  const std::int64_t rows = tokens.size(0), length = tokens.size(1), width = tokens.size(2);
  at::Tensor x = position->embed(tokens);
  libtorch::AttendOptions options{.visibility = Visibility::bidirectional};
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    Block& block = *blocks_[layer];
    options.hidden = block.attention_norm(x);
    const at::Tensor qkv =
        block.qkv(options.hidden).view({rows, length, 3 * heads_, width / heads_});
    const at::Tensor attended =
        position->attend_packed(static_cast<std::int64_t>(layer), qkv, heads_, options);
    x = x + block.attention_out(attended.reshape({rows, length, width}));
    if (memory.defined()) x = x + across(block, x, memory);
    x = x + block.feed_out(at::gelu(block.feed_in(block.feed_norm(x))));
  }
  return norm_(x);
}

model::Scheme grid_scheme(const std::string& scheme, const EncoderSizes& sizes,
                          std::int64_t side, Tables tables) {
  model::Scheme usual = model::parse_scheme(
      scheme, {sizes.width, sizes.heads, side * side, Visibility::bidirectional}, sizes.layers);
  bool resizable = false;
  for (const model::Mixture& layer : usual.layers)
    for (const model::Encoding& encoding : layer) {
      if (const auto* swin = std::get_if<Swin>(&encoding); swin && swin->class_tokens != 0)
        refuse("lab", "an encoding of pictures must have no class token", scheme);
      resizable = resizable || std::holds_alternative<Learned>(encoding) ||
                  std::holds_alternative<AxialLearned>(encoding) ||
                  std::holds_alternative<Swin>(encoding) ||
                  std::holds_alternative<Decomposed>(encoding);
    }
  if (tables == Tables::resized && !resizable)
    refuse("lab",
           "@resized requires a trained table of a grid: learned, axial, axial-summed, swin or "
           "decomposed",
           scheme);
  return usual;
}

std::optional<libtorch::PositionScheme> at_side(const libtorch::PositionScheme& trained,
                                                std::int64_t from, std::int64_t to,
                                                Tables tables) {
  if (from == to) return trained;
  model::Scheme scheme = trained->scheme();
  for (model::Mixture& layer : scheme.layers)
    for (model::Encoding& encoding : layer) std::visit(OtherGrid{from, to, tables}, encoding);
  if (const auto most = model::capacity(scheme); most && *most < to * to) return std::nullopt;
  const at::NoGradGuard no_grad;
  libtorch::PositionScheme other(std::move(scheme),
                                 at::make_generator<at::CPUGeneratorImpl>(0));
  for (const at::Tensor& parameter : trained->parameters()) other->to(parameter.device());
  copy_parameters(trained->table(), other->table(), from, to);
  for (std::int64_t l = 0; l < std::ssize(trained->scheme().layers); ++l)
    copy_parameters(trained->layer(l), other->layer(l), from, to);
  return other;
}

}  // namespace gnomon::lab::image_task

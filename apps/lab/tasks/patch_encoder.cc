#include "apps/lab/tasks/image.h"

#include <variant>

#include "gnomon/embedding/resize.h"
#include "gnomon/error.h"

namespace gnomon::lab::image_examples {
namespace {

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

torch::nn::Linear patch_embedding(std::int64_t side, std::int64_t width,
                                  at::Generator& generator) {
  return drawn_linear(side * side, width, 2 / static_cast<double>(side), generator);
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
           "@resized requires a trained table of a grid: learned, axial, axial-summed, "
           "swin or decomposed",
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
  libtorch::PositionScheme other(std::move(scheme), seeded_generator(0));
  for (const at::Tensor& parameter : trained->parameters()) other->to(parameter.device());
  copy_parameters(trained->table(), other->table(), from, to);
  for (std::int64_t l = 0; l < std::ssize(trained->scheme().layers); ++l)
    copy_parameters(trained->layer(l), other->layer(l), from, to);
  return other;
}

}  // namespace gnomon::lab::image_examples

// Patches of an image, like ViT: a learned table of a grid, which is resized for images of
// another size. The model tells patches apart only by their positions: the class token does not
// change if patches and the rows of the table move together, and it changes if only patches
// move.
//
//   g++ -std=c++20 vit.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/embedding/resize.h>
#include <gnomon/embedding/table.h>

#include <cstdio>

#include "layers.h"

namespace {

using layers::Rows;
constexpr std::int64_t width = 32, heads = 4, head_dim = width / heads, depth = 2;
constexpr std::int64_t patch = 4, pixels = 3 * patch * patch;
constexpr gnomon::GridSize trained{.height = 4, .width = 4};

struct Vit {
  layers::Linear embed{pixels, width, 1};
  Rows class_token = layers::random_rows(width, 1, 2);
  Rows table = layers::random_rows((1 + trained.height * trained.width) * width, 1, 3);
  std::vector<layers::Layer> layers;

  Vit() {
    for (unsigned l = 0; l < depth; ++l) layers.emplace_back(width, width, width, 10 * l + 10);
  }

  // The table for a grid of patches, [1 + height width, C]. Row 0 belongs to the class token.
  Rows positions(gnomon::GridSize grid) const {
    const std::int64_t from = 1 + trained.height * trained.width;
    const std::int64_t to = 1 + grid.height * grid.width;
    Rows out(static_cast<std::size_t>(to * width));
    gnomon::resize_table(gnomon::resize_vit(),
                         gnomon::View<const float, 2>(table.data(), {from, width}), trained,
                         gnomon::View<float, 2>(out.data(), {to, width}), grid);
    return out;
  }

  // patches: [N, pixels]; rows: [1 + N, C]. Returns the class token after the last layer.
  Rows operator()(const Rows& patches, const Rows& rows) const {
    Rows x = class_token;
    const Rows embedded = embed(patches);
    x.insert(x.end(), embedded.begin(), embedded.end());
    const std::int64_t tokens = std::ssize(x) / width;
    gnomon::add_table(gnomon::View<float, 3>(x.data(), {1, tokens, width}),
                      gnomon::View<const float, 2>(rows.data(), {tokens, width}));

    gnomon::AttentionPlan plan;
    plan.mask.visibility = gnomon::Visibility::bidirectional;
    for (const layers::Layer& layer : layers) {
      const Rows normed = layers::norm(x, width);
      Rows q = layer.query(normed), k = layer.key(normed), v = layer.value(normed);
      Rows out(q.size());
      gnomon::attention(
          {layers::heads(q, 1, heads, head_dim), layers::heads(k, 1, heads, head_dim),
           layers::heads(v, 1, heads, head_dim)},
          plan, layers::heads(out, 1, heads, head_dim));
      layers::add(x, layer.output(out));
      layers::add(x, layer.mlp(layers::norm(x, width)));
    }
    return layers::norm(Rows(x.begin(), x.begin() + width), width);
  }
};

// Exchanges rows a and b of `size` numbers.
Rows exchanged(Rows rows, std::int64_t a, std::int64_t b, std::int64_t size) {
  std::swap_ranges(rows.begin() + a * size, rows.begin() + (a + 1) * size,
                   rows.begin() + b * size);
  return rows;
}

}  // namespace

int main() {
  const Vit vit;
  const double same = layers::difference(vit.positions(trained), vit.table);
  std::printf("resizing to the trained grid changes the table by %.1e\n", same);
  bool holds = same == 0;

  const gnomon::GridSize grid{.height = 6, .width = 8};  // an image of 24 x 32 pixels
  const Rows rows = vit.positions(grid);
  const Rows image = layers::random_rows(grid.height * grid.width * pixels, 1, 4);
  const Rows whole = vit(image, rows);
  // Patches 5 and 40; row 0 of the table belongs to the class token.
  const Rows moved = exchanged(image, 5, 40, pixels);
  const double patches = layers::difference(whole, vit(moved, rows));
  const double both =
      layers::difference(whole, vit(moved, exchanged(rows, 1 + 5, 1 + 40, width)));
  std::printf("%d x %d patches, two of them exchanged: the class token changes by %.1e\n",
              static_cast<int>(grid.height), static_cast<int>(grid.width), patches);
  std::printf("the same with their rows of the table exchanged: %.1e\n", both);
  holds = holds && patches > 1e-3 && both < 1e-5;
  return holds ? 0 : 1;
}

// A classifier like BERT: learned positions, bidirectional attention, and a batch with padding.
// The class of a sentence does not depend on the padding that its batch adds.
//
//   g++ -std=c++20 bert.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/embedding/learned.h>
#include <gnomon/embedding/table.h>

#include <cstdio>

#include "layers.h"

namespace {

using layers::Rows;
constexpr std::int64_t width = 32, heads = 4, head_dim = width / heads, depth = 2;
constexpr std::int64_t vocabulary = 50, longest = 16, classes = 2;

struct Bert {
  Rows tokens = layers::random_rows(vocabulary * width, 1, 1);
  // The trained table of positions: row p for position p (learned_roberta has another rule).
  gnomon::Learned positions = gnomon::learned_plain(longest, width);
  Rows position_table = layers::random_rows(longest * width, 1, 2);
  std::vector<layers::Layer> layers;
  layers::Linear head{width, classes, 3};

  Bert() {
    for (unsigned l = 0; l < depth; ++l) layers.emplace_back(width, width, width, 10 * l + 10);
  }

  // ids, mask: [B, T]; mask is 0 for padding. Returns the logits [B, classes] of the first real
  // token of each row.
  Rows operator()(const std::vector<std::int64_t>& ids, const std::vector<std::uint8_t>& mask,
                  std::int64_t batch) const {
    const std::int64_t length = std::ssize(ids) / batch;
    // Real tokens count from 0 in each row, wherever the padding is.
    const gnomon::Positions where = gnomon::from_padding_mask(
        gnomon::View<const std::uint8_t, 2>(mask.data(), {batch, length}));

    Rows x;
    for (const std::int64_t id : ids)
      x.insert(x.end(), tokens.begin() + id * width, tokens.begin() + (id + 1) * width);
    const std::vector<std::int64_t> rows = gnomon::learned_rows(positions, where);
    gnomon::add_rows(gnomon::View<float, 3>(x.data(), {batch, length, width}),
                     gnomon::View<const float, 2>(position_table.data(), {longest, width}),
                     gnomon::View<const std::int64_t, 2>(rows.data(), {batch, length}));

    gnomon::AttentionPlan plan;
    plan.mask.visibility = gnomon::Visibility::bidirectional;
    plan.queries = plan.keys = gnomon::borrowed(where);  // padding is not seen
    for (const layers::Layer& layer : layers) {
      const Rows normed = layers::norm(x, width);
      Rows q = layer.query(normed), k = layer.key(normed), v = layer.value(normed);
      Rows out(q.size());
      gnomon::attention(
          {layers::heads(q, batch, heads, head_dim), layers::heads(k, batch, heads, head_dim),
           layers::heads(v, batch, heads, head_dim)},
          plan, layers::heads(out, batch, heads, head_dim));
      layers::add(x, layer.output(out));
      layers::add(x, layer.mlp(layers::norm(x, width)));
    }

    Rows first;
    for (std::int64_t b = 0; b < batch; ++b) {
      std::int64_t at = b * length;
      while (mask[static_cast<std::size_t>(at)] == 0) ++at;
      first.insert(first.end(), x.begin() + at * width, x.begin() + (at + 1) * width);
    }
    return head(layers::norm(first, width));
  }
};

}  // namespace

int main() {
  const Bert bert;
  const Rows alone = bert({7, 8, 9, 10, 11}, {1, 1, 1, 1, 1}, 1);
  // The same sentence with padding on the right and on the left, beside a longer sentence.
  const Rows batch = bert({7,  8,  9,  10, 11, 0,  0,  0,    //
                           0,  0,  0,  7,  8,  9,  10, 11,   //
                           20, 21, 22, 23, 24, 25, 26, 27},  //
                          {1, 1, 1, 1, 1, 0, 0, 0,           //
                           0, 0, 0, 1, 1, 1, 1, 1,           //
                           1, 1, 1, 1, 1, 1, 1, 1},
                          3);
  const Rows reordered = bert({7, 11, 10, 9, 8}, {1, 1, 1, 1, 1}, 1);
  bool holds = true;
  for (std::size_t row = 0; row < 2; ++row) {
    const double off = layers::difference(alone, {&batch[row * classes], classes});
    std::printf("padding on the %s changes the logits by %.1e\n", row == 0 ? "right" : "left",
                off);
    holds = holds && off < 1e-5;
  }
  const double moved = layers::difference(alone, reordered);
  std::printf("another order of the later tokens changes the logits by %.1e\n", moved);
  return holds && moved > 1e-2 ? 0 : 1;
}

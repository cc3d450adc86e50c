// Tensor parallelism: each of 2 or 4 ranks has a part of the heads, and the shard of the
// encoding for these heads. The outputs of the ranks have the bits of one call with all heads,
// if each rank has whole groups of query heads.
//
//   g++ -std=c++20 tensor_parallel.cc $(pkg-config --cflags --libs gnomon-model gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/model/shard.h>

#include <cstdio>

#include "layers.h"

namespace {

using gnomon::View, layers::Rows, std::int64_t;
namespace model = gnomon::model;
constexpr int64_t heads = 8, key_heads = 2, head_dim = 64, tokens = 200;
constexpr int64_t group = heads / key_heads;  // query heads of a key head
using Heads = View<const float, 4>;           // [1, T, H, D]
using Matrices = std::vector<View<const float, 2>>;
const Rows query = layers::random_rows(tokens * heads * head_dim, 1, 1);
const Rows key = layers::random_rows(tokens * key_heads * head_dim, 1, 2);
const Rows value = layers::random_rows(tokens * key_heads * head_dim, 1, 3);
const Heads q(query.data(), {1, tokens, heads, head_dim});
const Heads k(key.data(), {1, tokens, key_heads, head_dim}), v(value.data(), k.extents());

// Attention of the last queries, with the heads first to first + count - 1, which have this
// encoding. out: [queries, heads, head_dim], of which these heads are written.
void attend(int64_t queries, int64_t first, int64_t count, const model::Mixture& encoding,
            const Matrices& parameters, Rows& out) {
  // The key heads of these queries; or one, which other ranks have, too.
  const int64_t of_keys = std::max<int64_t>(count / group, 1), offset = tokens - queries;
  gnomon::LayerPlan plan =
      model::lower(encoding, {.queries = queries, .keys = tokens}, parameters);
  plan.mask = {.visibility = gnomon::Visibility::causal, .offset = offset};
  gnomon::attention({.q = q.slice(1, offset, queries).slice(2, first, count),
                     .k = k.slice(2, first / group, of_keys),
                     .v = v.slice(2, first / group, of_keys)},
                    plan, layers::heads(out, 1, heads, head_dim).slice(2, first, count));
}

// The parts of the parameters that a rank holds. A checkpoint reader loads only these.
Matrices of_shard(const Matrices& whole, const std::vector<model::ParameterRange>& ranges) {
  Matrices own;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const auto [row_begin, row_end, column_begin, column_end, shared] = ranges[i];
    own.push_back(whole[i]
                      .slice(0, row_begin, row_end - row_begin)
                      .slice(1, column_begin, column_end - column_begin));
  }
  return own;
}

}  // namespace

int main() {
  const gnomon::T5Bias t5{.heads = heads, .direction = gnomon::T5Direction::causal};
  const Rows buckets = layers::random_rows(t5.buckets * heads, 1, 4);
  const std::pair<model::Mixture, Matrices> encodings[] = {
      {{gnomon::Rotary{.rotary_dim = head_dim, .pairing = gnomon::Pairing::halves}}, {}},
      {{gnomon::Alibi{.heads = heads}}, {}},
      {{t5}, {View<const float, 2>(buckets.data(), {t5.buckets, heads})}}};
  bool holds = true;
  for (const auto& [encoding, parameters] : encodings)
    for (const int64_t queries : {tokens, int64_t{4}}) {
      Rows whole(queries * heads * head_dim);
      attend(queries, 0, heads, encoding, parameters, whole);
      for (const int64_t ranks : {2, 4}) {
        const int64_t count = heads / ranks;
        Rows parts(whole.size());
        for (int64_t first = 0; first < heads; first += count) {
          const model::Shard shard = model::shard(encoding, first, count);
          attend(queries, first, count, shard.mixture, of_shard(parameters, shard.ranges),
                 parts);
        }
        const double off = layers::difference(parts, whole);
        std::printf("%s, %d queries, %d ranks: off by %.1e\n", model::names(encoding).c_str(),
                    static_cast<int>(queries), static_cast<int>(ranks), off);
        // Few queries of ranks that share a key head take another kernel than the whole.
        holds = holds && (ranks > key_heads && queries == 4 ? off < 1e-5 : off == 0);
      }
    }
  // The slopes of ALiBi depend on the number of heads of the model.
  Rows whole(query.size()), parts(query.size());
  attend(tokens, 0, heads, {gnomon::Alibi{.heads = heads}}, {}, whole);
  for (const int64_t first : {0, 4})
    attend(tokens, first, 4, {gnomon::Alibi{.heads = 4}}, {}, parts);
  const double wrong = layers::difference(parts, whole);
  std::printf("alibi of 4 heads on each of 2 ranks: off by %.1e\n", wrong);
  return holds && wrong > 1e-2 ? 0 : 1;
}

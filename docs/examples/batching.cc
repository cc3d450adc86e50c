// Continuous batching over a paged cache: steps with any mixture of prompts, chunks of prompts
// and single tokens, each with one rotation and one call of attention. The outputs have the
// bits of separate calls for each sequence.
//
//   g++ -std=c++20 batching.cc $(pkg-config --cflags --libs gnomon-core)
#include <gnomon/attention/attention.h>
#include <gnomon/position/positions.h>
#include <gnomon/rotary/rotary.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using std::int64_t;
using Rows = std::vector<float>;
constexpr int64_t heads = 8, key_heads = 2, head_dim = 64, page = 16, blocks = 12;
constexpr int64_t of_query = heads * head_dim, of_key = key_heads * head_dim;

Rows random_rows(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  Rows rows(static_cast<std::size_t>(count));
  for (float& x : rows) x = static_cast<float>(engine() % 2001) / 1000 - 1;
  return rows;
}

struct Sequence {
  int64_t cached = 0;                // tokens in the cache
  std::vector<std::int32_t> blocks;  // its blocks, in order
  Rows k, v;                         // the same rows, contiguous, for the comparison
};

// Pages of keys and values, [blocks, page, key_heads, head_dim].
struct Pages {
  Rows k = Rows(blocks * page * of_key), v = k;
  std::vector<std::int32_t> free = {7, 2, 9, 0, 11, 4, 1, 10, 3, 8, 5, 6};

  void append(Sequence& sequence, const float* key, const float* value, int64_t count) {
    for (int64_t i = 0; i < count; ++i, key += of_key, value += of_key) {
      if (sequence.cached % page == 0) {
        sequence.blocks.push_back(free.back());
        free.pop_back();
      }
      const int64_t row = sequence.blocks.back() * page + sequence.cached++ % page;
      std::copy_n(key, of_key, k.begin() + row * of_key);
      std::copy_n(value, of_key, v.begin() + row * of_key);
      sequence.k.insert(sequence.k.end(), key, key + of_key);
      sequence.v.insert(sequence.v.end(), value, value + of_key);
    }
  }
  gnomon::View<const float, 4> view(const Rows& rows) const {
    return {rows.data(), {blocks, page, key_heads, head_dim}};
  }
};

// Processes counts[n] new tokens of sequence n. Returns whether all outputs have the bits of
// separate calls.
bool step(std::vector<Sequence>& sequences, Pages& pages, const std::vector<int64_t>& counts,
          unsigned seed) {
  const auto n = static_cast<int64_t>(sequences.size());
  std::vector<int64_t> starts{0}, offsets, lengths;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    starts.push_back(starts.back() + counts[s]);
    offsets.push_back(sequences[s].cached);
  }
  const int64_t tokens = starts.back();
  // The projections of a model.
  Rows q = random_rows(tokens * of_query, seed), k = random_rows(tokens * of_key, seed + 1),
       v = random_rows(tokens * of_key, seed + 2);

  const gnomon::Rotary rotary{
      .rotary_dim = head_dim, .pairing = gnomon::Pairing::halves, .base = 10'000};
  const gnomon::RotaryTable table(
      rotary, gnomon::ragged_positions({.starts = starts, .offsets = offsets}));
  const gnomon::View<float, 4> query(q.data(), {1, tokens, heads, head_dim});
  gnomon::rotate(query, gnomon::View<float, 4>(k.data(), {1, tokens, key_heads, head_dim}),
                 table);

  std::size_t most = 1;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    pages.append(sequences[s], k.data() + starts[s] * of_key, v.data() + starts[s] * of_key,
                 counts[s]);
    lengths.push_back(sequences[s].cached);
    most = std::max(most, sequences[s].blocks.size());
  }
  std::vector<std::int32_t> block_table(sequences.size() * most, -1);
  for (std::size_t s = 0; s < sequences.size(); ++s)
    std::copy(sequences[s].blocks.begin(), sequences[s].blocks.end(),
              block_table.begin() + static_cast<std::ptrdiff_t>(s * most));
  const gnomon::View<const std::int32_t, 2> table_of_blocks(block_table.data(),
                                                            {n, static_cast<int64_t>(most)});

  gnomon::AttentionPlan plan{.mask = {.visibility = gnomon::Visibility::causal}};
  plan.ragged = {.query_starts = starts,
                 .key_lengths = lengths,
                 .offsets = offsets,
                 .block_table = table_of_blocks};
  Rows out(q.size());
  gnomon::attention({.q = query, .k = pages.view(pages.k), .v = pages.view(pages.v)}, plan,
                    gnomon::View<float, 4>(out.data(), {1, tokens, heads, head_dim}));

  bool same = true;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    if (!counts[s]) continue;
    Rows alone(static_cast<std::size_t>(counts[s] * of_query));
    const gnomon::View<const float, 4> all_k(sequences[s].k.data(),
                                             {1, lengths[s], key_heads, head_dim}),
        all_v(sequences[s].v.data(), all_k.extents());
    gnomon::attention(
        {.q = query.slice(1, starts[s], counts[s]), .k = all_k, .v = all_v},
        {.mask = {.visibility = gnomon::Visibility::causal, .offset = offsets[s]}},
        gnomon::View<float, 4>(alone.data(), {1, counts[s], heads, head_dim}));
    same = same && std::equal(alone.begin(), alone.end(), out.begin() + starts[s] * of_query);
  }
  std::printf("step with %lld tokens of %lld sequences: %s\n", static_cast<long long>(tokens),
              static_cast<long long>(n), same ? "the bits of separate calls" : "different");
  return same;
}

}  // namespace

int main() {
  std::vector<Sequence> sequences(3);
  Pages pages;
  bool same = step(sequences, pages, {20, 0, 0}, 1);      // the first prompt
  same = step(sequences, pages, {1, 33, 0}, 11) && same;  // a token, and another prompt
  same = step(sequences, pages, {4, 1, 16}, 21) && same;  // drafts, a token, and a chunk
  same = step(sequences, pages, {1, 1, 9}, 31) && same;   // the rest of the third prompt
  return same ? 0 : 1;
}

// The contents of paged caches after drawn calls, and attention over them, against a model in
// double: sequences that are lists of rows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "c/results.h"
#include "gnomon_paged_cache.h"
#include "gnomon_ragged.h"

namespace gnomon {
namespace results_paged_cache_test {

using drawn::Argument;
using drawn::Exact;
using drawn::Placed;
using drawn::Role;
using drawn::Type;
using std::int64_t;

std::size_t at(int64_t index) { return static_cast<std::size_t>(index); }

// One cache, and 30 calls for it.
class Caches : public drawn::Results {
 public:
  explicit Caches(unsigned seed) : Results(seed) {
    type = draw.of<Type>({Type::f32, Type::f16, Type::bf16});
    gnomon_paged_kv_cache_spec spec{};
    spec.size = sizeof spec;
    spec.blocks = blocks, spec.block_size = block = 1 + draw.below(4);
    spec.heads = heads_k, spec.head_dim = size, spec.value_dim = size;
    spec.type = type == Type::f32   ? GNOMON_CACHE_F32
                : type == Type::f16 ? GNOMON_CACHE_F16
                                    : GNOMON_CACHE_BF16;
    const gnomon_rotary_spec rotary{.size = sizeof rotary,
                                    .rotary_dim = size,
                                    .pairing = GNOMON_ADJACENT,
                                    .base = 0,
                                    .head_offset = 0};
    gnomon_frequencies* frequencies = nullptr;
    EXPECT_EQ(gnomon_frequencies_create(&rotary, &frequencies), GNOMON_OK);
    gnomon_paged_kv_cache* made = nullptr;
    EXPECT_EQ(gnomon_paged_kv_cache_create(&spec, frequencies, &made), GNOMON_OK);
    cache.reset(made);
    gnomon_frequencies_destroy(frequencies);
  }
  void call() override {
    for (int i = 0; i < 30; ++i) {
      begin();
      step();
      if (::testing::Test::HasFailure()) return;
    }
  }

 private:
  struct Row {
    std::vector<double> key, value;  // [Hk, D]; not rotated
    double position = 0;
  };
  using Sequence = std::vector<Row>;

  void step();
  void append();
  void attend();
  void compare();
  // A number of a sequence that lives, or -1.
  int64_t living() {
    if (model.empty()) return -1;
    auto one = model.begin();
    std::advance(one, draw.below(std::ssize(model)));
    return one->first;
  }
  Placed& rows_of(int64_t rows) {
    return place(Type::f32, {rows, heads_k, size}, {.last_contiguous = true}, numbers());
  }
  Placed& ids_of(const std::vector<int64_t>& numbers) {
    return place(Type::i64, {std::ssize(numbers)}, {.written = true},
                 [&, i = std::size_t{0}]() mutable {
                   return static_cast<double>(numbers[i++ % numbers.size()]);
                 });
  }
  void done(const char* name, gnomon_status status, gnomon_status expected) {
    EXPECT_EQ(status, expected) << name << ": " << gnomon_error_message();
    ++counts[name][0], counts[name][1] += expected == GNOMON_OK;
    compare();
  }
  // The exact key of a row.
  double key(const Row& row, int64_t h, int64_t d) const {
    const std::size_t own = at(h * size + d), other = own ^ 1;
    const double f = std::pow(10'000.0, -2.0 * static_cast<double>(d / 2) / size);
    const auto [cos, sin] = drawn::cis(row.position, f);
    return static_cast<double>(row.key[own] * cos + (d % 2 ? 1 : -1) * row.key[other] * sin);
  }

  static constexpr int64_t blocks = 12, heads_k = 2, size = 4;
  int64_t block = 1;
  Type type = Type::f32;
  std::map<int64_t, Sequence> model;
  std::unique_ptr<gnomon_paged_kv_cache, void (*)(gnomon_paged_kv_cache*)> cache{
      nullptr, gnomon_paged_kv_cache_destroy};
};

void Caches::step() {
  const int64_t which = draw.below(12), of = draw.one_in(12) ? draw.number() : living();
  const bool lives = model.contains(of);
  const gnomon_status expected = lives ? GNOMON_OK : GNOMON_INVALID_ARGUMENT;
  if (which == 0) {
    int64_t number = -1;
    done("paged_kv_cache_start", gnomon_paged_kv_cache_start(cache.get(), &number), GNOMON_OK);
    EXPECT_FALSE(model.contains(number));
    model[number];
  } else if (which == 1) {
    const int64_t tokens = draw.one_in(2) ? -1 : draw.below(12);
    const bool fits = lives && tokens <= std::ssize(model[of]);
    int64_t number = -1;
    if (!lives) model.erase(of);
    const gnomon_status status = gnomon_paged_kv_cache_fork(cache.get(), of, tokens, &number);
    if (status == GNOMON_OK && fits) {
      Sequence copy = model[of];
      if (tokens >= 0) copy.resize(at(tokens));
      EXPECT_FALSE(model.contains(number));
      model[number] = std::move(copy);
    }
    done("paged_kv_cache_fork", status, fits ? GNOMON_OK : GNOMON_INVALID_ARGUMENT);
  } else if (which == 2) {
    const int64_t tokens = draw.one_in(6) ? draw.number() : draw.below(8);
    const bool fits = lives && tokens >= 0 && tokens <= std::ssize(model[of]);
    if (!lives) model.erase(of);
    if (fits) model[of].resize(at(tokens));
    done("paged_kv_cache_truncate", gnomon_paged_kv_cache_truncate(cache.get(), of, tokens),
         fits ? GNOMON_OK : GNOMON_INVALID_ARGUMENT);
  } else if (which == 3 && model.size() > 2) {
    model.erase(of);
    done("paged_kv_cache_end", gnomon_paged_kv_cache_end(cache.get(), of), expected);
  } else if (which < 9) {
    append();
  } else {
    attend();
  }
}

void Caches::append() {
  if (model.empty()) return;
  const int64_t of = living(), rows = draw.below(6);
  Placed &k = rows_of(rows), &v = rows_of(rows);
  const bool default_positions = draw.one_in(2);
  Placed& positions = place(Type::i64, {rows}, {}, drawn::Results::positions(1000));
  Placed &id = ids_of({of}), &starts = ids_of({0, rows});
  int64_t held = 0, room = 0;
  EXPECT_EQ(gnomon_paged_kv_cache_tokens(cache.get(), of, &held, &room), GNOMON_OK);
  EXPECT_EQ(held, std::ssize(model[of]));
  const gnomon_status status =
      gnomon_paged_kv_cache_append(cache.get(), k.get(), v.get(), id.get(), starts.get(),
                                   default_positions ? nullptr : positions.get(), nullptr);
  EXPECT_TRUE(k.is_unchanged() && v.is_unchanged());
  if (rows <= room) {
    const std::vector<double> keys = k.values(), values = v.values(), own = positions.values();
    const auto each = static_cast<std::ptrdiff_t>(heads_k * size);
    for (int64_t i = 0; i < rows; ++i) {
      Row row;
      row.key.assign(keys.begin() + i * each, keys.begin() + (i + 1) * each);
      row.value.assign(values.begin() + i * each, values.begin() + (i + 1) * each);
      row.position = default_positions ? static_cast<double>(held + i) : own[at(i)];
      model[of].push_back(std::move(row));
    }
  }
  done("paged_kv_cache_append", status, rows <= room ? GNOMON_OK : GNOMON_INVALID_ARGUMENT);
}

// All entries of all sequences, read through the block table.
void Caches::compare() {
  gnomon_tensor keys, values;
  ASSERT_EQ(gnomon_paged_kv_cache_tensors(cache.get(), &keys, &values, nullptr, nullptr),
            GNOMON_OK);
  std::vector<int64_t> holders(at(blocks));
  for (const auto& [number, rows] : model) {
    Placed id(Type::i64, {1}, [&, n = number] { return static_cast<double>(n); });
    gnomon_tensor table, lengths;
    ASSERT_EQ(gnomon_paged_kv_cache_block_table(cache.get(), id.get(), &table, &lengths),
              GNOMON_OK);
    ASSERT_EQ(*static_cast<const int64_t*>(lengths.data), std::ssize(rows));
    for (int64_t i = 0; i < std::ssize(rows); ++i) {
      const int64_t in = static_cast<const int32_t*>(table.data)[i / block];
      ASSERT_TRUE(in >= 0 && in < blocks);
      ++holders[at(in)];
      for (int64_t e = 0; e < heads_k * size; ++e) {
        const auto index = (in * block + i % block) * heads_k * size + e;
        const double k = Placed::element(keys, type, index),
                     v = Placed::element(values, type, index);
        const Row& row = rows[at(i)];
        const double exact = key(row, e / size, e % size), value = row.value[at(e)];
        const double narrow = type == Type::f32 ? 0 : drawn::rounding(type);
        ASSERT_NEAR(k, exact, 4 * 3 * 0x1p-24 + 4 * narrow)
            << where() << ' ' << number << ' ' << i;
        ASSERT_NEAR(v, value, std::abs(value) * narrow + drawn::least_number(type)) << where();
      }
    }
  }
  int64_t held = 0;
  for (const int64_t one : holders) held += one > 0;
  ASSERT_EQ(gnomon_paged_kv_cache_free_blocks(cache.get()), blocks - held) << where();
}

// Each sequence has one or two queries, its last tokens.
void Caches::attend() {
  std::vector<int64_t> all, of_queries{0};
  for (const auto& [number, rows] : model)
    if (!rows.empty()) {
      all.push_back(number);
      of_queries.push_back(of_queries.back() + std::min<int64_t>(2, std::ssize(rows)));
    }
  if (all.empty()) return;
  const int64_t heads_q = heads_k * 2, rows = of_queries.back();
  Placed &q = heads(Type::f32, {1, rows, heads_q, size}, false),
         &out = heads(Type::f32, {1, rows, heads_q, size}, true),
         &lse = place(Type::f32, {1, heads_q, rows}, {.written = true}, numbers());
  gnomon_tensor keys, values, table, lengths;
  gnomon_paged_kv_cache_tensors(cache.get(), &keys, &values, nullptr, nullptr);
  Placed &ids = ids_of(all),
         starts(Type::i64, {std::ssize(of_queries)}, [&, i = std::size_t{0}]() mutable {
           return static_cast<double>(of_queries[i++]);
         });
  ASSERT_EQ(gnomon_paged_kv_cache_block_table(cache.get(), ids.get(), &table, &lengths),
            GNOMON_OK);
  gnomon_layer_plan* made = nullptr;
  gnomon_layer_plan_create(&made);
  const std::unique_ptr<gnomon_layer_plan, void (*)(gnomon_layer_plan*)> plan(
      made, gnomon_layer_plan_destroy);
  const int64_t left = draw.one_in(2) ? -1 : draw.below(5);
  gnomon_layer_plan_set_mask(made, GNOMON_CAUSAL, -1, left, -1);
  gnomon_attention_input input{};
  input.size = sizeof input;
  input.q = q.get(), input.k = &keys, input.v = &values;
  gnomon_ragged_batch batch{};
  batch.size = sizeof batch;
  batch.query_starts = starts.get(), batch.key_lengths = &lengths, batch.block_table = &table;
  check(
      "attention_ragged", {{&q}, {&out, Role::written}, {&lse, Role::written, true}},
      [&] { return gnomon_attention_ragged(&input, &batch, made, out.get(), lse.get()); },
      [&] {
        const std::vector<double> queries = q.values();
        std::vector<Exact> exact(at(rows * heads_q * size)), of_lse(at(heads_q * rows));
        for (std::size_t n = 0; n < all.size(); ++n) {
          const Sequence& sequence = model[all[n]];
          const int64_t count = of_queries[n + 1] - of_queries[n], held = std::ssize(sequence);
          for (int64_t i = 0; i < count; ++i)
            for (int64_t h = 0; h < heads_q; ++h) {
              const int64_t row = of_queries[n] + i, own = held - count + i;
              double sum = 0;
              std::vector<double> weight(at(held));
              for (int64_t j = 0; j <= own; ++j) {
                if (left >= 0 && own - j > left) continue;
                double dot = 0;
                for (int64_t d = 0; d < size; ++d)
                  dot += queries[at((row * heads_q + h) * size + d)] *
                         key(sequence[at(j)], h / 2, d);
                sum += weight[at(j)] = std::exp(dot / 2);
              }
              // The keys and values of 16 bits were rounded: of |q| |k| <= 16.
              const double narrow = type == Type::f32 ? 0 : drawn::rounding(type);
              const double of_score = 0x1p-16 + 16 * narrow;
              of_lse[at(h * rows + row)] = {std::log(sum), of_score + 0x1p-18 * 16};
              for (int64_t d = 0; d < size; ++d) {
                double mean = 0;
                for (int64_t j = 0; j <= own; ++j)
                  mean += weight[at(j)] / sum * sequence[at(j)].value[at(h / 2 * size + d)];
                exact[at((row * heads_q + h) * size + d)] = {
                    mean, 2 * std::expm1(2 * of_score) + 2 * narrow + 0x1p-16};
              }
            }
        }
        expect("out", out.values(), exact);
        expect("lse", lse.values(), of_lse);
      });
}

TEST(ResultsPagedCache, AreThoseOfTheModel) { drawn::check_results<Caches>(3000, 6); }

}  // namespace results_paged_cache_test
}  // namespace gnomon

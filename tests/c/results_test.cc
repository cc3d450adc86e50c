// The results of drawn calls of the functions of gnomon.h that rotate, and that add tables,
// against formulas in long double.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "c/results.h"

namespace gnomon {
namespace results_test {

using drawn::Argument;
using drawn::Exact;
using drawn::Placed;
using drawn::Role;
using drawn::Type;
using std::int64_t;

using Frequencies = std::unique_ptr<gnomon_frequencies, void (*)(gnomon_frequencies*)>;
using Table = std::unique_ptr<gnomon_rotary_table, void (*)(gnomon_rotary_table*)>;

constexpr double far = double{1LL << 31};

class Rotations : public drawn::Results {
 public:
  using Results::Results;
  void call() override;

 private:
  void frequencies();
  void tables();
  void rotations(int which);
  void embeddings(int which);

  // A rotation: its frequencies as the library returns them, and the rest of the spec.
  struct Rotation {
    gnomon_rotary_spec spec{};
    std::vector<double> inv_freq;
    double scale = 1;
    Frequencies handle{nullptr, gnomon_frequencies_destroy};
  };
  Rotation rotation(int64_t head_dim);
  Table table(const Rotation& of, Placed& positions);
  // The elements of heads [B, T, H, D], rotated by positions(b, t), with the bounds for `type`.
  template <typename PositionOf>
  std::vector<Exact> rotated(const Rotation& by, const Placed& x, Type type, double scale,
                             int sign, PositionOf&& position);
  Type element_type() {
    return draw.of<Type>({Type::f32, Type::f32, Type::f64, Type::f16, Type::bf16});
  }
};

Rotations::Rotation Rotations::rotation(int64_t head_dim) {
  Rotation one;
  const int64_t pairs = 1 + draw.below(head_dim / 2), rotary_dim = 2 * pairs;
  one.spec = {.size = sizeof one.spec,
              .rotary_dim = rotary_dim,
              .pairing = static_cast<int32_t>(1 + draw.below(2)),
              .base = draw.of<double>({0, 10000, 500000, 2}),
              .head_offset = draw.below(head_dim - rotary_dim + 1)};
  gnomon_frequencies* made = nullptr;
  one.inv_freq.resize(static_cast<std::size_t>(pairs));
  if (draw.one_in(2)) {
    EXPECT_EQ(gnomon_frequencies_create(&one.spec, &made), GNOMON_OK);
  } else {
    Placed& given = place(Type::f64, {pairs}, {}, [this] {
      return static_cast<double>(draw.below(2001) - 1000) / 1000;
    });
    one.scale = draw.of<double>({1, 1.25, -0.5, 0});
    EXPECT_EQ(gnomon_frequencies_from(&one.spec, given.get(), nullptr, one.scale, &made),
              GNOMON_OK)
        << gnomon_error_message();
  }
  one.handle.reset(made);
  Placed got(Type::f64, {pairs});
  EXPECT_EQ(gnomon_frequencies_get(made, got.get()), GNOMON_OK);
  one.inv_freq = got.values();
  return one;
}

Table Rotations::table(const Rotation& of, Placed& positions) {
  gnomon_rotary_table* made = nullptr;
  EXPECT_EQ(gnomon_rotary_table_create(of.handle.get(), positions.get(), &made), GNOMON_OK)
      << gnomon_error_message();
  return {made, gnomon_rotary_table_destroy};
}

template <typename PositionOf>
std::vector<Exact> Rotations::rotated(const Rotation& by, const Placed& x, Type type,
                                      double scale, int sign, PositionOf&& position) {
  const std::vector<double> from = x.values_before();
  const int64_t t_count = x.shape()[1], heads = x.shape()[2], size = x.shape()[3];
  const int64_t pairs = by.spec.rotary_dim / 2;
  const bool is_narrow = type == Type::f16 || type == Type::bf16;
  std::vector<Exact> all;
  for (const double one : from) all.push_back({one, 0});
  for (int64_t b = 0, at = 0; b < x.shape()[0]; ++b)
    for (int64_t t = 0; t < t_count; ++t)
      for (int64_t h = 0; h < heads; ++h, at += size)
        for (int64_t i = 0; i < pairs; ++i) {
          const bool halves = by.spec.pairing == GNOMON_HALVES;
          const int64_t first = at + by.spec.head_offset + (halves ? i : 2 * i),
                        second = first + (halves ? pairs : 1);
          const auto [cos, sin] =
              drawn::cis(position(b, t), by.inv_freq[static_cast<std::size_t>(i)]);
          const long double m = scale, p = from[static_cast<std::size_t>(first)],
                            q = from[static_cast<std::size_t>(second)];
          const auto put = [&](int64_t to, long double exact) {
            const double error =
                3 * 0x1p-24 * std::abs(scale) * static_cast<double>(std::abs(p) + std::abs(q));
            const double own = static_cast<double>(std::abs(exact)) + error;
            all[static_cast<std::size_t>(to)] = {
                static_cast<double>(exact),
                error +
                    (is_narrow ? own * drawn::rounding(type) + drawn::least_number(type) : 0)};
          };
          put(first, m * (p * cos - sign * q * sin));
          put(second, m * (q * cos + sign * p * sin));
        }
  return all;
}

void Rotations::call() {
  begin();
  const auto which = static_cast<int>(draw.below(12));
  if (which == 0) return frequencies();
  if (which < 3) return tables();
  which < 8 ? rotations(which) : embeddings(which);
}

void Rotations::frequencies() {
  const int64_t pairs = 1 + draw.below(40);
  const gnomon_rotary_spec spec{.size = sizeof spec,
                                .rotary_dim = 2 * pairs,
                                .pairing = GNOMON_HALVES,
                                .base = draw.of<double>({0, 10000, 500000, 3.7}),
                                .head_offset = 0};
  gnomon_frequencies* made = nullptr;
  ASSERT_EQ(gnomon_frequencies_create(&spec, &made), GNOMON_OK);
  const Frequencies owned(made, gnomon_frequencies_destroy);
  EXPECT_EQ(gnomon_frequencies_count(made), pairs);
  Placed& out = place(Type::f64, {pairs}, {.written = true}, numbers());
  check(
      "frequencies_get", {{&out, Role::written}},
      [&] { return gnomon_frequencies_get(made, out.get()); },
      [&] {
        std::vector<Exact> exact;
        const long double base = spec.base == 0 ? 10000 : spec.base;
        for (int64_t i = 0; i < pairs; ++i) {
          const auto f = static_cast<double>(
              std::pow(base, -2.0L * static_cast<long double>(i) / (2.0L * pairs)));
          exact.push_back({f, f * 0x1p-52});
        }
        expect("inv_freq", out.values(), exact);
      });
}

void Rotations::tables() {
  const Rotation by = rotation(2 + 2 * draw.below(6));
  const int64_t tokens = draw.below(200), pairs = by.spec.rotary_dim / 2;
  Placed& ids = place(Type::i64, {tokens}, {}, positions(1LL << 31));
  const auto exact = [&](bool is_cos, Type type) {
    std::vector<Exact> all;
    for (const double p : ids.values_before())
      for (const double f : by.inv_freq) {
        const auto [cos, sin] = drawn::cis(p, f);
        const auto value = static_cast<double>((is_cos ? cos : sin) * by.scale);
        all.push_back({value, std::abs(value) * drawn::rounding(type) +
                                  std::abs(by.scale) * 0x1p-46 + drawn::least_number(type)});
      }
    return all;
  };
  if (draw.one_in(2)) {
    const Type type = element_type();
    const drawn::Layout layout{.written = true};
    Placed &cos = place(type, {tokens, pairs}, layout, numbers()),
           &sin = place(type, {tokens, pairs}, layout, numbers());
    const Argument ids_copied{&ids, Role::read, false, true};
    check(
        "cos_sin", {ids_copied, {&cos, Role::written}, {&sin, Role::written}},
        [&] { return gnomon_cos_sin(ids.get(), by.handle.get(), cos.get(), sin.get()); },
        [&] {
          expect("cos", cos.values(), exact(true, type));
          expect("sin", sin.values(), exact(false, type));
        });
    return;
  }
  const Table made = table(by, ids);
  Placed &cos = place(Type::f32, {1, tokens, pairs}, {.written = true}, numbers()),
         &sin = place(Type::f32, {1, tokens, pairs}, {.written = true}, numbers());
  check(
      "rotary_table_get", {{&cos, Role::written}, {&sin, Role::written}},
      [&] { return gnomon_rotary_table_get(made.get(), cos.get(), sin.get()); },
      [&] {
        expect("cos", cos.values(), exact(true, Type::f32));
        expect("sin", sin.values(), exact(false, Type::f32));
      });
}

void Rotations::rotations(int which) {
  const int64_t size = 2 + 2 * draw.below(9), batch = draw.below(4), tokens = draw.below(9),
                heads_q = 1 + draw.below(5), heads_k = 1 + draw.below(3);
  const Rotation by = rotation(size);
  const bool shared = draw.one_in(2) || batch == 0;
  Placed& ids = place(Type::i64, {shared ? 1 : batch, tokens}, {}, positions(1LL << 31));
  const std::vector<double> at = ids.values_before();
  const auto position = [&](int64_t b, int64_t t) {
    return at[static_cast<std::size_t>((shared ? 0 : b) * tokens + t)];
  };
  const Type type = element_type();
  const Table rows = table(by, ids);
  const bool backward = draw.one_in(3);
  const int sign = backward ? -1 : 1;
  const int32_t direction = backward ? GNOMON_INVERSE : GNOMON_FORWARD;
  Placed& q = heads(type, {batch, tokens, heads_q, size}, which != 4 && which != 6);
  if (which == 3) {
    Placed& k = heads(type, {batch, tokens, heads_k, size}, true);
    check(
        "rotate", {{&q, Role::in_place}, {&k, Role::in_place}},
        [&] { return gnomon_rotate(q.get(), k.get(), rows.get(), direction); },
        [&] {
          expect("q", q.values(), rotated(by, q, type, by.scale, sign, position));
          expect("k", k.values(), rotated(by, k, type, by.scale, sign, position));
        });
  } else if (which == 4) {
    Placed& out = heads(type, {batch, tokens, heads_q, size}, true);
    check(
        "rotate_to", {{&q}, {&out, Role::written}},
        [&] { return gnomon_rotate_to(q.get(), rows.get(), direction, out.get()); },
        [&] { expect("out", out.values(), rotated(by, q, type, by.scale, sign, position)); });
  } else if (which == 5) {
    // [T], or [1, B or 1, T].
    const bool flat = shared && draw.one_in(2);
    Placed& places = flat ? place(Type::i64, {tokens}, {}, positions())
                          : place(Type::i64, {1, shared ? 1 : batch, tokens}, {}, positions());
    const std::vector<double> of = places.values_before();
    const auto there = [&](int64_t b, int64_t t) {
      return of[static_cast<std::size_t>((shared ? 0 : b) * tokens + t)];
    };
    Placed& k = heads(type, {batch, tokens, heads_k, size}, true);
    check(
        "rotate_at", {{&q, Role::in_place}, {&k, Role::in_place}, {&places}},
        [&] { return gnomon_rotate_at(q.get(), k.get(), places.get(), by.handle.get()); },
        [&] {
          expect("q", q.values(), rotated(by, q, type, by.scale, 1, there));
          expect("k", k.values(), rotated(by, k, type, by.scale, 1, there));
        });
  } else if (which == 6) {
    const bool plain = draw.one_in(4);
    const Type to = draw.one_in(3)      ? Type::i8
                    : type == Type::f32 ? draw.of<Type>({Type::f32, Type::f16, Type::bf16})
                                        : type;
    if (to == Type::i8 && type == Type::f64) return;
    Placed& slot = heads(to, {batch, tokens, heads_q, size}, true);
    Placed& scales = place(Type::f32, {batch, tokens, heads_q}, {.written = true}, numbers());
    std::vector<Argument> all{{&q}, {&slot, Role::written}};
    if (to == Type::i8) all.push_back({&scales, Role::written, true});
    check(
        "append", all,
        [&] {
          return gnomon_append(q.get(), plain ? nullptr : rows.get(), slot.get(),
                               to == Type::i8 ? scales.get() : nullptr);
        },
        [&] {
          Rotation none;
          std::vector<Exact> exact = rotated(
              plain ? none : by, q, to == Type::i8 ? Type::f32 : to, by.scale, 1, position);
          std::vector<double> got = slot.values();
          if (to != Type::i8) {
            if (plain)
              for (Exact& one : exact)
                one.bound = std::abs(one.value) * drawn::rounding(to) + drawn::least_number(to);
            else
              for (Exact& one : exact)
                if (one.bound == 0 && to != type)
                  one.bound =
                      std::abs(one.value) * drawn::rounding(to) + drawn::least_number(to);
            return expect("slot", got, exact);
          }
          const std::vector<double> factors = scales.values();
          for (std::size_t i = 0; i < got.size(); i += static_cast<std::size_t>(size)) {
            double greatest = 0;
            for (std::size_t j = i; j < i + static_cast<std::size_t>(size); ++j)
              greatest = std::max(greatest, std::abs(exact[j].value) + exact[j].bound);
            for (std::size_t j = i; j < i + static_cast<std::size_t>(size); ++j) {
              got[j] *= factors[i / static_cast<std::size_t>(size)];
              exact[j].bound += greatest * (1.0 / 254 + 0x1p-22);
            }
          }
          expect("slot x scales", got, exact);
        });
  } else {
    const int64_t delta = draw.one_in(4) ? draw.of<int64_t>({0, 1LL << 31, -(1LL << 31)})
                                         : draw.below(2001) - 1000;
    check(
        "shift_keys", {{&q, Role::in_place}},
        [&] { return gnomon_shift_keys(q.get(), by.handle.get(), delta); },
        [&] {
          EXPECT_TRUE(delta != 0 || q.is_unchanged());
          expect("cached", q.values(), rotated(by, q, type, 1, 1, [&](int64_t, int64_t) {
                   return static_cast<double>(delta);
                 }));
        });
  }
}

void Rotations::embeddings(int which) {
  const int64_t batch = draw.below(4), tokens = draw.below(20), width = 4 + 2 * draw.below(12),
                rows = 1 + draw.below(9);
  const Type type = element_type();
  if (which == 8) {
    Placed& ids = place(Type::i64, {tokens}, {}, positions());
    Placed& out = place(type, {tokens, width}, {.written = true}, numbers());
    const int32_t layout = static_cast<int32_t>(1 + draw.below(3));
    const double base = draw.of<double>({0, 10000, 7});
    const Argument ids_copied{&ids, Role::read, false, true};
    check(
        "sinusoidal", {ids_copied, {&out, Role::written}},
        [&] { return gnomon_sinusoidal(ids.get(), layout, base, out.get()); },
        [&] {
          std::vector<Exact> exact;
          const int64_t half = width / 2;
          const long double last = layout == GNOMON_TENSOR2TENSOR ? half - 1 : half;
          for (const double p : ids.values_before())
            for (int64_t c = 0; c < width; ++c) {
              const bool mixed = layout == GNOMON_INTERLEAVED;
              const int64_t i = mixed ? c / 2 : c % half;
              const bool is_sine = mixed ? c % 2 == 0 : c < half;
              const auto f = static_cast<double>(
                  std::pow(base == 0 ? 10000.0L : static_cast<long double>(base),
                           -static_cast<long double>(i) / last));
              const auto [cos, sin] = drawn::cis(p, f);
              const auto value = static_cast<double>(is_sine ? sin : cos);
              exact.push_back({value, std::abs(value) * drawn::rounding(type) + 0x1p-46 +
                                          std::abs(p) * f * 0x1p-51 +
                                          drawn::least_number(type)});
            }
          expect("out", out.values(), exact);
        });
    return;
  }
  Placed& x = place(type, {batch, tokens, width},
                    {.written = which != 11, .last_contiguous = true}, numbers());
  const std::vector<double> before = x.values_before();
  const auto at = [](int64_t i) { return static_cast<std::size_t>(i); };
  Placed& added = place(Type::f32, {which == 9 ? tokens : rows, width},
                        {.written = which == 11, .last_contiguous = true}, numbers());
  Placed& ids = place(Type::i64, {batch, tokens}, {},
                      [&] { return static_cast<double>(draw.below(rows)); });
  const std::vector<double> of_table = added.values_before(), of_ids = ids.values_before();
  // The sum is computed in float, or in double for float64.
  const auto sums = [&](double scale, const auto& row) {
    std::vector<Exact> exact;
    const double own = type == Type::f64 ? 0x1p-52 : 0x1p-23;
    for (int64_t i = 0; i < batch * tokens; ++i)
      for (int64_t c = 0; c < width; ++c) {
        const double a = before[at(i * width + c)],
                     b = scale * of_table[at(row(i) * width + c)];
        exact.push_back({a + b, (std::abs(a) + std::abs(b)) * own +
                                    std::abs(a + b) * drawn::rounding(type) * (1 + own) +
                                    drawn::least_number(type)});
      }
    return exact;
  };
  const auto row_of = [&](int64_t i) { return static_cast<int64_t>(of_ids[at(i)]); };
  if (which == 9) {
    const auto scale = static_cast<float>(draw.of<double>({1, 2.5, -1, 0}));
    check(
        "add_table", {{&x, Role::in_place}, {&added}},
        [&] { return gnomon_add_table(x.get(), added.get(), scale); },
        [&] {
          expect("x", x.values(), sums(double{scale}, [&](int64_t i) { return i % tokens; }));
        });
  } else if (which == 10) {
    // A row outside the table is refused, and nothing is written.
    if (batch * tokens > 0 && draw.one_in(6)) {
      Placed wrong(Type::i64, {batch, tokens}, [&, n = 0]() mutable {
        return n++ ? 0.0 : draw.of<double>({-1, static_cast<double>(rows), -far, 0x1p62});
      });
      EXPECT_EQ(gnomon_add_rows(x.get(), added.get(), wrong.get()), GNOMON_INVALID_ARGUMENT);
      EXPECT_TRUE(x.is_unchanged());
    }
    check(
        "add_rows", {{&x, Role::in_place}, {&added}, {&ids}},
        [&] { return gnomon_add_rows(x.get(), added.get(), ids.get()); },
        [&] { expect("x", x.values(), sums(1, row_of)); });
  } else {
    check(
        "add_rows_backward", {{&x}, {&ids}, {&added, Role::in_place}},
        [&] { return gnomon_add_rows_backward(x.get(), ids.get(), added.get()); },
        [&] {
          std::vector<Exact> exact;
          for (const double one : of_table) exact.push_back({one, std::abs(one) * 0x1p-22});
          for (int64_t i = 0; i < batch * tokens; ++i)
            for (int64_t c = 0; c < width; ++c) {
              Exact& to = exact[at(row_of(i) * width + c)];
              const double value = before[at(i * width + c)];
              to.value += value, to.bound += std::abs(value) * 0x1p-22;
            }
          expect("table_grad", added.values(), exact);
        });
  }
}

TEST(Results, OfRotationsAndTablesAreThoseOfTheFormulas) {
  drawn::check_results<Rotations>(4000, 12);
}

}  // namespace results_test
}  // namespace gnomon

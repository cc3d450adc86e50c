// Compares compressed keys with their formula in double, and their gradients with finite
// differences.
#include "gnomon/attention/compressed_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gnomon/parallel.h"
#include "testing.h"

namespace gnomon {
namespace compressed_keys_test {

using std::int64_t;
using testing::as_double;
using testing::message_of;
using testing::random_numbers;
using testing::random_tensor;
using testing::Tensor;

constexpr int64_t head_dim = 12, rotary_dim = 6;

KeyCompressionPlan plan_of(int64_t rate, int64_t series) {
  KeyCompressionPlan plan{.compression = {.rate = rate, .series = series, .epsilon = 1e-3},
                          .head_dim = head_dim};
  for (const double one : random_numbers(static_cast<std::size_t>(rate * series * head_dim), 7))
    plan.bias.push_back(static_cast<float>(one));
  for (const double one : random_numbers(head_dim, 8))
    plan.weight.push_back(static_cast<float>(1 + 0.3 * one));
  plan.frequencies = lower(Rotary{.rotary_dim = rotary_dim,
                                  .pairing = Pairing::adjacent,
                                  .base = 100,
                                  .head_offset = head_dim - rotary_dim});
  return plan;
}

// The formula, one channel of one entry at a time.
template <typename T>
std::vector<double> naive_compress(View<const T, 4> values, View<const T, 4> gates,
                                   const KeyCompressionPlan& plan, int64_t b, int64_t w) {
  const auto& [rate, series, epsilon] = plan.compression;
  std::vector<double> x(head_dim);
  double squares = 0;
  for (int64_t d = 0; d < head_dim; ++d) {
    double sum = 0, mean = 0;
    for (int64_t n = 0; n < series; ++n) {
      const int64_t window = series == 2 && n == 0 ? w - 1 : w;
      for (int64_t s = 0; window >= 0 && s < rate; ++s) {
        const int64_t token = window * rate + s;
        const double bias =
            plan.bias.at(static_cast<std::size_t>((s * series + n) * head_dim + d));
        const double p = std::exp(as_double(gates(b, token, n, d)) + bias);
        sum += p;
        mean += p * as_double(values(b, token, n, d));
      }
    }
    x[static_cast<std::size_t>(d)] = mean / sum;
    squares += mean / sum * mean / sum / head_dim;
  }
  for (std::size_t d = 0; d < x.size(); ++d)
    x[d] *= (plan.weight.empty() ? 1 : double{plan.weight[d]}) / std::sqrt(squares + epsilon);
  if (!plan.frequencies) return x;
  for (int64_t i = 0; i < rotary_dim / 2; ++i) {
    const double angle = static_cast<double>(w * rate) *
                         std::pow(100., -2. * static_cast<double>(i) / rotary_dim);
    double& a = x[static_cast<std::size_t>(head_dim - rotary_dim + 2 * i)];
    double& c = x[static_cast<std::size_t>(head_dim - rotary_dim + 2 * i + 1)];
    const double before = a;
    a = a * std::cos(angle) - c * std::sin(angle);
    c = before * std::sin(angle) + c * std::cos(angle);
  }
  return x;
}

template <typename T>
void expect_formula(double tolerance) {
  for (const auto& [rate, series] : {std::pair(4, 1), std::pair(4, 2), std::pair(1, 2)}) {
    const KeyCompressionPlan plan = plan_of(rate, series);
    // Heads before tokens, as a projection that is a view of another array.
    const auto values = random_tensor<T, 4>({2, series, 14, head_dim}, 1);
    const auto gates = random_tensor<T, 4>({2, series, 14, head_dim}, 2);
    const auto swapped = [&](const Tensor<T, 4>& x) {
      return View<const T, 4>(x.values.data(), {2, 14, series, head_dim},
                              {series * 14 * head_dim, head_dim, 14 * head_dim, 1});
    };
    Tensor<T, 4> entries({2, 14 / rate, 1, head_dim});
    compress_keys(swapped(values), swapped(gates), plan, entries.view());
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t w = 0; w < 14 / rate; ++w) {
        const auto expected = naive_compress<T>(swapped(values), swapped(gates), plan, b, w);
        for (int64_t d = 0; d < head_dim; ++d)
          ASSERT_NEAR(as_double(entries.view()(b, w, 0, d)),
                      expected[static_cast<std::size_t>(d)], tolerance)
              << rate << " " << series << " entry " << w << " channel " << d;
      }
  }
}

TEST(CompressedKeys, AreTheirFormula) {
  expect_formula<double>(1e-7);  // the rotary table is in float
  expect_formula<float>(1e-6);
  expect_formula<BFloat16>(0.03);
  KeyCompressionPlan plan = plan_of(3, 2);
  plan.weight.clear(), plan.frequencies.reset();
  const auto x = random_tensor<double, 4>({1, 6, 2, head_dim}, 1);
  Tensor<double, 4> entries({1, 2, 1, head_dim});
  compress_keys(x.view(), x.view(), plan, entries.view());
  for (int64_t w = 0; w < 2; ++w) {
    const auto expected = naive_compress<double>(x.view(), x.view(), plan, 0, w);
    for (int64_t d = 0; d < head_dim; ++d)
      EXPECT_NEAR(entries.view()(0, w, 0, d), expected[static_cast<std::size_t>(d)], 1e-14);
  }
}

// The unfinished window is not read, whatever it holds.
TEST(CompressedKeys, InPartsHaveTheBitsOfTheWhole) {
  for (const int64_t series : {1, 2}) {
    const auto plan = std::make_shared<const KeyCompressionPlan>(plan_of(4, series));
    const auto values = random_tensor<float, 4>({2, 31, series, head_dim}, 1);
    auto gates = random_tensor<float, 4>({2, 31, series, head_dim}, 2);
    Tensor<float, 4> whole({2, 7, 1, head_dim});
    gates.view()(1, 30, 0, 3) = NAN;
    compress_keys(values.view(), gates.view(), *plan, whole.view());
    for (const std::vector<int64_t>& parts :
         {std::vector<int64_t>(31, 1), {3, 2, 9, 0, 17}, {4, 4, 8, 15}, {31}}) {
      CompressedKeys<float> kept(plan, 2, 7);
      int64_t first = 0;
      for (const int64_t part : parts) {
        const auto rows = [&](const Tensor<float, 4>& x) {
          return x.view().slice(1, first, part);
        };
        kept.append(rows(values), rows(gates));
        first += part;
        ASSERT_EQ(kept.entries().extent(1), first / 4);
      }
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t w = 0; w < 7; ++w)
          for (int64_t d = 0; d < head_dim; ++d)
            ASSERT_EQ(kept.entries()(b, w, 0, d), whole.view()(b, w, 0, d)) << w << " " << d;
      if (parts.size() > 1) {
        EXPECT_EQ(message_of([&] { kept.append(values.view(), gates.view()); }),
                  "[compressed_keys] entries must be at most 7, got 14");
      }
      kept.clear();
      EXPECT_EQ(kept.entries().extent(1), 0);
    }
  }
}

TEST(CompressedKeys, GradientsAreFiniteDifferences) {
  for (const auto& [rate, series] : {std::pair(3, 1), std::pair(3, 2)}) {
    KeyCompressionPlan plan = plan_of(rate, series);
    auto values = random_tensor<double, 4>({2, 10, series, head_dim}, 1);
    auto gates = random_tensor<double, 4>({2, 10, series, head_dim}, 2);
    const auto weights = random_tensor<double, 4>({2, 3, 1, head_dim}, 3);
    const auto loss = [&] {
      double sum = 0;
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t w = 0; w < 3; ++w) {
          const auto one = naive_compress<double>(values.view(), gates.view(), plan, b, w);
          for (int64_t d = 0; d < head_dim; ++d)
            sum += weights.view()(b, w, 0, d) * one[static_cast<std::size_t>(d)];
        }
      return sum;
    };
    Tensor<double, 4> dv({2, 10, series, head_dim}, 5), dg({2, 10, series, head_dim}, 5);
    std::vector<double> db(plan.bias.size(), 5), dw(head_dim, 5);
    compress_keys_backward(values.view(), gates.view(), plan, weights.view(),
                           {.values = dv.view(), .gates = dg.view(), .bias = db, .weight = dw});
    const auto expect = [&](auto& x, const std::vector<double>& gradient, std::size_t step,
                            double h, double tolerance, const char* name) {
      for (std::size_t i = 0; i < x.size(); i += step) {
        const auto before = x[i];
        using Number = std::remove_cvref_t<decltype(x[i])>;
        x[i] = static_cast<Number>(before + h);
        const double up = loss(), at = x[i];
        x[i] = static_cast<Number>(before - h);
        const double down = loss(), width = at - x[i];
        x[i] = before;
        ASSERT_NEAR(gradient[i], (up - down) / width, tolerance) << name << " " << i;
      }
    };
    expect(values.values, dv.values, 7, 1e-5, 1e-7, "values");
    expect(gates.values, dg.values, 7, 1e-5, 1e-7, "gates");
    expect(plan.bias, db, 5, 1e-2, 1e-3, "bias");
    expect(plan.weight, dw, 1, 1e-2, 1e-6, "weight");
    // Rows without an entry, and the same bits for any number of threads.
    EXPECT_EQ(dv.view()(0, 9, 0, 0), 0);
    EXPECT_EQ(dg.view()(1, 9, series - 1, 2), 0);
    const int threads_before = threads();
    const auto first = db;
    set_threads(threads_before == 1 ? 3 : 1);
    compress_keys_backward(values.view(), gates.view(), plan, weights.view(), {.bias = db});
    set_threads(threads_before);
    EXPECT_EQ(first, db);
  }
}

TEST(CompressedKeys, Errors) {
  const auto x = random_tensor<float, 4>({1, 8, 2, head_dim});
  Tensor<float, 4> entries({1, 2, 1, head_dim});
  const auto refused = [&](const KeyCompressionPlan& plan) {
    return message_of([&] { compress_keys(x.view(), x.view(), plan, entries.view()); });
  };
  KeyCompressionPlan plan = plan_of(4, 2);
  EXPECT_EQ(refused(plan), "");
  plan.compression.rate = 0;
  EXPECT_EQ(refused(plan), "[compressed_keys] rate must be at least 1, got 0");
  plan = plan_of(4, 2), plan.compression.series = 3;
  EXPECT_EQ(refused(plan), "[compressed_keys] series must be 1 or 2, got 3");
  plan = plan_of(4, 2), plan.compression.epsilon = -1;
  EXPECT_EQ(refused(plan), "[compressed_keys] epsilon must be finite and not negative, got -1");
  plan = plan_of(4, 2), plan.bias.pop_back();
  EXPECT_EQ(refused(plan),
            "[compressed_keys] the bias must have rate x series x head_dim elements, 96, got "
            "95");
  plan = plan_of(4, 2), plan.weight.pop_back();
  EXPECT_EQ(refused(plan),
            "[compressed_keys] the weight must be empty or have head_dim elements, 12, got 11");
  EXPECT_EQ(refused(plan_of(3, 2)), "");
  EXPECT_EQ(refused(plan_of(2, 2)),
            "[compressed_keys] entries must be [1, 4, 1, 12], got [1, 2, 1, 12]");
  EXPECT_EQ(refused(plan_of(4, 1)),
            "[compressed_keys] values must be [1, 8, 1, 12], got [1, 8, 2, 12]");
  EXPECT_EQ(message_of([] { entries_of({.rate = 4, .series = 2}, -1); }),
            "[compressed_keys] tokens must not be negative, got -1");
  EXPECT_EQ(message_of([] { CompressedKeys<float>(nullptr, 1, 1); }),
            "[compressed_keys] the plan must be given, got none");
}

}  // namespace compressed_keys_test
}  // namespace gnomon

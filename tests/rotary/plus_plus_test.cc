// RoPE++ compared with the released code's formulas for real and imaginary heads.
#include "gnomon/rotary/plus_plus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "testing.h"

namespace gnomon {
namespace plus_plus_test {

using std::int64_t;
using testing::message_of;

constexpr RotaryPlusPlus spec{
    .heads = 3, .rotary_dim = 6, .pairing = Pairing::halves, .base = 100, .head_offset = 1};

// The scores of a head are the real part, or the imaginary part, of the same product of complex
// numbers: sum over i of q_i conj(k_i) exp(i (s - t) f_i).
TEST(RotaryPlusPlus, ScoresAreTheRealAndImaginaryPartsOfOneProduct) {
  const int64_t tokens = 4, size = 8;
  for (const int64_t first : {0, 1}) {
    RotaryPlusPlus part = spec;
    part.first_head = first;
    const auto q = testing::random_tensor<double, 4>({1, tokens, 3, size}, 1);
    const auto k = testing::random_tensor<double, 4>({1, tokens, 1, size}, 2);
    auto q_turned = q, k_turned = k;
    const std::vector<Positions> at{consecutive(tokens, 5)};
    rotate(q_turned.view(), HeadAngles(lower_query(part), at));
    rotate(k_turned.view(), RotaryTable(lower_key(part), at));
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t s = 0; s < tokens; ++s)
        for (int64_t t = 0; t < tokens; ++t) {
          std::complex<double> product = 0;
          for (int64_t i = 0; i < 3; ++i) {
            const auto pair = [&](const auto& x, int64_t token, int64_t head) {
              return std::complex(x.view()(0, token, head, 1 + i),
                                  x.view()(0, token, head, 4 + i));
            };
            const double f = std::pow(100.0, -2 * double(i) / 6);
            product +=
                pair(q, s, h) * std::conj(pair(k, t, 0)) * std::polar(1.0, double(s - t) * f);
          }
          double want = (first + h) % 2 ? product.imag() : product.real();
          double got = 0;
          for (int64_t d = 0; d < size; ++d)
            got += q_turned.view()(0, s, h, d) * k_turned.view()(0, t, 0, d);
          for (const int64_t d : {int64_t{0}, size - 1})  // not rotated
            want += q.view()(0, s, h, d) * k.view()(0, t, 0, d);
          ASSERT_NEAR(got, want, 2e-6) << h << ' ' << s << ' ' << t;
        }
  }
}

TEST(RotaryPlusPlus, ErrorsNameTheFieldAndItsValue) {
  const auto message = [](auto change) {
    RotaryPlusPlus one = spec;
    change(one);
    return message_of([&] { lower_query(one); });
  };
  EXPECT_EQ(message([](auto& s) { s.heads = 0; }),
            "[plus_plus] heads must be at least 1, got 0");
  EXPECT_EQ(message([](auto& s) { s.first_head = -1; }),
            "[plus_plus] first_head must not be negative, got -1");
  EXPECT_EQ(message([](auto& s) { s.rotary_dim = 7; }),
            "[rotary] rotary_dim must be even, got 7");
}

}  // namespace plus_plus_test
}  // namespace gnomon

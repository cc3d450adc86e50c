// Scores far beyond the cap: tanh is near 1, and in double it differs from 1 up to 19 times the
// cap.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "gnomon/attention/attention.h"
#include "gnomon/isa.h"
#include "testing.h"

namespace gnomon {
namespace cap_test {

using testing::Tensor;

template <typename T>
class Cap : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Cap, ElementTypes);

// A key of score s and value 1, and one of a score that is capped to 1 and value 0.
TYPED_TEST(Cap, IsATanhAtEveryScore) {
  using T = TypeParam;
  constexpr double bound = 4 * std::numeric_limits<T>::epsilon();
  for (const Isa isa : available_isas()) {
    const ScopedIsa scope(isa);
    for (const double score :
         {0.0, 1e-3, 0.5, 3.0, 8.0, 10.0, 11.0, 12.0, 15.0, 18.0, 25.0, 1e4})
      for (const double s : {score, -score}) {
        Tensor<T, 4> q({1, 1, 1, 1}), k({1, 2, 1, 1}), v({1, 2, 1, 1}), out({1, 1, 1, 1});
        q.values = {T(1)}, k.values = {T(s), T(1e4)}, v.values = {T(1), T(0)};
        attention({q.view(), k.view(), v.view()},
                  {.mask = {.visibility = Visibility::bidirectional},
                   .softmax = {.scale = 1, .cap = 1}},
                  out.view());
        const long double difference = 1 - std::tanh(static_cast<long double>(T(s)));
        EXPECT_NEAR(double{out.values[0]}, static_cast<double>(1 / (1 + std::exp(difference))),
                    bound)
            << s << " with " << name(isa);
      }
  }
}

}  // namespace cap_test
}  // namespace gnomon

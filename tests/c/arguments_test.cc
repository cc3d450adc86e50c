// Drawn arguments for every function of gnomon.h in gnomon::core. Each returns a status.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "c/attack.h"
#include "c/declared.h"

namespace gnomon {
namespace arguments_test {

using std::int64_t;

TEST(Arguments, OfEveryFunctionGiveAStatus) {
  std::set<std::string> declared = testing::declared_functions("gnomon.h");
  declared.merge(testing::declared_functions("gnomon_ragged.h"));
  declared.merge(testing::declared_functions("gnomon_context.h"));
  drawn::attack<drawn::Attack>(60, declared);
}

// The arguments that the attack found.
TEST(Arguments, RanksThatNoTensorHasAreRefused) {
  std::vector<float> values(8);
  int64_t shape[] = {1, 2, 2, 2};
  gnomon_tensor x{};
  x.data = values.data();
  x.device = {1, 0};
  x.dtype = {2, 32, 1};
  x.shape = shape;
  gnomon_tensor table = x;
  table.ndim = 2;
  gnomon_plan_gradient* gradient = nullptr;
  ASSERT_EQ(gnomon_plan_gradient_create(&gradient), GNOMON_OK);
  for (const std::int32_t rank : {-1, 1000000, INT32_MIN, INT32_MAX}) {
    x.ndim = rank;
    x.dtype = {2, 32, 1};
    EXPECT_EQ(gnomon_add_table(&x, &table, 1), GNOMON_INVALID_ARGUMENT);
    EXPECT_EQ(gnomon_error_message(),
              "[embedding] x must have 3 axes, got " + std::to_string(rank) + " axes");
    x.dtype = {2, 64, 1};
    EXPECT_EQ(gnomon_plan_gradient_bias(gradient, &x), GNOMON_INVALID_ARGUMENT);
  }
  gnomon_plan_gradient_destroy(gradient);
}

}  // namespace arguments_test
}  // namespace gnomon

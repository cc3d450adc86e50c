// Tests which kernels explain_attention names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/oracle.h"
#include "gnomon/attention/attention.h"

namespace gnomon {
namespace {

using ::testing::HasSubstr;
using testing::random_tensor;
using ::testing::StartsWith;

std::string explain(std::int64_t queries, std::int64_t keys) {
  const auto q = random_tensor<float, 4>({1, queries, 4, 32}, 1);
  const auto k = random_tensor<float, 4>({1, keys, 2, 32}, 2);
  AttentionPlan plan{.mask = {.visibility = Visibility::causal}};
  plan.mask.offset = keys - queries;
  return explain_attention({q.view(), k.view(), k.view()}, plan);
}

TEST(ExplainAttention, NamesTheKernelOfEachNumberOfRows) {
  EXPECT_THAT(explain(4, 300), StartsWith("direct: 8 rows"));
  EXPECT_THAT(explain(5, 300), StartsWith("blocks: 10 rows"));
  EXPECT_THAT(explain(24, 300), StartsWith("blocks: 48 rows"));
  EXPECT_THAT(explain(25, 300), StartsWith("pieces: "));
  EXPECT_THAT(explain(48, 1024), StartsWith("blocks: 96 rows of a key head (at most 96)"));
  EXPECT_THAT(explain(48, 1023), StartsWith("pieces: "));
  EXPECT_THAT(explain(49, 1024), StartsWith("pieces: "));
  EXPECT_THAT(explain(5, 65), StartsWith("blocks: 10 rows"));
  EXPECT_THAT(explain(5, 64), StartsWith("pieces: "));
  EXPECT_THAT(explain(4, 300), HasSubstr("float products"));
  EXPECT_THAT(explain(0, 300), StartsWith("nothing"));
}

TEST(ExplainAttention, CountsTheSequencesOfARaggedBatch) {
  const std::vector<std::int64_t> starts{0, 1, 3, 13, 63}, lengths{40, 41, 70, 90};
  const auto q = random_tensor<float, 4>({1, 63, 4, 32}, 1);
  const auto k = random_tensor<float, 4>({4, 90, 2, 32}, 2);
  AttentionPlan plan{.mask = {.visibility = Visibility::causal}};
  plan.ragged = {.query_starts = starts, .key_lengths = lengths};
  const std::string text = explain_attention({q.view(), k.view(), k.view()}, plan);
  EXPECT_THAT(text, StartsWith("2 x direct: "));
  EXPECT_THAT(text, HasSubstr("; 1 x blocks: "));
  EXPECT_THAT(text, HasSubstr("; 1 x pieces: "));
}

TEST(ExplainAttention, RefusesWhatAttentionRefuses) {
  const auto q = random_tensor<float, 4>({1, 2, 3, 32}, 1);
  const auto k = random_tensor<float, 4>({1, 2, 2, 32}, 2);
  EXPECT_THROW(explain_attention({q.view(), k.view(), k.view()},
                                 {.mask = {.visibility = Visibility::causal}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace gnomon

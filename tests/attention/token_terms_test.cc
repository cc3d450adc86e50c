// The list of token terms and the arrays that own them.
#include "gnomon/attention/token_terms.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gnomon {
namespace token_terms_test {

TEST(TermArrays, LendTheirMemoryByName) {
  TermArrays arrays;
  arrays.add("log_gates", {1, 2, 3});
  arrays.add("channel_gates", {1, 3, 2, 4});
  arrays.arrays[0].values[5] = 7;
  const TokenTerms terms = arrays.terms<ConstTensor>();
  EXPECT_EQ(terms.log_gates.rank, 3);
  EXPECT_EQ((view<const float, 3>(terms.log_gates)(0, 1, 2)), 7);
  EXPECT_EQ(terms.channel_gates.extent(3), 4);
  EXPECT_FALSE(terms.gates.has_data());
  (view<float, 4>(arrays.terms<Tensor>().channel_gates)(0, 2, 1, 3)) = 5;
  EXPECT_EQ(arrays.arrays[1].values.back(), 5);
}

// A term of the struct that is not in the list would be left out by every binding.
TEST(NamedTerms, AreAllTermsOfTheStruct) {
  EXPECT_EQ(sizeof(TokenTerms), token_term_count * sizeof(ConstTensor));
  std::set<std::string_view> names;
  for (const auto& one : named_terms<ConstTensor>) {
    names.insert(one.name);
    EXPECT_TRUE(one.rank == 3 || one.rank == 4) << one.name;
  }
  EXPECT_EQ(names.size(), token_term_count);
}

}  // namespace token_terms_test
}  // namespace gnomon

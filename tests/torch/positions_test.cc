// Padding, packing and positions of each row: each row of a batch has the same result as alone.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "torch/testing.h"

namespace gnomon::libtorch {
namespace torch_positions_test {

using namespace testing;  // NOLINT

class EachPosition : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, EachPosition, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Compares kernels and operators at the same positions: values and gradients.
void expect_as_composed(PositionEncoding& position, const AttendOptions& given,
                        std::int64_t queries, std::int64_t keys) {
  const Composed composed(position);
  AttendOptions options = given;
  const auto q = random({batch, queries, heads, head_dim}, 1, at::kDouble),
             k = random({batch, keys, key_heads_of(composed.mixture), head_dim}, 2,
                        at::kDouble),
             v = random({batch, keys, key_heads_of(composed.mixture), head_dim}, 3,
                        at::kDouble);
  options.hidden =
      random({batch, hidden_rows(composed.mixture, queries, keys), shape.width}, 4, at::kFloat);
  std::vector<at::Tensor> inputs{q, k, v};
  if (!model::token_terms(composed.mixture).empty()) inputs.push_back(options.hidden);
  inputs.insert(inputs.end(), composed.parameters.begin(), composed.parameters.end());
  const at::Tensor fused = position->attend(q, k, v, options),
                   wanted = composed.attend(q, k, v, options);
  expect_close(fused, wanted, 1e-12);
  const auto weight = random(fused.sizes(), 5, at::kDouble).detach();
  const auto found = torch::autograd::grad({(fused * weight).sum()}, inputs);
  const auto exact = torch::autograd::grad({(wanted * weight).sum()}, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(found[i], exact[i],
                 (i < 3 ? 1e-12 : 1e-5) * (1 + exact[i].abs().max().item<double>()));
}

// Row 0 has two tokens of padding on the left. Row 1 has no padding.
Positions left_padded() {
  at::Tensor mask = at::ones({batch, 6}, at::kLong);
  mask[0].slice(0, 0, 2).zero_();
  return positions_of_mask(mask);
}

TEST_P(EachPosition, AttendsAPaddedBatchAsRowsAlone) {
  const at::NoGradGuard no_grad;
  for (AttendOptions options : each_visibility(usual(GetParam()), causal, both_ways)) {
    PositionEncoding position = make({usual(GetParam(), options.visibility)});
    const std::int64_t key_heads = key_heads_of(position->mixture());
    auto q = random({batch, 6, heads, head_dim}, 1, at::kFloat).detach(),
         k = random({batch, 6, key_heads, head_dim}, 2, at::kFloat).detach(),
         v = random({batch, 6, key_heads, head_dim}, 3, at::kFloat).detach();
    const at::Tensor hidden = random({batch, 6, shape.width}, 4, at::kFloat).detach();
    const auto alone = [&](std::int64_t row, std::int64_t begin) {
      AttendOptions of_part = options;
      const auto part = [&](const at::Tensor& x) {
        return x.slice(0, row, row + 1).slice(1, begin);
      };
      of_part.hidden = part(hidden);
      return position->attend(part(q), part(k), part(v), of_part);
    };
    const at::Tensor first = alone(0, 2), second = alone(1, 0);
    for (at::Tensor& one : {std::ref(q), std::ref(k), std::ref(v)})
      one.slice(0, 0, 1).slice(1, 0, 2).fill_(nan);  // not read
    options.positions = left_padded();
    options.hidden = hidden;
    const at::Tensor fused = position->attend(q, k, v, options),
                     composed = Composed(position).attend(q, k, v, options);
    for (const at::Tensor& all : {fused, composed}) {
      expect_close(all.slice(0, 0, 1).slice(1, 2), first, 2e-5);
      expect_close(all.slice(0, 1, 2), second, 2e-5);
    }
    // The last queries only, as in decoding.
    AttendOptions last = options;
    last.hidden = hidden.slice(1, terms_of_keys(position->mixture()) ? 0 : 4);
    expect_close(position->attend(q.slice(1, 4), k, v, last), fused.slice(1, 4), 2e-5);
    expect_close(fused.slice(0, 0, 1).slice(1, 0, 2), at::zeros({1, 2, heads, head_dim}), 0);
  }
}

TEST_P(EachPosition, AttendsPackedSequencesAsRowsAlone) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> lengths{4, 7};
  PositionEncoding position = make({usual(GetParam())});
  const auto qkv = random({1, length, 3 * heads, head_dim}, 1, at::kFloat);
  AttendOptions options = causal;
  options.hidden = random({1, length, shape.width}, 4, at::kFloat);
  options.positions = packed(lengths, length);
  const at::Tensor all = position->attend_packed(qkv, heads, options);
  std::int64_t begin = 0;
  for (const std::int64_t count : lengths) {
    AttendOptions of_part = causal;
    of_part.hidden = options.hidden.narrow(1, begin, count);
    expect_close(all.narrow(1, begin, count),
                 position->attend_packed(qkv.narrow(1, begin, count), heads, of_part), 2e-5);
    begin += count;
  }
  expect_close(all.slice(1, begin), at::zeros({1, 1, heads, head_dim}), 0);
}

TEST_P(EachPosition, FollowsPositionsOfEachRow) {
  for (AttendOptions options : each_visibility(usual(GetParam()), causal, both_ways)) {
    PositionEncoding position = make({usual(GetParam(), options.visibility)});
    options.positions = positions_of(
        at::tensor({0, 2, 3, 7, 10, 11, 1, 2, 4, 5, 6, 9}, at::kLong).view({batch, 6}));
    expect_as_composed(position, options, 4, 6);
    options.positions = left_padded();
    expect_as_composed(position, options, 6, 6);
    options.left = 2;
    expect_as_composed(position, options, 3, 6);
  }
}

// Queries with separate positions: cross attention, and more queries than keys.
TEST_P(EachPosition, FollowsPositionsOfQueries) {
  PositionEncoding position = make({usual(GetParam(), Visibility::bidirectional)});
  if (terms_of_keys(position->mixture())) return;  // the queries must be rows of the keys
  if (model::properties(usual(GetParam())).causal) return;
  AttendOptions options = both_ways;
  options.positions = explicit_ids(std::vector<std::int64_t>{0, 2, 5, 9});
  options.query_positions =
      positions_of(at::tensor({0, 2, 3, 1, 5, 4, 1, 2, 4, 5, 6, 9}).view({batch, 6}));
  expect_as_composed(position, options, 6, 4);
  options.positions = left_padded();
  options.query_positions = consecutive(3, 2);
  expect_as_composed(position, options, 3, 6);
}

TEST_P(EachPosition, EmbedsRowsAtTheirPositions) {
  PositionEncoding position = make({usual(GetParam())});
  const at::Tensor x = random({batch, 4, shape.width}, 5, at::kFloat);
  const Positions rows = positions_of(at::tensor({0, 1, 2, 3, 7, 5, 5, 1}).view({batch, 4}));
  const at::Tensor all = position->embed(x, rows);
  std::vector<at::Tensor> inputs = position->parameters(), wanted_of;
  if (all.is_same(x)) return;
  inputs.push_back(x);
  std::vector<at::Tensor> alone;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto ids = rows.row(b);
    alone.push_back(position->embed(
        x.narrow(0, b, 1), explicit_ids(std::vector<std::int64_t>(ids.begin(), ids.end()))));
  }
  const at::Tensor wanted = at::cat(alone, 0);
  expect_close(all, wanted, 1e-6);
  const auto weight = random(x.sizes(), 6, at::kFloat).detach();
  const auto found = torch::autograd::grad({(all * weight).sum()}, inputs);
  const auto exact = torch::autograd::grad({(wanted * weight).sum()}, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_close(found[i], exact[i], 1e-5 * (1 + exact[i].abs().max().item<double>()));
}

TEST(PositionsOfRows, AreRefusedIfTheyDoNotFit) {
  PositionEncoding position = make({usual("rotary")});
  const at::Tensor q = at::ones({batch, 6, heads, head_dim});
  const auto refused = [&](std::optional<Positions> keys, std::optional<Positions> queries,
                           const std::vector<std::string>& parts) {
    AttendOptions options = causal;
    options.positions = std::move(keys);
    options.query_positions = std::move(queries);
    expect_refusal([&] { position->attend(q, q, q, options); }, parts);
  };
  refused(consecutive(5), {}, {"options.positions must be [2 or 1, 6]", "[1, 5]"});
  refused(consecutive(6, 0, 3), {}, {"options.positions", "[3, 6]"});
  refused(consecutive(6), consecutive(7), {"options.query_positions", "[1, 7]"});
  refused({}, consecutive(6), {"requires options.positions"});
  refused(Positions{.batch = 1, .tokens = 6, .ids = {1}, .sequences = {0}}, {},
          {"options.positions"});
  refused(consecutive(6, std::int64_t{1} << 40), {}, {"2^31"});
  AttendOptions options = causal;
  options.positions = consecutive(4);
  options.query_positions = consecutive(6);
  expect_refusal([&] { position->attend(q, q.slice(1, 0, 4), q.slice(1, 0, 4), options); },
                 {"causal visibility requires T to be at most S"});
  PositionEncoding table = make({usual("learned")});
  const at::Tensor x = at::ones({batch, 6, shape.width});
  expect_refusal([&] { table->embed(x, consecutive(5)); },
                 {"positions must be [2 or 1, 6]", "[1, 5]"});
  expect_refusal([&] { table->embed(x, consecutive(6, 7)); }, {"learned", "got 12"});
}

// Ids of padding may be beyond a learned table.
TEST(PositionsOfRows, OfPaddingAreNotLookedUp) {
  PositionEncoding table = make({usual("learned")});
  Positions positions = left_padded();
  for (std::size_t i = 0; i < positions.ids.size(); ++i)
    if (positions.sequences[i] == Positions::padding) positions.ids[i] = 1000;
  EXPECT_NO_THROW(table->embed(at::ones({batch, 6, shape.width}), positions));
}

}  // namespace torch_positions_test
}  // namespace gnomon::libtorch

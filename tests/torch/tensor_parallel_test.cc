// Attention on shards of heads against attention on the whole: all shards in this process, and
// one shard in each of 2 and 4 processes.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <string>
#include <tuple>
#include <vector>

#include "apps/lab/runs/process_team.h"
#include "gnomon/model/shard.h"
#include "gnomon/torch/position.h"
#include "members.h"
#include "torch/testing.h"

namespace gnomon::libtorch {
namespace tensor_parallel_test {

using namespace gnomon::libtorch::testing;

// Shaw with separate vectors for each head, and the usual settings of all others.
model::Encoding encoding_of(const std::string& name) {
  if (name == "shaw_by_head")
    return Shaw{.heads = heads,
                .head_dim = head_dim,
                .value_dim = head_dim,
                .left = 5,
                .right = 3,
                .meets = ShawMeets::queries_and_weights};
  if (name == "kerple_power") return Kerple{.heads = heads, .kernel = KerpleKernel::power};
  return usual(name, Visibility::bidirectional);
}

at::Tensor part_of(const at::Tensor& whole, const model::ParameterRange& range) {
  return whole.slice(0, range.row_begin, range.row_end)
      .slice(1, range.column_begin, range.column_end);
}

// The module of a shard, with its part of the parameters.
PositionEncoding shard_of(PositionEncoding& whole, const model::Shard& shard) {
  PositionEncoding part(shard.mixture);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < shard.ranges.size(); ++i)
    part->parameters()[i].copy_(part_of(whole->parameters()[i], shard.ranges[i]));
  return part;
}

struct Inputs {
  at::Tensor q, k, v, hidden, out_grad;

  static Inputs random_ones() {
    const auto made = [](std::uint64_t seed) {
      return random({batch, length, heads, head_dim}, seed, at::kFloat);
    };
    return {made(1), made(2), made(3), random({batch, length, shape.width}, 4, at::kFloat),
            made(5).detach()};
  }
  Inputs part(std::int64_t begin, std::int64_t count) const {
    const auto cut = [&](const at::Tensor& x, std::int64_t axis, std::int64_t size) {
      return x.detach().narrow(axis, size * begin, size * count).clone();
    };
    Inputs all{cut(q, 2, 1), cut(k, 2, 1), cut(v, 2, 1), cut(hidden, 2, head_dim),
               cut(out_grad, 2, 1)};
    for (at::Tensor* one : {&all.q, &all.k, &all.v, &all.hidden}) one->requires_grad_(true);
    return all;
  }
  at::Tensor attend(PositionEncoding& position, Visibility visibility) const {
    AttendOptions options{.visibility = visibility, .layout = Layout::tokens_heads};
    options.hidden = hidden;
    return position->attend(q, k, v, options);
  }
};

class ShardOf : public ::testing::TestWithParam<std::tuple<std::string, std::int64_t>> {};
INSTANTIATE_TEST_SUITE_P(
    , ShardOf,
    ::testing::Combine(::testing::Values("alibi", "t5", "shaw", "shaw_by_head", "kerple",
                                         "kerple_power", "clipped", "fire", "dynamic", "swin",
                                         "swin_v2", "wavlm", "transformer_xl", "deberta",
                                         "rotary"),
                       ::testing::Values(1, 2, 4)),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param));
    });

TEST_P(ShardOf, HeadsGivesThePartOfTheWhole) {
  const auto [name, shards] = GetParam();
  PositionEncoding whole = make({encoding_of(name)});
  const Inputs inputs = Inputs::random_ones();
  const at::Tensor out = inputs.attend(whole, Visibility::bidirectional);
  out.backward(inputs.out_grad);

  const std::int64_t local = heads / shards;
  std::vector<at::Tensor> outs, shared_grads(whole->parameters().size());
  for (std::int64_t s = 0; s < shards; ++s) {
    const model::Shard shard = model::shard(whole->mixture(), s * local, local);
    PositionEncoding part = shard_of(whole, shard);
    const Inputs own = inputs.part(s * local, local);
    outs.push_back(own.attend(part, Visibility::bidirectional));
    outs.back().backward(own.out_grad);
    EXPECT_TRUE(own.q.grad().equal(inputs.q.grad().narrow(2, s * local, local)));
    EXPECT_TRUE(own.k.grad().equal(inputs.k.grad().narrow(2, s * local, local)));
    EXPECT_TRUE(own.v.grad().equal(inputs.v.grad().narrow(2, s * local, local)));
    for (std::size_t i = 0; i < shard.ranges.size(); ++i) {
      const at::Tensor grad = part->parameters()[i].grad();
      ASSERT_TRUE(grad.defined());
      if (shard.ranges[i].shared)
        shared_grads[i] = shared_grads[i].defined() ? shared_grads[i] + grad : grad;
      else
        EXPECT_TRUE(grad.equal(part_of(whole->parameters()[i].grad(), shard.ranges[i])))
            << part->named_parameters().keys()[i];
    }
  }
  EXPECT_TRUE(at::cat(outs, 2).equal(out));
  for (std::size_t i = 0; i < shared_grads.size(); ++i)
    if (shared_grads[i].defined()) {
      const at::Tensor wanted = whole->parameters()[i].grad();
      expect_close(shared_grads[i], wanted,
                   1e-5 * std::max(1.0, wanted.abs().max().item<double>()));
    }
}

// A shard that got the slopes, the table or the rates of other heads would pass the test above
// if all heads were equal.
TEST_P(ShardOf, HeadsDiffersFromThatOfOtherHeads) {
  const auto [name, shards] = GetParam();
  if (shards == 1 || name == "rotary" || name == "shaw") return;  // has no parts
  PositionEncoding whole = make({encoding_of(name)});
  const std::int64_t local = heads / shards;
  PositionEncoding first = shard_of(whole, model::shard(whole->mixture(), 0, local));
  PositionEncoding other = shard_of(whole, model::shard(whole->mixture(), local, local));
  const Inputs own = Inputs::random_ones().part(0, local);
  EXPECT_FALSE(own.attend(first, Visibility::bidirectional)
                   .equal(own.attend(other, Visibility::bidirectional)));
}

#if TORCH_VERSION_MAJOR == 1

using gnomon::testing::Member;
using gnomon::testing::Members;

// The parts of all members of the team are those of the whole.
void expect_parts_of_the_whole(const char* name, lab::Team& team) {
  const std::int64_t local = heads / team.size(), begin = local * team.rank();
  PositionEncoding whole = make({encoding_of(name)});
  const model::Shard shard = model::shard(whole->mixture(), begin, local);
  PositionEncoding part = shard_of(whole, shard);
  const Inputs all = Inputs::random_ones(), own = all.part(begin, local);
  const at::Tensor wanted = all.attend(whole, Visibility::bidirectional);
  wanted.backward(all.out_grad);
  const at::Tensor out = own.attend(part, Visibility::bidirectional);
  out.backward(own.out_grad);
  // The sum of tensors that are 0 outside the part of a member.
  at::Tensor outs = at::zeros_like(wanted).detach();
  outs.narrow(2, begin, local).copy_(out.detach());
  EXPECT_TRUE(team.sum(outs.view(-1)).view_as(outs).equal(wanted)) << name;
  for (std::size_t i = 0; i < shard.ranges.size(); ++i) {
    const at::Tensor grad = whole->parameters()[i].grad();
    at::Tensor grads = at::zeros_like(grad);
    part_of(grads, shard.ranges[i]).copy_(part->parameters()[i].grad());
    const at::Tensor sum = team.sum(grads.view(-1)).view_as(grad);
    if (shard.ranges[i].shared)
      expect_close(sum, grad, 1e-5 * std::max(1.0, grad.abs().max().item<double>()));
    else
      EXPECT_TRUE(sum.equal(grad)) << name;
  }
}

TEST(ShardOfHeads, InProcessesGivesThePartsOfTheWhole) {
  if (!Member::here()) return Members(4).expect_success();
  at::set_num_threads(1);
  const Member all = Member::get(), of_pair = all.of_pair();
  for (const Member& member : {all, of_pair}) {
    const auto team = lab::process_team(member.store, member.rank, member.size, "127.0.0.1");
    for (const char* name : {"alibi", "t5", "shaw_by_head", "kerple", "fire", "deberta"})
      expect_parts_of_the_whole(name, *team);
  }
  Members::done();
}

#endif

}  // namespace tensor_parallel_test
}  // namespace gnomon::libtorch

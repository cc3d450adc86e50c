// Every input tensor is converted if that is documented. Otherwise the call throws with the
// rule that the tensor breaks.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <vector>

#include "torch/testing.h"

namespace gnomon::libtorch {
namespace inputs_test {

using namespace testing;  // NOLINT

at::Tensor ones(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::ones(sizes, type);
}
const std::vector<std::int64_t> query_sizes{batch, length, heads, head_dim};

PositionEncoding none() { return PositionEncoding{model::Encoding(model::NoPosition{})}; }

TEST(AttendInputs, AreOfOneType) {
  PositionEncoding position = none();
  const at::Tensor q = ones(query_sizes);
  const auto refused = [&](at::ScalarType query, at::ScalarType key, at::ScalarType value,
                           const std::vector<std::string>& parts) {
    expect_refusal([&] { position->attend(q.to(query), q.to(key), q.to(value), causal); },
                   parts);
  };
  const std::string rule = "must have one type";
  refused(at::kFloat, at::kDouble, at::kFloat, {rule, "Float, Double and Float"});
  refused(at::kFloat, at::kFloat, at::kDouble, {rule});
  refused(at::kFloat, at::kHalf, at::kBFloat16, {rule});
  refused(at::kFloat, at::kHalf, at::kFloat, {rule});
  refused(at::kDouble, at::kHalf, at::kHalf, {rule});
  refused(at::kBFloat16, at::kFloat, at::kFloat, {rule});
  refused(at::kLong, at::kFloat, at::kFloat, {"q must be float32", "Long"});
  refused(at::kFloat, at::kLong, at::kFloat, {"k must be float32", "Long"});
  refused(at::kFloat, at::kFloat, at::kInt, {"v must be float32", "Int"});
  refused(at::kComplexFloat, at::kFloat, at::kFloat, {"q must be float32"});
}

TEST(AttendInputs, ReadACacheOfHalfTheBits) {
  for (const char* name : {"none", "rotary", "t5", "shaw", "swin-v2", "vjepa2"}) {
    SCOPED_TRACE(name);
    PositionEncoding position = make({usual(name)});
    for (const auto type : {at::kHalf, at::kBFloat16}) {
      const at::Tensor q = random({batch, 5, heads, head_dim}, 1, at::kFloat);
      const auto low = [&](std::uint64_t seed) {
        return random({batch, length, heads / 2, head_dim}, seed, at::kFloat)
            .detach()
            .to(type)
            .requires_grad_(true);
      };
      const at::Tensor k = low(2), v = low(3);
      const at::Tensor kept = k.detach().to(at::kFloat).requires_grad_(true),
                       values = v.detach().to(at::kFloat).requires_grad_(true);
      const at::Tensor mixed = position->attend(q, k, v, causal);
      const at::Tensor wanted = position->attend(q, kept, values, causal);
      EXPECT_EQ(mixed.scalar_type(), at::kFloat);
      expect_close(mixed, wanted, 1e-5);
      const auto found = torch::autograd::grad({mixed.square().sum()}, {q, k, v});
      const auto exact = torch::autograd::grad({wanted.square().sum()}, {q, kept, values});
      EXPECT_EQ(found[1].scalar_type(), type);
      EXPECT_EQ(found[2].scalar_type(), type);
      expect_close(found[0], exact[0], 1e-4);
      for (int i : {1, 2}) expect_close(found[i].to(at::kFloat), exact[i], 5e-2);
    }
  }
}

TEST(AttendInputs, ReadALongCacheOfBfloat16) {
  const at::NoGradGuard no_grad;
  PositionEncoding position(
      model::Encoding(Rotary{.rotary_dim = head_dim, .pairing = Pairing::halves}));
  const at::Tensor q = random({1, 1, 1, head_dim}, 1, at::kFloat);
  const at::Tensor k = random({1, 60'000, 1, head_dim}, 2, at::kFloat).to(at::kBFloat16);
  const at::Tensor out = position->attend(q, k, k, causal);
  expect_close(out, position->attend(q, k.to(at::kFloat), k.to(at::kFloat), causal), 1e-5);
}

TEST(AttendInputs, AreDefinedAndStrided) {
  PositionEncoding position = none();
  const at::Tensor q = ones(query_sizes);
  expect_refusal([&] { position->attend({}, q, q, causal); }, {"q must be", "undefined"});
  expect_refusal([&] { position->attend(q, {}, q, causal); }, {"k must be", "undefined"});
  expect_refusal([&] { position->attend(q, q, {}, causal); }, {"v must be", "undefined"});
  expect_refusal([&] { position->attend(q, q.to_sparse(), q, causal); },
                 {"k must be a strided tensor"});
  const at::Tensor on_meta = at::empty(query_sizes, at::device(at::kMeta));
  expect_refusal([&] { position->attend(q, on_meta, q, causal); },
                 {"on one device", "cpu, meta and cpu"});
  // A pending negation is resolved.
  const at::Tensor negative = at::_neg_view(random(query_sizes, 3, at::kFloat).detach());
  ASSERT_TRUE(negative.is_neg());
  expect_close(position->attend(q, q, negative, causal),
               position->attend(q, q, negative.clone(), causal), 0);
}

TEST(AttendInputs, HaveSizesThatFit) {
  PositionEncoding position = none();
  const auto refused = [&](at::IntArrayRef q, at::IntArrayRef k, at::IntArrayRef v,
                           const std::vector<std::string>& parts,
                           const AttendOptions& options = causal) {
    expect_refusal([&] { position->attend(ones(q), ones(k), ones(v), options); }, parts);
  };
  const std::vector<std::int64_t> k{2, 12, 2, 8};
  refused({12, 4, 8}, k, k, {"q must be [B, T, H, D], got [12, 4, 8]"});
  refused({12, 32}, k, k, {"q must be [B, T, H, D], got [12, 32]"});
  refused({2, 12, 4, 8}, {2, 12, 16}, k, {"k must be [B, S, Hk, D], got [2, 12, 16]"});
  refused({2, 12, 4, 8}, k, {2, 12, 2, 8, 1}, {"v must be [B, S, Hk, Dv]"});
  refused({1, 12, 4, 8}, k, k, {"B must be the same", "[1, 12, 4, 8]", "[2, 12, 2, 8]"});
  refused({2, 12, 4, 8}, {2, 11, 2, 8}, k, {"S must be the same"});
  refused({2, 12, 4, 8}, {2, 12, 1, 8}, k, {"Hk must be the same"});
  refused({2, 12, 4, 8}, {2, 12, 2, 4}, k, {"D must be the same"});
  refused({2, 12, 3, 8}, k, k, {"Hk must divide H"});
  refused({2, 13, 4, 8}, k, k, {"T must be at most S"});
  AttendOptions heads_first = causal;
  heads_first.layout = Layout::heads_tokens;
  refused({4, 12, 8}, k, k, {"q must be [B, H, T, D]"}, heads_first);
  AttendOptions forgotten = causal;
  forgotten.layout = {};
  refused(query_sizes, query_sizes, query_sizes, {"options.layout", "tokens_heads", "got 0"},
          forgotten);
  forgotten = causal;
  forgotten.visibility = {};
  refused(query_sizes, query_sizes, query_sizes, {"visibility"}, forgotten);
  AttendOptions window = causal;
  window.left = -1;
  refused(query_sizes, query_sizes, query_sizes, {"options.left", "got -1"}, window);
  window.left.reset();
  window.right = -2;
  refused(query_sizes, query_sizes, query_sizes, {"options.right", "got -2"}, window);
  AttendOptions flat = causal;
  flat.softmax_scale = 0;
  refused(query_sizes, query_sizes, query_sizes, {"options.softmax_scale"}, flat);
  EXPECT_NO_THROW(
      position->attend(ones({0, 3, 4, 8}), ones({0, 3, 4, 8}), ones({0, 3, 4, 8}), causal));
  EXPECT_NO_THROW(
      position->attend(ones({2, 0, 4, 8}), ones({2, 3, 4, 8}), ones({2, 3, 4, 8}), causal));
}

TEST(AttendInputs, HaveTheHeadsOfTheEncoding) {
  for (const char* name : {"t5", "alibi", "kerple", "swin", "swin-v2"}) {
    SCOPED_TRACE(name);
    PositionEncoding position = make({usual(name)});
    // [B, H, T, D] instead of [B, T, H, D].
    const at::Tensor q = ones({batch, heads, length, head_dim});
    expect_refusal(
        [&] { position->attend(q, q, q, causal); },
        {"q must be [B, T, H, D] with H = 4, the heads of", name, "got [2, 4, 12, 8]"});
    expect_refusal([&] { position->attend_packed(ones({batch, length, 9, 8}), 3, causal); },
                   {"H = 4, the heads", "[2, 12, 9, 8]"});
    AttendOptions heads_first = causal;
    heads_first.layout = Layout::heads_tokens;
    EXPECT_NO_THROW(position->attend(q, q, q, heads_first));
  }
}

TEST(AttendInputs, HaveEitherLayout) {
  for (const char* name : {"none", "rotary", "t5", "shaw", "swin-v2"}) {
    PositionEncoding position = make({usual(name)});
    const at::Tensor q = random({batch, 5, heads, head_dim}, 1, at::kFloat),
                     k = random({batch, length, 2, head_dim}, 2, at::kFloat),
                     v = random({batch, length, 2, head_dim}, 3, at::kFloat);
    AttendOptions heads_first = causal;
    heads_first.layout = Layout::heads_tokens;
    const at::Tensor wanted = position->attend(q, k, v, causal);
    const auto first = [](const at::Tensor& x) { return x.transpose(1, 2).contiguous(); };
    const at::Tensor found = position->attend(first(q), first(k), first(v), heads_first);
    EXPECT_TRUE(found.transpose(1, 2).equal(wanted)) << name;
    expect_close(Composed(position).attend(first(q), first(k), first(v), heads_first), found,
                 1e-5);
    const auto grads = torch::autograd::grad({found.square().sum()}, {q, k, v});
    const auto exact = torch::autograd::grad({wanted.square().sum()}, {q, k, v});
    for (std::size_t i = 0; i < grads.size(); ++i) expect_close(grads[i], exact[i], 0);
  }
}

TEST(AttendInputs, MayHaveValuesOfOneElement) {
  PositionEncoding position = none();
  const at::Tensor q = random(query_sizes, 1, at::kFloat);
  const at::Tensor v = random(query_sizes, 3, at::kFloat).slice(3, 2, 3);
  expect_close(position->attend(q, q, v, causal),
               position->attend(q, q, v.expand({-1, -1, -1, 8}), causal).slice(3, 0, 1), 1e-6);
}

TEST(PackedInputs, AreChecked) {
  PositionEncoding position = none();
  const auto refused = [&](const at::Tensor& qkv, std::int64_t key_heads,
                           const std::vector<std::string>& parts) {
    expect_refusal([&] { position->attend_packed(qkv, key_heads, causal); }, parts);
  };
  refused({}, 2, {"qkv must be", "undefined"});
  refused(ones({2, 12, 64}), 2, {"qkv must be [B, T, H + 2 Hk, D], got [2, 12, 64]"});
  refused(ones({2, 12, 8, 8}, at::kLong), 2, {"qkv must be float32", "Long"});
  refused(ones({2, 12, 8, 8}), 4, {"qkv must be", "[2, 12, 8, 8]"});
  refused(ones({2, 12, 8, 8}), 0, {"Hk = 0"});
  refused(ones({2, 12, 7, 8}), 2, {"a divisor of H"});
  AttendOptions heads_first = causal;
  heads_first.layout = Layout::heads_tokens;
  expect_refusal([&] { position->attend_packed(ones({2, 12, 8, 8}), 2, heads_first); },
                 {"options.layout"});
  AttendOptions plain = causal;
  plain.layout = {};
  EXPECT_NO_THROW(position->attend_packed(ones({2, 12, 8, 8}), 2, plain));
}

TEST(EmbedInputs, AreChecked) {
  for (const char* name : {"learned", "sinusoidal"}) {
    PositionEncoding position = make({usual(name)});
    const auto refused = [&](const at::Tensor& x, const std::vector<std::string>& parts) {
      expect_refusal([&] { position->embed(x); }, parts);
    };
    refused({}, {"x must be [B, T, C]", "undefined"});
    refused(ones({length, shape.width}), {"x must be [B, T, C], got [12, 32]"});
    refused(ones({2, length, 16}), {"C = 32", name, "got [2, 12, 16]"});
    refused(ones({2, length, 32}, at::kInt), {"x must be float32", "Int"});
    refused(ones({2, length, 32}).to_sparse(), {"strided"});
    expect_refusal([&] { position->embed(ones({2, length, 32}), -1); }, {"offset"});
    for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
      EXPECT_EQ(position->embed(ones({2, length, 32}, type)).scalar_type(), type);
  }
}

TEST(GateInputs, AreChecked) {
  PositionEncoding position = make({usual("wavlm")});
  const at::Tensor q = ones(query_sizes);
  const auto attend = [&](const at::Tensor& hidden) {
    AttendOptions options = causal;
    options.hidden = hidden;
    return position->attend(q, q, q, options);
  };
  const at::Tensor hidden = layer_input(length);
  expect_refusal([&] { attend({}); }, {"options.hidden", "wavlm", "undefined"});
  expect_refusal([&] { attend(hidden[0]); }, {"options.hidden", "[B, T, C]"});
  expect_refusal([&] { attend(hidden.to(at::kLong)); }, {"options.hidden", "Long"});
  expect_refusal([&] { attend(hidden.slice(1, 1)); }, {"options.hidden", "[2, 12, C]"});
  expect_refusal([&] { attend(hidden.slice(0, 1)); }, {"options.hidden", "[2, 12, C]"});
  expect_refusal([&] { attend(hidden.slice(2, 1)); }, {"wavlm", "32"});
  expect_close(attend(hidden.to(at::kDouble)), attend(hidden), 1e-6);
  expect_close(attend(hidden.transpose(0, 1).contiguous().transpose(0, 1)), attend(hidden), 0);
}

TEST(PositionInputs, AreIntegers) {
  const at::Tensor ids = at::tensor({0, 1, 2, 0, 1, 5}, at::kInt).view({2, 3});
  const Positions rows = positions_of(ids);
  EXPECT_EQ(rows.batch, 2);
  EXPECT_EQ(rows.ids, (std::vector<std::int64_t>{0, 1, 2, 0, 1, 5}));
  EXPECT_EQ(positions_of(ids[1]).ids, (std::vector<std::int64_t>{0, 1, 5}));
  EXPECT_EQ(positions_of(ids.t()).ids, (std::vector<std::int64_t>{0, 0, 1, 1, 2, 5}));
  const at::Tensor sequences = at::tensor({-1, 0, 0, 0, 1, 1}).view({2, 3});
  EXPECT_EQ(positions_of(ids, sequences).sequences,
            (std::vector<std::int32_t>{-1, 0, 0, 0, 1, 1}));
  expect_refusal([&] { positions_of(at::Tensor()); }, {"ids", "undefined"});
  expect_refusal([&] { positions_of(ids.to(at::kFloat)); }, {"ids must be integers", "Float"});
  expect_refusal([&] { positions_of(ids.view({1, 2, 3})); }, {"[T] or [B, T]", "[1, 2, 3]"});
  expect_refusal([&] { positions_of(ids, sequences[0]); }, {"sequences", "[2, 3]", "[3]"});
  expect_refusal([&] { positions_of(ids, sequences - 1); }, {"-1 (padding)", "got -2"});
  const Positions padded = positions_of_mask(at::tensor({0, 1, 1}).to(at::kBool));
  EXPECT_EQ(padded.ids, (std::vector<std::int64_t>{0, 0, 1}));
  EXPECT_EQ(padded.sequences, (std::vector<std::int32_t>{-1, 0, 0}));
  expect_refusal([&] { positions_of_mask(at::ones({2, 2})); }, {"mask must be integers"});
}

// Causal buckets put all keys after the query in one bucket.
TEST(CausalBuckets, AreRefusedWhereKeysAheadAreSeen) {
  for (const char* name : {"t5", "wavlm"}) {
    PositionEncoding position = make({usual(name)});
    const at::Tensor q = ones(query_sizes);
    AttendOptions options = both_ways;
    options.hidden = layer_input(length);
    const std::vector<std::string> rule{name, "T5Direction::bidirectional", "Shape::reads"};
    expect_refusal([&] { position->attend(q, q, q, options); }, rule);
    expect_refusal([&] { Composed(position).attend(q, q, q, options); }, rule);
    expect_refusal([&] { position->attend_packed(at::cat({q, q, q}, 2), heads, options); },
                   rule);
    options.right = 0;
    EXPECT_NO_THROW(position->attend(q, q, q, options));
    options.right.reset();
    options.hidden = layer_input(1);
    EXPECT_NO_THROW(position->attend(q.slice(1, 0, 1), q, q, options));  // the last row
    options.hidden = layer_input(length);
    PositionEncoding encoder = make({usual(name, Visibility::bidirectional)});
    EXPECT_NO_THROW(encoder->attend(q, q, q, options));
  }
}

}  // namespace inputs_test
}  // namespace gnomon::libtorch

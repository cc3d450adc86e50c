// Common parts of the tests of the adapter.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "gnomon/torch/position.h"
#include "gnomon/torch/state.h"
#include "io/temporary.h"

namespace gnomon::libtorch::testing {

constexpr std::int64_t batch = 2, length = 12, heads = 4, head_dim = 8;
constexpr model::Shape shape{heads * head_dim, heads, length};

inline at::Generator generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}
inline at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType type) {
  return at::empty(sizes, type).normal_(0, 1, generator(seed)).requires_grad_(true);
}

const inline AttendOptions causal{.visibility = Visibility::causal,
                                  .layout = Layout::tokens_heads};
const inline AttendOptions both_ways{.visibility = Visibility::bidirectional,
                                     .layout = Layout::tokens_heads};

// The input of a layer, for encodings whose bias depends on it.
inline at::Tensor layer_input(std::int64_t tokens) {
  return random({batch, length, shape.width}, 21, at::kFloat)
      .slice(1, length - tokens, length)
      .contiguous();
}

// Whether a term of the tokens is that of all keys: options.hidden then has a row for each key.
inline bool terms_of_keys(const model::Mixture& mixture) {
  for (const model::TermShape& one : model::token_terms(mixture))
    for (const auto& named : named_terms<gnomon::Tensor>)
      if (named.name == one.name && named.tokens == TermTokens::keys) return true;
  return false;
}
inline std::int64_t hidden_rows(const model::Mixture& mixture, std::int64_t queries,
                                std::int64_t keys) {
  return terms_of_keys(mixture) ? keys : queries;
}
// Grouped heads, unless each query head has angles of its own.
inline std::int64_t key_heads_of(const model::Mixture& mixture) {
  for (const model::TermShape& one : model::token_terms(mixture))
    if (one.name == "angles" || one.name == "householder") return heads;
  for (const model::Encoding& one : mixture)
    if (std::holds_alternative<RotaryMixed>(one) || std::holds_alternative<ComRope>(one))
      return heads;
  return heads / 2;
}
// The visibilities for which an encoding is defined.
inline std::vector<AttendOptions> each_visibility(const model::Encoding& encoding,
                                                  const AttendOptions& causal,
                                                  const AttendOptions& both_ways) {
  if (model::properties(encoding).causal) return {causal};
  return {causal, both_ways};
}

inline std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& one : model::encodings()) all.emplace_back(one.name);
  return all;
}

// The usual encoding of a name, for causal or bidirectional models.
inline model::Encoding usual(std::string_view name, Visibility reads = Visibility::causal) {
  model::Shape reading = shape;
  reading.reads = reads;
  return model::find_encoding(name).usual(reading);
}
inline bool in_attention(const model::Encoding& encoding) {
  return model::info(encoding).enters != model::Place::embeddings;
}

// Tables with deviation 1, so that they influence the result.
inline PositionEncoding make(const model::Mixture& mixture) {
  PositionEncoding position(mixture, generator(7));
  const at::NoGradGuard no_grad;
  const auto all = model::parameters(mixture);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].initial_deviation == 0.02) position->parameters()[i].mul_(50);
  return position;
}

// The encodings of attention and their parameters, for attend_composed.
struct Composed {
  explicit Composed(PositionEncoding& position) {
    std::size_t next = 0;
    for (const model::Encoding& one : position->mixture()) {
      const std::size_t count = model::parameters(one).size();
      if (in_attention(one)) {
        mixture.push_back(one);
        for (std::size_t i = 0; i < count; ++i)
          parameters.push_back(position->parameters()[next + i]);
      }
      next += count;
    }
  }
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const AttendOptions& options) const {
    return attend_composed(mixture, parameters, q, k, v, options);
  }
  model::Mixture mixture;
  std::vector<at::Tensor> parameters;
};

inline void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  ASSERT_TRUE(a.defined() && b.defined());
  ASSERT_EQ(a.sizes(), b.sizes());
  if (a.numel() == 0) return;
  EXPECT_LE((a - b).abs().max().item<double>(), tolerance);
}

// Expects std::invalid_argument with each of these texts in its message.
template <typename Call>
void expect_refusal(Call&& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "accepted; wanted: " << parts.front();
  } catch (const std::invalid_argument& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "wanted: " << part << "\ngot: " << error.what();
  }
}

template <typename Module>
std::string saved(const Module& module) {
  const gnomon::testing::TemporaryFolder folder;
  save_state(*module, folder / "state.safetensors");
  return gnomon::testing::contents(folder / "state.safetensors");
}
template <typename Module>
void load(Module& module, const std::string& file) {
  const gnomon::testing::TemporaryFolder folder;
  load_state(*module, gnomon::testing::put(folder / "state.safetensors", file));
}

}  // namespace gnomon::libtorch::testing

// A small classifier in LibTorch: does the first token of a sequence occur again? Sequences
// have different lengths, so batches are padded.
//
//   find_package(gnomon REQUIRED COMPONENTS torch)
//   target_link_libraries(... gnomon::torch)
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>

#include "gnomon/torch/scheme.h"

namespace {

using gnomon::libtorch::AttendOptions;
using gnomon::libtorch::Layout;
using gnomon::libtorch::PositionScheme;

constexpr std::int64_t layers = 2, width = 32, heads = 4, vocabulary = 8, longest = 12;

struct ClassifierImpl : torch::nn::Module {
  explicit ClassifierImpl(const char* scheme) {
    // Bidirectional encodings: T5 then has buckets for later keys.
    const gnomon::model::Shape shape{.width = width,
                                     .heads = heads,
                                     .length = longest,
                                     .reads = gnomon::Visibility::bidirectional};
    position = register_module(
        "position", PositionScheme(gnomon::model::parse_scheme(scheme, shape, layers)));
    embedding = register_module("embedding", torch::nn::Embedding(vocabulary, width));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      norms->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
      projections->push_back(torch::nn::Linear(width, 3 * width));
      outputs->push_back(torch::nn::Linear(width, width));
    }
    register_module("norms", norms);
    register_module("projections", projections);
    register_module("outputs", outputs);
    head = register_module("head", torch::nn::Linear(width, 2));
  }

  // tokens: [B, T]; mask: [B, T], false for padding. Returns logits [B, 2].
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& mask) {
    const std::int64_t batch = tokens.size(0), length = tokens.size(1);
    const AttendOptions options{.visibility = gnomon::Visibility::bidirectional,
                                .layout = Layout::tokens_heads,
                                .positions = gnomon::libtorch::positions_of_mask(mask)};
    at::Tensor x = position->embed(embedding(tokens), *options.positions);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto l = static_cast<std::size_t>(layer);
      const at::Tensor qkv = projections->at<torch::nn::LinearImpl>(l).forward(
          norms->at<torch::nn::LayerNormImpl>(l).forward(x));
      const at::Tensor attended =
          position->attend_packed(layer, qkv.view({batch, length, 3 * heads, width / heads}),
                                  /*key_heads=*/heads, options);
      x = x + outputs->at<torch::nn::LinearImpl>(l).forward(
                  attended.reshape({batch, length, width}).relu());
    }
    return head(x.masked_fill(mask.logical_not().unsqueeze(-1), 0).select(1, 0));
  }

  PositionScheme position{nullptr};
  torch::nn::Embedding embedding{nullptr};
  torch::nn::ModuleList norms, projections, outputs;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Classifier);

struct Batch {
  at::Tensor tokens, mask, answers;
};
Batch draw(std::int64_t count) {
  const at::Tensor tokens = at::randint(vocabulary, {count, longest}, at::kLong);
  const at::Tensor lengths = at::randint(4, longest + 1, {count, 1}, at::kLong);
  const at::Tensor mask = at::arange(longest).unsqueeze(0) < lengths;
  const at::Tensor again = (tokens.slice(1, 1) == tokens.slice(1, 0, 1)) & mask.slice(1, 1);
  return {tokens, mask, again.any(1).to(at::kLong)};
}

}  // namespace

int main(int count, char** arguments) {
  torch::manual_seed(1);
  Classifier model(count > 1 ? arguments[1] : "learned+t5");
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(3e-3));
  for (int step = 0; step < 400; ++step) {
    const Batch batch = draw(64);
    adam.zero_grad();
    torch::nn::functional::cross_entropy(model(batch.tokens, batch.mask), batch.answers)
        .backward();
    adam.step();
  }
  const at::NoGradGuard no_grad;
  const Batch test = draw(1024);
  const double right = model(test.tokens, test.mask)
                           .argmax(1)
                           .eq(test.answers)
                           .to(at::kFloat)
                           .mean()
                           .item<double>();
  std::printf("%.1f %% right\n", 100 * right);
  return right > 0.9 ? 0 : 1;
}

#include "bench/lab/eager.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "apps/lab/run.h"
#include "gnomon/bias/t5.h"
#include "gnomon/error.h"
#include "gnomon/model/encoding.h"

namespace gnomon::lab {
namespace {

using at::indexing::None;
using at::indexing::Slice;
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;
using torch::nn::LinearOptions;

LayerNorm norm(std::int64_t width) { return LayerNorm(LayerNormOptions({width})); }
Linear linear(std::int64_t in, std::int64_t out) {
  return Linear(LinearOptions(in, out).bias(false));
}

// position x 10000^(-2i/size): [T, size / 2].
at::Tensor angles(std::int64_t length, std::int64_t size) {
  const at::Tensor exponent = at::arange(0, size, 2, at::kDouble) / static_cast<double>(size);
  return at::outer(at::arange(length, at::kDouble), at::pow(1e4, -exponent));
}

at::Tensor rotate_half(const at::Tensor& x) {
  const std::int64_t half = x.size(-1) / 2;
  return at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
}

}  // namespace

EagerTransformerImpl::Block::Block(std::int64_t width, std::int64_t head_count)
    : heads(head_count),
      attention_norm(register_module("attention_norm", norm(width))),
      feed_norm(register_module("feed_norm", norm(width))),
      qkv(register_module("qkv", linear(width, 3 * width))),
      attention_out(register_module("attention_out", linear(width, width))),
      feed_in(register_module("feed_in", linear(width, 4 * width))),
      feed_out(register_module("feed_out", linear(4 * width, width))) {}

EagerTransformerImpl::EagerTransformerImpl(const Settings& s, std::string encoding)
    : encoding_(std::move(encoding)),
      embedding_(register_module("embedding", torch::nn::Embedding(vocabulary, s.width))),
      norm_(register_module("norm", norm(s.width))),
      head_(register_module("head", linear(s.width, vocabulary))) {
  for (std::int64_t layer = 0; layer < s.layers; ++layer)
    blocks_.push_back(register_module("block" + std::to_string(layer),
                                      std::make_shared<Block>(s.width, s.heads)));
  const std::int64_t length = s.train_length;
  hidden_ = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor rows = at::arange(length, at::kLong);
  const at::Tensor distance = rows.unsqueeze(0) - rows.unsqueeze(1);  // key - query
  const model::Shape shape{s.width, s.heads, length};
  if (encoding_ == "sinusoidal") {
    const at::Tensor turn = angles(length, s.width);
    table_ = at::stack({turn.sin(), turn.cos()}, -1).flatten(-2).to(at::kFloat);
  } else if (encoding_ == "rotary") {
    const at::Tensor turn = angles(length, s.width / s.heads).repeat({1, 2});
    cos_ = turn.cos().to(at::kFloat);
    sin_ = turn.sin().to(at::kFloat);
  } else if (encoding_ == "alibi") {
    const at::Tensor exponent =
        at::arange(1, s.heads + 1, at::kDouble) * (-8.0 / static_cast<double>(s.heads));
    slopes_bias_ = (-at::pow(2.0, exponent).view({-1, 1, 1}) * distance.abs()).to(at::kFloat);
  } else if (encoding_ == "t5") {
    const auto t5 = std::get<T5Bias>(model::find_encoding("t5").usual(shape));
    buckets_ = at::empty({length, length}, at::kLong);
    for (std::int64_t i = 0; i < length; ++i)
      for (std::int64_t j = 0; j < length; ++j) buckets_.index_put_({i, j}, bucket(t5, j - i));
    const auto module = register_module("position", std::make_shared<torch::nn::Module>());
    bucket_values_ = module->register_parameter(model::parameters(t5)[0].name,
                                                at::zeros({t5.buckets, s.heads}));
  } else if (encoding_ != "none") {
    refuse("lab", "the eager model knows none, sinusoidal, rotary, alibi and t5", encoding_);
  }
}

at::Tensor EagerTransformerImpl::bias() const {
  if (encoding_ == "alibi") return slopes_bias_;
  if (encoding_ == "t5") return at::embedding(bucket_values_, buckets_).permute({2, 0, 1});
  return {};
}

at::Tensor EagerTransformerImpl::attend(Block& block, const at::Tensor& x,
                                        const at::Tensor& bias) {
  const std::int64_t windows = x.size(0), length = x.size(1), width = x.size(2);
  const auto parts = block.qkv(x).chunk(3, -1);
  const auto by_head = [&](const at::Tensor& part) {
    return part.view({windows, length, block.heads, -1}).transpose(1, 2);
  };
  at::Tensor q = by_head(parts[0]), k = by_head(parts[1]);
  const at::Tensor v = by_head(parts[2]);
  if (cos_.defined()) {
    q = q * cos_ + rotate_half(q) * sin_;
    k = k * cos_ + rotate_half(k) * sin_;
  }
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;
  if (bias.defined()) scores = scores + bias;
  scores = scores.masked_fill(hidden_, -std::numeric_limits<double>::infinity());
  const at::Tensor attended = at::matmul(at::softmax(scores, -1), v);
  return block.attention_out(
      attended.transpose(1, 2).contiguous().view({windows, length, width}));
}

at::Tensor EagerTransformerImpl::forward(const at::Tensor& bytes) {
  at::Tensor x = embedding_(bytes);
  if (table_.defined()) x = x + table_;
  const at::Tensor scores_bias = bias();  // once for all layers, as in T5
  for (const auto& block : blocks_) {
    x = x + attend(*block, block->attention_norm(x), scores_bias);
    x = x + block->feed_out(torch::gelu(block->feed_in(block->feed_norm(x))));
  }
  return head_(norm_(x));
}

EagerRun::EagerRun(const Settings& settings, const std::string& encoding,
                   const torch::nn::Module& like)
    : settings_(settings), model_(settings, encoding) {
  const at::NoGradGuard no_grad;
  const auto theirs = like.named_parameters();
  std::vector<at::Tensor> decaying, others;
  for (const auto& item : model_->named_parameters()) {
    item.value().copy_(theirs[item.key()]);
    (item.value().dim() > 1 && item.key().rfind("position.", 0) != 0 ? decaying : others)
        .push_back(item.value());
  }
  auto options = torch::optim::AdamWOptions(settings.learning_rate).betas({0.9, 0.95});
  using Group = torch::optim::OptimizerParamGroup;
  std::vector<Group> groups;
  groups.emplace_back(decaying, std::make_unique<torch::optim::AdamWOptions>(
                                    torch::optim::AdamWOptions(options).weight_decay(0.1)));
  groups.emplace_back(others, std::make_unique<torch::optim::AdamWOptions>(
                                  torch::optim::AdamWOptions(options).weight_decay(0)));
  optimizer_ = std::make_unique<torch::optim::AdamW>(std::move(groups), options);
}

double EagerRun::train_step(const Batch& batch) {
  const double rate = learning_rate(settings_, step_++);
  for (auto& group : optimizer_->param_groups())
    static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
  optimizer_->zero_grad();
  const at::Tensor loss = torch::nn::functional::cross_entropy(
      model_->forward(batch.inputs).view({-1, vocabulary}), batch.targets.view(-1));
  loss.backward();
  torch::nn::utils::clip_grad_norm_(model_->parameters(), 1.0);
  optimizer_->step();
  return loss.item<double>() * bits_per_nat;
}

}  // namespace gnomon::lab

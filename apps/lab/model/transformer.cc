#include "apps/lab/model/transformer.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <variant>

#include "gnomon/embedding/sinusoidal.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

// The table of `universal` in the list has the signal of step 1.
bool adds_step(const model::Scheme& scheme) {
  return std::ranges::any_of(scheme.layers[0], [](const model::Encoding& one) {
    return std::holds_alternative<UniversalTransformer>(one);
  });
}

bool has_terms_of_keys(const model::Mixture& mixture) {
  return std::ranges::any_of(model::token_terms(mixture), [](const model::TermShape& shape) {
    return std::ranges::any_of(named_terms<Tensor>, [&](const auto& one) {
      return one.name == shape.name && one.tokens != TermTokens::queries;
    });
  });
}

// The sinusoids of the steps 1, 2, ..., minus that of step 1 if the table has it: [N, C].
at::Tensor signals(const Settings& settings, bool has_step) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(settings.layers));
  std::iota(steps.begin(), steps.end(), std::int64_t{1});
  const EmbeddingTable table = lower(
      Sinusoidal{.width = settings.width, .recipe = SinusoidalRecipe::interleaved}, steps);
  const at::Tensor rows = at::tensor(table.values).view({settings.layers, settings.width});
  return has_step ? rows - rows[0] : rows;
}

}  // namespace

at::Tensor KeyValues::append(std::int64_t layer, const at::Tensor& new_keys,
                             const at::Tensor& new_values, const at::Tensor& new_hidden,
                             const model::Mixture& encodings) {
  const auto at = static_cast<std::size_t>(layer);
  for (const auto& [all, fresh] :
       {std::pair{&keys, new_keys}, {&values, new_values}, {&hidden, new_hidden}})
    if (all->size() <= at)
      all->push_back(fresh);
    else
      (*all)[at] = at::cat({(*all)[at], fresh}, 1);
  return has_terms_of_keys(encodings) ? hidden[at] : new_hidden;
}

TransformerImpl::TransformerImpl(const Settings& settings, model::Scheme scheme,
                                 std::uint64_t seed) {
  const std::int64_t blocks = block_count(settings);
  if (std::ssize(scheme.layers) != blocks)
    refuse("lab", "a scheme must have the " + std::to_string(blocks) + " layers of the model",
           std::ssize(scheme.layers));
  at::Generator shared = seeded_generator(2 * seed);
  embedding_ =
      register_module("embedding", drawn_embedding(vocabulary(settings), settings.width,
                                                   Block::embedding_deviation, shared));
  norm_ = register_module("norm", layer_norm(settings.width));
  for (std::int64_t layer = 0; layer < blocks; ++layer)
    blocks_.push_back(std::make_shared<Block>(settings.width, settings.heads,
                                              2 * settings.layers, Init::gpt2, shared));
  head_ = register_module("head", drawn_linear(settings.width, vocabulary(settings),
                                               Block::weight_deviation, shared));
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
    register_module("block" + std::to_string(layer), blocks_[layer]);
  at::Generator own = seeded_generator(2 * seed + 1);
  const bool has_step = adds_step(scheme);
  position_ = register_module("position", libtorch::PositionScheme(std::move(scheme), own));
  if (settings.model != universal_model) return;
  halting_ = register_module("halting", torch::nn::Linear(settings.width, 1));
  const at::NoGradGuard no_grad;
  halting_->weight.normal_(0.0, Block::weight_deviation, shared);
  halting_->bias.fill_(Halting::initial_bias);
  step_signals_ = signals(settings, has_step);
}

TransformerImpl::TransformerImpl(const Settings& settings, const model::Encoding& encoding,
                                 std::uint64_t seed)
    : TransformerImpl(settings, model::every_layer({encoding}, block_count(settings)), seed) {}

void TransformerImpl::drop_positions() {
  without_ = libtorch::PositionScheme(
      model::every_layer({model::NoPosition{}}, std::ssize(position_->scheme().layers)));
}

at::Tensor TransformerImpl::attend_cached(std::int64_t layer, const at::Tensor& qkv,
                                          KeyValues& cache, libtorch::AttendOptions options) {
  const auto at = static_cast<std::size_t>(layer);
  const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
  options.hidden = cache.append(layer, parts[1], parts[2], options.hidden,
                                position(place(layer))->mixture());
  options.layout = libtorch::Layout::tokens_heads;
  return positions()->attend(place(layer), parts[0], cache.keys[at], cache.values[at], options);
}

at::Tensor TransformerImpl::attend_remembered(std::int64_t layer, const at::Tensor& qkv,
                                              SegmentMemory<float>& memory,
                                              libtorch::AttendOptions options) {
  const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
  const auto view = [](const at::Tensor& own) {
    std::array<std::ptrdiff_t, 4> extents, strides;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      extents[axis] = own.size(static_cast<std::int64_t>(axis));
      strides[axis] = own.stride(static_cast<std::int64_t>(axis));
    }
    return View<const float, 4>(own.data_ptr<float>(), extents, strides);
  };
  const at::Tensor keys = parts[1].detach().to(at::kCPU),
                   values = parts[2].detach().to(at::kCPU);
  const auto segment = memory.append(view(keys), view(values));
  const auto joined = [&](const View<const float, 4>& all, const at::Tensor& own) {
    const std::vector<std::int64_t> strides(all.strides().begin(), all.strides().end());
    const at::Tensor past = at::from_blob(
        const_cast<float*>(all.data()), {own.size(0), segment.offset, own.size(2), own.size(3)},
        strides, own.options().device(at::kCPU).requires_grad(false));
    return at::cat({past.to(own.device()), own}, 1);
  };
  options.layout = libtorch::Layout::tokens_heads;
  options.left = memory.shape().memory;
  return positions()->attend(place(layer), parts[0], joined(segment.keys, parts[1]),
                             joined(segment.values, parts[2]), options);
}

// Attention is linear in the values. So the weights are the outputs for unit vectors as values,
// D keys at a time, minus the output for zeros (vectors that an encoding adds to the values).
at::Tensor TransformerImpl::weights(std::int64_t layer, const at::Tensor& qkv,
                                    libtorch::AttendOptions options) {
  options.layout = libtorch::Layout::tokens_heads;
  const std::vector<at::Tensor> parts = qkv.chunk(3, 2);
  const at::Tensor zeros = at::zeros_like(parts[2]);
  const auto outputs = [&](const at::Tensor& values) {
    return positions()->attend(place(layer), parts[0], parts[1], values, options);
  };
  const at::Tensor without = outputs(zeros);
  const std::int64_t keys = qkv.size(1), head_dim = qkv.size(3);
  std::vector<at::Tensor> blocks;
  for (std::int64_t begin = 0; begin < keys; begin += head_dim) {
    const std::int64_t count = std::min(head_dim, keys - begin);
    at::Tensor units = zeros.clone();
    for (std::int64_t i = 0; i < count; ++i) units.select(1, begin + i).select(2, i).fill_(1);
    blocks.push_back((outputs(units) - without).narrow(3, 0, count));
  }
  return at::cat(blocks, 3);
}

at::Tensor TransformerImpl::add_tables(const at::Tensor& x, const ForwardOptions& options,
                                       std::int64_t offset) {
  return options.positions ? positions()->embed(x, *options.positions)
                           : positions()->embed(x, offset);
}

at::Tensor TransformerImpl::run(std::int64_t layer, const at::Tensor& x,
                                const ForwardOptions& options, libtorch::AttendOptions attend) {
  Block& block = *blocks_[static_cast<std::size_t>(place(layer))];
  attend.hidden = block.attention_norm(x);
  const at::Tensor qkv = block.project(attend.hidden);
  if (options.weights) options.weights->push_back(weights(layer, qkv, attend));
  const at::Tensor attended =
      options.cache ? attend_cached(layer, qkv, *options.cache, attend)
      : options.memory
          ? attend_remembered(layer, qkv, (*options.memory)[static_cast<std::size_t>(layer)],
                              attend)
          : positions()->attend_packed(place(layer), qkv, block.heads, attend);
  return block.add_feed(block.add_attention(x, attended));
}

at::Tensor TransformerImpl::run_until_halted(at::Tensor x, const ForwardOptions& options,
                                             const libtorch::AttendOptions& attend,
                                             std::int64_t offset) {
  const std::int64_t steps = step_signals_.size(0);
  // Later tokens read the keys and values of each step.
  const bool all = options.cache || options.memory || options.weights;
  Halting halting(x, steps);
  for (std::int64_t step = 0; step < steps && (all || !halting.ended()); ++step) {
    const at::Tensor state =
        add_tables(x, options, offset) + step_signals_[step].to(x.device());
    const at::Tensor probability = at::sigmoid(halting_(state)).squeeze(2);
    x = halting.step(x, run(step, state, options, attend), probability);
  }
  if (options.ponder) *options.ponder = halting.ponder();
  return halting.output();
}

at::Tensor TransformerImpl::forward(const at::Tensor& tokens, const ForwardOptions& options) {
  at::Tensor x = embedding_(tokens);
  libtorch::AttendOptions attend{.visibility = options.visibility};
  if (options.positions) attend.positions = options.positions;
  const std::int64_t offset = options.cache    ? options.cache->tokens()
                              : options.memory ? options.memory->front().next()
                                               : 0;
  if (is_universal()) {
    x = run_until_halted(x, options, attend, offset);
  } else {
    x = add_tables(x, options, offset);
    for (std::int64_t layer = 0; layer < std::ssize(blocks_); ++layer)
      x = run(layer, x, options, attend);
  }
  return head_(norm_(x));
}

Reading reading_of(const std::string& suffix) {
  return suffix == "memory"   ? Reading::memory
         : suffix == "window" ? Reading::window
                              : Reading::whole;
}

SegmentReader::SegmentReader(const Settings& settings, std::int64_t segment,
                             std::int64_t memory)
    : shape_{.memory = memory,
             .segment = segment,
             .heads = settings.heads,
             .head_dim = settings.width / settings.heads,
             .value_dim = settings.width / settings.heads},
      layers_(static_cast<std::size_t>(settings.layers)) {}

at::Tensor SegmentReader::read(Transformer& model, const at::Tensor& tokens) {
  shape_.batch = tokens.size(0);
  if (memories_.empty() || memories_[0].shape() != shape_)
    memories_.assign(layers_, SegmentMemory<float>(shape_));
  for (SegmentMemory<float>& one : memories_) one.clear();
  return read_next(model, tokens);
}

at::Tensor SegmentReader::read_next(Transformer& model, const at::Tensor& tokens) {
  std::vector<at::Tensor> logits;
  for (std::int64_t begin = 0; begin < tokens.size(1); begin += shape_.segment) {
    const std::int64_t count = std::min(shape_.segment, tokens.size(1) - begin);
    logits.push_back(model->forward(tokens.narrow(1, begin, count), {.memory = &memories_}));
  }
  return at::cat(logits, 1);
}

}  // namespace gnomon::lab

#include "gnomon/torch/position.h"

#include <algorithm>
#include <string>

#include "bindings/torch/check.h"
#include "bindings/torch/functions.h"
#include "bindings/torch/refuse_archive.h"
#include "bindings/torch/views.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

constexpr std::size_t plans_kept = 8;

void check(const model::Mixture& mixture) {
  for (auto one = mixture.begin(); one != mixture.end(); ++one)
    for (auto other = mixture.begin(); other != one; ++other)
      if (one->index() == other->index())
        refuse("mixture", "each encoding must occur once", model::names(mixture));
}

// The encodings as a JSON array.
std::string specification(const model::Mixture& mixture) {
  std::string text = "[";
  for (const model::Encoding& one : mixture)
    text += (text.size() > 1 ? ", " : "") + model::to_json(one);
  return text + "]";
}

}  // namespace

PositionEncodingImpl::PositionEncodingImpl(model::Mixture mixture,
                                           std::optional<at::Generator> generator)
    : mixture_(std::move(mixture)), generator_(std::move(generator)) {
  check(mixture_);
  std::size_t next = 0;
  for (const model::Encoding& one : mixture_) {
    const model::Place places = model::info(one).enters;
    const std::size_t first = next;
    next += model::parameters(one).size();
    const auto join = [&](Part& part) {
      part.mixture.push_back(one);
      for (std::size_t i = first; i < next; ++i) part.parameters.push_back(i);
    };
    if (model::includes(places, model::Place::embeddings)) join(in_embeddings_);
    if (places != model::Place::embeddings) join(in_attention_);
  }
  reset();
}

PositionEncodingImpl::PositionEncodingImpl(model::Encoding encoding,
                                           std::optional<at::Generator> generator)
    : PositionEncodingImpl(model::Mixture{std::move(encoding)}, std::move(generator)) {}

void PositionEncodingImpl::reset() {
  const at::NoGradGuard no_grad;
  c10::optional<at::Generator> generator;
  if (generator_) generator = *generator_;
  for (const model::Parameter& one : model::parameters(mixture_)) {
    std::string name = one.name;
    std::replace(name.begin(), name.end(), '.', '_');  // LibTorch does not allow dots in names
    at::Tensor matrix = at::empty({one.rows, one.columns});
    if (one.initial.empty())
      matrix.normal_(one.initial_mean, one.initial_deviation, generator);
    else
      std::copy(one.initial.begin(), one.initial.end(), matrix.data_ptr<float>());
    register_parameter(name, std::move(matrix));
  }
}

void PositionEncodingImpl::pretty_print(std::ostream& stream) const {
  stream << "gnomon::libtorch::PositionEncoding(" << specification(mixture_) << ")";
}

void PositionEncodingImpl::save(torch::serialize::OutputArchive&) const {
  refuse_save("a PositionEncoding");
}
void PositionEncodingImpl::load(torch::serialize::InputArchive&) {
  refuse_load("a PositionEncoding");
}

PreparedCall PositionEncodingImpl::prepare_call(Part& part, const model::Window& window,
                                                const AttentionMask& mask) {
  PreparedCall work{part.mixture, {}};
  if (!part.parameters.empty()) {  // the plan changes with every step
    const std::vector<at::Tensor> all = parameters(false);
    for (const std::size_t i : part.parameters) work.parameters.push_back(for_kernels(all[i]));
    return work;
  }
  for (const auto& [known, its_mask, plan] : part.kept)
    if (known == window && its_mask == mask) work.plan = plan;
  if (work.plan) return work;
  if (part.kept.size() == plans_kept) part.kept.erase(part.kept.begin());
  work.plan = plan_of(work, window, mask);
  part.kept.emplace_back(window, mask, work.plan);
  return work;
}

at::Tensor PositionEncodingImpl::embed(const at::Tensor& x, std::int64_t offset) {
  checked("embed", "x", x, 3, "[B, T, C]");
  if (offset < 0) refuse("embed", "offset must not be negative", offset);
  return embed_window(x, {.queries = x.size(1), .keys = offset + x.size(1)});
}

at::Tensor PositionEncodingImpl::embed(const at::Tensor& x, const Positions& positions) {
  checked("embed", "x", x, 3, "[B, T, C]");
  if ((positions.batch != 1 && positions.batch != x.size(0)) || positions.tokens != x.size(1))
    refuse("embed",
           "positions must be [" + std::to_string(x.size(0)) + " or 1, " +
               std::to_string(x.size(1)) + "]",
           gnomon::shape_text(std::array<std::int64_t, 2>{positions.batch, positions.tokens}));
  return embed_window(x, {.queries = x.size(1),
                          .keys = x.size(1),
                          .batch = model::BatchPositions{positions, positions}});
}

at::Tensor PositionEncodingImpl::embed_window(const at::Tensor& x_in,
                                              const model::Window& window) {
  if (in_embeddings_.mixture.empty()) return x_in;
  const at::Tensor x = checked("embed", "x", x_in, 3, "[B, T, C]");
  PreparedCall work = prepare_call(in_embeddings_, window, {});
  work.plan = plan_of(work, window);
  if (const auto& table = work.plan->table; table && table->width != x.size(2))
    refuse("embed",
           "x must be [B, T, C] with C = " + std::to_string(table->width) + ", the width of " +
               model::names(work.mixture),
           shape_text(x));
  if (!x.device().is_cpu()) return add_position_table_composed(work, window, x);
  return add_position_table(work, window, x);
}

at::Tensor PositionEncodingImpl::attend(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const AttendOptions& options) {
  const Inputs in = checked_inputs(q, k, v, options);
  const model::Mixture& mixture = in_attention_.mixture;
  check_call(mixture, in.q, in.k.size(1), options);
  const model::Window window = window_of(in.q, in.k.size(1), options);
  const AttentionMask mask = mask_of(window, options);
  PreparedCall work = prepare_call(in_attention_, window, mask);
  work.plan = plan_of(work, window, mask);
  check_heads(mixture, *work.plan, wanted_shape(options.layout), q, in.q.size(2));
  if (!q.device().is_cpu()) return attend_composed(mixture, work.parameters, q, k, v, options);
  return in_layout(attend_fused(work, in, options), options.layout);
}

at::Tensor PositionEncodingImpl::attend_packed(const at::Tensor& qkv_in, std::int64_t key_heads,
                                               const AttendOptions& options) {
  const at::Tensor qkv = checked_packed(qkv_in, key_heads, options);
  if (!qkv.device().is_cpu()) {
    const auto [q, k, v] = split_heads(qkv, key_heads);
    AttendOptions same = options;
    same.layout = Layout::tokens_heads;
    return attend(q, k, v, same);
  }
  const model::Mixture& mixture = in_attention_.mixture;
  check_call(mixture, qkv, qkv.size(1), options);
  const model::Window window = window_of(qkv, qkv.size(1), options);
  const AttentionMask mask = mask_of(window, options);
  PreparedCall work = prepare_call(in_attention_, window, mask);
  work.plan = plan_of(work, window, mask);
  check_heads(mixture, *work.plan, "[B, T, H, D] within qkv [B, T, H + 2 Hk, D]", qkv,
              qkv.size(2) - 2 * key_heads);
  return attend_packed_fused(work, qkv, key_heads, options);
}

}  // namespace gnomon::libtorch

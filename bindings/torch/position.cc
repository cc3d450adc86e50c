#include "gnomon/torch/position.h"

#include <torch/nn/init.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "bindings/torch/functions.h"
#include "bindings/torch/views.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

constexpr std::size_t plans_kept = 8;

void check(const model::Mixture& mixture) {
  for (auto one = mixture.begin(); one != mixture.end(); ++one)
    for (auto other = mixture.begin(); other != one; ++other)
      if (one->index() == other->index())
        refuse("mixture", "must have each encoding once", model::names(mixture));
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
    std::replace(name.begin(), name.end(), '.', '_');  // LibTorch has no dots in names
    register_parameter(name, at::empty({one.rows, one.columns})
                                 .normal_(one.initial_mean, one.initial_deviation, generator));
  }
}

void PositionEncodingImpl::pretty_print(std::ostream& stream) const {
  stream << "gnomon::libtorch::PositionEncoding(";
  for (const model::Encoding& one : mixture_)
    stream << (&one == mixture_.data() ? "" : ", ") << model::to_json(one);
  stream << ")";
}

AtWork PositionEncodingImpl::at_work(Part& part, const model::Window& window) {
  AtWork work{part.mixture, {}};
  if (!part.parameters.empty()) {  // its plan changes with every step
    const std::vector<at::Tensor> all = parameters(false);
    for (const std::size_t i : part.parameters) work.parameters.push_back(all[i]);
    return work;
  }
  for (const auto& [known, plan] : part.kept)
    if (known == window) work.plan = plan;
  if (work.plan) return work;
  if (part.kept.size() == plans_kept) part.kept.erase(part.kept.begin());
  work.plan = plan_of(work, window);
  part.kept.emplace_back(window, work.plan);
  return work;
}

at::Tensor PositionEncodingImpl::embed(const at::Tensor& x, std::int64_t first,
                                       const std::vector<std::int64_t>& ids) {
  if (in_embeddings_.mixture.empty()) return x;
  const std::int64_t before = ids.empty() ? first : 0;
  const model::Window window{.queries = x.size(1), .keys = before + x.size(1), .ids = ids};
  const AtWork work = at_work(in_embeddings_, window);
  if (!x.device().is_cpu()) return x + lowered_tensors(work, window).table.to(x.options());
  return add_position_table(work, window, x);
}

at::Tensor PositionEncodingImpl::attend(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const AttendOptions& options) {
  const AtWork work = at_work(in_attention_, window_of(q, k.size(1), options));
  if (!q.device().is_cpu())
    return attend_composed(work.mixture, work.parameters, q, k, v, options);
  return attend_fused(work, q, k, v, options);
}

at::Tensor PositionEncodingImpl::attend_packed(const at::Tensor& qkv, std::int64_t key_heads,
                                               const AttendOptions& options) {
  if (qkv.dim() != 4 || key_heads < 1 || qkv.size(2) <= 2 * key_heads)
    refuse("torch", "qkv must be [B, T, H + 2 Hk, D]",
           qkv.dim() == 4 ? qkv.size(2) : qkv.dim());
  if (!qkv.device().is_cpu()) {
    const auto [q, k, v] = split_heads(qkv, key_heads);
    return attend(q, k, v, options);
  }
  const AtWork work = at_work(in_attention_, window_of(qkv, qkv.size(1), options));
  return attend_packed_fused(work, qkv, key_heads, options);
}

}  // namespace gnomon::libtorch

#include "gnomon/torch/position.h"

#include <torch/nn/init.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>

#include "bindings/torch/functions.h"
#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

constexpr std::size_t plans_kept = 8;

}  // namespace

PositionEncodingImpl::PositionEncodingImpl(model::Encoding encoding,
                                           std::optional<at::Generator> generator)
    : encoding_(std::move(encoding)), generator_(std::move(generator)) {
  reset();
}

void PositionEncodingImpl::reset() {
  const at::NoGradGuard no_grad;
  c10::optional<at::Generator> generator;
  if (generator_) generator = *generator_;
  for (const model::Parameter& one : model::parameters(encoding_))
    register_parameter(one.name,
                       at::empty({one.rows, one.columns})
                           .normal_(one.initial_mean, one.initial_deviation, generator));
}

void PositionEncodingImpl::pretty_print(std::ostream& stream) const {
  stream << "gnomon::libtorch::PositionEncoding(" << model::to_json(encoding_) << ")";
}

Plan PositionEncodingImpl::plan(const model::Window& window) {
  if (!named_parameters(false).is_empty()) return nullptr;
  for (const Kept& kept : kept_)
    if (kept.window == window) return kept.lowered;
  if (kept_.size() == plans_kept) kept_.erase(kept_.begin());
  kept_.push_back(
      {window, std::make_shared<model::Lowered>(model::lower(encoding_, window, {}))});
  return kept_.back().lowered;
}

at::Tensor PositionEncodingImpl::embed(const at::Tensor& x, std::int64_t first) {
  if (model::info(encoding_).enters != model::Place::embeddings) return x;
  const model::Window window{x.size(1), first + x.size(1)};
  if (!x.device().is_cpu())
    return x + lowered_numbers(encoding_, parameters(false), window).to(x.options());
  return add_position_table(encoding_, parameters(false), plan(window), window, x);
}

at::Tensor PositionEncodingImpl::attend(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const AttendOptions& options) {
  // A table has done its part in `embed`; attention is then that of no position.
  const bool here = model::info(encoding_).enters != model::Place::embeddings;
  const model::Encoding encoding = here ? encoding_ : model::NoPosition{};
  const auto trained = here ? parameters(false) : std::vector<at::Tensor>{};
  if (!q.device().is_cpu()) return attend_composed(encoding, trained, q, k, v, options);
  return attend_fused(encoding, trained, here ? plan({q.size(1), k.size(1)}) : nullptr, q, k, v,
                      options);
}

}  // namespace gnomon::libtorch

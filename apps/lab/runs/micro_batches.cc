#include "apps/lab/runs/micro_batches.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cfenv>
#include <numeric>
#include <utility>

#include "apps/lab/runs/process.h"
#include "gnomon/error.h"

namespace gnomon::lab {
namespace {

// {nats, targets, units}
at::Tensor numbers(const LossSum& sum) {
  return at::tensor({sum.nats.item<double>(), static_cast<double>(sum.targets),
                     static_cast<double>(sum.units)},
                    at::kDouble);
}

}  // namespace

MicroBatches::MicroBatches(TaskModel& model, std::int64_t batch, Team& team,
                           MicroBatchOptions options)
    : model_(model),
      batch_(batch),
      team_(team),
      options_(options),
      count_(micro_batch_count / team.size()),
      parameters_(model.module().parameters()),
      slots_(parameters_.size()) {
  if (team.size() > micro_batch_count)
    refuse("lab", "a run must have at most 8 workers", team.size());
  if (batch < 1 || batch % micro_batch_count != 0)
    refuse("lab", "micro-batches require a batch that is a multiple of 8", batch);
  for (const at::Tensor& one : parameters_)
    if (one.scalar_type() != at::kFloat || (team.size() > 1 && !one.is_cpu()))
      refuse("lab", "a team requires float32 parameters on the CPU", one.toString());
  // Usually the backward pass computes the gradients of the last parameters first.
  std::vector<std::int64_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), 0);
  divide_into_buckets(order);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    hooks_.push_back(parameters_[i].register_hook(
        [this, i](const at::Tensor& gradient) { on_gradient(i, gradient); }));
  if (team.size() == 1) return;
  std::fenv_t environment;  // includes the mode for denormal numbers
  std::fegetenv(&environment);
  thread_ = std::thread([this, environment] {
    at::set_num_threads(1);
    std::fesetenv(&environment);
    sum_queued_buckets();
  });
}

MicroBatches::~MicroBatches() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) parameters_[i].remove_hook(hooks_[i]);
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    // An exception ended a backward pass, so the other members would wait for this one.
    if (summed_ < queued_ || last_) team_.fail("a member stopped in a training step");
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

BatchRange MicroBatches::rows(std::int64_t micro_batch) const {
  const std::int64_t size = batch_ / micro_batch_count;
  const std::int64_t begin = (team_.rank() * count_ + micro_batch) * size;
  return {begin, begin + size};
}

MicroBatches::Loss MicroBatches::total(std::vector<at::Tensor> mine) {
  const at::Tensor all = team_.sum(tree_sum(std::move(mine)));
  return {all[0].item<double>(), all[1].item<double>(), all[2].item<double>()};
}

MicroBatches::Loss MicroBatches::loss(Part part, std::uint64_t seed, std::uint64_t step) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> mine;
  for (std::int64_t i = 0; i < count_; ++i) {
    const LossSum sum = model_.loss(part, seed, step, rows(i));
    mine.push_back(numbers(sum));
  }
  return total(std::move(mine));
}

MicroBatches::Loss MicroBatches::backward(std::uint64_t seed, std::uint64_t step) {
  std::vector<at::Tensor> mine;
  for (std::int64_t i = 0; i < count_; ++i) {
    model_.module().zero_grad(/*set_to_none=*/true);
    const LossSum sum = model_.loss(Part::train, seed, step, rows(i));
    mine.push_back(numbers(sum));
    if (i + 1 == count_) begin_last_micro_batch();
    sum.objective().backward();
    if (i + 1 < count_) take_gradients(i);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) on_gradient(i, {});  // not used
  last_ = false;
  wait_for_sums();
  partial_sums_.clear();
  const Loss all = total(std::move(mine));
  const at::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) bucket.sums = bucket.sums / all.targets;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    parameters_[i].mutable_grad() = buckets_[slots_[i].bucket]
                                        .sums.narrow(0, slots_[i].begin, parameter.numel())
                                        .view_as(parameter);
  }
  if (!ordered_ && team_.size() > 1) {
    ordered_ = true;
    const at::Tensor first = team_.broadcast(at::tensor(order_, at::kLong));
    divide_into_buckets(
        {first.data_ptr<std::int64_t>(), first.data_ptr<std::int64_t>() + first.numel()});
  }
  return all;
}

void MicroBatches::divide_into_buckets(const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> sizes;
  buckets_.clear();
  for (const std::int64_t next : order) {
    const auto i = static_cast<std::size_t>(next);
    const auto item = static_cast<std::int64_t>(sizeof(float));
    if (sizes.empty() || sizes.back() * item >= options_.bucket_bytes) sizes.push_back(0);
    slots_[i] = {sizes.size() - 1, sizes.back(), false};
    sizes.back() += parameters_[i].numel();
  }
  buckets_.resize(sizes.size());
}

void MicroBatches::begin_last_micro_batch() {
  std::vector<std::int64_t> sizes(buckets_.size());
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].ready = false;
    sizes[slots_[i].bucket] += parameters_[i].numel();
    ++buckets_[slots_[i].bucket].missing;
  }
  // New memory: other members may still read that of the step before.
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    buckets_[b].sums = at::empty({sizes[b]}, parameters_[0].options().requires_grad(false));
  order_.clear();
  sent_ = 0;
  {
    const std::lock_guard lock(mutex_);
    queued_ = summed_ = 0;
  }
  last_ = true;
}

void MicroBatches::take_gradients(std::int64_t micro_batch) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  for (at::Tensor& one : parameters_)
    sums.push_back(one.grad().defined() ? one.grad() : at::zeros_like(one));
  // Two sums of 2^k micro-batches become one of 2^(k + 1), as in a binary counter.
  for (; micro_batch & 1; micro_batch /= 2) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = partial_sums_.back()[i] + sums[i];
    partial_sums_.pop_back();
  }
  partial_sums_.push_back(std::move(sums));
}

void MicroBatches::on_gradient(std::size_t parameter, const at::Tensor& gradient) {
  BucketSlot& slot = slots_[parameter];
  if (!last_ || slot.ready) return;
  const at::NoGradGuard no_grad;
  const at::Tensor& shaped = parameters_[parameter];
  at::Tensor sum = gradient.defined() ? gradient : at::zeros_like(shaped);
  for (std::size_t k = partial_sums_.size(); k-- > 0;) sum = partial_sums_[k][parameter] + sum;
  Bucket& bucket = buckets_[slot.bucket];
  bucket.sums.narrow(0, slot.begin, shaped.numel()).view_as(shaped).copy_(sum);
  slot.ready = true;
  --bucket.missing;
  order_.push_back(static_cast<std::int64_t>(parameter));
  send_complete_buckets();
}

// Sends in the order of the buckets, which is the same for all members.
void MicroBatches::send_complete_buckets() {
  if (team_.size() == 1) return;
  if (options_.overlap == Overlap::after_backward && order_.size() < parameters_.size()) return;
  for (; sent_ < buckets_.size() && buckets_[sent_].missing == 0; ++sent_) {
    {
      const std::lock_guard lock(mutex_);
      ++queued_;
    }
    wake_.notify_all();
  }
}

void MicroBatches::wait_for_sums() {
  if (team_.size() == 1) return;
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return summed_ == buckets_.size() || failure_; });
  waiting_seconds_ += seconds_since(start);
  if (failure_) std::rethrow_exception(failure_);
}

void MicroBatches::sum_queued_buckets() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return ending_ || summed_ < queued_; });
    if (ending_) return;
    Bucket& bucket = buckets_[summed_];
    lock.unlock();
    std::exception_ptr failure;
    const auto start = Clock::now();
    try {
      bucket.sums = team_.sum(bucket.sums);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    exchange_seconds_ += seconds_since(start);
    ++summed_;
    failure_ = failure;
    wake_.notify_all();
    if (failure) return;
  }
}

}  // namespace gnomon::lab

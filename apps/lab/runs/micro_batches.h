// Data parallelism: the gradient of a step from 8 micro-batches, computed by the members of a
// team.
//
// Member w of n computes the gradients g of 8 / n consecutive micro-batches. The gradient of
// the step is ((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7)), so its bits are the same for
// 1, 2, 4 and 8 members: each member computes its subtree, Team::sum the levels above.
//
// The parameters are divided into buckets, in the order in which the backward pass computes
// their gradients. A thread sums a bucket over the team as soon as it is complete, while the
// backward pass of the last micro-batch computes the other buckets.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/lab/model/task_model.h"
#include "apps/lab/runs/team.h"

namespace gnomon::lab {

// When a bucket is summed over the team. after_backward is for measurements.
enum class Overlap { with_backward = 1, after_backward };

struct MicroBatchOptions {
  Overlap overlap = Overlap::with_backward;
  std::int64_t bucket_bytes = 1 << 20;  // a bucket is complete when it has at least as many
};

class MicroBatches {
 public:
  // Every member of the team has its own model with the same weights. `batch` is a multiple of
  // 8. Throws std::invalid_argument unless all parameters are float32, and on the CPU if the
  // team has several members.
  MicroBatches(TaskModel& model, std::int64_t batch, Team& team,
               MicroBatchOptions options = {});
  ~MicroBatches();

  struct Loss {
    double nats = 0, targets = 0, units = 0;  // as LossSum
  };
  // The loss of a batch, summed over the micro-batches in the same tree. Without gradients.
  Loss loss(Part part, std::uint64_t seed, std::uint64_t step);
  // Like `loss`, for a training step. Sets the gradients of the parameters to those of
  // nats / targets. A parameter that the loss does not depend on gets zeros.
  Loss backward(std::uint64_t seed, std::uint64_t step);

  // Time since the construction, in seconds: all sums over the team, and the part of it in
  // which `backward` had nothing else to do.
  double exchange_seconds() const { return exchange_seconds_; }
  double waiting_seconds() const { return waiting_seconds_; }

 private:
  struct Bucket {
    at::Tensor sums;           // [N], those of this member, then those of the team
    std::int64_t missing = 0;  // parameters without a gradient so far
  };
  // The place of a parameter in the buckets.
  struct BucketSlot {
    std::size_t bucket = 0;
    std::int64_t begin = 0;
    bool ready = false;
  };

  BatchRange rows(std::int64_t micro_batch) const;
  Loss total(std::vector<at::Tensor> mine);
  void divide_into_buckets(const std::vector<std::int64_t>& order);
  void begin_last_micro_batch();
  void take_gradients(std::int64_t micro_batch);
  void on_gradient(std::size_t parameter, const at::Tensor& gradient);
  void send_complete_buckets();
  void wait_for_sums();
  void sum_queued_buckets();  // the thread

  TaskModel& model_;
  const std::int64_t batch_;
  Team& team_;
  const MicroBatchOptions options_;
  const std::int64_t count_;  // micro-batches of this member
  std::vector<at::Tensor> parameters_;
  std::vector<unsigned> hooks_;
  std::vector<BucketSlot> slots_;  // one for each parameter
  std::vector<Bucket> buckets_;
  std::vector<std::int64_t> order_;  // parameters in the order of the first backward pass
  bool ordered_ = false;             // buckets_ have that order
  bool last_ = false;                // set in the backward pass of the last micro-batch
  // Sums of 2^k micro-batches that wait for their sibling in the tree.
  std::vector<std::vector<at::Tensor>> partial_sums_;
  std::size_t sent_ = 0;  // complete buckets

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::size_t queued_ = 0, summed_ = 0;  // buckets
  bool ending_ = false;
  std::exception_ptr failure_;
  double exchange_seconds_ = 0, waiting_seconds_ = 0;
};

}  // namespace gnomon::lab

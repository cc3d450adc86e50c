#include "apps/lab/model/shuffle.h"

#include <numeric>
#include <utility>

#include "apps/lab/data/draws.h"
#include "apps/lab/data/numbers.h"
#include "apps/lab/data/windows.h"

namespace gnomon::lab {
namespace shuffling {

constexpr std::uint64_t seed = 0x73687566;

// A permutation of 0 to count - 1 (Fisher and Yates), the others up to length - 1 in order.
std::vector<std::int64_t> permutation(std::int64_t count, std::int64_t length,
                                      std::uint64_t number) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(length));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Draws draws{seed, number};
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(draws.below(i + 1))]);
  return order;
}

// The loss in bits of the last target of each window. inputs, targets: [B, L].
std::vector<double> last_bits(Transformer& model, const at::Tensor& inputs,
                              const at::Tensor& targets) {
  const at::Tensor logits = model->forward(inputs).select(1, inputs.size(1) - 1);
  const at::Tensor last = targets.select(1, targets.size(1) - 1);
  const at::Tensor bits = at::cross_entropy_loss(logits, last, {}, at::Reduction::None)
                              .to(at::kDouble)
                              .mul(bits_per_nat)
                              .contiguous();
  return {bits.data_ptr<double>(), bits.data_ptr<double>() + bits.numel()};
}

}  // namespace shuffling

std::vector<ShuffledLoss> shuffled_losses(Transformer& model, const Settings& settings,
                                          const Corpus& corpus, std::int64_t kept) {
  const at::NoGradGuard no_grad;
  const auto most = model::capacity(model->scheme());
  const std::vector<Segment> segments = test_segments(corpus.test, settings);
  std::vector<ShuffledLoss> all;
  for (const std::int64_t length : settings.eval_lengths) {
    if ((most && length > *most) || length <= kept) continue;
    std::vector<double> whole, shuffled, differences;
    std::uint64_t number = 0;
    for (const Segment& segment : segments) {
      const Batch batch = segment_windows(segment, length, settings.longest());
      at::Tensor inputs = batch.inputs.clone();
      for (std::int64_t w = 0; w < inputs.size(0); ++w) {
        const auto order = shuffling::permutation(length - kept, length, number++);
        inputs[w].copy_(batch.inputs[w].index_select(0, at::tensor(order, at::kLong)));
      }
      for (const double bits : shuffling::last_bits(model, batch.inputs, batch.targets))
        whole.push_back(bits);
      for (const double bits : shuffling::last_bits(model, inputs, batch.targets))
        shuffled.push_back(bits);
    }
    for (std::size_t i = 0; i < whole.size(); ++i)
      differences.push_back(shuffled[i] - whole[i]);
    all.push_back({length, kept, std::ssize(whole), mean(whole), mean(shuffled),
                   mean_margin(differences)});
  }
  return all;
}

}  // namespace gnomon::lab

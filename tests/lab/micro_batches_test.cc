// Runs that are trained by 1, 2, 4 and 8 workers have the same bits.
#include "apps/lab/runs/micro_batches.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>

#include "apps/lab/runs/process_team.h"
#include "apps/lab/runs/run.h"
#include "lab/tiny.h"
#include "members.h"

namespace gnomon::lab {
namespace micro_batches_test {

namespace fs = std::filesystem;
using gnomon::testing::Member;
using gnomon::testing::Members;

Settings tiny() {
  Settings settings = gnomon::testing::tiny();
  settings.batch = 8;
  settings.steps = 4;
  settings.micro_batches = micro_batch_count;
  return settings;
}

using Tensors = std::vector<at::Tensor>;
Tensors copies(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& one : tensors) all.push_back(one.detach().clone());
  return all;
}
void expect_equal(const Tensors& a, const Tensors& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << what << ", " << i;
}

// One thread, like those of the lab. Products of MKL have other bits with several threads.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }

 private:
  const int before_;
};

struct Trained {
  Tensors weights;
  std::vector<CurvePoint> curve;
};

// `begin` and `end`: steps; a run that does not begin at 0 continues from the file.
Trained train(int workers, const std::string& encoding, std::int64_t end = 4,
              const fs::path& from = {}, const fs::path& to = {}) {
  const OneThread one_thread;
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  std::vector<Trained> members(static_cast<std::size_t>(workers));
  on_team(workers, [&](Team& team) {
    TrainingRun run(settings, corpus, encoding, 1, team);
    if (!from.empty()) run.load(from);
    while (run.step() < end) run.train_step();
    if (!to.empty() && team.leads()) run.save(to);
    members[static_cast<std::size_t>(team.rank())] = {copies(run.model().module().parameters()),
                                                      run.summary().curve};
  });
  for (const Trained& one : members) {
    expect_equal(one.weights, members[0].weights, "members");
    EXPECT_EQ(one.curve, members[0].curve);
  }
  return members[0];
}

class WorkersOf : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, WorkersOf,
                         ::testing::Values("none", "t5", "learned", "rotary", "t5@random"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '@') c = '_';
                           return name;
                         });

TEST_P(WorkersOf, AnyNumberGiveTheSameBits) {
  const Trained one = train(1, GetParam());
  for (const int workers : {2, 4, 8}) {
    const Trained more = train(workers, GetParam());
    expect_equal(one.weights, more.weights, std::to_string(workers));
    EXPECT_EQ(one.curve, more.curve);
  }
}

TEST(Workers, ResumeARunOfAnotherNumber) {
  const fs::path path = fs::temp_directory_path() /
                        ("gnomon-workers-" + std::to_string(getpid()) + ".safetensors");
  const Trained whole = train(1, "t5");
  train(2, "t5", 2, {}, path);
  const Trained resumed = train(4, "t5", 4, path);
  fs::remove(path);
  expect_equal(whole.weights, resumed.weights, "resumed");
  EXPECT_EQ(whole.curve, resumed.curve);
}

// The gradients of one step on a team, with buckets of at most a few parameters.
Tensors gradients(int workers, const Settings& settings, const Corpus& corpus,
                  const MicroBatchOptions& options, int steps = 1) {
  const OneThread one_thread;
  Tensors result;
  on_team(workers, [&](Team& team) {
    const auto model = make_model(settings, corpus, "t5", 1);
    MicroBatches micro_batches(*model, settings.batch, team, options);
    for (int step = 0; step < steps; ++step)
      micro_batches.backward(1, static_cast<std::uint64_t>(step));
    if (!team.leads()) return;
    for (const at::Tensor& one : model->module().parameters())
      result.push_back(one.grad().clone());
  });
  return result;
}

TEST(MicroBatches, GradientIsThatOfTheWholeBatch) {
  for (const char* task : {"text", "masked", "recall"}) {
    Settings settings = tiny();
    settings.task = &find_task(task);
    const Corpus corpus = load_corpus(settings);
    const auto model = make_model(settings, corpus, "t5", 1);
    const LossSum sum = model->loss(Part::train, 1, 0, {0, settings.batch});
    (sum.nats / sum.targets).backward();
    const auto parameters = model->module().parameters();
    double largest = 0;
    for (const at::Tensor& one : parameters)
      largest = std::max(largest, one.grad().abs().max().item<double>());
    for (const int workers : {1, 4}) {
      const Tensors found = gradients(workers, settings, corpus, {});
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_LE((found[i] - parameters[i].grad()).abs().max().item<double>(), 2e-6 * largest)
            << task << ", " << workers << " workers, parameter " << i;
    }
  }
}

// The second step has the buckets in the order of the first backward pass.
TEST(MicroBatches, GradientDoesNotDependOnTheBuckets) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  const Tensors wanted = gradients(1, settings, corpus, {}, 2);
  for (const Overlap overlap : {Overlap::with_backward, Overlap::after_backward})
    for (const std::int64_t bytes : {1, 3000, 1 << 20})
      expect_equal(wanted, gradients(2, settings, corpus, {overlap, bytes}, 2),
                   std::to_string(bytes));
}

// A parameter that is not used has the gradient 0, and buckets after it are not held back.
TEST(MicroBatches, GradientOfAnUnusedParameterIsZero) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  on_team(2, [&](Team& team) {
    const auto model = make_model(settings, corpus, "none", 1);
    const at::Tensor unused =
        model->module().register_parameter("unused", at::ones({3}).requires_grad_(true));
    MicroBatches micro_batches(*model, settings.batch, team, {.bucket_bytes = 1});
    for (std::uint64_t step = 0; step < 2; ++step) micro_batches.backward(1, step);
    EXPECT_TRUE(unused.grad().equal(at::zeros({3})));
  });
}

TEST(MicroBatches, EndWithTheErrorOfAMember) {
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  std::string error_of_others;
  EXPECT_THROW(on_team(2,
                       [&](Team& team) {
                         TrainingRun run(settings, corpus, "none", 1, team);
                         run.train_step();
                         if (team.rank() == 1) throw std::out_of_range("full disk");
                         try {
                           run.train_step();
                         } catch (const TeamError& error) {
                           error_of_others = error.what();
                           throw;
                         }
                       }),
               std::out_of_range);
  EXPECT_EQ(error_of_others, "[lab] the team of workers failed, got: full disk");
}

TEST(MicroBatches, RefuseABatchThatIsNoMultipleOfEight) {
  Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  settings.encodings = {"none"};
  settings.batch = 12;
  EXPECT_THROW(TrainingRun(settings, corpus, "none", 1), std::invalid_argument);
  EXPECT_THROW(check_settings(settings), std::invalid_argument);
  settings.batch = 16;
  check_settings(settings);
  settings.micro_batches.reset();
  EXPECT_THROW(
      on_team(2, [&](Team& team) { TrainingRun run(settings, corpus, "none", 1, team); }),
      std::invalid_argument);
}

#if TORCH_VERSION_MAJOR == 1

TEST(Workers, InProcessesGiveTheSameBits) {
  if (!Member::here()) return Members(4).expect_success();
  at::set_num_threads(1);
  const Member all = Member::get(), of_pair = all.of_pair();
  const Settings settings = tiny();
  const Corpus corpus = load_corpus(settings);
  std::vector<std::unique_ptr<Team>> teams;
  for (const Member& member : {all, of_pair})
    teams.push_back(process_team(member.store, member.rank, member.size, "127.0.0.1"));
  for (const char* encoding : {"none", "t5", "learned", "rotary", "t5@random"}) {
    const Trained wanted = train(1, encoding);
    for (const auto& team : teams) {
      TrainingRun run(settings, corpus, encoding, 1, *team);
      while (!run.trained()) run.train_step();
      expect_equal(run.model().module().parameters(), wanted.weights, encoding);
      EXPECT_EQ(run.summary().curve, wanted.curve);
    }
  }
  Members::done();
}

#endif

}  // namespace micro_batches_test
}  // namespace gnomon::lab

// Runs of every task on another device than the CPU.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "apps/lab/runs/process.h"
#include "apps/lab/runs/run.h"
#include "apps/lab/tasks/finetune.h"
#include "apps/lab/tasks/make_model.h"
#include "apps/lab/tasks/settings_check.h"
#include "gnomon/io/safetensors.h"
#include "lab/finetune_models.h"
#include "torch/other_device.h"

namespace gnomon::lab {
namespace device_test {

namespace fs = std::filesystem;
using gnomon::testing::other_device_name;

// Runs with the settings of --device cuda, and looks at the operators that ran on the device.
class Deterministic {
 public:
  Deterministic() {
    gnomon::testing::take_operators_of_other_device();
    use_deterministic_algorithms();
  }
  ~Deterministic() {
    at::globalContext().setDeterministicAlgorithms(false, false);
    const auto operators = gnomon::testing::take_operators_of_other_device();
    EXPECT_TRUE(operators.contains("aten::embedding_dense_backward") ||
                operators.contains("aten::mm"));
    for (const std::string& one : gnomon::testing::unfit_for_cuda(operators))
      ADD_FAILURE() << one;
  }
};

const auto never = [] { return false; };

Settings settings_of(std::vector<std::string> words) {
  words.insert(words.begin(), "gnomon-lab");
  words.insert(words.end(), {"--layers", "2", "--width", "16", "--heads", "2", "--steps", "3"});
  if (std::find(words.begin(), words.end(), "--task") == words.end())
    words.insert(words.end(), {"--train-length", "16", "--eval-lengths", "64"});
  std::vector<char*> pointers;
  for (std::string& one : words) pointers.push_back(one.data());
  Settings settings =
      parse_options(static_cast<int>(pointers.size()), pointers.data()).settings;
  settings.eval_segments = 1;
  return settings;
}

class RunOnAnotherDevice : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  static Settings settings(const std::string& device) {
    Settings settings = settings_of(GetParam());
    settings.device = device;
    return settings;
  }
  ~RunOnAnotherDevice() override { fs::remove_all(folder_); }

  // A folder for each test.
  const fs::path folder_ =
      fs::temp_directory_path() / ("gnomon-device-" + std::to_string(getpid()));
};
INSTANTIATE_TEST_SUITE_P(
    , RunOnAnotherDevice,
    ::testing::ValuesIn(std::vector<std::vector<std::string>>{
        {"--encodings", "none"},
        {"--encodings", "learned", "--batch", "4"},
        {"--encodings", "rotary+alibi*1/t5", "--batch", "4"},
        {"--encodings", "t5@random", "--batch", "8", "--workers-per-run", "1"},
        {"--encodings", "transformer-xl", "--batch", "4"},
        {"--encodings", "fire", "--batch", "4"},
        {"--encodings", "rotary", "--batch", "4", "--extend", "dynamic-ntk,drope"},
        {"--task", "masked", "--encodings", "t5", "--batch", "4", "--train-length", "16"},
        {"--task", "copy", "--encodings", "alibi", "--batch", "4", "--train-length", "6"},
        {"--task", "translation", "--encodings", "shaw", "--batch", "4", "--train-length", "8",
         "--eval-lengths", "8"},
        {"--task", "dialogue", "--encodings", "transformer-xl@memory", "--batch", "4"},
        {"--task", "dialogue", "--encodings", "rotary@window", "--batch", "4"},
        {"--task", "dialogue", "--encodings", "rotary@packed", "--batch", "4"},
        {"--task", "image", "--encodings", "swin@resized", "--batch", "4"},
        {"--task", "image", "--encodings", "rotary-axial", "--batch", "4"},
        {"--task", "image-text", "--encodings", "learned@resized", "--batch", "4"},
        {"--task", "classify", "--encodings", "learned", "--batch", "4"},
        {"--task", "graph", "--encodings", "laplacian+graphormer", "--batch", "4"},
        {"--task", "graph", "--encodings", "degree", "--batch", "4"},
        {"--task", "graph", "--encodings", "random-walk", "--batch", "4"}}),
    [](const auto& info) {
      std::string name;
      for (const std::string& word : info.param)
        if (!word.starts_with("--")) name += (name.empty() ? "" : "_") + word;
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

// The rounding of other operators than on the CPU is larger after some steps of AdamW.
constexpr double tolerance = 2e-4;

void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}
std::vector<double> bits_of(const Evaluation& tests) {
  std::vector<double> all;
  for (const LengthLoss& one : tests.lengths)
    if (one.applicable) all.insert(all.end(), {one.tail_bits, one.window_bits});
  for (const Stretch& one : tests.stretches)
    if (one.applicable) all.push_back(one.bits);
  return all;
}

// The same batches, the same weights and the same losses as on the CPU.
TEST_P(RunOnAnotherDevice, TrainsAndTestsAsOnTheCpu) {
  const Deterministic deterministic;
  const Settings on_cpu = settings("cpu"), on_other = settings(other_device_name);
  const Corpus corpus = load_corpus(on_cpu);
  TrainingRun a(on_cpu, corpus, on_cpu.encodings[0], 1),
      b(on_other, corpus, on_cpu.encodings[0], 1);
  for (const at::Tensor& one : b.model().module().parameters())
    EXPECT_EQ(one.device().str(), other_device_name);
  while (!a.trained()) EXPECT_NEAR(a.train_step(), b.train_step(), tolerance) << b.step();
  const auto tests_a = a.model().evaluate(never), tests_b = b.model().evaluate(never);
  ASSERT_TRUE(tests_a && tests_b);
  expect_close(bits_of(*tests_a), bits_of(*tests_b));

  // What the report shows, and the files of the model, which have no device.
  RunResult shown_a = a.summary(), shown_b = b.summary();
  shown_a.tests = *tests_a, shown_b.tests = *tests_b;
  a.model().describe(shown_a);
  b.model().describe(shown_b);
  EXPECT_EQ(shown_a.samples.size(), shown_b.samples.size());
  a.model().save(folder_ / "a", shown_a);
  b.model().save(folder_ / "b", shown_b);
  const io::SafeTensors file_a(folder_ / "a" / "model.safetensors"),
      file_b(folder_ / "b" / "model.safetensors");
  for (const io::TensorEntry& entry : file_a.tensors()) {
    const io::Array one = file_a.tensor(entry.name), other = file_b.tensor(entry.name);
    const auto as_tensor = [&](const io::Array& array) {
      return at::from_blob(const_cast<std::byte*>(array.bytes().data()), array.shape(),
                           at::kFloat);
    };
    EXPECT_TRUE(at::allclose(as_tensor(one), as_tensor(other), 1e-3, 1e-3)) << entry.name;
  }
  if (!on_cpu.extend.empty()) {
    const auto extended = extend(b.transformer(), on_other, corpus, 1, never);
    ASSERT_TRUE(extended.has_value());
  }
}

TEST_P(RunOnAnotherDevice, ContinuesFromACheckpointInTheSameBits) {
  const Deterministic deterministic;
  const Settings changed = settings(other_device_name);
  const Corpus corpus = load_corpus(changed);
  TrainingRun whole(changed, corpus, changed.encodings[0], 1),
      first(changed, corpus, changed.encodings[0], 1);
  while (!whole.trained()) whole.train_step();
  fs::create_directories(folder_);
  first.train_step();
  first.train_step();
  first.save(folder_ / "checkpoint.safetensors");
  TrainingRun second(changed, corpus, changed.encodings[0], 1);
  second.load(folder_ / "checkpoint.safetensors");
  while (!second.trained()) second.train_step();
  const auto a = whole.model().module().parameters(), b = second.model().module().parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(b[i].device().str(), other_device_name);
    EXPECT_TRUE(a[i].cpu().equal(b[i].cpu())) << i;
  }
}

class TunedOnAnotherDevice : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, TunedOnAnotherDevice, ::testing::Values("llama", "gpt2", "bert"));

TEST_P(TunedOnAnotherDevice, TrainsAndTestsAsOnTheCpu) {
  const Deterministic deterministic;
  gnomon::testing::ReleasedFolder folder(GetParam());
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "abcd";
  folder.write_text("text", text);
  Settings on_cpu;
  on_cpu.finetune = folder.path().string();
  on_cpu.texts = {(folder.path() / "text").string()};
  on_cpu.train_length = 0;
  finetune::take_sizes(on_cpu, finetune::read_config(on_cpu.finetune));
  on_cpu.eval_lengths = {on_cpu.train_length};
  on_cpu.steps = 3, on_cpu.batch = 4, on_cpu.eval_segments = 2;
  on_cpu.learning_rate = 1e-3;
  on_cpu.encodings = finetune::entries(on_cpu.extend);
  Settings on_other = on_cpu;
  on_other.device = other_device_name;
  const Corpus corpus = load_corpus(on_cpu);
  TrainingRun a(on_cpu, corpus, "released@tuned", 1), b(on_other, corpus, "released@tuned", 1);
  while (!a.trained()) EXPECT_NEAR(a.train_step(), b.train_step(), tolerance);
  expect_close(bits_of(*a.model().evaluate(never)), bits_of(*b.model().evaluate(never)));
  b.model().save(folder.path() / "saved", b.summary());
  EXPECT_TRUE(fs::exists(folder.path() / "saved" / "model.safetensors"));
}

TEST(Device, CudaIsRefusedWithoutIt) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  const std::string rule = at::Context::hasCUDART()
                               ? "[lab] --device cuda requires a GPU and its driver, got none"
                               : "[lab] --device cuda requires a LibTorch with CUDA (make lab "
                                 "TORCH=pypi), got LibTorch " TORCH_VERSION " without CUDA";
  for (const bool parsed : {false, true}) try {
      parsed ? static_cast<void>(settings_of({"--device", "cuda"})) : use_device("cuda");
      ADD_FAILURE() << "accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), rule);
    }
  EXPECT_NO_THROW(use_device("cpu"));
  // Stored settings of a run on another machine can be read.
  Settings stored = settings_of({});
  stored.device = "cuda";
  EXPECT_NO_THROW(check_settings(stored));
}

TEST(Device, CudaRunsWithDeterministicAlgorithmsInFloat32) {
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  at::Context& context = at::globalContext();
  use_deterministic_algorithms();
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_FALSE(context.benchmarkCuDNN());
  EXPECT_FALSE(context.allowTF32CuBLAS());
  EXPECT_FALSE(context.allowTF32CuDNN());
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  context.setDeterministicAlgorithms(false, false);
}

}  // namespace device_test
}  // namespace gnomon::lab

// gnomon_lab_bench: compares the training step of the lab with the same model in eager PyTorch.
//
//   gnomon_lab_bench [--as-installed] [--blas] [--threads N] [ENCODING...]
//
// Both train from the same weights on the same batches, one step each in turn. Times are
// medians over steps, and the ratio is the median of the ratios of adjacent steps. Both have
// the same allocator and the same environment: that of the lab (process.h), or with
// --as-installed that of the caller. --blas: the linear layers of the lab use LibTorch's
// products in float.
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/lab/process.h"
#include "apps/lab/products.h"
#include "apps/lab/run.h"
#include "bench/lab/eager.h"
#include "gnomon/parallel.h"

namespace gnomon::lab {
namespace {

constexpr int steps = 24, warm_up = 3;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void compare(const std::string& encoding, int thread_count, const Corpus& corpus) {
  at::set_num_threads(thread_count);
  set_threads(thread_count);
  Settings settings;
  settings.encodings = {encoding};
  settings.eval_lengths = {settings.train_length};
  settings.steps = 600;
  TrainingRun lab(settings, corpus, encoding, 1);
  EagerRun eager(settings, encoding, *lab.model());
  std::vector<double> of_lab, of_eager, ratios;
  double apart = 0;
  for (int step = 0; step < warm_up + steps; ++step) {
    double lab_bits = 0, eager_bits = 0;
    const double eager_seconds = seconds([&] {
      eager_bits =
          eager.train_step(random_batch(corpus.train, settings.batch, settings.train_length, 1,
                                        static_cast<std::uint64_t>(step)));
    });
    const double lab_seconds = seconds([&] { lab_bits = lab.train_step(); });
    apart = std::max(apart, std::abs(lab_bits - eager_bits));
    if (step < warm_up) continue;
    of_lab.push_back(lab_seconds);
    of_eager.push_back(eager_seconds);
    ratios.push_back(eager_seconds / lab_seconds);
  }
  const double bytes = static_cast<double>(settings.batch * settings.train_length);
  std::printf("%-12s %7d %14.0f %14.0f %7.2f %14.1e\n", encoding.c_str(), thread_count,
              bytes / median(of_eager), bytes / median(of_lab), median(ratios), apart);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  std::vector<std::string> encodings;
  std::vector<int> counts{1, 2};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--threads" && i + 1 < argc)
      counts = {std::max(1, std::atoi(argv[++i]))};
    else if (word == "--blas")
      set_products(Products::blas);
    else if (word != "--as-installed")
      encodings.push_back(word);
  }
  if (encodings.empty()) encodings = {"alibi", "t5", "rotary", "sinusoidal"};
  at::globalContext().setFlushDenormal(true);  // as in the threads of the lab
  const Corpus corpus = load_corpus(Settings{});
  std::printf("%-12s %7s %14s %14s %7s %14s\n", "", "threads", "eager bytes/s", "lab bytes/s",
              "ratio", "bits apart");
  for (int thread_count : counts)
    for (const std::string& encoding : encodings) compare(encoding, thread_count, corpus);
  return 0;
}

}  // namespace
}  // namespace gnomon::lab

int main(int argc, char** argv) {
  bool as_installed = false;
  for (int i = 1; i < argc; ++i) as_installed |= std::strcmp(argv[i], "--as-installed") == 0;
  if (!as_installed) gnomon::lab::start_again_for_openblas(argv);
  gnomon::lab::keep_freed_memory();
  try {
    return gnomon::lab::run(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "gnomon_lab_bench: %s\n", error.what());
    return 2;
  }
}

// Progress output: a live line for each encoding on a terminal, plain lines otherwise.
// Thread-safe: any thread may report, and one thread draws.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/lab/options.h"

namespace gnomon::lab {

class Progress {
 public:
  // Draws on `stream` until destroyed.
  Progress(const Settings& settings, std::FILE* stream);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void training(const std::string& encoding, std::int64_t seed, std::int64_t step, double bits,
                double bytes_per_second);
  void testing(const std::string& encoding, std::int64_t seed);
  // `outcome`: a few words, such as the losses.
  void finished(const std::string& encoding, std::int64_t seed, const std::string& outcome);
  // Prints a separate line above the live lines.
  void note(const std::string& text);

 private:
  enum class Phase { waiting = 1, training, testing, finished };
  struct Line {
    std::string encoding, outcome;
    Phase phase = Phase::waiting;
    std::int64_t seed = 0, step = 0, seeds_done = 0;
    double bits = 0, rate = 0;
  };

  Line& line(const std::string& encoding);
  std::string text(const Line& line) const;
  void draw();            // draws the live lines over the previous ones
  void print_training();  // prints a plain line for each run in training
  void loop();

  const Settings& settings_;
  std::FILE* stream_;
  const bool live_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::size_t drawn_ = 0;  // live lines on the screen
  std::vector<Line> lines_;
  std::thread thread_;
};

// "1:05" for 65 seconds, "2:00:00" for two hours.
std::string duration(double seconds);

}  // namespace gnomon::lab

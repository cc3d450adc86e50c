// Progress output. On a terminal: a live line for each run in training, with its share, a small
// curve of its loss, its rate and its remaining time, and a line for the session. Otherwise
// plain lines. A finished run leaves a line with its result. Thread-safe: any thread may
// report, and one thread draws.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/lab/runs/plan.h"
#include "apps/lab/runs/process.h"

namespace gnomon::lab {

// The loss over the steps of a run as a line of block characters, low to high.
class LossCurve {
 public:
  static constexpr std::size_t cells = 12;

  void add(std::int64_t step, std::int64_t steps, double bits);
  std::string text() const;  // `cells` characters; spaces for later steps

 private:
  double sums_[cells] = {}, counts_[cells] = {};
};

class Progress {
 public:
  // Draws on `stream` until destroyed. `events`: a file for lines of JSON, or null
  // (docs/lab/cluster.md).
  Progress(const Settings& settings, std::FILE* stream, std::FILE* events = nullptr);
  ~Progress();

  void training(const Job& job, std::int64_t step, double bits, double tokens_per_second);
  void testing(const Job& job);
  // `outcome`: a few words, such as the losses.
  void finished(const Job& job, const std::string& outcome);
  // Prints a separate line above the live lines.
  void note(const std::string& text);

 private:
  enum class Phase { training = 1, testing };
  struct Line {
    Job job;
    Phase phase = Phase::training;
    std::int64_t step = 0;
    double bits = 0, rate = 0;
    LossCurve curve;
  };

  Line& line(const Job& job);
  std::string head(const Job& job) const;
  std::string text(const Line& line) const;
  std::string session_text() const;
  void print_event(Json event, const Job& job);
  void erase();           // the live lines on the screen
  void draw();            // the live lines
  void print_training();  // a plain line for each run in training
  void loop();

  const Settings& settings_;
  std::FILE* stream_;
  std::FILE* events_;
  const bool live_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::size_t drawn_ = 0;      // live lines on the screen
  std::int64_t finished_ = 0;  // runs
  std::int64_t steps_ = 0;     // steps of all runs in this session
  std::vector<Line> lines_;    // one for each run in training or testing
  Clock::time_point last_event_ = {};
  std::thread thread_;
};

// "1:05" for 65 seconds, "2:00:00" for two hours.
std::string duration(double seconds);

}  // namespace gnomon::lab

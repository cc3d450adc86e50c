#include "apps/lab/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "apps/lab/tasks.h"

namespace gnomon::lab {
namespace {

constexpr auto live_pause = std::chrono::milliseconds(250);
constexpr auto plain_pause = std::chrono::seconds(15);
constexpr std::int64_t bar_cells = 24;

std::string bar(double share) {
  const auto full = static_cast<std::int64_t>(std::floor(share * bar_cells));
  std::string cells;
  for (std::int64_t i = 0; i < bar_cells; ++i) cells += i < full ? "━" : "─";
  return cells;
}

}  // namespace

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
               : fmt::format("{}:{:02}", minutes, rest);
}

Progress::Progress(const Settings& settings, std::FILE* stream)
    : settings_(settings), stream_(stream), live_(isatty(fileno(stream)) == 1) {
  for (const std::string& encoding : settings.encodings) {
    lines_.emplace_back();
    lines_.back().encoding = encoding;
  }
  thread_ = std::thread([this] { loop(); });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Progress::loop() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (live_) draw();
    wake_.wait_for(lock, live_ ? std::chrono::nanoseconds(live_pause)
                               : std::chrono::nanoseconds(plain_pause));
    if (!live_ && !ending_) print_training();
  }
  if (live_) draw();
}

Progress::Line& Progress::line(const std::string& encoding) {
  return *std::find_if(lines_.begin(), lines_.end(),
                       [&](const Line& one) { return one.encoding == encoding; });
}

void Progress::training(const std::string& encoding, std::int64_t seed, std::int64_t step,
                        double bits, double bytes_per_second) {
  const std::lock_guard lock(mutex_);
  Line& one = line(encoding);
  one.phase = Phase::training;
  one.seed = seed;
  one.step = step;
  one.bits = bits;
  one.rate = bytes_per_second;
}

void Progress::testing(const std::string& encoding, std::int64_t seed) {
  const std::lock_guard lock(mutex_);
  Line& one = line(encoding);
  one.phase = Phase::testing;
  one.seed = seed;
}

void Progress::finished(const std::string& encoding, std::int64_t seed,
                        const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  Line& one = line(encoding);
  one.phase = Phase::finished;
  one.seed = seed;
  one.outcome = outcome;
  ++one.seeds_done;
  if (live_) return;
  fmt::print(stream_, "{}\n", text(one));
  std::fflush(stream_);
}

void Progress::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (live_ && drawn_) fmt::print(stream_, "\x1b[{}A\x1b[J", drawn_);
  drawn_ = 0;
  fmt::print(stream_, "{}\n", text);
  std::fflush(stream_);
}

std::string Progress::text(const Line& one) const {
  std::size_t width = 10;
  for (const Line& other : lines_) width = std::max(width, other.encoding.size());
  std::string head = fmt::format("{:<{}} ", one.encoding, width);
  if (settings_.seeds > 1 && one.seed)
    head += fmt::format("seed {}/{}  ", one.seed, settings_.seeds);
  switch (one.phase) {
    case Phase::waiting:
      return head + "waiting";
    case Phase::testing:
      return head + "testing at " + std::to_string(settings_.eval_lengths.size()) + " lengths";
    case Phase::finished:
      return head + one.outcome;
    case Phase::training:
      break;
  }
  const double share = static_cast<double>(one.step) /
                       static_cast<double>(std::max<std::int64_t>(1, settings_.steps));
  const double left =
      one.rate > 0
          ? static_cast<double>((settings_.steps - one.step) * settings_.batch *
                                window_tokens(task_of(settings_), settings_.train_length)) /
                one.rate
          : 0;
  return head + (live_ ? bar(share) + " " : "") +
         fmt::format("{:3.0f}%  {:.3f} bits per byte  {:>6.0f} bytes/s  {} left", 100 * share,
                     one.bits, one.rate, duration(left));
}

void Progress::draw() {
  winsize size{};
  const bool known = ioctl(fileno(stream_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const std::size_t columns = known ? size.ws_col : 80;
  if (drawn_) fmt::print(stream_, "\x1b[{}A", drawn_);
  for (const Line& one : lines_) {
    // Cuts the line to the width in characters. The characters of the bar have three bytes
    // each.
    std::string shown;
    std::size_t characters = 0;
    for (const char c : text(one)) {
      if ((c & 0xc0) != 0x80 && ++characters >= columns) break;
      shown += c;
    }
    fmt::print(stream_, "\x1b[2K{}\n", shown);
  }
  drawn_ = lines_.size();
  std::fflush(stream_);
}

void Progress::print_training() {
  for (const Line& one : lines_)
    if (one.phase == Phase::training) fmt::print(stream_, "{}\n", text(one));
  std::fflush(stream_);
}

}  // namespace gnomon::lab

#include "apps/lab/runs/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/task.h"
#include "apps/lab/data/words.h"

namespace gnomon::lab {
namespace {

constexpr std::chrono::milliseconds live_pause{250}, plain_pause{15'000}, event_pause{250};
constexpr std::int64_t bar_cells = 10;

// Does not throw if the stream cannot be written, for example because a disk is full: training
// goes on, and the program reports it at its end.
template <typename... Values>
void put(std::FILE* stream, fmt::format_string<Values...> format, Values&&... values) {
  const std::string text = fmt::format(format, std::forward<Values>(values)...);
  std::fwrite(text.data(), 1, text.size(), stream);
}

std::string bar(double share) {
  const auto full = static_cast<std::int64_t>(std::floor(share * bar_cells));
  std::string cells;
  for (std::int64_t i = 0; i < bar_cells; ++i) cells += i < full ? "━" : "─";
  return cells;
}

}  // namespace

void LossCurve::add(std::int64_t step, std::int64_t steps, double bits) {
  const auto at = static_cast<std::size_t>((step - 1) * std::int64_t{cells} / steps);
  if (!std::isfinite(bits)) return;  // a cell without a loss is empty
  sums_[std::min(at, cells - 1)] += bits;
  counts_[std::min(at, cells - 1)] += 1;
}

std::string LossCurve::text() const {
  static constexpr const char* blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double low = INFINITY, high = -INFINITY;
  for (std::size_t i = 0; i < cells; ++i) {  // fmin and fmax ignore 0 / 0
    low = std::fmin(low, sums_[i] / counts_[i]);
    high = std::fmax(high, sums_[i] / counts_[i]);
  }
  std::string curve;
  for (std::size_t i = 0; i < cells; ++i) {
    const double share = high > low ? (sums_[i] / counts_[i] - low) / (high - low) : 0;
    curve += counts_[i] == 0 ? " " : blocks[std::llround(7 * share)];
  }
  return curve;
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  return hours ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
               : fmt::format("{}:{:02}", minutes, rest);
}

Progress::Progress(const Settings& settings, std::FILE* stream, std::FILE* events)
    : settings_(settings),
      stream_(stream),
      events_(events),
      live_(isatty(fileno(stream)) == 1) {
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
    wake_.wait_for(lock, live_ ? live_pause : plain_pause);
    if (!live_ && !ending_) print_training();
  }
  if (live_) erase();
  std::fflush(stream_);
}

Progress::Line& Progress::line(const Job& job) {
  Line* found = find_by(lines_, &Line::job, job);
  return found ? *found : lines_.emplace_back(job);
}

void Progress::training(const Job& job, std::int64_t step, double bits,
                        double tokens_per_second) {
  const std::lock_guard lock(mutex_);
  Line& one = line(job);
  ++steps_;
  one.step = step;
  one.bits = bits;
  one.rate = tokens_per_second;
  one.curve.add(step, settings_.steps, bits);
  const auto now = Clock::now();
  if (!events_ || (now - last_event_ < event_pause && step < settings_.steps)) return;
  last_event_ = now;
  print_event({{"event", "training"},
               {"run", ""},
               {"step", step},
               {"steps", settings_.steps},
               {"bits", bits},
               {"tokens_per_second", tokens_per_second}},
              job);
}

void Progress::print_event(Json event, const Job& job) {
  if (!events_) return;
  event["run"] = job.name();
  put(events_, "{}\n", event.dump());
  std::fflush(events_);
}

void Progress::testing(const Job& job) {
  const std::lock_guard lock(mutex_);
  line(job).phase = Phase::testing;
  print_event({{"event", "testing"}}, job);
}

void Progress::finished(const Job& job, const std::string& outcome) {
  const std::lock_guard lock(mutex_);
  std::erase_if(lines_, [&](const Line& one) { return one.job == job; });
  ++finished_;
  erase();
  put(stream_, "{}{}\n", head(job), outcome);
  std::fflush(stream_);
  print_event({{"event", "finished"}, {"run", ""}, {"outcome", outcome}}, job);
}

void Progress::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  erase();
  put(stream_, "{}\n", text);
  std::fflush(stream_);
}

std::string Progress::head(const Job& job) const {
  std::size_t width = 10;
  for (const std::string& one : settings_.encodings) width = std::max(width, one.size());
  const std::string name = fmt::format("{:<{}} ", job.encoding, width);
  return settings_.seeds.size() > 1 ? name + fmt::format("seed {}  ", job.seed) : name;
}

std::string Progress::text(const Line& one) const {
  const std::string name = head(one.job);
  if (one.phase == Phase::testing)
    return name + "testing at " + std::to_string(settings_.eval_lengths.size()) + " lengths";
  const double share = static_cast<double>(one.step) / static_cast<double>(settings_.steps);
  const double left = one.rate > 0
                          ? static_cast<double>((settings_.steps - one.step) * settings_.batch *
                                                training_window(settings_)) /
                                one.rate
                          : 0;
  return name +
         (live_ ? bar(share) + fmt::format("{:4.0f}% ", 100 * share) + one.curve.text() + " "
                : fmt::format("{:3.0f}%  ", 100 * share)) +
         fmt::format("{}  {:>6.0f} {}/s  {} left", number_or_diverged("{:.3f} bits", one.bits),
                     one.rate, position_unit(settings_), duration(left));
}

std::string Progress::session_text() const {
  const auto runs = std::ssize(settings_.encodings) * std::ssize(settings_.seeds);
  std::int64_t left = (runs - finished_) * settings_.steps;
  for (const Line& one : lines_) left -= one.step;
  const double passed = seconds_since(start_);
  std::string text =
      fmt::format("{} of {} runs finished, {} passed", finished_, runs, duration(passed));
  if (steps_ > 0)
    text += fmt::format(", about {} left", duration(passed * static_cast<double>(left) /
                                                    static_cast<double>(steps_)));
  return text;
}

void Progress::erase() {
  if (drawn_) put(stream_, "\x1b[{}A\x1b[J", drawn_);
  drawn_ = 0;
}

void Progress::draw() {
  winsize size{};
  const bool known = ioctl(fileno(stream_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const std::size_t columns = known ? size.ws_col : 80, rows = known ? size.ws_row : 24;
  erase();
  std::vector<std::string> texts;
  for (const Line& one : lines_)
    if (texts.size() + 2 < rows) texts.push_back(text(one));
  if (!ending_) texts.push_back(session_text());
  for (const std::string& one : texts) {
    // Cuts the line to the width in characters, of which some have three bytes.
    std::string shown;
    std::size_t characters = 0;
    for (const char c : one) {
      if ((c & 0xc0) != 0x80 && ++characters >= columns) break;
      shown += c;
    }
    put(stream_, "{}\n", shown);
  }
  drawn_ = texts.size();
  std::fflush(stream_);
}

void Progress::print_training() {
  for (const Line& one : lines_)
    if (one.phase == Phase::training) put(stream_, "{}\n", text(one));
  std::fflush(stream_);
}

}  // namespace gnomon::lab

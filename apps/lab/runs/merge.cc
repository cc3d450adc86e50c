
#include "apps/lab/runs/session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "apps/lab/data/lists.h"
#include "apps/lab/data/words.h"
#include "apps/lab/runs/folder.h"
#include "apps/lab/runs/plan.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/version.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;

constexpr const char* option = "--merge";

// An open file that is not a link.
class Source {
 public:
  explicit Source(const fs::path& path)
      : path_(path),
        // O_NONBLOCK: opening a pipe without a writer would block forever.
        file_(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    if (file_ < 0) refuse_link(option, path_, std::strerror(errno));
    struct stat status{};
    const int error = ::fstat(file_, &status) == 0 ? 0 : errno;
    if (!error && S_ISREG(status.st_mode)) return;
    ::close(file_);
    refuse_link(option, path_, error ? std::strerror(error) : "no regular file");
  }
  ~Source() { ::close(file_); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void copy_to(const fs::path& target) const {
    io::write_atomically(target, [&](io::Output& output) {
      std::vector<char> buffer(1 << 20);
      for (ssize_t got; (got = ::read(file_, buffer.data(), buffer.size())) != 0;) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) refuse_link(option, path_, std::strerror(errno));
        output.write(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
      }
    });
  }

 private:
  const fs::path path_;
  const int file_;
};

// Copies a file or a folder. All of it is on the disk at the end, except for the name `to` of a
// folder.
void copy_part(const fs::path& from, const fs::path& to) {
  if (!fs::is_directory(fs::symlink_status(from))) return Source(from).copy_to(to);
  fs::create_directory(to);
  for (const fs::path& one : entries(from)) copy_part(one, to / one.filename());
  io::sync_folder(to);
}

std::string bytes_of(const fs::path& path) { return std::string(io::MappedFile(path).text()); }

// The result of a run without its times.
Json numbers(const RunResult& run) {
  Json json = to_json(run);
  for (const char* key : {"train_seconds", "test_seconds", "tokens_per_second"})
    json.erase(key);
  return json;
}

std::int64_t segments(const RunResult& run) {
  return run.tests.lengths.empty() ? 0 : std::ssize(run.tests.lengths[0].tail_by_segment);
}

// The folders that have a result of the run.
std::vector<fs::path> folders_with(const Parts& parts, const Job& job) {
  std::vector<fs::path> found;
  for (const fs::path& folder : parts.folders)
    if (fs::exists(job.result(folder))) found.push_back(folder);
  return found;
}

}  // namespace

Parts read_parts(const std::vector<std::string>& folders) {
  if (folders.empty()) refuse("lab", "--merge requires folders of gnomon lab", "none");
  Parts parts;
  for (const std::string& folder : folders) {
    for (const char* part : {"settings.json", "cost.json", "runs", "models"})
      require_plain(option, fs::path(folder) / part);
    StoredSettings stored = read_settings(fs::path(folder) / "settings.json");
    if (stored.gnomon != GNOMON_VERSION)
      refuse("lab", folder + " must be of version " GNOMON_VERSION,
             stored.gnomon.value_or("an earlier version"));
    if (parts.folders.empty()) parts.stored = stored;
    std::vector<std::string>& entries = parts.stored.settings.encodings;
    for (const std::string& entry : stored.settings.encodings) add_once(entries, entry);
    stored.settings.encodings = entries;
    require_same(folder, stored, folders[0], parts.stored);
    parts.folders.emplace_back(folder);
  }
  return parts;
}

SessionResult merge_parts(const Parts& parts, const Options& options, const Corpus& corpus,
                          const fs::path& out, std::FILE* stream) {
  SessionResult result;
  result.settings = parts.stored.settings;
  result.command = options.command;
  result.protocol = parts.stored.protocol;
  if (fingerprint(corpus) != parts.stored.fingerprint)
    refuse("lab", "--merge requires the texts of " + parts.folders[0].string(),
           "different texts");
  remove_unusable_encodings(result, corpus, stream);

  std::vector<fs::path> sources;
  std::vector<Job> jobs;
  for (const Job& job : jobs_of(result.settings)) {
    const std::vector<fs::path> found = folders_with(parts, job);
    if (found.empty()) {
      result.missing.push_back(job.name());
      continue;
    }
    jobs.push_back(job);
    const fs::path weights = fs::path("models") / job.name() / "model.safetensors";
    for (const fs::path& folder : found) {
      RunResult run = read_run(job.result(folder), result.settings, job.encoding, job.seed);
      if (folder == found[0]) {
        result.runs.push_back(std::move(run));
      } else if (numbers(run) != numbers(result.runs.back()) ||
                 fs::exists(folder / weights) != fs::exists(found[0] / weights) ||
                 (fs::exists(folder / weights) &&
                  bytes_of(folder / weights) != bytes_of(found[0] / weights))) {
        refuse("lab", fmt::format("{} must have one result", job.name()),
               fmt::format("different ones in {} and {}", found[0].string(), folder.string()));
      }
    }
    if (segments(result.runs.back()) != segments(result.runs[0]))
      refuse("lab",
             fmt::format("{} must have {} test segments", job.name(), segments(result.runs[0])),
             segments(result.runs.back()));
    sources.push_back(found[0]);
  }
  if (jobs.empty() || (!result.missing.empty() && !options.partial))
    refuse("lab", "--merge requires the results of every run, or --partial and one of them",
           fmt::format("none of {}", listed(result.missing)));

  for (const char* part : {"runs", "models"}) fs::create_directories(out / part);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string name = jobs[i].name();
    // --finetune does not write the released model again.
    if (fs::exists(sources[i] / "models" / name))
      copy_part(sources[i] / "models" / name, out / "models" / name);
    copy_part(jobs[i].result(sources[i]), jobs[i].result(out));
    result.seconds += result.runs[i].train_seconds + result.runs[i].test_seconds;
  }
  for (const fs::path& folder : parts.folders)
    if (result.measured_cost.empty() && fs::exists(folder / "cost.json")) {
      result.measured_cost = read_costs(folder / "cost.json");
      io::write_atomically(out / "cost.json", to_json(result.measured_cost).dump(1));
    }
  io::sync_folder(out / "models");
  StoredSettings stored = parts.stored;
  stored.command = options.command;
  io::write_atomically(out / "settings.json", to_json(stored).dump(1));
  io::sync_folder(fs::absolute(out / "..").lexically_normal());
  return result;
}

}  // namespace gnomon::lab

#include "apps/lab/runs/work_client.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>

#include "apps/lab/data/corpus.h"
#include "apps/lab/runs/claimed_run.h"
#include "apps/lab/runs/process.h"
#include "apps/lab/runs/threads.h"
#include "apps/lab/tasks/load_corpus.h"
#include "apps/lab/tasks/stored.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/isa.h"
#include "gnomon/version.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds patience{300'000};  // limit until rank 0 listens
// Rank 0 measures the cost of the encodings and chooses the number of steps in this time.
constexpr milliseconds invitation_time{7'200'000};
constexpr milliseconds most_between_beats{2'000}, least_answer_time{30'000};
constexpr milliseconds between_claims{200};
constexpr const char* ended = "Rank 0 has ended the session.";

// A folder for the files of a worker, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "gnomon-lab-XXXXXX").string();
    if (!mkdtemp(name.data()))
      refuse("lab", "the folder for temporary files must be writable", name);
    path_ = name;
    for (const char* part : {"checkpoints", "models"}) fs::create_directories(path_ / part);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The answer to a greeting. Throws std::invalid_argument if rank 0 refuses this worker.
Json greeted(Connection& connection, const Json& greeting, milliseconds time) {
  connection.send({.head = greeting}, least_answer_time);
  try {
    const Json answer = connection.receive(message_limits, time).head;
    if (answer.contains("rule"))
      refuse("lab", answer.at("rule").get<std::string>(), answer.at("got").get<std::string>());
    return answer;
  } catch (const OtherProtocol& error) {
    refuse("lab", "a worker must have the version of rank 0", error.what());
  }
}

[[noreturn]] void refuse_lost(const std::string& reason) {
  refuse("lab",
         "the connection to rank 0 must stay open (if rank 0 has ended, continue it with "
         "--resume, and then start the workers again)",
         reason);
}

}  // namespace

RemoteWorkList::RemoteWorkList(Connection& connection, double lease_seconds,
                               const std::vector<Job>& jobs, fs::path folder)
    : connection_(connection),
      lease_(static_cast<std::int64_t>(1000 * lease_seconds)),
      jobs_(jobs),
      folder_(std::move(folder)),
      thread_([this] { heartbeats(); }) {}

RemoteWorkList::~RemoteWorkList() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string RemoteWorkList::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool RemoteWorkList::stopped() const { return stop_asked || ended_ || lost_; }

Message RemoteWorkList::exchange(const Message& request) {
  const std::lock_guard one_at_a_time(exchange_mutex_);
  try {
    if (lost_) throw ConnectionLost(failure());
    const milliseconds time = std::max(lease_, least_answer_time);
    connection_.send(request, time);
    return connection_.receive(message_limits, time);
  } catch (const ConnectionLost& error) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = error.what();
    lost_ = true;
    wake_.notify_all();
    throw;
  }
}

Message RemoteWorkList::exchange(const char* op, const Claim& claim, const Json& more,
                                 std::string data) {
  Json head{{"op", op}, {"run", claim.run}, {"generation", claim.generation}};
  head.update(more);
  Message answer = exchange({std::move(head), std::move(data)});
  if (answer.head.value("lost", false)) throw ConnectionLost("the lease of a run has ended");
  return answer;
}

void RemoteWorkList::beat() {
  Json runs = Json::array();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [run, now] : training_)
      runs.push_back({{"run", run},
                      {"generation", now.generation},
                      {"step", now.step},
                      {"bits", now.bits},
                      {"rate", now.rate}});
  }
  if (exchange({.head = {{"op", "beat"}, {"runs", runs}}}).head.value("end", false))
    ended_ = true;
}

void RemoteWorkList::heartbeats() {
  std::unique_lock lock(mutex_);
  while (!closing_ && !lost_) {
    lock.unlock();
    try {
      beat();
    } catch (const std::exception&) {  // exchange() has stored it
    }
    lock.lock();
    wake_.wait_for(lock, std::min(lease_ / 4, most_between_beats));
  }
}

std::optional<Claim> RemoteWorkList::claim() {
  while (!stopped()) {
    const Json answer = exchange({.head = {{"op", "claim"}}}).head;
    if (answer.value("end", false)) ended_ = true;
    if (!answer.contains("run")) {
      std::unique_lock lock(mutex_);
      if (!ended_) wake_.wait_for(lock, between_claims);
      continue;
    }
    const Claim claim{answer.at("run").get<std::size_t>(), answer.at("generation")};
    const fs::path path = jobs_.at(claim.run).checkpoint(folder_);
    fs::remove(path);  // a file of an earlier claim
    const auto size = answer.at("checkpoint").get<std::uint64_t>();
    if (size == 0) return claim;
    io::write_atomically(path, [&](io::Output& output) {
      for (std::uint64_t offset = 0; offset < size;) {
        const std::string data = exchange("read", claim, {{"offset", offset}}).data;
        if (data.empty()) throw ConnectionLost("a part of a checkpoint is missing");
        output.write(data);
        offset += data.size();
      }
    });
    return claim;
  }
  return {};
}

void RemoteWorkList::trained(const Claim& claim, std::int64_t step, double bits, double rate) {
  const std::lock_guard lock(mutex_);
  training_[claim.run] = {claim.generation, step, bits, rate};
}

void RemoteWorkList::send_file(const Claim& claim, const std::string& name,
                               std::string_view bytes) {
  std::size_t offset = 0;
  do {
    const std::string_view part = bytes.substr(offset, chunk_bytes);
    exchange("write", claim, {{"file", name}, {"offset", offset}}, std::string(part));
    offset += part.size();
  } while (offset < bytes.size());
}

void RemoteWorkList::keep(const Claim& claim) {
  const fs::path path = jobs_[claim.run].checkpoint(folder_);
  send_file(claim, "checkpoint.safetensors", io::MappedFile(path).text());
  exchange("keep", claim);
}

bool RemoteWorkList::finish(const Claim& claim, const RunResult& result) {
  {
    const std::lock_guard lock(mutex_);
    training_.erase(claim.run);
  }
  const fs::path model = folder_ / "models" / jobs_[claim.run].name();
  if (fs::exists(model))  // not of a released one
    for (const fs::directory_entry& one : fs::directory_iterator(model))
      send_file(claim, "model/" + one.path().filename().string(),
                io::MappedFile(one.path()).text());
  send_file(claim, "run.json", to_json(result).dump(1));
  const bool accepted = exchange("finish", claim).head.at("accepted").get<bool>();
  fs::remove_all(model);
  fs::remove(jobs_[claim.run].checkpoint(folder_));
  return accepted;
}

void RemoteWorkList::release(const Claim& claim) {
  {
    const std::lock_guard lock(mutex_);
    training_.erase(claim.run);
  }
  exchange("release", claim);
}

int join_session(const Options& options, std::FILE* stream) {
  const Address& address = options.world.address;
  const auto say = [&](const std::string& text) {
    fmt::print(stream, "{}\n", internal::printable_lines(text));
    std::fflush(stream);
  };
  const std::string place = fmt::format("{}:{}", address.host, address.port);
  Connection connection(
      connect_to(address, patience, [&] { say("Waiting for rank 0 at " + place + "."); }));
  std::string lost;
  try {
    say("Connected to rank 0 at " + place + ", which begins when its preparation is complete.");
    const Json invitation =
        greeted(connection,
                {{"op", "hello"},
                 {"token", options.world.token},
                 {"gnomon", GNOMON_VERSION},
                 {"libtorch", TORCH_VERSION},
                 {"isa", name(current_isa())},
                 {"host", fmt::format("{} (process {})", host_name(), getpid())}},
                invitation_time);
    if (invitation.value("end", false)) {
      say(ended);
      return 0;
    }
    const StoredSettings stored = read_settings(invitation.at("settings"));
    Settings settings = joined_settings(options, stored.settings);
    settings.encodings = invitation.at("encodings").get<std::vector<std::string>>();
    use_device(settings.device);
    const int concurrent = settings.device == "cuda" ? 1 : options.jobs;
    Settings local = settings;
    if (!options.settings.texts.empty()) local.texts = options.settings.texts;
    const Corpus corpus = load_corpus(local);
    greeted(connection, {{"op", "ready"}, {"fingerprint", fingerprint(corpus)}},
            least_answer_time);

    const StopOnSignal signals;
    const ScratchFolder scratch;
    const std::vector<Job> jobs = jobs_of(settings, {});
    RunTeam team(options, settings, stored.fingerprint);
    RemoteWorkList work(connection, invitation.at("lease"), jobs, scratch.path());
    {
      Progress progress(settings, stream);
      progress.note("Joined.");
      const auto threads = static_cast<std::size_t>(concurrent);
      try {
        on_threads(concurrent, threads, [&](std::size_t) {
          while (const auto claim = work.claim())
            work_on(*claim, jobs.at(claim->run), work, settings, corpus,
                    invitation.at("checkpoint"), team, progress);
        });
      } catch (const ConnectionLost& error) {
        lost = error.what();
      }
    }
    if (lost.empty() && !work.ended()) lost = work.failure();
    if (lost.empty()) {
      say(work.ended() ? ended : "Stopped. Others continue the runs.");
      return work.ended() ? 0 : 130;
    }
  } catch (const ConnectionLost& error) {
    lost = error.what();
  }
  refuse_lost(lost);
}

}  // namespace gnomon::lab

#include "apps/lab/runs/work_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include "apps/lab/data/words.h"
#include "apps/lab/runs/checkpoint.h"
#include "apps/lab/runs/claimed_run.h"
#include "apps/lab/runs/threads.h"
#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "gnomon/isa.h"
#include "gnomon/version.h"
#include "src/core/text.h"

namespace gnomon::lab {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds hello_time{5'000}, answer_time{600'000};
constexpr milliseconds end_time{10'000}, stop_time{20'000};
constexpr int most_unidentified = 64;

milliseconds time_of(double seconds) {
  return milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

// A file of a claim: "checkpoint.safetensors", "run.json" or "model/NAME".
bool is_file_name(const std::string& name) {
  const std::string last = name.rfind("model/", 0) == 0 ? name.substr(6) : name;
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  return !last.empty() && last.size() <= 100 && last[0] != '.' &&
         std::all_of(last.begin(), last.end(), plain);
}

// Takes a time that depends on the size of `got` only.
bool equal_secrets(std::string_view wanted, std::string_view got) {
  bool equal = wanted.size() == got.size();
  for (std::size_t i = 0; i < got.size(); ++i)
    equal &= got[i] == (wanted.empty() ? '\0' : wanted[i % wanted.size()]);
  return equal;
}

// JSON has no NaN. It is written as null.
double number(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

void sync_file(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw ConnectionLost("no file " + path.string());
  fsync(file);
  close(file);
}

}  // namespace

WorkServer::WorkServer(Listener& listener, Invitation invitation, const Settings& settings,
                       const std::vector<Job>& jobs, RunTable& table, fs::path out,
                       Progress& progress, Finished finished)
    : listener_(listener),
      invitation_(std::move(invitation)),
      settings_(settings),
      jobs_(jobs),
      table_(table),
      out_(std::move(out)),
      progress_(progress),
      finished_(std::move(finished)) {
  fs::remove_all(out_ / "incoming");  // files of a session that was killed
  thread_ = std::thread([this] { accept_loop(); });
}

WorkServer::~WorkServer() {
  ending_ = closing_ = true;
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  fs::remove_all(out_ / "incoming", ignored);
}

bool WorkServer::has_ended() const { return ending_ || stop_asked || table_.all_done(); }

void WorkServer::end(std::int64_t expected) {
  ending_ = true;
  const auto deadline =
      std::chrono::steady_clock::now() + (table_.any_remote() ? stop_time : end_time);
  while ((workers_ > 0 || (greeted_ < expected && !stop_asked)) &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(10));
  closing_ = true;
  thread_.join();
}

void WorkServer::accept_loop() {
  for (std::int64_t number = 1; !closing_; ++number) {
    const int file = listener_.accept(milliseconds(100));
    peers_.remove_if([](const auto& peer) {
      if (!peer->over) return false;
      peer->thread.join();
      return true;
    });
    if (file < 0) continue;
    auto peer = std::make_unique<Peer>(file, number);
    // Others wait in the system's queue. A connection without a greeting ends after hello_time.
    while (unidentified_ >= most_unidentified && !closing_)
      std::this_thread::sleep_for(milliseconds(10));
    ++unidentified_;
    try {
      peer->thread = std::thread([this, one = peer.get()] { serve(*one); });
      peers_.push_back(std::move(peer));
    } catch (const std::system_error&) {  // too many threads
      --unidentified_;
    }
  }
  for (const auto& peer : peers_) peer->connection.end();
  for (const auto& peer : peers_) peer->thread.join();
  peers_.clear();
}

void WorkServer::serve(Peer& peer) {
  bool greeted = false;
  std::string reason;
  try {
    greet(peer);
    greeted = true;
    --unidentified_;
    ++workers_;
    ++greeted_;
    prepare(peer);
    progress_.note("Worker " + peer.host + " joined.");
    const milliseconds lease = time_of(invitation_.lease_seconds);
    for (;;)
      peer.connection.send(answer(peer, peer.connection.receive(message_limits, lease)), lease);
  } catch (const OtherProtocol& error) {
    reason = internal::printable(error.what(), 200);
    try {
      peer.connection.send({}, hello_time);  // its prefix has the version of rank 0
    } catch (const ConnectionLost&) {
    }
  } catch (const std::exception& error) {
    reason = internal::printable(error.what(), 200);
  }
  if (!greeted) {
    --unidentified_;
    if (!unidentified_seen_.exchange(true))
      progress_.note("Refused a connection (" + reason +
                     "). Others that are refused are not shown.");
  } else {
    std::vector<std::string> names;
    for (const Claim& claim : table_.release_all(peer.id)) {
      const Job& job = jobs_[claim.run];
      progress_.dropped(job.encoding, job.seed);
      names.push_back(job.name());
      std::error_code ignored;
      fs::remove_all(incoming(claim), ignored);
    }
    if (!names.empty())
      progress_.note(fmt::format("Worker {} lost ({}). Free again: {}.", peer.host, reason,
                                 listed(names)));
    --workers_;
  }
  peer.connection.end();
  peer.over = true;
}

void WorkServer::require(Peer& peer, const std::string& rule, const std::string& wanted,
                         const std::string& got) {
  if (got == wanted) return;
  peer.connection.send({.head = {{"rule", rule}, {"got", got}}}, hello_time);
  throw ConnectionLost(rule + ", got " + got);
}

void WorkServer::greet(Peer& peer) {
  const Json hello = peer.connection.receive(hello_limits, hello_time).head;
  if (hello.value("op", "") != "hello") throw ConnectionLost("not a worker");
  peer.host = internal::printable(hello.value("host", ""), 200);
  // A token is a secret: it is not shown, and is compared in constant time.
  require(peer, "a worker must have the GNOMON_LAB_TOKEN or the job of rank 0", "equal",
          equal_secrets(invitation_.token, hello.value("token", "")) ? "equal" : "another one");
  require(peer, "a worker must have version " GNOMON_VERSION " of Gnomon, as rank 0",
          GNOMON_VERSION, hello.value("gnomon", ""));
  require(peer, "a worker must have LibTorch " TORCH_VERSION ", as rank 0", TORCH_VERSION,
          hello.value("libtorch", ""));
  const std::string isa(name(current_isa())),
      other = internal::printable(hello.value("isa", ""), 200);
  if (other != isa)
    progress_.note(
        fmt::format("Worker {} has another instruction set ({}, rank 0 {}): its "
                    "results may differ in the last digits.",
                    peer.host, other, isa));
  peer.connection.send({.head = {{"settings", to_json(invitation_.stored)},
                                 {"encodings", invitation_.encodings},
                                 {"lease", invitation_.lease_seconds},
                                 {"checkpoint", invitation_.checkpoint_seconds},
                                 {"end", has_ended()}}},
                       hello_time);
}

void WorkServer::prepare(Peer& peer) {
  const Json ready = peer.connection.receive(hello_limits, answer_time).head;
  require(peer, "a worker must have the texts of rank 0", invitation_.stored.fingerprint,
          ready.value("fingerprint", ""));
  peer.connection.send({}, hello_time);
}

Message WorkServer::answer(Peer& peer, const Message& request) {
  const Json& head = request.head;
  const std::string op = head.at("op").get<std::string>();
  if (op == "claim") {
    if (has_ended()) return {.head = {{"end", true}}};
    const auto claim = table_.claim(peer.id);
    if (!claim) return {};
    std::error_code none;
    const auto bytes = fs::file_size(checkpoint(*claim), none);
    return {.head = {{"run", claim->run},
                     {"generation", claim->generation},
                     {"checkpoint", none ? 0 : bytes}}};
  }
  if (op == "beat") {
    for (const Json& one : head.at("runs")) {
      const Claim claim{one.at("run").get<std::size_t>(), one.at("generation")};
      if (!table_.while_held(claim)) continue;  // finished or released meanwhile
      const Job& job = jobs_[claim.run];
      progress_.training(job.encoding, job.seed,
                         std::clamp<std::int64_t>(one.at("step"), 1, settings_.steps),
                         number(one.at("bits")), number(one.at("rate")));
    }
    return {.head = {{"end", has_ended()}}};
  }
  const Claim claim{head.at("run").get<std::size_t>(), head.at("generation")};
  if (!table_.while_held(claim)) return {.head = {{"lost", true}}};
  if (op == "read") return read_checkpoint(claim, head);
  if (op == "keep") return keep(claim);
  if (op == "finish") return finish(peer, claim);
  if (op == "write") {
    write_file(claim, request);
  } else if (op == "release") {
    progress_.dropped(jobs_[claim.run].encoding, jobs_[claim.run].seed);
    table_.release(claim);
  } else {
    throw ConnectionLost("unknown request");
  }
  return {};
}

fs::path WorkServer::incoming(const Claim& claim) const {
  return out_ / "incoming" / fmt::format("{}-{}", jobs_[claim.run].name(), claim.generation);
}
fs::path WorkServer::checkpoint(const Claim& claim) const {
  return jobs_[claim.run].checkpoint(out_);
}

Message WorkServer::read_checkpoint(const Claim& claim, const Json& head) const {
  std::ifstream stream(checkpoint(claim), std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(head.at("offset").get<std::int64_t>()));
  Message reply;
  reply.data.resize(chunk_bytes);
  stream.read(reply.data.data(), static_cast<std::streamsize>(reply.data.size()));
  reply.data.resize(static_cast<std::size_t>(stream.gcount()));
  return reply;
}

void WorkServer::write_file(const Claim& claim, const Message& request) const {
  const std::string name = request.head.at("file").get<std::string>();
  if (!is_file_name(name)) throw ConnectionLost("another name of a file");
  const fs::path path = incoming(claim) / name;
  fs::create_directories(path.parent_path());
  const auto offset = request.head.at("offset").get<std::int64_t>();
  std::ofstream stream(path,
                       std::ios::binary | (offset == 0 ? std::ios::trunc : std::ios::app));
  if (stream.tellp() != std::streampos(offset) && offset != 0)
    throw ConnectionLost("a part of a file is missing");
  stream.write(request.data.data(), static_cast<std::streamsize>(request.data.size()));
  stream.flush();
  if (!stream) {
    progress_.note("Cannot write " + path.string() + ". Is the disk full?");
    throw ConnectionLost("rank 0 cannot write a file");
  }
}

Message WorkServer::keep(const Claim& claim) {
  const fs::path arrived = incoming(claim) / "checkpoint.safetensors";
  const Job& job = jobs_[claim.run];
  check_checkpoint(arrived, job, settings_.steps);
  sync_file(arrived);
  const bool held =
      table_.while_held(claim, [&] { fs::rename(arrived, job.checkpoint(out_)); });
  return {.head = {{"lost", !held}}};
}

Message WorkServer::finish(Peer& peer, const Claim& claim) {
  const Job& job = jobs_[claim.run];
  const fs::path folder = incoming(claim), model = out_ / "models" / job.name();
  const bool has_model = fs::exists(folder / "model");  // not of a released one
  if (has_model)
    for (const fs::directory_entry& one : fs::directory_iterator(folder / "model"))
      sync_file(one.path());
  sync_file(folder / "run.json");
  RunResult result = read_run(folder / "run.json", settings_, job.encoding, job.seed);
  const bool accepted = table_.finish(claim, [&] {
    fs::remove_all(model);
    if (has_model) fs::rename(folder / "model", model);
    fs::rename(folder / "run.json", out_ / "runs" / (job.name() + ".json"));
    fs::remove(checkpoint(claim));
  });
  fs::remove_all(folder);
  if (accepted) {
    io::sync_folder(out_ / "runs");
    progress_.finished(job.encoding, job.seed, outcome(result) + ", by " + peer.host);
    finished_(claim.run, std::move(result));
  }
  return {.head = {{"accepted", accepted}}};
}

}  // namespace gnomon::lab

// Processes of gnomon-lab for tests, and their results.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "apps/lab/runs/options.h"
#include "io/temporary.h"
#include "process.h"

namespace gnomon::lab {
namespace processes {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

using testing::Child;
using testing::Outcome;

inline Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Six runs of 80 steps take a tenth of a second each.
inline Words tiny(const Words& more, const std::string& steps = "80") {
  return joined({"--layers",
                 "1",
                 "--width",
                 "16",
                 "--heads",
                 "2",
                 "--batch",
                 "4",
                 "--seeds",
                 "2",
                 "--encodings",
                 "rotary,learned,t5",
                 "--train-length",
                 "16",
                 "--steps",
                 steps,
                 "--no-cost",
                 "--eval-lengths",
                 "32",
                 "--checkpoint",
                 "0.02"},
                more);
}

inline Options parsed(Words words) {
  words.insert(words.begin(), "lab");
  std::vector<char*> pointers;
  for (std::string& one : words) pointers.push_back(one.data());
  return parse_options(static_cast<int>(pointers.size()), pointers.data());
}

inline Json json(const fs::path& path) {
  std::ifstream stream(path);
  return Json::parse(stream);
}
inline std::string bytes(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Removes the keys that hold times, date, machine and command.
inline Json timeless(Json value) {
  if (value.is_object())
    for (const char* key : {"date", "command", "machine", "seconds", "train_seconds",
                            "test_seconds", "tokens_per_second"})
      value.erase(key);
  if (value.is_structured())
    for (Json& one : value) one = timeless(std::move(one));
  return value;
}

// A free port that the system does not give to other sockets.
inline int free_port() {
  const auto is_free = [](int port) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in address4{};
    address4.sin_family = AF_INET;
    address4.sin_port = address.sin6_port;
    bool all_free = true;
    for (const auto& [one, size] :
         {std::pair{reinterpret_cast<const sockaddr*>(&address), sizeof address},
          {reinterpret_cast<const sockaddr*>(&address4), sizeof address4}}) {
      const int file = socket(one->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (file < 0) continue;  // no IPv6
      all_free &= bind(file, one, static_cast<socklen_t>(size)) == 0 || errno == EADDRNOTAVAIL;
      close(file);
    }
    return all_free;
  };
  for (std::random_device random;;)
    if (const int port = 20000 + static_cast<int>(random() % 10000); is_free(port)) return port;
}

// Reads the output of a process until it has printed a text.
class Watched {
 public:
  explicit Watched(const Words& arguments)
      : child_(testing::start(GNOMON_LAB_PROGRAM, arguments, testing::Streams::joined)) {}
  ~Watched() {
    if (!waited_) {
      signal(SIGKILL);
      end();
    }
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  // False if the process ends before.
  bool prints(const std::string& text) {
    for (char c; output_.find(text) == std::string::npos;) {
      if (read(child_.output, &c, 1) != 1) return false;
      output_ += c;
    }
    return true;
  }
  // The rest of the line after a text. Empty if the process ends before.
  std::string line_after(const std::string& text) {
    if (!prints(text)) return {};
    std::string line;
    for (char c; read(child_.output, &c, 1) == 1; line += c) {
      output_ += c;
      if (c == '\n') break;
    }
    return line;
  }
  // Waits until the process has written a file. False if it ends before. For files that are
  // written atomically.
  bool writes(const fs::path& path) const {
    return testing::wait_for(child_, [&] { return fs::exists(path); });
  }
  void signal(int number) const { kill(child_.pid, number); }
  // The exit status.
  int end() {
    output_ += child_.read_all();
    waited_ = true;
    return child_.wait();
  }
  const std::string& output() const { return output_; }

 private:
  Child child_;
  std::string output_;
  bool waited_ = false;
};

class OfFolders : public ::testing::Test {
 protected:
  ~OfFolders() override { fs::remove_all(folder_); }

  std::string out(const std::string& name = "out") const { return folder_ / name; }

  // The results of one process, trained once for all tests.
  static const Json& expected() {
    static const Json results = [] {
      const fs::path folder = testing::new_folder();
      const Outcome alone =
          testing::run(GNOMON_LAB_PROGRAM, tiny({"--out", folder}), testing::Streams::joined);
      EXPECT_EQ(alone.code, 0) << alone.output;
      Json all = timeless(json(folder / "results.json"));
      model() = bytes(folder / "models/t5-seed2/model.safetensors");
      fs::remove_all(folder);
      return all;
    }();
    return results;
  }
  static std::string& model() {
    static std::string weights;
    return weights;
  }
  void expect_same(const std::string& folder, const std::string& output) const {
    const Json& same = expected();
    ASSERT_TRUE(fs::exists(folder + "/results.json")) << output;
    EXPECT_EQ(timeless(json(folder + "/results.json")), same) << output;
    EXPECT_TRUE(bytes(folder + "/models/t5-seed2/model.safetensors") == model());
    EXPECT_FALSE(fs::exists(folder + "/checkpoints"));
  }

  const fs::path folder_ = testing::new_folder();
};

}  // namespace processes
}  // namespace gnomon::lab

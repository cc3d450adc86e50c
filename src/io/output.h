// The state of an Output: bytes that wait for the file of a system. And write_atomically with
// the names that a folder of files requires.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "gnomon/io/file.h"

namespace gnomon::io {

struct Output::State {
  explicit State(std::string file_name) : name(std::move(file_name)) {}
  virtual ~State() = default;
  Output output() { return Output(*this); }
  virtual void send(std::string_view bytes) = 0;  // throws if not all can be written
  void flush() {
    send(pending);
    pending.clear();
  }

  std::string name;  // the path, as messages show it
  std::string pending;
  std::uint64_t written = 0;
};

// As write_atomically. Errors name the file `shown`. The temporary file is in the folder
// `aside`, of the same file system, and the folder of `path` need not exist before the end of
// `body`.
void write_atomically_as(const std::filesystem::path& path, const std::string& shown,
                         const std::filesystem::path& aside,
                         const std::function<void(Output&)>& body);

}  // namespace gnomon::io

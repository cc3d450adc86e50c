// The state of an Output: bytes that wait for the file of a system.
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
  virtual void send(std::string_view bytes) = 0;  // throws if not all can be written
  void flush() {
    send(pending);
    pending.clear();
  }

  std::string name;  // the path, as messages show it
  std::string pending;
  std::uint64_t written = 0;
};

}  // namespace gnomon::io

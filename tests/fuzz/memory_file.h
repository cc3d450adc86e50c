// Files of an input for readers that take a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>

#include "fuzz/target.h"

namespace gnomon::fuzz {

// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents)
      : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0);
    require(::write(descriptor_, contents.data(), contents.size()) ==
            static_cast<ssize_t>(contents.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace gnomon::fuzz

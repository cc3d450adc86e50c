// Files as a whole: read without copying, written without ever being half there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gnomon::io {

// The bytes of a file, mapped for reading: no copy, and pages are read when they are touched.
// An empty file gives an empty span. Replacing the file (as write_aside does) leaves the
// mapping as it was; cutting it short in place while it is mapped ends in SIGBUS, as with any
// mapping.
//
// Throws std::invalid_argument naming the path and the system's reason when the file cannot be
// opened, or is a folder, a pipe or a device.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& name() const noexcept { return name_; }  // the path, as messages show it
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  std::string name_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Receives what write_aside writes. Small pieces are gathered into blocks of 64 KiB.
class Output {
 public:
  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);
  std::uint64_t written() const noexcept;  // bytes so far

 private:
  friend void write_aside(const std::filesystem::path&, const std::function<void(Output&)>&);
  struct State;
  explicit Output(State& state) : state_(state) {}
  State& state_;
};

// Writes a file so that a reader, and whoever stops this process, finds the old contents or the
// new, never a part: `body` writes to a nameless or hidden file in the same folder, which takes
// the place of `path` at the end. When `body` throws, or the disk is full, `path` stays as it
// was and nothing else is left. An existing file keeps its permissions; a link is followed. A
// pipe or device (/dev/stdout) has no old contents to keep and is written directly. Does not
// wait for the disk (no fsync): after a power cut either version may be found.
//
// Throws std::invalid_argument naming the path and the system's reason when it cannot be
// written, and whatever `body` throws.
void write_aside(const std::filesystem::path& path, const std::function<void(Output&)>& body);
void write_aside(const std::filesystem::path& path, std::string_view text);
void write_aside(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace gnomon::io

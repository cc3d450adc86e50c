// Whole files: memory-mapped reading and atomic writing.
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

// The bytes of a file, mapped for reading. The bytes are not copied, and pages are read on
// first access. An empty file gives an empty span. If the file is replaced (as write_atomically
// does), the mapping keeps the old contents. If the file is truncated in place while it is
// mapped, access raises SIGBUS, as with any mapping.
//
// Throws std::invalid_argument, with the path and the reason of the system, if the file cannot
// be opened or is a folder, a pipe or a device.
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

// Output stream of write_atomically. Small writes are collected into blocks of 64 KiB.
class Output {
 public:
  void write(std::string_view text);
  void write(std::span<const std::byte> bytes);
  std::uint64_t written() const noexcept;  // in bytes

  struct State;  // of the implementation

 private:
  explicit Output(State& state) : state_(state) {}
  State& state_;
};

// Writes a file atomically: a reader sees the old or the new contents, never a part, even if
// the process is stopped. `body` writes to a nameless or hidden file in the same folder, which
// then replaces `path`. If `body` throws or the disk is full, `path` is unchanged and no other
// file remains. An existing file keeps its permissions, and a link is followed. A pipe or
// device (/dev/stdout) is written directly. The file and its folder are synced (fsync): after a
// power failure the file has the old or the new contents, and after the return the new ones.
// SIGKILL between the naming and the replacement leaves a hidden file `.gnomon-*`, which the
// programs remove in a later call.
//
// Throws std::invalid_argument, with the path and the reason of the system, if the file cannot
// be written or synced, and whatever `body` throws.
void write_atomically(const std::filesystem::path& path,
                      const std::function<void(Output&)>& body);
void write_atomically(const std::filesystem::path& path, std::string_view text);
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

// Waits until the names in a folder are on the disk (fsync), for example after a file in it was
// renamed. Does nothing for a folder that the file system cannot sync or that must not be read.
// Throws std::invalid_argument if the folder cannot be opened or synced.
void sync_folder(const std::filesystem::path& folder);

}  // namespace gnomon::io

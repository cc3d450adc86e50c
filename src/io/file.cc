// What is the same on all systems: file_posix.cc and file_windows.cc have the rest.
#include "gnomon/io/file.h"

#include <utility>

#include "src/io/output.h"

namespace gnomon::io {

MappedFile::MappedFile(MappedFile&& other) noexcept
    : name_(std::move(other.name_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void Output::write(std::string_view text) {
  constexpr std::size_t block = 65536;
  state_.written += text.size();
  if (state_.pending.size() + text.size() > block) state_.flush();
  if (text.size() > block)
    state_.send(text);
  else
    state_.pending += text;
}

std::uint64_t Output::written() const noexcept { return state_.written; }

void Output::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void write_atomically(const std::filesystem::path& path,
                      const std::function<void(Output&)>& body) {
  write_atomically_as(path, path.string(), {}, body);
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, [text](Output& output) { output.write(text); });
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  write_atomically(path, [bytes](Output& output) { output.write(bytes); });
}

}  // namespace gnomon::io

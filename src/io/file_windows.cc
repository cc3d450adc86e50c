// gnomon/io/file.h on Windows.
#ifdef _WIN32
#include <windows.h>

#include <atomic>
#include <system_error>
#include <utility>

#include "gnomon/error.h"
#include "gnomon/io/file.h"
#include "src/io/folder.h"
#include "src/io/output.h"

namespace gnomon::io {
namespace {

std::string reason(DWORD error) {
  return std::system_category().message(static_cast<int>(error));
}
[[noreturn]] void cannot_read(const std::string& name, std::string_view why) {
  refuse(name, "must be a readable file", why);
}
[[noreturn]] void cannot_write(const std::string& name, std::string_view why) {
  refuse(name, "must be a writable file", why);
}

// Closed by the destructor.
class Handle {
 public:
  explicit Handle(HANDLE handle = INVALID_HANDLE_VALUE) : handle_(handle) {}
  ~Handle() { close(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  void reset(HANDLE handle) {
    close();
    handle_ = handle;
  }
  bool open() const { return handle_ != INVALID_HANDLE_VALUE && handle_ != nullptr; }
  HANDLE get() const { return handle_; }
  bool close() {
    return !open() || CloseHandle(std::exchange(handle_, INVALID_HANDLE_VALUE)) != 0;
  }

 private:
  HANDLE handle_;
};

bool is_folder(DWORD attributes) {
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

// A file that is replaced while it is mapped keeps its contents, as on other systems.
constexpr DWORD shared = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : name_(path.string()) {
  if (is_folder(GetFileAttributesW(path.c_str()))) cannot_read(name_, "a folder");
  const Handle file(CreateFileW(path.c_str(), GENERIC_READ, shared, nullptr, OPEN_EXISTING,
                                FILE_ATTRIBUTE_NORMAL, nullptr));
  if (!file.open()) cannot_read(name_, reason(GetLastError()));
  if (GetFileType(file.get()) != FILE_TYPE_DISK) cannot_read(name_, "a pipe or device");
  LARGE_INTEGER size{};
  if (!GetFileSizeEx(file.get(), &size)) cannot_read(name_, reason(GetLastError()));
  size_ = static_cast<std::size_t>(size.QuadPart);
  if (size_ == 0) return;
  const Handle mapping(CreateFileMappingW(file.get(), nullptr, PAGE_READONLY, 0, 0, nullptr));
  if (!mapping.open()) cannot_read(name_, reason(GetLastError()));
  data_ = static_cast<const std::byte*>(MapViewOfFile(mapping.get(), FILE_MAP_READ, 0, 0, 0));
  if (!data_) cannot_read(name_, reason(GetLastError()));
}

MappedFile::~MappedFile() {
  if (data_) UnmapViewOfFile(data_);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  try {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
  } catch (const std::filesystem::filesystem_error& error) {
    refuse(folder.string(), "must be a readable folder", error.code().message());
  }
  return names;
}

void sync_folder(const std::filesystem::path& folder) {
  sync_folder_of(folder, folder.string());
}

// Windows has no sync of a folder: MoveFileEx waits for the name.
void sync_folder_of(const std::filesystem::path& folder, const std::string& shown) {
  if (!is_folder(GetFileAttributesW(folder.c_str()))) cannot_write(shown, "not a folder");
}

std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return ".gnomon-" + std::to_string(GetCurrentProcessId()) + "-" +
         std::to_string(GetTickCount64()) + "-" + std::to_string(counter++);
}

void TemporaryFolder::create(const std::string& shown) {
  std::error_code error;
  std::filesystem::create_directory(path_, error);
  if (error) refuse(shown, "must be a writable folder", error.message());
  created_ = true;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (created_ && !path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::optional<std::string> TemporaryFolder::take_the_place_of(
    const std::filesystem::path& target) {
  std::error_code error;
  std::filesystem::remove(target, error);  // rename does not replace an empty folder
  std::filesystem::rename(path_, target, error);
  if (error) return error.message();
  path_.clear();
  return std::nullopt;
}

void remove_leftovers(const std::filesystem::path&) noexcept {}

namespace {

struct OpenedFile final : Output::State {
  using Output::State::State;
  Handle file;

  void send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const auto wanted =
          static_cast<DWORD>(bytes.size() < (1u << 30) ? bytes.size() : 1u << 30);
      DWORD sent = 0;
      if (!WriteFile(file.get(), bytes.data(), wanted, &sent, nullptr))
        cannot_write(name, reason(GetLastError()));
      bytes.remove_prefix(sent);
    }
  }
};

}  // namespace

void write_atomically_as(const std::filesystem::path& path, const std::string& shown,
                         const std::filesystem::path& folder,
                         const std::function<void(Output&)>& body) {
  OpenedFile state(shown);
  Output output = state.output();
  if (path.empty()) cannot_write("\"\"", "an empty path");
  const DWORD attributes = GetFileAttributesW(path.c_str());
  if (is_folder(attributes)) cannot_write(state.name, "a folder");
  if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_READONLY))
    cannot_write(state.name, reason(ERROR_ACCESS_DENIED));

  std::error_code ignored;
  std::filesystem::path target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    const auto followed = std::filesystem::weakly_canonical(path, ignored);
    if (!ignored) target = followed;
  }
  std::filesystem::path hidden;
  do {
    hidden = (folder.empty() ? target.parent_path() : folder) / temporary_name();
    state.file.reset(CreateFileW(hidden.c_str(), GENERIC_WRITE, 0, nullptr, CREATE_NEW,
                                 FILE_ATTRIBUTE_NORMAL, nullptr));
  } while (!state.file.open() && GetLastError() == ERROR_FILE_EXISTS);
  if (!state.file.open()) cannot_write(state.name, reason(GetLastError()));
  try {
    body(output);
    state.flush();
    if (!FlushFileBuffers(state.file.get()) || !state.file.close() ||
        !MoveFileExW(hidden.c_str(), target.c_str(),
                     MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
      cannot_write(state.name, reason(GetLastError()));
  } catch (...) {
    state.file.close();
    DeleteFileW(hidden.c_str());
    throw;
  }
}

}  // namespace gnomon::io
#endif

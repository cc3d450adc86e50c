// A temporary folder of a test, removed by the destructor.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace gnomon::testing {

// Creates an empty folder. Its name is not that of an earlier process with the same number.
inline std::filesystem::path new_folder() {
  std::string name = std::filesystem::temp_directory_path() / "gnomon-test-XXXXXX";
  if (!::mkdtemp(name.data())) throw std::runtime_error("no folder " + name);
  return name;
}

class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_))
      ++count;
    return count;
  }

 private:
  const std::filesystem::path path_ = new_folder();
};

inline std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline std::filesystem::path put(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
  return path;
}

}  // namespace gnomon::testing

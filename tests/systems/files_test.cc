// gnomon/io/file.h on every system. tests/io/file_test.cc has what only POSIX systems have.
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "gnomon/io/checkpoint.h"
#include "gnomon/io/file.h"

namespace gnomon::files_test {

TEST(Files, AreReplacedAtomicallyAndMapped) {
  const std::filesystem::path folder = std::filesystem::current_path() / "files-test";
  const std::filesystem::path file = folder / "name.txt";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  io::write_atomically(file, std::string(100'000, 'a'));
  {
    const io::MappedFile mapped(file);
    EXPECT_EQ(mapped.text(), std::string(100'000, 'a'));
  }
  io::write_atomically(file, "short");
  EXPECT_EQ(io::MappedFile(file).text(), "short");
  // A body that throws leaves the file, and no other.
  EXPECT_THROW(io::write_atomically(file,
                                    [](io::Output& output) {
                                      output.write("part");
                                      throw std::runtime_error("stop");
                                    }),
               std::runtime_error);
  EXPECT_EQ(io::MappedFile(file).text(), "short");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  io::write_atomically(file, "");
  EXPECT_TRUE(io::MappedFile(file).bytes().empty());
  EXPECT_THROW(io::MappedFile{folder}, std::invalid_argument);
  EXPECT_THROW(io::MappedFile{folder / "absent"}, std::invalid_argument);
  EXPECT_THROW(io::write_atomically(folder, "text"), std::invalid_argument);
  EXPECT_THROW(io::write_atomically(folder / "absent" / "file", "text"), std::invalid_argument);
  EXPECT_NO_THROW(io::sync_folder(folder));
  std::filesystem::remove_all(folder);
}

TEST(Files, OfAFolderAreFound) {
  const std::filesystem::path folder = std::filesystem::current_path() / "folder-test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  EXPECT_THROW(io::Checkpoint{folder}, std::invalid_argument);
  io::write_atomically(folder / "notes.txt", "text");
  io::write_atomically(folder / "part.safetensors", "not opened");
  EXPECT_EQ(io::Checkpoint(folder).shards(), std::vector<std::string>{"part.safetensors"});
  io::write_atomically(folder / "other.safetensors", "not opened");
  EXPECT_THROW(io::Checkpoint{folder}, std::invalid_argument);  // which one is meant?
  std::filesystem::remove_all(folder);
}

}  // namespace gnomon::files_test

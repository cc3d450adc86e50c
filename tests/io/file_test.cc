#include "gnomon/io/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "io/temporary.h"
#include "src/io/folder.h"
#include "testing.h"

namespace gnomon::io::file_test {

// Called by fsync, below, in this thread. Returns the error number of the call, or 0.
thread_local std::function<int(const struct stat&)> on_fsync;

}  // namespace gnomon::io::file_test

// Takes the place of fsync of the C library in this program.
extern "C" int fsync(int file) {
  struct stat status{};
  if (auto& called = gnomon::io::file_test::on_fsync; called && ::fstat(file, &status) == 0)
    if (const int error = called(status)) {
      errno = error;
      return -1;
    }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace gnomon::io {
namespace file_test {

using gnomon::testing::contents;
using gnomon::testing::message_of;
using gnomon::testing::put;
using gnomon::testing::TemporaryFolder;
using ::testing::HasSubstr;

TEST(MappedFile, HasTheBytesOfTheFile) {
  const TemporaryFolder folder;
  const std::string text("one\0two", 7);
  const MappedFile file(put(folder / "file", text));
  EXPECT_EQ(file.text(), text);
  EXPECT_EQ(file.name(), (folder / "file").string());
  EXPECT_EQ(MappedFile(put(folder / "empty", "")).text(), "");
}

TEST(MappedFile, MovesWithItsBytes) {
  const TemporaryFolder folder;
  MappedFile first(put(folder / "1", "one")), second(put(folder / "2", "two"));
  MappedFile third = std::move(first);
  EXPECT_EQ(third.text(), "one");
  third = std::move(second);
  EXPECT_EQ(third.text(), "two");
}

TEST(MappedFile, NamesThePathAndTheReasonWhenItCannotRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { MappedFile(folder / "absent"); }),
            "[" + (folder / "absent").string() +
                "] must be a readable file, got No such file or directory");
  EXPECT_THAT(message_of([&] { MappedFile(folder.path()); }), HasSubstr("got a folder"));
  const auto pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { MappedFile{pipe}; }), HasSubstr("got a pipe or device"));
  EXPECT_THROW(MappedFile("/dev/zero"), std::invalid_argument);
}

TEST(WriteAside, WritesAndReplaces) {
  const TemporaryFolder folder;
  const auto path = folder / "file";
  write_atomically(path, "first");
  EXPECT_EQ(contents(path), "first");
  write_atomically(path, "");
  EXPECT_EQ(contents(path), "");
  std::string long_text(1'000'000, 'x');
  long_text += "end";
  write_atomically(path, [&](Output& output) {
    output.write("start ");
    EXPECT_EQ(output.written(), 6u);
    output.write(long_text);
    for (int i = 0; i < 100'000; ++i) output.write("y");
  });
  EXPECT_EQ(contents(path), "start " + long_text + std::string(100'000, 'y'));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(WriteAside, LeavesAMappingOfTheOldContentsAlone) {
  const TemporaryFolder folder;
  const MappedFile file(put(folder / "file", "old contents"));
  write_atomically(folder / "file", file.bytes().first(3));
  EXPECT_EQ(file.text(), "old contents");
  EXPECT_EQ(contents(folder / "file"), "old");
}

TEST(WriteAside, LeavesNothingBehindWhenTheBodyThrows) {
  const TemporaryFolder folder;
  const auto fails = [](Output& output) {
    output.write(std::string(200'000, 'x'));
    throw std::runtime_error("stop");
  };
  EXPECT_EQ(message_of([&] { write_atomically(folder / "new", fails); }), "stop");
  EXPECT_EQ(folder.files(), 0u);
  put(folder / "old", "kept");
  EXPECT_EQ(message_of([&] { write_atomically(folder / "old", fails); }), "stop");
  EXPECT_EQ(contents(folder / "old"), "kept");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(WriteAside, LeavesNothingBehindWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  put(folder / "old", "kept");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message =
      message_of([&] { write_atomically(folder / "old", std::string(100'000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr("old] must be a writable file, got File too large"));
  EXPECT_EQ(contents(folder / "old"), "kept");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(WriteAside, IsNotSeenUntilItIsWhole) {
  const TemporaryFolder folder;
  const auto path = put(folder / "file", "old");
  write_atomically(path, [&](Output& output) {
    output.write(std::string(200'000, 'x'));
    EXPECT_EQ(contents(path), "old");
  });
  EXPECT_EQ(contents(path).size(), 200'000u);
}

TEST(WriteAside, SyncsTheDataBeforeTheNameAndThenTheFolder) {
  const TemporaryFolder folder;
  const auto path = put(folder / "file", "old");
  std::vector<std::string> seen;
  on_fsync = [&](const struct stat& status) {
    seen.push_back((S_ISDIR(status.st_mode) ? "folder " : "file ") +
                   std::to_string(status.st_size * !S_ISDIR(status.st_mode)) + " " +
                   contents(path));
    return 0;
  };
  write_atomically(path, "newer");
  on_fsync = nullptr;
  EXPECT_EQ(seen, (std::vector<std::string>{"file 5 old", "folder 0 newer"}));
}

TEST(WriteAside, ReportsThatAFileCannotBeSynced) {
  const TemporaryFolder folder;
  const auto path = put(folder / "file", "old");
  on_fsync = [](const struct stat& status) { return S_ISDIR(status.st_mode) ? 0 : EIO; };
  EXPECT_THAT(
      message_of([&] { write_atomically(path, "new"); }),
      HasSubstr("file] must be a writable file, got " + std::string(std::strerror(EIO))));
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.files(), 1u);
  on_fsync = [](const struct stat& status) { return S_ISDIR(status.st_mode) ? EIO : 0; };
  EXPECT_THAT(message_of([&] { write_atomically(path, "new"); }),
              HasSubstr("must be a writable file, got " + std::string(std::strerror(EIO))));
  // Some file systems cannot sync folders.
  on_fsync = [](const struct stat& status) { return S_ISDIR(status.st_mode) ? EINVAL : 0; };
  write_atomically(path, "newest");
  EXPECT_EQ(contents(path), "newest");
  on_fsync = nullptr;
  EXPECT_THAT(message_of([&] { sync_folder(folder / "absent"); }),
              HasSubstr("got No such file or directory"));
}

TEST(WriteAside, NamesThePathAndTheReasonWhenItCannotWrite) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { write_atomically(folder / "absent/file", "x"); }),
              HasSubstr("absent/file] must be a writable file, got No such file or directory"));
  EXPECT_THAT(message_of([&] { write_atomically(folder.path(), "x"); }),
              HasSubstr("got a folder"));
  EXPECT_THAT(message_of([&] { write_atomically("", "x"); }), HasSubstr("got an empty path"));
  EXPECT_THAT(message_of([&] { write_atomically(folder / std::string(300, 'n'), "x"); }),
              HasSubstr("must be a writable file"));
  EXPECT_EQ(folder.files(), 0u);
}

TEST(WriteAside, KeepsPermissionsAndFollowsLinks) {
  const TemporaryFolder folder;
  const auto path = put(folder / "file", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  std::filesystem::create_symlink("file", folder / "link");
  write_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(contents(path), "new");
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(folder.files(), 2u);
}

TEST(WriteAside, WritesToADeviceWithoutReplacingIt) {
  write_atomically("/dev/null", "gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(WriteAside, HasOneWinnerAmongThreads) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b', 'c', 'd'})
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i)
        write_atomically(folder / "file", std::string(100'000, letter));
    });
  for (std::thread& thread : threads) thread.join();
  const std::string text = contents(folder / "file");
  EXPECT_EQ(text, std::string(100'000, text.empty() ? '?' : text[0]));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Leftovers, OfKilledProcessesAreRemoved) {
  const TemporaryFolder folder;
  const auto held = put(folder / ".gnomon-1f-a0-1", "of a process that exists");
  const int lock = ::open(held.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  for (const char* kept : {"file", ".gnomon", ".gnomon-1", ".gnomon-1-2", ".gnomon-1-2-3-4",
                           ".gnomon-1-x-3", ".gnomon--2-3", ".gnomon-notes"})
    put(folder / kept, "of the user");
  std::filesystem::create_symlink("file", folder / ".gnomon-4-5-6");
  EXPECT_EQ(folder.files(), 10u);
  put(folder / ".gnomon-1f-a0-2", "part");
  std::filesystem::create_directory(folder / ".gnomon-1f-a0-3");
  put(folder / ".gnomon-1f-a0-3/model.safetensors", "part");
  remove_leftovers(folder.path());
  EXPECT_EQ(folder.files(), 10u);
  ::close(lock);
  remove_leftovers(folder.path());
  EXPECT_FALSE(std::filesystem::exists(held));
  EXPECT_EQ(folder.files(), 9u);
  remove_leftovers(folder / "absent");
}

// Files and folders that are being written are not leftovers.
TEST(Leftovers, AreNotFilesOfOtherThreads) {
  const TemporaryFolder folder;
  std::atomic<bool> done{false};
  std::thread remover([&] {
    while (!done) remove_leftovers(folder.path());
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_NO_THROW(write_atomically(folder / "file", std::to_string(i)));
    io::TemporaryFolder hidden(folder.path());
    EXPECT_NO_THROW(hidden.create("folder"));
    put(hidden.path() / "part", "x");
    EXPECT_EQ(hidden.take_the_place_of(folder / ("folder" + std::to_string(i))), std::nullopt);
    EXPECT_EQ(contents(folder / ("folder" + std::to_string(i)) / "part"), "x");
  }
  for (int i = 0; i < 500; ++i) {
    io::TemporaryFolder hidden(folder.path());
    EXPECT_NO_THROW(hidden.create("folder"));
    EXPECT_TRUE(std::filesystem::is_directory(hidden.path()));
  }
  done = true;
  remover.join();
  EXPECT_EQ(contents(folder / "file"), "19");
  EXPECT_EQ(folder.files(), 21u);
}

}  // namespace file_test
}  // namespace gnomon::io

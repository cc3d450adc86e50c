#include "apps/lab/runs/folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "gnomon/io/file.h"
#include "lab/tiny.h"
#include "testing.h"

namespace gnomon::lab {
namespace folder_test {

namespace fs = std::filesystem;

class Folder : public ::testing::Test {
 protected:
  Folder() {
    fs::create_directories(out() / "models");
    fs::create_directories(other());
  }
  ~Folder() override { fs::remove_all(root_); }

  fs::path out() const { return root_ / "out"; }
  fs::path other() const { return root_ / "other"; }
  std::string opened(bool resume) const {
    Options options;
    options.settings = testing::tiny();
    options.out = out().string();
    options.resume = resume;
    return gnomon::testing::message_of([&] { OutputFolder folder(options); });
  }

 private:
  fs::path root_ = fs::temp_directory_path() / ("gnomon-folder-" + std::to_string(::getpid()));
};

// Files of a session replace those of an earlier one. A link would replace any user's file.
TEST_F(Folder, OfAnotherUserHasNoLinks) {
  io::write_atomically(out() / "settings.json", "{}");
  EXPECT_EQ(opened(true), "");
  const std::string rule = "[lab] --resume requires folders of files, without links: ";
  for (const char* name : {"results.csv", "models/rotary-seed1"}) {
    const fs::path link = out() / name;
    fs::create_symlink(other(), link);
    EXPECT_EQ(opened(true), rule + link.string() + ", got a link");
    fs::remove(link);
  }
  EXPECT_EQ(opened(true), "");
  fs::create_symlink(other() / "new", out() / ".lock");
  EXPECT_NE(opened(true).find("[lab] --out must be a writable folder"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(other()));
}

TEST_F(Folder, WithALinkToAFolderIsNotEmpty) {
  EXPECT_EQ(opened(false), "");
  fs::create_directories(out());
  fs::create_symlink(other(), out() / "models" / "x");
  EXPECT_NE(opened(false).find("which has the file models/x"), std::string::npos)
      << opened(false);
}

// A new folder may have what a killed process left there, and a discarded one is empty again.
TEST_F(Folder, LosesLeftoversAndDiscardedFiles) {
  io::write_atomically(out() / ".gnomon-1-2-3", "part of settings.json");
  io::write_atomically(out() / "models" / ".gnomon-1-2-4", "part of weights");
  EXPECT_NE(opened(false).find("which has the file models/.gnomon"), std::string::npos);
  EXPECT_FALSE(fs::exists(out() / ".gnomon-1-2-3"));
  io::write_atomically(out() / "settings.json", "{}");
  EXPECT_EQ(opened(true), "");
  EXPECT_TRUE(fs::is_empty(out() / "models"));
  fs::remove(out() / "settings.json");
  Options options;
  options.settings = testing::tiny();
  options.out = out().string();
  OutputFolder folder(options);
  io::write_atomically(out() / "models" / "weights", "x");
  folder.discard();
  EXPECT_EQ(std::distance(fs::directory_iterator(out()), fs::directory_iterator()),
            1);  // .lock
}

}  // namespace folder_test
}  // namespace gnomon::lab

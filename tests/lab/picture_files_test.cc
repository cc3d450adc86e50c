#include "apps/lab/data/task.h"
#include "apps/lab/tasks/image.h"

#include <gtest/gtest.h>
#include <png.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/lab/data/corpus.h"
#include "apps/lab/tasks/make_model.h"

namespace gnomon::lab {
namespace picture_files_test {

using namespace image_examples;
namespace fs = std::filesystem;

class PictureFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("gnomon-pictures-" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
               std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // A picture of 2 x 2 pixels in a format of libpng.
  fs::path png(png_uint_32 format, const void* pixels, const void* colours = nullptr,
               int colour_count = 0) const {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = image.height = 2;
    image.format = format;
    image.colormap_entries = static_cast<png_uint_32>(colour_count);
    EXPECT_NE(
        png_image_write_to_file(&image, (folder_ / "x.png").c_str(), 0, pixels, 0, colours), 0)
        << image.message;
    return folder_ / "x.png";
  }
  void expect_grey(const fs::path& path, const std::vector<float>& expected) const {
    const at::Tensor grey = read_picture(path);
    ASSERT_EQ(grey.numel(), std::ssize(expected));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(grey.view(-1)[static_cast<std::int64_t>(i)].item<float>(), expected[i], 0.005)
          << i;
  }
  // `count` pictures of one grey in a class.
  void fill_class(const std::string& name, int count, int grey) const {
    for (int i = 0; i < count; ++i)
      write(name + "/" + std::to_string(i) + ".pgm",
            "P2 1 1 255 " + std::to_string(grey) + "\n");
  }
  void expect_refused(const std::string& rule) const {
    try {
      read_folder(folder_, 8);
      ADD_FAILURE() << "read: " << rule;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(rule), std::string::npos) << error.what();
    }
  }
  fs::path folder_;
};

TEST_F(PictureFiles, ReadsEveryKindOfPngAsGrey) {
  const unsigned char grey[] = {0, 51, 204, 255};
  expect_grey(png(PNG_FORMAT_GRAY, grey), {0, 0.2f, 0.8f, 1});
  const unsigned char colours[] = {0, 0, 0, 255, 255, 255, 51, 51, 51, 0, 255, 0};
  const unsigned char indices[] = {1, 0, 2, 1};
  expect_grey(png(PNG_FORMAT_RGB_COLORMAP, indices, colours, 3), {1, 0, 0.2f, 1});
  // Half of black on white, in sRGB: libpng composes linear light, 0.735.
  const unsigned char clear[] = {0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 0, 0, 0, 128};
  const at::Tensor over = read_picture(png(PNG_FORMAT_RGBA, clear)).view(-1);
  EXPECT_EQ(over[0].item<float>(), 1);
  EXPECT_EQ(over[1].item<float>(), 0);
  EXPECT_EQ(over[2].item<float>(), 1);
  EXPECT_GT(over[3].item<float>(), 0.45);
  EXPECT_LT(over[3].item<float>(), 0.8);
  const std::uint16_t wide[] = {0, 65535, 65535, 0};
  expect_grey(png(PNG_FORMAT_LINEAR_Y, wide), {0, 1, 1, 0});
}

TEST_F(PictureFiles, RefusesATruncatedPngAtEveryByte) {
  const unsigned char grey[] = {0, 51, 204, 255};
  std::ifstream stream(png(PNG_FORMAT_GRAY, grey), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(stream), {}};
  constexpr std::size_t end_chunk = 12;  // has no pixels
  for (std::size_t bytes = 0; bytes < whole.size() - end_chunk; ++bytes)
    EXPECT_THROW(read_picture(write("y.png", whole.substr(0, bytes))), std::invalid_argument)
        << bytes;
  std::string damaged = whole;
  damaged[19] = 3;  // the width, against its checksum
  EXPECT_THROW(read_picture(write("y.png", damaged)), std::invalid_argument);
}

TEST_F(PictureFiles, ReadsPlainAndRawPgm) {
  expect_grey(write("a.pgm", "P2\n# a comment\n2 2\n4\n0 1\n2 # and more\n4"),
              {0, 0.25f, 0.5f, 1});
  expect_grey(write("a.pgm", std::string("P5 2 1 255\n") + '\0' + '\xff'), {0, 1});
  expect_grey(write("a.pgm", std::string("P5 1 2 65535\n") + "\x80" + '\0' + "\xff\xff"),
              {0.5f, 1});
}

TEST_F(PictureFiles, RefusesAWrongPgm) {
  for (const std::string bytes :
       {"", "P", "P5", "P5 2", "P5 2 2 255", "P5 2 2 255\nabc", "P5 2 2 256\nabcdefg",
        "P2 2 2 9 1 2 3", "P2 1 1 9 10", "P2 1 1 9 -1", "P2 0 1 9 1", "P2 4097 1 9 1",
        "P2 1 99999999999 9 1", "P2 1 1 99999999999999999999 1", "P2 1 1 0 0", "P2 1 1 65536 0",
        "P2 1 1 nine 0", "P6 1 1 255 abc", "GIF89a"})
    EXPECT_THROW(read_picture(write("a.pgm", bytes)), std::invalid_argument) << bytes;
  EXPECT_THROW(read_picture(folder_), std::invalid_argument);
  EXPECT_THROW(read_picture(folder_ / "missing.png"), std::invalid_argument);
}

TEST_F(PictureFiles, SplitsEachClass) {
  fill_class("dark", 30, 0);
  fill_class("light", 11, 255);
  write(".hidden/file", "x");
  write("dark/.DS_Store", "x");
  const PictureFolder all = read_folder(folder_, 8);
  EXPECT_EQ(all.classes, (std::vector<std::string>{"dark", "light"}));
  const auto counts = [](const PictureSet& set) {
    std::vector<std::int64_t> found(2);
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      const std::int64_t label = set.labels[i];
      ++found[static_cast<std::size_t>(label)];
      EXPECT_EQ(set.pixels[static_cast<std::int64_t>(i)].min().item<int>(), 255 * label);
      EXPECT_EQ(set.pixels[static_cast<std::int64_t>(i)].max().item<int>(), 255 * label);
    }
    return found;
  };
  EXPECT_EQ(counts(all.train), (std::vector<std::int64_t>{24, 9}));
  EXPECT_EQ(counts(all.validation), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(counts(all.test), (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(all.train.pixels.size(2), 8);
  // Not class after class: a part of the test pictures has all classes.
  EXPECT_EQ(read_folder(folder_, 8).test.labels, all.test.labels);
}

TEST_F(PictureFiles, TheChanceOfAFolderIsItsMostFrequentClass) {
  fill_class("a", 60, 0);
  fill_class("b", 20, 255);
  Settings settings;
  settings.task = &find_task("image");
  settings.texts = {folder_.string()};
  settings.train_length = 2;
  settings.eval_lengths = {2, 4};
  const Corpus corpus = load_corpus(settings);
  const auto& data = dynamic_cast<const ImageData&>(*corpus.data);
  EXPECT_EQ(data.test_count(100), 8);
  EXPECT_DOUBLE_EQ(data.chance(8), 0.75);
  const Pictures some = data.batch(Part::train, 1, 2, {0, 40}, 2);
  EXPECT_EQ(some.pixels.size(1), 8);
  // Pictures of class b are white.
  EXPECT_TRUE(some.pixels.amin({1, 2}).eq(some.labels).all().item<bool>());
  EXPECT_GT(some.labels.sum().item<int>(), 0);
  EXPECT_FALSE(corpus.digest.empty());
  fill_class("b", 20, 254);
  EXPECT_NE(load_corpus(settings).digest, corpus.digest);
}

TEST_F(PictureFiles, RefusesAWrongFolder) {
  expect_refused("2 to 1000 classes");
  fill_class("a", 10, 0);
  expect_refused("2 to 1000 classes");
  fill_class("b", 9, 0);
  expect_refused("at least 10 pictures");
  write("b/9.txt", "x");
  expect_refused(".png or .pgm");
  fs::remove(folder_ / "b/9.txt");
  write("b/9.png", "x");
  expect_refused("a PNG or a PGM");
  fs::remove(folder_ / "b/9.png");
  fill_class("b", 10, 0);
  EXPECT_NO_THROW(read_folder(folder_, 8));
  fill_class("\xff", 10, 0);
  expect_refused("the name of a class must be UTF-8");
  fs::remove_all(folder_ / "\xff");
  write("notes", "x");
  expect_refused("must be a folder");
  EXPECT_THROW(read_folder(folder_ / "missing", 8), std::invalid_argument);
}

}  // namespace picture_files_test
}  // namespace gnomon::lab

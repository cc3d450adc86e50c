#include "apps/lab/tasks/image.h"

#include <ATen/Functions.h>
#include <png.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::lab::image_examples {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_picture(const char* rule, const fs::path& path,
                                 const std::string& got) {
  refuse("lab", rule, path.string() + ": " + got);
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    refuse_picture("a picture must be a file", path, "another kind of entry");
  const auto bytes = fs::file_size(path, error);
  if (!error && bytes > static_cast<std::uintmax_t>(most_file_bytes))
    refuse_picture("a picture file must have at most 64 MiB", path,
                   std::to_string(bytes) + " bytes");
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (error || !stream.is_open() || stream.bad())
    refuse_picture("a picture must be readable", path, "an error of the file system");
  return text;
}

void check_size(const fs::path& path, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1 || height > most_picture_side || width > most_picture_side)
    refuse_picture("the sides of a picture must be 1 to 4096 pixels", path,
                   std::to_string(width) + " x " + std::to_string(height));
}

at::Tensor read_png(const fs::path& path, const std::string& bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  // Frees the state of libpng in every case.
  struct Guard {
    png_image* image;
    ~Guard() { png_image_free(image); }
  } guard{&image};
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    refuse_picture("a PNG must be whole", path, image.message);
  check_size(path, image.height, image.width);
  image.format = PNG_FORMAT_GRAY;
  const std::int64_t height = image.height, width = image.width;
  at::Tensor grey = at::empty({height, width}, at::kByte);
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&image, &white, grey.data_ptr<std::uint8_t>(),
                             static_cast<png_int_32>(width), nullptr))
    refuse_picture("a PNG must be whole", path, image.message);
  return grey.to(at::kFloat).div_(255);
}

bool is_space(char c) { return std::strchr(" \t\r\n\v\f", c) && c != '\0'; }

at::Tensor read_pgm(const fs::path& path, const std::string& bytes) {
  std::size_t offset = 2;  // after the magic number
  // The numbers of the header, and of the pixels of P2.
  const auto next = [&] {
    while (offset < bytes.size() && (bytes[offset] == '#' || is_space(bytes[offset])))
      if (bytes[offset++] == '#') offset = std::min(bytes.find('\n', offset), bytes.size());
    std::int64_t value = 0;
    const char* begin = bytes.data() + offset;
    const auto [end, error] = std::from_chars(begin, bytes.data() + bytes.size(), value);
    if (error != std::errc() || value < 0)
      refuse_picture("a PGM must have decimal numbers", path,
                     "other bytes at " + std::to_string(offset));
    offset += static_cast<std::size_t>(end - begin);
    return value;
  };
  const std::int64_t width = next(), height = next(), most = next();
  check_size(path, height, width);
  if (most < 1 || most > 65535)
    refuse_picture("the largest value of a PGM must be 1 to 65535", path, std::to_string(most));
  at::Tensor grey = at::empty({height, width}, at::kFloat);
  float* out = grey.data_ptr<float>();
  const bool plain = bytes[1] == '2', wide = most > 255;
  const std::int64_t count = height * width;
  const std::size_t begin = offset + 1;  // one white-space byte ends the header of P5
  if (!plain && begin + static_cast<std::size_t>(count) * (wide ? 2 : 1) > bytes.size())
    refuse_picture("a PGM must be whole", path, std::to_string(bytes.size()) + " bytes");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::int64_t>(static_cast<unsigned char>(bytes[begin + i]));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t value = plain  ? next()
                               : wide ? byte(2 * at) * 256 + byte(2 * at + 1)
                                      : byte(at);
    if (value > most)
      refuse_picture("a value of a PGM must be at most the largest", path,
                     std::to_string(value));
    out[i] = static_cast<float>(value) / static_cast<float>(most);
  }
  return grey;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> all;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->path().filename().string().starts_with('.')) all.push_back(it->path());
    if (std::ssize(all) > most_pictures)
      refuse("lab", "a folder must have at most 100000 entries", folder.string());
  }
  if (error)
    refuse("lab", "a folder of pictures must be readable",
           folder.string() + ": " + error.message());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<fs::path> pictures_of(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    refuse("lab", "each entry of a folder of pictures must be a folder, one for each class",
           folder.string());
  std::vector<fs::path> files = entries(folder);
  for (const fs::path& file : files) {
    std::string kind = file.extension().string();
    for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (kind != ".png" && kind != ".pgm")
      refuse("lab", "a picture must be a .png or .pgm file", file.string());
  }
  if (std::ssize(files) < least_pictures)
    refuse("lab", "a class must have at least 10 pictures",
           folder.string() + ": " + std::to_string(files.size()));
  return files;
}

template <typename T>
void shuffle_all(std::vector<T>& all, std::uint64_t key) {
  Draws draws{0x70696374, key};
  shuffle(all, all.size(), draws);
}

PictureSet stacked(std::vector<std::pair<at::Tensor, std::int64_t>> pictures) {
  shuffle_all(pictures, 0);
  PictureSet set;
  std::vector<at::Tensor> all;
  for (const auto& [pixels, label] : pictures) {
    all.push_back(pixels);
    set.labels.push_back(label);
  }
  set.pixels = at::stack(all);
  return set;
}

}  // namespace

at::Tensor read_picture(const fs::path& path) {
  const std::string bytes = read_file(path);
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return read_png(path, bytes);
  if (bytes.starts_with("P2") || bytes.starts_with("P5")) return read_pgm(path, bytes);
  refuse_picture("a picture must be a PNG or a PGM (P2 or P5)", path,
                 bytes.empty() ? "0 bytes" : "other bytes at the start");
}

at::Tensor resized_pictures(const at::Tensor& pictures, std::int64_t side) {
  if (pictures.size(1) == side && pictures.size(2) == side) return pictures;
  return at::_upsample_bilinear2d_aa(pictures.unsqueeze(1), {side, side},
                                     /*align_corners=*/false)
      .squeeze(1);
}

PictureFolder read_folder(const fs::path& folder, std::int64_t side) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    refuse("lab", "TEXT of --task image must be a folder of pictures", folder.string());
  PictureFolder all;
  std::vector<std::vector<fs::path>> files;
  std::int64_t count = 0;
  const std::vector<fs::path> folders = entries(folder);
  if (folders.size() < 2 || std::ssize(folders) > most_classes)
    refuse("lab", "a folder of pictures must have 2 to 1000 classes, a subfolder each",
           folder.string() + ": " + std::to_string(folders.size()));
  for (const fs::path& one : folders) {
    all.classes.push_back(one.filename().string());
    if (internal::ill_formed_utf8(all.classes.back()) != std::string::npos)
      refuse("lab", "the name of a class must be UTF-8", one.string());
    files.push_back(pictures_of(one));
    count += std::ssize(files.back());
  }
  if (count > most_pictures || count * side * side > most_stored_bytes)
    refuse("lab",
           "a folder must have at most 100000 pictures, and 1 GiB of them at the longest grid",
           count);
  std::vector<std::pair<at::Tensor, std::int64_t>> train, validation, test;
  for (std::size_t label = 0; label < files.size(); ++label) {
    std::vector<fs::path>& paths = files[label];
    shuffle_all(paths, 1 + label);
    const std::size_t tenth = paths.size() / 10;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      at::Tensor grey = resized_pictures(read_picture(paths[i]).unsqueeze(0), side)[0];
      grey = grey.mul(255).round().clamp(0, 255).to(at::kByte);
      (i < tenth       ? test
       : i < 2 * tenth ? validation
                       : train)
          .emplace_back(grey, static_cast<std::int64_t>(label));
    }
  }
  all.train = stacked(train), all.validation = stacked(validation), all.test = stacked(test);
  return all;
}

}  // namespace gnomon::lab::image_examples

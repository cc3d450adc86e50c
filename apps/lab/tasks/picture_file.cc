#include "apps/lab/tasks/picture_file.h"

#include <png.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>

#include "apps/lab/data/stream.h"
#include "gnomon/error.h"

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
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string text = rest_of(stream);
  if (error || !stream.is_open() || stream.bad())
    refuse_picture("a picture must be readable", path,
                   error ? error.message() : std::strerror(errno));
  return text;
}

void check_size(const fs::path& path, std::int64_t height, std::int64_t width) {
  if (height < 1 || width < 1 || height > most_picture_side || width > most_picture_side)
    refuse_picture("the sides of a picture must be 1 to 4096 pixels", path,
                   std::to_string(width) + " x " + std::to_string(height));
}

Picture read_png(const fs::path& path, const std::string& bytes) {
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
  std::vector<std::uint8_t> greys(std::size_t{image.height} * image.width);
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&image, &white, greys.data(), static_cast<png_int_32>(image.width),
                             nullptr))
    refuse_picture("a PNG must be whole", path, image.message);
  Picture grey{image.height, image.width, {}};
  grey.values.reserve(greys.size());
  for (const std::uint8_t one : greys) grey.values.push_back(static_cast<float>(one) / 255);
  return grey;
}

bool is_space(char c) { return std::strchr(" \t\r\n\v\f", c) && c != '\0'; }

Picture read_pgm(const fs::path& path, const std::string& bytes) {
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
  Picture grey{height, width, {}};
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
    grey.values.push_back(static_cast<float>(value) / static_cast<float>(most));
  }
  return grey;
}

}  // namespace

Picture read_picture_file(const fs::path& path) {
  const std::string bytes = read_file(path);
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return read_png(path, bytes);
  if (bytes.starts_with("P2") || bytes.starts_with("P5")) return read_pgm(path, bytes);
  refuse_picture("a picture must be a PNG or a PGM (P2 or P5)", path,
                 bytes.empty() ? "0 bytes" : "other bytes at the start");
}

}  // namespace gnomon::lab::image_examples

#include "apps/lab/tasks/image.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "gnomon/error.h"
#include "src/core/text.h"

namespace gnomon::lab::image_examples {
namespace {

namespace fs = std::filesystem;

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
  const Picture picture = read_picture_file(path);
  return at::tensor(picture.values).view({picture.height, picture.width});
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

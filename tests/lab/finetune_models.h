// Small checkpoints for the tests of --finetune: the models of finetune/logits.json, which
// finetune/released.py writes with transformers. The weights are a function of the name of the
// tensor and the index.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "apps/lab/runs/options.h"
#include "gnomon/io/safetensors.h"

namespace gnomon::testing {

inline const lab::Json& released_models() {
  static const lab::Json all = [] {
    std::ifstream stream(GNOMON_FINETUNE_LOGITS);
    return lab::Json::parse(stream);
  }();
  return all;
}

inline std::vector<float> released_values(const std::string& name,
                                          const std::vector<std::int64_t>& shape) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  const bool norm = shape.size() == 1 && name.ends_with("weight");
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t x = hash + i * 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
    const double unit = static_cast<double>(x >> 40) / (1 << 23) - 1;
    values.push_back(static_cast<float>(norm ? 1 + unit / 4 : unit / 2));
  }
  return values;
}

// A folder that is removed at the end.
class ReleasedFolder {
 public:
  explicit ReleasedFolder(const std::string& model)
      : path_(
            std::filesystem::temp_directory_path() /
            ("gnomon-released-" + std::to_string(getpid()) + "-" + std::to_string(next()++))) {
    const lab::Json& one = released_models()["models"].at(model);
    config = one["config"];
    for (const auto& [name, shape] : one["tensors"].items())
      tensors.push_back({name, shape.get<std::vector<std::int64_t>>(), {}});
    for (Tensor& tensor : tensors) tensor.values = released_values(tensor.name, tensor.shape);
    write();
  }
  ~ReleasedFolder() { std::filesystem::remove_all(path_); }
  ReleasedFolder(const ReleasedFolder&) = delete;
  ReleasedFolder& operator=(const ReleasedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  lab::Json config;
  std::vector<Tensor> tensors;

  Tensor& tensor(const std::string& name) {
    for (Tensor& one : tensors)
      if (one.name == name) return one;
    throw std::out_of_range(name);
  }
  // Writes config.json and model.safetensors from the members.
  void write() const {
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "config.json") << config.dump(1);
    write_shard("model.safetensors", 0, tensors.size());
  }
  // Writes the tensors [begin, end).
  void write_shard(const std::string& file, std::size_t begin, std::size_t end) const {
    std::vector<io::NamedArray> arrays;
    for (std::size_t i = begin; i < end; ++i)
      arrays.push_back(
          {tensors[i].name, io::Array(io::Element::f32, tensors[i].shape,
                                      std::as_bytes(std::span(tensors[i].values)))});
    io::write_safetensors(path_ / file, arrays);
  }
  void write_text(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file, std::ios::binary) << text;
  }

 private:
  static int& next() {
    static int number = 0;
    return number;
  }
  std::filesystem::path path_;
};

}  // namespace gnomon::testing

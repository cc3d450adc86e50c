// Draft of a description, from the keys and tensors of a GGUF file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/model/gguf.h"
#include "src/core/text.h"
#include "src/model/config/reading.h"

namespace gnomon::model::internal {

// Keys of a file: "%s.rope.freq_base", with the architecture for %s.
class GgufDraft : public Draft {
 public:
  explicit GgufDraft(const Gguf& file) : file_(file) {
    const auto text = file.text("general.architecture");
    if (!text) throw FormatError(file.name(), 0, "general.architecture is missing");
    arch = std::string(*text);
    row = find_architecture(arch);
    if (!row)
      fail("general.architecture",
           "the architecture " + gnomon::internal::shown(arch) +
               " is unknown, so the pairing of its elements is unknown");
    if (!row->gguf.refused.empty())
      fail("general.architecture",
           "the architecture " + arch + " is not read: " + std::string(row->gguf.refused));
    out.source = file.name();
    out.model_type = arch;
  }

  std::string key(std::string_view name) const { return arch + "." + std::string(name); }

  [[noreturn]] void fail(const std::string& reason) const override {
    throw FormatError(file_.name(), 0, reason);
  }
  [[noreturn]] void fail(const std::string& full_key, const std::string& reason) const {
    const GgufEntry* const entry = file_.find(full_key);
    throw FormatError(file_.name(), entry ? entry->offset : 0,
                      gnomon::internal::printable(reason, 400));
  }

  std::optional<std::int64_t> integer(std::string_view name) const {
    return file_.integer(key(name));
  }
  // Returns a size, at least 1, or 0 if the key is absent.
  std::int64_t size(std::string_view name, std::int64_t most = max_number) const {
    const auto value = integer(name);
    if (!value) return 0;
    if (*value < 1 || *value > most)
      fail(key(name), key(name) + " must be 1 to " + std::to_string(most) + ", got " +
                          std::to_string(*value));
    return *value;
  }
  std::int64_t required(std::string_view name, std::int64_t most = max_count) const {
    const std::int64_t value = size(name, most);
    if (value == 0) fail(key(name) + " is missing");
    return value;
  }
  double number(std::string_view name, double otherwise) const {
    const double value = file_.number(key(name)).value_or(otherwise);
    if (!std::isfinite(value)) fail(key(name), key(name) + " must be finite");
    return value;
  }
  double positive(std::string_view name, double otherwise) const {
    const double value = number(name, otherwise);
    if (!(value > 0)) fail(key(name), key(name) + " must be positive, got " + shown(value));
    return value;
  }
  double base(std::string_view name) const {
    const double value = number(name, 10'000);
    if (!(value > 1))
      fail(key(name), key(name) + " must be greater than 1, got " + shown(value));
    return value;
  }
  // Returns 0 if the key is absent or 0.
  double not_negative(std::string_view name) const {
    return number(name, 0) == 0 ? 0 : positive(name, 0);
  }

  // Throws FormatError if an array of `size` is shorter than the layers.
  void require_length(std::string_view name, std::size_t size) const {
    if (size < layers.size())
      fail(key(name), key(name) + " must have one value for each of " +
                          std::to_string(layers.size()) + " layers, got " +
                          std::to_string(size));
  }

  // Returns the elements of a tensor of factors, or an empty vector if it is absent.
  std::vector<double> factors(std::string_view tensor_name, std::int64_t pairs) const {
    const GgufTensor* const tensor = file_.find_tensor(tensor_name);
    if (!tensor) return {};
    file_.data(*tensor);  // throws if the bytes are missing
    const auto& [bytes, name] = file_.shards()[tensor->shard];
    // A file may have factors for the whole head, of which the first pairs are used.
    const bool longer = row->gguf.half_rotated && tensor->size() > pairs;
    if (tensor->size() != pairs && !longer)
      throw FormatError(name, std::min<std::uint64_t>(tensor->offset, bytes.size()),
                        std::string(tensor_name) + " must have one factor for each of " +
                            std::to_string(pairs) + " pairs, got " +
                            std::to_string(tensor->size()));
    std::vector<double> values = file_.values(*tensor);
    for (const double value : values)
      if (!(value > 0) || !std::isfinite(value))
        throw FormatError(
            name, tensor->offset,
            std::string(tensor_name) + " must be finite and positive, got " + shown(value));
    values.resize(static_cast<std::size_t>(pairs));
    return values;
  }

  // Whether llama.cpp reads this key, which only some architectures have.
  bool reads(std::string_view name) const {
    return std::find(row->gguf.keys.begin(), row->gguf.keys.end(), name) !=
           row->gguf.keys.end();
  }
  // Adds a note if the file has the key with another value, and llama.cpp does not read it.
  void note_unread(const std::string& name, double usual) {
    if (const double value = number(name, usual); value != usual && !reads(name))
      note(name + " " + shown(value) + " is not used: llama.cpp does not read it for " + arch);
  }
  // Whether no layer rotates.
  bool is_unrotated() const { return row->gguf.rope_type == RopeType::none; }
  const Gguf& file() const { return file_; }
  std::string arch;
  const Family* row = nullptr;  // row of the architecture
  std::int64_t window = 0;      // of the layers of type sliding_attention; 0: there are none

 private:
  const Gguf& file_;
};

// Reads sizes and types of the layers.
void read_layers(GgufDraft& r);
// Frequencies divided by the factors. `scale`: of cos and sin.
RopeScaling slowed(std::vector<double> factors, double scale);
// `sliding`: of sliding layers, which have the factor of the file with the type none too.
RopeScaling read_scaling(GgufDraft& r, const Rotary& rotary, bool sliding = false);
// Throws FormatError if the rotation is impossible or has numbers that are not finite.
void check(GgufDraft& r, const Rope& rope);
// Puts the rotations of all layers.
void read_rope(GgufDraft& r);
// Reads windows, norms, scales, caps and sinks.
void read_attention(GgufDraft& r);

}  // namespace gnomon::model::internal

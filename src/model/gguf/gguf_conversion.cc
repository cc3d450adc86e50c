#include "gnomon/model/gguf_conversion.h"

#include <algorithm>
#include <cstring>

#include "gnomon/error.h"
#include "src/core/text.h"
#include "src/model/config/subject.h"
#include "src/model/gguf/gguf_plan.h"
#include "src/model/gguf/gguf_reader.h"

namespace gnomon::model {
namespace {

using gnomon::internal::shown;
using internal::GgufPlan;
using internal::load;

// Rows that are read together, if the elements of a column are neighbours in the checkpoint.
constexpr std::int64_t row_block = 64;
constexpr std::int64_t most_elements = 1 << 16;  // of a block

float value_at(io::Element element, const std::byte* data, std::int64_t index) {
  if (element == io::Element::f32) return load<float>(data + 4 * index);
  if (element == io::Element::f16) return float(load<Half>(data + 2 * index));
  return float(load<BFloat16>(data + 2 * index));
}

void store(GgufElement element, float value, char* to) {
  if (element == GgufElement::f32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  const std::uint16_t bits =
      element == GgufElement::f16 ? Half(value).bits : BFloat16(value).bits;
  std::memcpy(to, &bits, sizeof bits);
}

bool same_type(io::Element from, GgufElement to) {
  return (from == io::Element::f32 && to == GgufElement::f32) ||
         (from == io::Element::f16 && to == GgufElement::f16) ||
         (from == io::Element::bf16 && to == GgufElement::bf16);
}

// Bytes of an element of F32, F16 or BF16.
std::size_t size_of(GgufElement element) { return element == GgufElement::f32 ? 4 : 2; }

// Writes rows of MXFP4. GGML's block is its scale, then 16 bytes with the elements j and
// j + 16, instead of 2 j and 2 j + 1.
void write_mxfp4(const GgufPart& part, const io::Array& blocks, const io::Array& scales,
                 io::Output& out) {
  const auto [rows, step] = part.axes[0];
  const std::int64_t columns = part.shape[2];
  std::string bytes(static_cast<std::size_t>(columns) * 17, '\0');
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = (part.offset + row * step) * columns;
    char* to = bytes.data();
    for (std::int64_t block = first; block < first + columns; ++block) {
      *to++ = static_cast<char>(scales.bytes()[static_cast<std::size_t>(block)]);
      const auto* const from =
          reinterpret_cast<const std::uint8_t*>(blocks.bytes().data()) + 16 * block;
      const auto element = [&](int i) { return from[i / 2] >> (i % 2 * 4) & 15; };
      for (int j = 0; j < 16; ++j) *to++ = static_cast<char>(element(j) | element(j + 16) << 4);
    }
    out.write(bytes);
  }
}

// Writes the elements of a part in order.
class PartWriter {
 public:
  PartWriter(const GgufPart& part, const io::Array& array, GgufElement element, double added,
             io::Output& out)
      : part_(part),
        data_(array.bytes().data()),
        element_(element),
        added_(added),
        copies_(same_type(part.element, element) && added == 0),
        out_(out) {}

  void write() { write(0, part_.offset); }

 private:
  void write(std::size_t axis, std::int64_t offset) {
    const auto [extent, stride] = part_.axes[axis];
    const std::size_t left = part_.axes.size() - axis;
    if (left == 1) return write_row(offset, extent, stride);
    const auto [columns, step] = part_.axes[axis + 1];
    if (left == 2 && step > stride && columns <= most_elements)
      return write_block(offset, part_.axes[axis], part_.axes[axis + 1]);
    for (std::int64_t i = 0; i < extent; ++i) write(axis + 1, offset + i * stride);
  }

  void write_row(std::int64_t offset, std::int64_t extent, std::int64_t stride) {
    const auto size = static_cast<std::int64_t>(size_of(element_));
    if (copies_ && stride == 1)
      return out_.write(
          std::span(data_ + offset * size, static_cast<std::size_t>(extent * size)));
    for (std::int64_t begin = 0; begin < extent; begin += most_elements) {
      const std::int64_t count = std::min(extent - begin, most_elements);
      for (std::int64_t i = 0; i < count; ++i) put(i, offset + (begin + i) * stride);
      write_elements(count);
    }
  }

  // A transposed matrix: the rows of a block are neighbours in the checkpoint.
  void write_block(std::int64_t offset, GgufPart::Axis rows, GgufPart::Axis columns) {
    for (std::int64_t begin = 0; begin < rows.extent; begin += row_block) {
      const std::int64_t count = std::min(row_block, rows.extent - begin);
      for (std::int64_t c = 0; c < columns.extent; ++c)
        for (std::int64_t r = 0; r < count; ++r)
          put(r * columns.extent + c, offset + (begin + r) * rows.stride + c * columns.stride);
      write_elements(count * columns.extent);
    }
  }

  // Puts an element of the checkpoint into the block.
  void put(std::int64_t at, std::int64_t index) {
    const auto size = static_cast<std::int64_t>(size_of(element_));
    block_.resize(std::max(block_.size(), static_cast<std::size_t>((at + 1) * size)));
    char* const to = block_.data() + at * size;
    if (copies_) {
      std::memcpy(to, data_ + index * size, static_cast<std::size_t>(size));
      return;
    }
    const float value = value_at(part_.element, data_, index);
    store(element_, added_ == 0 ? value : static_cast<float>(value + added_), to);
  }
  void write_elements(std::int64_t count) {
    out_.write(std::string_view(block_).substr(
        0, static_cast<std::size_t>(count) * size_of(element_)));
  }

  const GgufPart& part_;
  const std::byte* data_;
  GgufElement element_;
  double added_;
  bool copies_;
  io::Output& out_;
  std::string block_;
};

void write_data(const GgufTensorShape& shape, const GgufData& data,
                const io::Checkpoint& checkpoint, io::Output& out) {
  if (data.parts.empty()) {
    out.write(std::as_bytes(std::span(data.values)));
  }
  for (const GgufPart& part : data.parts) {
    const io::Array array = checkpoint.tensor(part.tensor);
    if (array.element() != part.element || array.shape() != part.shape)
      refuse(array.name(), "must not change while it is converted", shown(part.tensor));
    if (!part.scales.empty()) {
      const io::Array scales = checkpoint.tensor(part.scales);
      if (16 * scales.size() != array.size())
        refuse(scales.name(), "must not change while it is converted", shown(part.scales));
      write_mxfp4(part, array, scales, out);
      continue;
    }
    PartWriter(part, array, shape.element, data.added, out).write();
  }
}

}  // namespace

std::vector<std::string> gguf_families() {
  std::vector<std::string> names;
  for (const internal::Family& row : internal::all_families())
    if (!row.gguf_weights.architecture.empty() && !row.model_type.empty())
      names.emplace_back(row.model_type);
  return names;
}

std::vector<io::TensorEntry> tensors_of(const io::Checkpoint& checkpoint) {
  std::vector<io::TensorEntry> all;
  for (const std::string& shard : checkpoint.shards())
    for (const io::TensorEntry& entry : checkpoint.shard(shard).tensors()) all.push_back(entry);
  checkpoint.check();
  return all;
}

std::uint64_t GgufConversion::bytes() const {
  std::uint64_t bytes = header_bytes(header).size();
  for (const GgufTensorShape& tensor : header.tensors)
    bytes += tensor.bytes() + gguf_padding(tensor.bytes());
  return bytes;
}

GgufConversion plan_gguf(std::string_view config, std::span<const io::TensorEntry> tensors,
                         const GgufOptions& options) {
  const gnomon::internal::JsonDocument document(config, options.name);
  const internal::Subject subject = internal::find_subject(document.root(), {});
  const internal::Family* const family =
      subject.type ? internal::find_family(*subject.type) : nullptr;
  if (!family || family->gguf_weights.architecture.empty() || !subject.path.empty()) {
    std::string names;
    for (const std::string& name : gguf_families()) names += (names.empty() ? "" : ", ") + name;
    refuse("gguf", "model_type must be one of " + names,
           subject.types.empty() ? "none" : subject.types.front());
  }
  const ModelDescription model =
      internal::describe(document.root(), subject, {.name = options.name, .part = {}});
  GgufConversion out;
  out.model_type = model.model_type;
  GgufPlan plan{.family = *family, .model = model, .config = subject.object, .out = out};
  const LayerGroup& first = model.groups.front();
  plan.extents = {{'C', model.width},
                  {'H', first.heads},
                  {'N', first.key_heads},
                  {'D', first.head_dim},
                  {'Q', first.heads * first.head_dim},
                  {'K', first.key_heads * first.head_dim},
                  {'A', (first.heads + 2 * first.key_heads) * first.head_dim}};
  for (const auto& [letter, extent] : plan.extents)
    if (extent < 1) refuse("gguf", "the config must give width, heads and head_dim", extent);
  if (first.value_dim != first.head_dim)
    refuse("gguf", "values must have the head dimension of keys", first.value_dim);
  if (family->gguf_weights.heads_fill_width && first.heads * first.head_dim != model.width)
    refuse("gguf", "heads x head_dim must be the width for " + std::string(plan.architecture()),
           std::to_string(first.heads) + " x " + std::to_string(first.head_dim));
  internal::put_factors(plan);
  internal::put_tensors(plan, config, tensors, options);
  internal::put_keys(plan, options);
  GgufVocabulary vocabulary =
      read_vocabulary(options.tokenizer, plan.extents.at('V'),
                      options.name.substr(0, options.name.find_last_of('/') + 1));
  if (vocabulary.metadata.empty()) {
    plan.put_general("tokenizer.ggml.model", std::string("none"));
    plan.note("no vocabulary is written, programs must pass token ids: " + vocabulary.reason);
  }
  for (auto& entry : vocabulary.metadata) out.header.metadata.push_back(std::move(entry));
  for (std::string& note : vocabulary.notes) plan.note(std::move(note));
  internal::compare_descriptions(plan);
  return out;
}

void write_gguf(const GgufConversion& conversion, const io::Checkpoint& checkpoint,
                io::Output& out) {
  out.write(header_bytes(conversion.header));
  for (std::size_t i = 0; i < conversion.data.size(); ++i) {
    const GgufTensorShape& tensor = conversion.header.tensors[i];
    const std::uint64_t before = out.written();
    write_data(tensor, conversion.data[i], checkpoint, out);
    if (out.written() - before != tensor.bytes())
      throw std::logic_error("gguf: a tensor has another size than planned: " + tensor.name);
    out.write(std::string(gguf_padding(tensor.bytes()), '\0'));
  }
}

}  // namespace gnomon::model

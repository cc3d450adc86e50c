#include "gnomon/torch/state.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/io/safetensors.h"
#include "gnomon/torch/position.h"
#include "gnomon/torch/scheme.h"
#include "gnomon/version.h"
#include "src/core/json.h"
#include "src/core/text.h"
#include "src/model/encodings/encoding_json.h"

namespace gnomon::libtorch {
namespace {

namespace fs = std::filesystem;

constexpr const char* layout_key = "gnomon_state";
constexpr const char* layout = "1";
constexpr const char* version_key = "gnomon_version";
constexpr std::string_view encodings_key = "gnomon:";

constexpr std::array<std::pair<at::ScalarType, io::Element>, 10> types{
    {{at::kDouble, io::Element::f64},
     {at::kFloat, io::Element::f32},
     {at::kHalf, io::Element::f16},
     {at::kBFloat16, io::Element::bf16},
     {at::kLong, io::Element::i64},
     {at::kInt, io::Element::i32},
     {at::kShort, io::Element::i16},
     {at::kChar, io::Element::i8},
     {at::kByte, io::Element::u8},
     {at::kBool, io::Element::boolean}}};

io::Element element_of(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined() || tensor.layout() != at::kStrided)
    refuse("save_state", name + " must be a strided tensor",
           tensor.defined() ? "another layout" : "an undefined tensor");
  for (const auto& [type, element] : types)
    if (type == tensor.scalar_type()) return element;
  refuse("save_state", name + " must have a type of .safetensors files",
         at::toString(tensor.scalar_type()));
}

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

NamedTensors tensors_of(const torch::nn::Module& module) {
  NamedTensors all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

// The encodings of each module of Gnomon, by its key in the metadata.
std::map<std::string, model::Scheme> schemes_of(const torch::nn::Module& module) {
  std::map<std::string, model::Scheme> all;
  const auto add = [&](const std::string& path, const torch::nn::Module& one) {
    const std::string key = std::string(encodings_key) + path;
    if (const auto* encoding = dynamic_cast<const PositionEncodingImpl*>(&one))
      all[key] = {{encoding->mixture()}};
    if (const auto* scheme = dynamic_cast<const PositionSchemeImpl*>(&one))
      all[key] = scheme->scheme();
  };
  add("", module);
  for (const auto& item : module.named_modules("", /*include_self=*/false))
    add(item.key(), *item.value());
  return all;
}

// Unlike model::scheme_from_json, without model::check: the mixture of a module need not pass.
model::Scheme scheme_of(const std::string& text) {
  const auto json =
      internal::parse_json<internal::OrderedJson>(text, "load_state", "the encodings");
  model::Scheme scheme;
  if (!json.is_object() || json.size() != 1 || !json.contains("layers") ||
      !json["layers"].is_array())
    refuse("load_state", "the encodings must be {\"layers\": [[...], ...]}",
           internal::shown(text));
  for (const auto& layer : json["layers"]) {
    if (!layer.is_array())
      refuse("load_state", "the encodings must be {\"layers\": [[...], ...]}",
             internal::shown(text));
    model::Mixture& mixture = scheme.layers.emplace_back();
    for (const auto& one : layer) mixture.push_back(model::internal::encoding_of(one));
  }
  return scheme;
}

// A file whose parts are checked against a module.
class State {
 public:
  explicit State(const fs::path& path) : path_(refuse_archives(path)), file_(path) {}

  void check_metadata(const std::map<std::string, model::Scheme>& wanted) const {
    const auto found = file_.metadata().find(layout_key);
    if (found == file_.metadata().end()) fail("a file that save_state did not write");
    if (found->second != layout)
      fail("layout " + internal::shown(found->second) + ", which " + writer() + " wrote");
    for (const auto& [key, scheme] : wanted) {
      const auto text = file_.metadata().find(key);
      if (text == file_.metadata().end()) fail("no encodings of " + module_of(key));
      if (!same(text->second, scheme))
        refuse("load_state",
               path_ + " must contain for " + module_of(key) + " " + model::to_json(scheme),
               text->second);
    }
    for (const auto& [key, text] : file_.metadata())
      if (key.starts_with(encodings_key) && !wanted.contains(key))
        fail("encodings of " + module_of(key) + ", which the module does not have");
  }

  // Copies of the tensors of the file, in the order of `wanted`.
  std::vector<at::Tensor> read(const NamedTensors& wanted) const {
    std::set<std::string_view> names;
    std::vector<at::Tensor> values;
    for (const auto& [name, tensor] : wanted) {
      const io::TensorEntry* entry = file_.find(name);
      if (!entry) fail("no tensor " + internal::shown(name));
      const std::string dtype = io::Array(element_of(tensor, name), {0}, {}).dtype();
      if (entry->dtype != dtype || entry->shape != tensor.sizes().vec())
        refuse("load_state",
               path_ + ": " + internal::shown(name) + " must be " + dtype + " " +
                   io::to_string(tensor.sizes().vec()),
               internal::printable(entry->dtype, 20) + " " + io::to_string(entry->shape));
      names.insert(name);
      values.push_back(to_tensor(file_.tensor(*entry)));
    }
    for (const io::TensorEntry& one : file_.tensors())
      if (!names.contains(one.name))
        fail("the tensor " + internal::shown(one.name) + ", which the module does not have");
    return values;
  }

 private:
  // Archives are ZIP files, old ones pickles of protocol 2.
  static std::string refuse_archives(const fs::path& path) {
    std::array<char, 4> begin{};
    std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
    const std::string_view text(begin.data(), begin.size());
    if (text == "PK\x03\x04" || text.starts_with("\x80\x02"))
      refuse("load_state",
             path.string() +
                 " must be a .safetensors file of save_state: write it again from "
                 "the model",
             "an archive of LibTorch or PyTorch, which can contain code");
    return path.string();
  }
  [[noreturn]] void fail(const std::string& found) const {
    refuse("load_state", path_ + " must contain the state of this module", found);
  }
  std::string writer() const {
    const auto found = file_.metadata().find(version_key);
    return found == file_.metadata().end()
               ? "an unknown version"
               : "version " + internal::printable(found->second, 40);
  }
  static std::string module_of(const std::string& key) {
    return key.size() == encodings_key.size()
               ? "the module"
               : internal::shown(key.substr(encodings_key.size()));
  }
  static bool same(const std::string& text, const model::Scheme& wanted) try {
    return scheme_of(text) == wanted;
  } catch (const std::invalid_argument&) {  // an encoding that this version does not know
    return false;
  }

  const std::string path_;
  io::SafeTensors file_;
};

}  // namespace

io::Array to_array(const at::Tensor& tensor, const std::string& name) {
  const io::Element element = element_of(tensor, name);
  auto kept =
      std::make_shared<at::Tensor>(tensor.detach().to(at::kCPU).contiguous().resolve_neg());
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(kept->data_ptr()),
                                         kept->nbytes());
  io::Array::Shape shape = kept->sizes().vec();
  return io::Array(element, std::move(shape), bytes, std::move(kept), name);
}

at::Tensor to_tensor(const io::Array& array) {
  for (const auto& [type, element] : types) {
    if (element != array.element()) continue;
    at::Tensor copy = at::empty(array.shape(), type);
    if (array.size() > 0) std::memcpy(copy.data_ptr(), array.bytes().data(), copy.nbytes());
    return copy;
  }
  refuse("load_state", array.name() + " must have a type of LibTorch", array.dtype());
}

void save_state(const torch::nn::Module& module, const fs::path& path) {
  std::vector<io::NamedArray> arrays;
  for (const auto& [name, tensor] : tensors_of(module))
    arrays.push_back({name, to_array(tensor, name)});
  // The widest types first, so that all are aligned.
  std::stable_sort(arrays.begin(), arrays.end(), [](const auto& a, const auto& b) {
    return io::size_of(a.array.element()) > io::size_of(b.array.element());
  });
  io::Metadata metadata{{"format", "pt"}, {layout_key, layout}, {version_key, GNOMON_VERSION}};
  for (const auto& [key, scheme] : schemes_of(module)) metadata[key] = model::to_json(scheme);
  io::write_safetensors(path, arrays, metadata);
}

void load_state(torch::nn::Module& module, const fs::path& path) {
  const State file(path);
  file.check_metadata(schemes_of(module));
  const NamedTensors tensors = tensors_of(module);
  const std::vector<at::Tensor> values = file.read(tensors);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i) {
    at::Tensor to = tensors[i].second;
    to.copy_(values[i]);
  }
}

}  // namespace gnomon::libtorch

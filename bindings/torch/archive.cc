#include "bindings/torch/archive.h"

#include "gnomon/error.h"

namespace gnomon::libtorch {
namespace {

constexpr const char* key = "specification";

}  // namespace

void write_specification(torch::serialize::OutputArchive& archive,
                         const std::string& specification) {
  archive.write(key, c10::IValue(specification));
}

void check_specification(torch::serialize::InputArchive& archive, std::string_view module,
                         const std::string& wanted) {
  c10::IValue found;
  const bool has = archive.try_read(key, found) && found.isString();
  const std::string text = has ? found.toStringRef() : "a file without a specification";
  if (text != wanted)
    refuse("load", "the file must contain " + std::string(module) + " " + wanted, text);
}

}  // namespace gnomon::libtorch

// Reader: src/model/encodings/encoding_json.cc
#include "fuzz/target.h"
#include "gnomon/model/description.h"
#include "gnomon/model/encoding.h"

namespace gnomon::fuzz {
namespace encoding_fuzz {

// What is read can be written, and what is written is read as the same.
bool read(std::span<const std::byte> bytes) {
  return answered([&] {
    const model::Encoding encoding = model::encoding_from_json(text(bytes));
    const std::string written = model::to_json(encoding);
    require(model::to_json(model::encoding_from_json(written)) == written);
    require(!model::kind(encoding).empty());
    answered([&] { model::capacity(encoding); });
    answered([&] { model::parameters(encoding); });
  });
}

const Register registered("encoding", read);

}  // namespace encoding_fuzz
}  // namespace gnomon::fuzz

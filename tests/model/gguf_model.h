// GGUF files of small models, built in memory.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gnomon/error.h"
#include "gnomon/model/gguf_model.h"
#include "model/gguf_builder.h"
#include "model/group.h"

namespace gnomon::model {

struct Sizes {
  std::uint32_t layers = 4, heads = 4, width = 64, length = 4096;
};

// The keys of every architecture. Names after "." belong to the architecture.
class Model : public testing::GgufBuilder {
 public:
  explicit Model(const std::string& architecture, Sizes sizes = {}) : name_(architecture) {
    text("general.architecture", architecture);
    size(".block_count", sizes.layers).size(".attention.head_count", sizes.heads);
    size(".embedding_length", sizes.width).size(".context_length", sizes.length);
  }
  std::string key(const std::string& key) const { return key[0] == '.' ? name_ + key : key; }

  // Not written if the value is 0.
  Model& size(const std::string& name, std::uint32_t value) {
    if (value != 0) u32(key(name), value);
    return *this;
  }
  Model& number(const std::string& name, float value) {
    f32(key(name), value);
    return *this;
  }
  Model& word(const std::string& name, const std::string& value) {
    text(key(name), value);
    return *this;
  }
  Model& integers(const std::string& name, const std::vector<std::int32_t>& values) {
    array(key(name), testing::gguf_elements(testing::gguf_i32, values));
    return *this;
  }
  Model& booleans(const std::string& name, const std::vector<std::uint8_t>& values) {
    array(key(name), testing::gguf_elements(testing::gguf_bool, values));
    return *this;
  }
  Model& factors(const std::string& name, const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += testing::gguf_bytes(value);
    tensor(name, {values.size()}, 0, bytes);
    return *this;
  }

 private:
  std::string name_;
};

inline ModelDescription read(const std::string& file) {
  return read_gguf(Gguf(std::as_bytes(std::span(file)), "x.gguf"));
}
inline ModelDescription read(const Model& model) { return read(model.file()); }

// Expects FormatError with this text in its reason, at the value of `key`, or byte 0.
inline void refused(const Model& model, const std::string& reason,
                    const std::string& key = "") {
  const std::string file = model.file();
  SCOPED_TRACE(reason);
  const Gguf gguf(std::as_bytes(std::span(file)), "x.gguf");
  const GgufEntry* const entry = gguf.find(model.key(key.empty() ? "none" : key));
  EXPECT_EQ(entry == nullptr, key.empty()) << key;
  try {
    read_gguf(gguf);
    ADD_FAILURE() << "is taken";
  } catch (const FormatError& error) {
    EXPECT_EQ(error.file(), "x.gguf");
    EXPECT_THAT(error.reason(), ::testing::HasSubstr(reason));
    EXPECT_EQ(error.offset(), entry ? entry->offset : 0u) << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
  }
}

}  // namespace gnomon::model

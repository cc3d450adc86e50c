#include "gnomon/model/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gnomon/model/gguf.h"
#include "testing.h"

namespace gnomon::model {
namespace gguf_writer_test {

using namespace gnomon::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

TEST(GgufWriter, TheReaderReadsWhatIsWritten) {
  const GgufHeader header{
      .metadata = {{"a.u32", 4'000'000'000u},
                   {"a.i32", std::int32_t{-3}},
                   {"a.f32", 0.5f},
                   {"a.boolean", true},
                   {"a.text", std::string("\u00e9")},
                   {"a.integers", std::vector<std::int32_t>{-1, 2}},
                   {"a.numbers", std::vector<float>{0.25f}},
                   {"a.booleans", std::vector<bool>{true, false, true}},
                   {"a.texts", std::vector<std::string>{"x", ""}}},
      .tensors = {{.name = "t", .element = GgufElement::bf16, .extents = {3, 5}},
                  {.name = "u", .extents = {7}},
                  {.name = "v", .element = GgufElement::f16, .extents = {1, 2, 3, 4}}}};
  std::string bytes = header_bytes(header);
  EXPECT_EQ(bytes.size() % gguf_alignment, 0u);
  const std::size_t data = bytes.size();
  bytes.append(32 + 32 + 64, '\0');  // 30, 28 and 48 bytes
  const Gguf file(std::as_bytes(std::span(bytes)), "x.gguf");
  EXPECT_EQ(file.version(), 3u);
  EXPECT_THAT(file.integer("a.u32"), Optional(4'000'000'000));
  EXPECT_THAT(file.integer("a.i32"), Optional(-3));
  EXPECT_THAT(file.number("a.f32"), Optional(0.5));
  EXPECT_THAT(file.boolean("a.boolean"), Optional(true));
  EXPECT_EQ(file.text("a.text"), "\u00e9");
  EXPECT_THAT(file.integers("a.integers"), Optional(ElementsAre(-1, 2)));
  EXPECT_THAT(file.numbers("a.numbers"), Optional(ElementsAre(0.25)));
  EXPECT_THAT(file.booleans("a.booleans"), Optional(ElementsAre(true, false, true)));
  EXPECT_THAT(file.texts("a.texts"), Optional(ElementsAre("x", "")));
  ASSERT_EQ(file.tensors().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(file.tensors()[i].name, header.tensors[i].name);
    EXPECT_EQ(file.tensors()[i].bytes, header.tensors[i].bytes());
    EXPECT_EQ(file.tensors()[i].type, static_cast<std::uint32_t>(header.tensors[i].element));
  }
  EXPECT_THAT(file.tensors()[2].extents, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(file.tensors()[0].offset, data);
  EXPECT_EQ(file.tensors()[1].offset, data + 32);
  EXPECT_EQ(file.tensors()[2].offset, data + 64);
  EXPECT_EQ(file.data(file.tensors()[2]).size(), 48u);
}

TEST(GgufWriter, HeadersThatLlamaCppRefusesAreRefused) {
  const auto with_key = [](std::string key, GgufValue value) {
    GgufHeader header;
    header.metadata = {{"a", 1u}, {std::move(key), std::move(value)}};
    return header_bytes(header);
  };
  EXPECT_THAT(message_of([&] { with_key("", 1u); }), HasSubstr("keys must have 1 to 65535"));
  EXPECT_THAT(message_of([&] { with_key("a", 1u); }), HasSubstr("keys must be unique"));
  EXPECT_THAT(message_of([&] { with_key("\xff", 1u); }), HasSubstr("UTF-8"));
  EXPECT_THAT(message_of([&] { with_key("b", std::string("\xff")); }), HasSubstr("UTF-8"));
  const auto with_tensor = [](std::string name, std::vector<std::int64_t> extents) {
    GgufHeader header;
    header.tensors = {{.name = "t", .extents = {1}},
                      {.name = std::move(name), .extents = std::move(extents)}};
    return header_bytes(header);
  };
  with_tensor(std::string(63, 'x'), {1});
  EXPECT_THAT(message_of([&] { with_tensor(std::string(64, 'x'), {1}); }),
              HasSubstr("names of tensors must have 1 to 63 bytes"));
  EXPECT_THAT(message_of([&] { with_tensor("t", {1}); }), HasSubstr("must be unique"));
  EXPECT_THAT(message_of([&] { with_tensor("u", {}); }), HasSubstr("1 to 4 axes"));
  EXPECT_THAT(message_of([&] { with_tensor("u", {1, 1, 1, 1, 1}); }), HasSubstr("1 to 4 axes"));
  EXPECT_THAT(message_of([&] { with_tensor("u", {4, 0}); }), HasSubstr("at least 1, got 0"));
  EXPECT_THAT(
      message_of([] {
        GgufHeader header;
        header.tensors = {{.name = "t", .element = GgufElement::mxfp4, .extents = {33}}};
        header_bytes(header);
      }),
      HasSubstr("rows of \"t\" must be whole blocks, got 33"));
  EXPECT_THAT(message_of([&] { with_tensor("u", {INT64_MAX, 4}); }), HasSubstr("2^63 bytes"));
}

}  // namespace gguf_writer_test
}  // namespace gnomon::model

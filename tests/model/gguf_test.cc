#include "gnomon/model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "gnomon/dtype.h"
#include "gnomon/error.h"
#include "model/gguf_builder.h"
#include "testing.h"

namespace gnomon::model {
namespace gguf_test {

using namespace gnomon::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

// Buffer of exactly the file's bytes at an odd address, so that sanitizers detect reads past
// the end.
class File {
 public:
  explicit File(const std::string& contents)
      : bytes_(new std::byte[contents.size() + 1]),
        gguf_((std::memcpy(bytes_.get() + 1, contents.data(), contents.size()),
               std::span<const std::byte>(bytes_.get() + 1, contents.size())),
              "x.gguf") {}
  const Gguf* operator->() const { return &gguf_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  Gguf gguf_;
};

// Reads everything in a file with the right getter, because exceptions are slow under
// sanitizers.
void read_all(const Gguf& file) {
  const auto attempt = [](const auto& read) {
    try {
      read();
    } catch (const FormatError&) {
    }
  };
  for (const GgufEntry& entry : file.metadata()) {
    ASSERT_EQ(file.find(entry.key), &entry);
    if (entry.element == GgufType::boolean) {
      attempt([&] { file.booleans(entry.key); });
    } else if (entry.element == GgufType::text) {
      attempt([&] { file.texts(entry.key); });
    } else {
      attempt([&] { file.integers(entry.key); });
      attempt([&] { file.numbers(entry.key); });
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    ASSERT_EQ(file.find_tensor(tensor.name), &tensor);
    EXPECT_GE(tensor.size(), 0);
    attempt([&] { file.values(tensor); });
  }
}

// Returns the message and byte of the FormatError from opening `contents` and calling `then`,
// or empty text.
std::string error(const std::string& contents,
                  const std::function<void(const Gguf&)>& then = read_all) {
  try {
    const File file(contents);
    then(*file.operator->());
  } catch (const FormatError& error) {
    EXPECT_EQ(error.file(), "x.gguf");
    EXPECT_LE(error.offset(), contents.size());
    for (const char c : std::string(error.what())) EXPECT_GE(static_cast<unsigned char>(c), 32);
    return error.reason() + ", at byte " + std::to_string(error.offset());
  }
  return {};
}

TEST(Gguf, ReadsEveryTypeOfMetadata) {
  for (const std::uint32_t version : {2u, 3u}) {
    const File file(small_gguf(version));
    EXPECT_EQ(file->name(), "x.gguf");
    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->alignment(), 32u);
    ASSERT_EQ(file->metadata().size(), 16u);
    EXPECT_EQ(file->metadata()[0].key, "general.architecture");
    EXPECT_EQ(file->metadata()[12].type, GgufType::array);
    EXPECT_EQ(file->metadata()[12].element, GgufType::i32);
    EXPECT_THAT(file->text("general.architecture"), Optional(std::string_view("llama")));
    EXPECT_THAT(file->integer("llama.block_count"), Optional(2));
    EXPECT_THAT(file->number("llama.block_count"), Optional(2.0));
    EXPECT_THAT(file->number("llama.rope.freq_base"), Optional(10000.0));
    EXPECT_THAT(file->integer("t.u8"), Optional(200));
    EXPECT_THAT(file->integer("t.i8"), Optional(-100));
    EXPECT_THAT(file->integer("t.u16"), Optional(65535));
    EXPECT_THAT(file->integer("t.i16"), Optional(-32768));
    EXPECT_THAT(file->integer("t.i32"), Optional(-7));
    EXPECT_THAT(file->integer("t.u64"), Optional(std::int64_t{1} << 40));
    EXPECT_THAT(file->number("t.u64"), Optional(0x1p40));
    EXPECT_THAT(file->integer("t.i64"), Optional(-(std::int64_t{1} << 40)));
    EXPECT_THAT(file->number("t.i8"), Optional(-100.0));
    EXPECT_THAT(file->number("t.f64"), Optional(0.1));
    EXPECT_THAT(file->boolean("t.bool"), Optional(true));
    EXPECT_THAT(file->integers("rope.sections"), Optional(ElementsAre(16, 24, 24, 0)));
    EXPECT_THAT(file->numbers("rope.sections"), Optional(ElementsAre(16.0, 24.0, 24.0, 0.0)));
    EXPECT_THAT(file->texts("tokens"), Optional(ElementsAre("<s>", "", "\u2581the")));
    EXPECT_THAT(file->booleans("pattern"), Optional(ElementsAre(true, true, false)));
    EXPECT_THAT(file->integers("llama.block_count"), Optional(ElementsAre(2)));
    EXPECT_THAT(file->numbers("t.f64"), Optional(ElementsAre(0.1)));
    EXPECT_THAT(file->booleans("t.bool"), Optional(ElementsAre(true)));
    EXPECT_THAT(file->texts("general.architecture"), Optional(ElementsAre("llama")));
    EXPECT_EQ(file->find("llama"), nullptr);
    EXPECT_EQ(file->integer("llama"), std::nullopt);
    EXPECT_EQ(file->number("llama"), std::nullopt);
    EXPECT_EQ(file->boolean("llama"), std::nullopt);
    EXPECT_EQ(file->text("llama"), std::nullopt);
    EXPECT_EQ(file->integers("llama"), std::nullopt);
    EXPECT_EQ(file->numbers("llama"), std::nullopt);
    EXPECT_EQ(file->booleans("llama"), std::nullopt);
    EXPECT_EQ(file->texts("llama"), std::nullopt);
  }
}

TEST(Gguf, ReadsTensors) {
  std::string halves, bfloats, doubles;
  for (const double value : {1.0, -0.5, 65504.0}) {
    halves += gguf_bytes(Half(value).bits);
    bfloats += gguf_bytes(BFloat16(value).bits);
    doubles += gguf_bytes(value);
  }
  const std::string contents = GgufBuilder()
                                   .u32("general.alignment", 64)
                                   .pad_to(64)
                                   .tensor("b", {3, 1}, 1, halves)
                                   .tensor("a", {1, 3, 1, 1}, 30, bfloats)
                                   .tensor("d", {3}, 28, doubles)
                                   .tensor("one", {}, 0, gguf_bytes(2.5f))
                                   .tensor("none", {0, 7}, 0, "")
                                   .tensor("q", {256, 3}, 12, std::string(3 * 144, 'q'))
                                   .tensor("i", {4}, 24, "abcd")
                                   .file();
  const File file(contents);
  EXPECT_EQ(file->alignment(), 64u);
  ASSERT_EQ(file->tensors().size(), 7u);
  const GgufTensor& first = file->tensors()[0];
  EXPECT_EQ(first.name, "b");
  EXPECT_EQ(first.rank, 2u);
  EXPECT_THAT(first.extents, ElementsAre(3, 1, 1, 1));
  EXPECT_EQ(first.offset % 64, 0u);
  EXPECT_EQ(contents.substr(first.offset, 6), halves);
  EXPECT_EQ(first.bytes, 6u);
  EXPECT_EQ(first.size(), 3);
  EXPECT_THAT(file->values(first), ElementsAre(1.0, -0.5, 65504.0));
  EXPECT_THAT(file->values(*file->find_tensor("a")), ElementsAre(1.0, -0.5, 65536.0));
  EXPECT_THAT(file->values(*file->find_tensor("d")), ElementsAre(1.0, -0.5, 65504.0));
  EXPECT_THAT(file->values(*file->find_tensor("one")), ElementsAre(2.5));
  EXPECT_THAT(file->values(*file->find_tensor("none")), ElementsAre());
  EXPECT_EQ(file->find_tensor("q")->bytes, 3u * 144u);
  EXPECT_EQ(file->data(*file->find_tensor("q")).size(), 3u * 144u);
  EXPECT_EQ(file->find_tensor("nothing"), nullptr);
  EXPECT_EQ(gguf_tensor_type(12), "Q4_K");
  EXPECT_EQ(gguf_tensor_type(4), "");
  EXPECT_EQ(gguf_tensor_type(1000), "");
  const std::string at = std::to_string(file->find_tensor("q")->offset);
  EXPECT_EQ(error(contents, [](const Gguf& g) { g.values(*g.find_tensor("q")); }),
            "tensor \"q\" has type Q4_K, not F32, F16, BF16, F64, Q8_0 or Q4_0, at byte " + at);
  EXPECT_THAT(error(contents, [](const Gguf& g) { g.values(*g.find_tensor("i")); }),
              HasSubstr("has type I8"));
}

// Blocks of a scale and quants 0, 1, ..., as gguf.quants.dequantize (gguf 0.19) reads them.
TEST(Gguf, DequantisesBlocks) {
  std::string q8_0, q4_0;
  std::vector<double> eights, fours;
  for (const double scale : {0.5, -1.5}) {
    q8_0 += gguf_bytes(Half(scale).bits);
    q4_0 += gguf_bytes(Half(scale).bits);
    for (int i = 0; i < 32; ++i) {
      q8_0 += static_cast<char>(i * 8 - 128);
      eights.push_back(scale * (i * 8 - 128));
    }
    for (int i = 0; i < 16; ++i) q4_0 += static_cast<char>(i + 16 * (15 - i));
    for (int i = 0; i < 32; ++i) fours.push_back(scale * ((i < 16 ? i : 31 - i) - 8));
  }
  const std::string whole =
      GgufBuilder().tensor("q8", {32, 2}, 8, q8_0).tensor("q4", {64}, 2, q4_0).file();
  const File file(whole);
  EXPECT_EQ(file->values(file->tensors()[0]), eights);
  EXPECT_EQ(file->values(file->tensors()[1]), fours);
  EXPECT_THAT(
      error(whole.substr(0, whole.size() - 1), [](const Gguf& g) { g.values(g.tensors()[1]); }),
      StartsWith("the file ends before the 36 bytes of tensor \"q4\""));
}

// ggml's block sizes, from their layout: scales, then quants.
TEST(Gguf, KnowsTheSizesOfQuantisedTensors) {
  const std::tuple<std::uint32_t, std::uint64_t, std::uint64_t> sizes[] = {
      {2, 32, 2 + 16},          {3, 32, 4 + 16},         {6, 32, 2 + 4 + 16},
      {7, 32, 4 + 4 + 16},      {8, 32, 2 + 32},         {10, 256, 16 + 64 + 4},
      {11, 256, 32 + 64 + 14},  {12, 256, 4 + 12 + 128}, {13, 256, 4 + 12 + 32 + 128},
      {14, 256, 128 + 64 + 18}, {15, 256, 4 + 256 + 32}, {16, 256, 2 + 64},
      {17, 256, 2 + 64 + 8},    {18, 256, 2 + 64 + 32},  {19, 256, 2 + 32 + 16},
      {20, 32, 2 + 16},         {21, 256, 2 + 64 + 44},  {22, 256, 2 + 64 + 16},
      {23, 256, 8 + 128},       {29, 256, 32 + 16 + 8},  {34, 256, 48 + 4 + 2},
      {35, 256, 64 + 2},        {39, 32, 1 + 16},        {40, 64, 4 + 32},
      {41, 128, 2 + 16},
  };
  for (const auto& [type, block, bytes] : sizes) {
    const std::string name(gguf_tensor_type(type));
    const File file(GgufBuilder().tensor_at("t", {3 * block, 5}, type, 0).description());
    EXPECT_EQ(file->tensors()[0].bytes, 15 * bytes) << name;
    EXPECT_THAT(error(GgufBuilder().tensor_at("t", {block / 2, 2}, type, 0).file()),
                StartsWith("tensor \"t\" of " + name + " has rows of "));
  }
}

TEST(Gguf, OpensTheBeginningOfALargeFile) {
  const GgufBuilder builder = GgufBuilder()
                                  .u32("llama.block_count", 80)
                                  .tensor_at("big", {1 << 20, 1 << 20}, 0, 0)
                                  .tensor_at("odd", {7}, 99, 1ull << 42);
  const std::string contents = builder.description();
  const File file(contents);
  EXPECT_THAT(file->integer("llama.block_count"), Optional(80));
  EXPECT_EQ(file->tensors()[0].bytes, 1ull << 42);
  EXPECT_EQ(file->tensors()[1].bytes, 0u);
  EXPECT_EQ(file->tensors()[1].type, 99u);
  EXPECT_THAT(
      error(contents, [](const Gguf& g) { g.values(g.tensors()[0]); }),
      StartsWith(
          "the file ends before the 4398046511104 bytes of tensor \"big\", which begin at "));
  EXPECT_THAT(error(contents, [](const Gguf& g) { g.data(g.tensors()[1]); }),
              StartsWith("tensor \"odd\" has the unknown type 99"));
}

TEST(Gguf, RefusesOtherTypes) {
  const std::string contents = small_gguf();
  const auto at = [&](std::string_view key) {
    return ", at byte " + std::to_string(File(contents)->find(key)->offset);
  };
  const auto refusal = [&](auto method, std::string_view key) {
    return error(contents, [&](const Gguf& g) { (g.*method)(key); });
  };
  EXPECT_EQ(
      refusal(&Gguf::integer, "llama.rope.freq_base"),
      "\"llama.rope.freq_base\" must be an integer, got f32" + at("llama.rope.freq_base"));
  EXPECT_EQ(refusal(&Gguf::integer, "rope.sections"),
            "\"rope.sections\" must be an integer, got array of i32" + at("rope.sections"));
  EXPECT_THAT(refusal(&Gguf::integer, "t.bool"), HasSubstr("got boolean"));
  EXPECT_THAT(refusal(&Gguf::number, "general.architecture"),
              HasSubstr("be a number, got text"));
  EXPECT_THAT(refusal(&Gguf::number, "rope.sections"), HasSubstr("must be a number"));
  EXPECT_THAT(refusal(&Gguf::number, "t.bool"), HasSubstr("must be a number"));
  EXPECT_THAT(refusal(&Gguf::boolean, "t.u8"), HasSubstr("must be a boolean, got u8"));
  EXPECT_THAT(refusal(&Gguf::boolean, "pattern"), HasSubstr("must be a boolean"));
  EXPECT_THAT(refusal(&Gguf::text, "t.u8"), HasSubstr("must be a text, got u8"));
  EXPECT_THAT(refusal(&Gguf::text, "tokens"), HasSubstr("must be a text, got array of text"));
  EXPECT_THAT(refusal(&Gguf::integers, "t.f64"), HasSubstr("must be integers, got f64"));
  EXPECT_THAT(refusal(&Gguf::integers, "nested"), HasSubstr("got array of array"));
  EXPECT_THAT(refusal(&Gguf::numbers, "tokens"), HasSubstr("must be numbers"));
  EXPECT_THAT(refusal(&Gguf::booleans, "t.u8"), HasSubstr("must be booleans"));
  EXPECT_THAT(refusal(&Gguf::texts, "t.u8"), HasSubstr("must be texts"));

  const std::string wide =
      GgufBuilder()
          .entry("a", gguf_u64, gguf_bytes(std::uint64_t{1} << 63))
          .array("b", gguf_elements<std::uint64_t>(gguf_u64, {1, ~std::uint64_t{0}}))
          .array("c", gguf_elements<std::uint8_t>(gguf_bool, {1, 2}))
          .array("d", gguf_elements<std::string>(gguf_text, {"a", "b\xff"}))
          .file();
  const auto read = [&](auto method, std::string_view key) {
    return error(wide, [&](const Gguf& g) { (g.*method)(key); });
  };
  EXPECT_EQ(read(&Gguf::integer, "a"), "\"a\" has an integer outside int64, at byte 37");
  EXPECT_EQ(read(&Gguf::integers, "b"), "\"b\" has an integer outside int64, at byte 78");
  EXPECT_THAT(read(&Gguf::booleans, "c"), HasSubstr("a boolean must be 0 or 1, got 2"));
  EXPECT_THAT(read(&Gguf::texts, "d"), HasSubstr("a text that is not UTF-8: \"b\\xff\""));
  EXPECT_THAT(File(wide)->number("a"), Optional(0x1p63));
  EXPECT_THAT(File(wide)->numbers("b"), Optional(ElementsAre(1.0, 0x1p64)));
}

TEST(Gguf, SaysWhatIsWrongWithTheHeader) {
  EXPECT_EQ(error(""), "not a GGUF file: it does not begin with GGUF, at byte 0");
  EXPECT_THAT(error("GGML\x03"), StartsWith("not a GGUF file"));
  EXPECT_EQ(error("GG"), "the file ends inside its first word, GGUF, at byte 2");
  EXPECT_EQ(error("GGUF\x03"), "the file ends inside its version, at byte 5");
  EXPECT_EQ(error(GgufBuilder(1).file()), "version must be 2 or 3, got 1, at byte 4");
  EXPECT_EQ(error(GgufBuilder(4).file()), "version must be 2 or 3, got 4, at byte 4");
  EXPECT_EQ(error(GgufBuilder(0).file()), "version must be 2 or 3, got 0, at byte 4");
  EXPECT_EQ(
      error(GgufBuilder(0x03000000).file()),
      "version 3 in big-endian byte order: byte-swapped files are not supported, at byte 4");
  EXPECT_EQ(error(GgufBuilder().file()), "");
  EXPECT_EQ(error(GgufBuilder().claim(0, 1).file()),
            "1 entries, of at least 14 bytes each, in a file with 0 left, at byte 16");
  EXPECT_EQ(
      error(GgufBuilder().claim(~0ull, 0).description()),
      "18446744073709551615 tensors, of at least 24 bytes each, in a file with 0 left, at "
      "byte 8");
  EXPECT_THAT(error(GgufBuilder().u32("a", 1).claim(0, 1ull << 60).file()),
              StartsWith("1152921504606846976 entries"));
}

TEST(Gguf, SaysWhatIsWrongWithMetadata) {
  const auto of = [](std::uint32_t type, const std::string& value) {
    return error(GgufBuilder().entry("k", type, value).file());  // the value is at byte 37
  };
  EXPECT_EQ(of(13, "12345678"), "unknown type of metadata 13, at byte 33");
  EXPECT_EQ(of(0xffffffff, "x"), "unknown type of metadata 4294967295, at byte 33");
  EXPECT_EQ(of(gguf_u32, "xxx"), "the file ends inside a number, at byte 40");
  EXPECT_EQ(of(gguf_bool, "\x02"), "a boolean must be 0 or 1, got 2, at byte 37");
  EXPECT_EQ(of(gguf_text, gguf_bytes(4ull) + "xxx"),
            "a text of 4 bytes in a file with 3 left, at byte 37");
  EXPECT_THAT(of(gguf_text, gguf_bytes(~0ull) + "xxx"), StartsWith("a text of 184467440737"));
  EXPECT_EQ(of(gguf_text, gguf_string("a\xc0\x80")),
            "a text that is not UTF-8: \"a\\xc0\\x80\", at byte 46");
  EXPECT_EQ(of(gguf_array, gguf_elements(GgufId(20), 0, "")),
            "unknown type of metadata 20, at byte 37");
  EXPECT_EQ(of(gguf_array, gguf_elements(gguf_u32, 2, "1234567")),
            "2 elements of an array, of at least 4 bytes each, in a file with 7 left, at byte "
            "41");
  for (const GgufId type : {gguf_u8, gguf_u64, gguf_text, gguf_array})
    for (const std::uint64_t count : {1ull << 61, 1ull << 63, ~0ull})
      EXPECT_THAT(of(gguf_array, gguf_elements(type, count, "12345678901234567890")),
                  StartsWith(std::to_string(count) + " elements of an array"));
  EXPECT_THAT(of(gguf_array, gguf_elements(gguf_text, 1, gguf_bytes(9ull))),
              StartsWith("a text of 9 bytes in a file with 0 left"));

  std::string nested = gguf_elements(gguf_u8, 1, "x");
  for (int depth = 0; depth < 8; ++depth) nested = gguf_elements(gguf_array, 1, nested);
  EXPECT_EQ(of(gguf_array, nested), "");
  nested = gguf_elements(gguf_array, 1, nested);
  EXPECT_THAT(of(gguf_array, nested), StartsWith("arrays nested more than 8 deep"));
  std::string deep;
  for (int depth = 0; depth < 100'000; ++depth) deep += gguf_elements(gguf_array, 1, "");
  EXPECT_THAT(of(gguf_array, deep), StartsWith("arrays nested more than 8 deep"));

  EXPECT_EQ(error(GgufBuilder().u32("", 1).file()), "an empty key, at byte 24");
  EXPECT_EQ(error(GgufBuilder().u32(std::string(65535, 'k'), 1).file()), "");
  EXPECT_EQ(error(GgufBuilder().u32(std::string(65536, 'k'), 1).file()),
            "a key of 65536 bytes, more than 65535, at byte 24");
  EXPECT_EQ(error(GgufBuilder().u32("k\xff", 1).file()),
            "a key that is not UTF-8: \"k\\xff\", at byte 33");
  EXPECT_EQ(error(GgufBuilder().u32("a", 1).u32("b", 1).u32("a", 2).file()),
            "the key \"a\" occurs twice, at byte 66");
}

TEST(Gguf, SaysWhatIsWrongWithTensors) {
  const std::string four = gguf_bytes(1.0f);
  const auto aligned_to = [&](std::uint32_t alignment) {
    return error(GgufBuilder().u32("general.alignment", alignment).file());
  };
  EXPECT_EQ(aligned_to(0), "general.alignment must be a power of two, got 0, at byte 53");
  EXPECT_EQ(aligned_to(48), "general.alignment must be a power of two, got 48, at byte 53");
  EXPECT_EQ(aligned_to(1u << 31), "");
  EXPECT_EQ(error(GgufBuilder().text("general.alignment", "32").file()),
            "\"general.alignment\" must be a u32, got text, at byte 53");
  EXPECT_THAT(
      error(GgufBuilder().u32("general.alignment", 64).tensor_at("t", {1}, 0, 32).file()),
      StartsWith("tensor \"t\" begins at offset 32, not a multiple of the alignment 64"));
  EXPECT_THAT(error(GgufBuilder().tensor_at("t", {1}, 0, 4).file()),
              StartsWith("tensor \"t\" begins at offset 4, not a multiple"));

  const auto of = [](const std::vector<std::uint64_t>& extents, std::uint32_t type,
                     std::uint64_t offset) {  // the rank is at byte 33
    return error(GgufBuilder().tensor_at("t", extents, type, offset).file());
  };
  const std::uint64_t large = 1ull << 62;
  EXPECT_EQ(of({1, 1, 1, 1, 1}, 0, 0), "tensor \"t\" has 5 axes, more than 4, at byte 33");
  EXPECT_EQ(of({1, 1ull << 63}, 0, 0), "tensor \"t\" has an extent beyond 64 bits, at byte 45");
  EXPECT_EQ(
      of({large, 2}, 0, 0),
      "tensor \"t\" has a size beyond 64 bits: [4611686018427387904, 2, 1, 1], at byte 37");
  EXPECT_THAT(of({large, 2}, 99, 0), HasSubstr("a size beyond 64 bits"));
  EXPECT_THAT(of({large, 1}, 28, 0), HasSubstr("a size beyond 64 bits"));
  EXPECT_EQ(of({large, large, 0}, 0, 0), "");
  EXPECT_EQ(of({large, large, 0}, 2, 0), "");
  EXPECT_THAT(of({large}, 24, large * 3), HasSubstr("ends beyond 64 bits"));
  EXPECT_THAT(of({1}, 24, ~31ull), HasSubstr("ends beyond 64 bits"));
  EXPECT_THAT(of({1}, 99, ~31ull), HasSubstr("ends beyond 64 bits"));
  EXPECT_EQ(error(GgufBuilder().tensor("t", {1}, 0, four).tensor("t", {1}, 0, four).file()),
            "the tensor \"t\" occurs twice, at byte 65");
  EXPECT_THAT(error(GgufBuilder().tensor("t\xed\xa0\x80", {1}, 0, four).file()),
              StartsWith("the name of a tensor that is not UTF-8"));
  EXPECT_THAT(error(GgufBuilder().tensor("t", {1}, 0, std::string(32, 4)).claim(2, 0).file()),
              StartsWith("the name of a tensor of "));
}

TEST(Gguf, RefusesEveryTruncationOfTheDescription) {
  const std::string whole = small_gguf();
  const File file(whole);
  const std::size_t data = file->tensors()[0].offset;
  // The last field is an offset of 8 bytes. The padding after it may be missing.
  const std::size_t description = whole.find("blk.0.q") + 7 + 4 + 2 * 8 + 4 + 8;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string message = error(whole.substr(0, size));
    if (size >= description)
      EXPECT_EQ(message, "") << size;
    else
      EXPECT_NE(message, "") << size;
  }
  const auto values = [](const Gguf& g) { g.values(g.tensors()[0]); };
  EXPECT_EQ(error(whole.substr(0, data + 8), values), "");
  EXPECT_THAT(error(whole.substr(0, data + 7), values),
              StartsWith("the file ends before the 8"));
}

TEST(Gguf, SurvivesChangedBytes) {
  const std::string whole = small_gguf();
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int mask : {1, 32, 255}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ mask);
      error(changed);
    }
}

}  // namespace gguf_test
}  // namespace gnomon::model

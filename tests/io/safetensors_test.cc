#include "gnomon/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "gnomon/error.h"
#include "io/temporary.h"
#include "src/io/safetensors_header.h"
#include "testing.h"

namespace gnomon::io {
namespace safetensors_test {

using gnomon::testing::contents;
using gnomon::testing::message_of;
using gnomon::testing::put;
using gnomon::testing::random_tensor;
using gnomon::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file written by hand from the definition of the format. `length` may be wrong.
std::string file_of(const std::string& header, const std::string& data,
                    std::int64_t length = -1) {
  if (length < 0) length = static_cast<std::int64_t>(header.size());
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i) & 255);
  return file + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

class SafeTensorsTest : public ::testing::Test {
 protected:
  SafeTensors read(const std::string& file) {
    return SafeTensors(put(folder_ / "x.safetensors", file));
  }
  std::string error(const std::string& file) {
    try {
      read(file);
    } catch (const FormatError& error) {
      EXPECT_LE(error.offset(), file.size());
      for (const char c : std::string(error.what()))
        EXPECT_GE(static_cast<unsigned char>(c), 32);
      return error.reason() + ", at byte " + std::to_string(error.offset());
    }
    return {};
  }
  TemporaryFolder folder_;
};

TEST_F(SafeTensorsTest, ComesBackAsItWasWritten) {
  const auto path = folder_ / "x.safetensors";
  const auto matrix = random_tensor<float, 2>({3, 5});
  const auto halves = random_tensor<BFloat16, 1>({7});
  const std::vector<std::byte> opaque(6, std::byte{9});
  const std::vector<NamedArray> tensors = {
      {"z", Array::of(matrix.view())},
      {"a \"quoted\" \u00e9", Array::of(halves.view())},
      {"scalar", Array(Element::boolean, {}, std::span(opaque).first(1))},
      {"empty", Array(Element::i64, {0, 4}, {})},
      {"f8", Array::opaque("F8_E4M3", {2, 3}, opaque)},
  };
  write_safetensors(path, tensors, {{"format", "pt"}, {"note", "\n"}});
  const SafeTensors file(path);
  EXPECT_THAT(file.metadata(), ElementsAre(std::pair("format", "pt"), std::pair("note", "\n")));
  ASSERT_EQ(file.tensors().size(), 5u);
  for (const NamedArray& tensor : tensors) {
    const Array back = file.tensor(tensor.name);
    EXPECT_EQ(back.dtype(), tensor.array.dtype());
    EXPECT_EQ(back.shape(), tensor.array.shape());
    ASSERT_EQ(back.bytes().size(), tensor.array.bytes().size());
    if (!back.bytes().empty()) {
      EXPECT_EQ(
          std::memcmp(back.bytes().data(), tensor.array.bytes().data(), back.bytes().size()),
          0);
    }
  }
  EXPECT_EQ((file.tensor("z").view<float, 2>()(2, 4)), matrix.view()(2, 4));
  EXPECT_EQ(file.tensors()[0].name, "z");
  EXPECT_EQ(folder_.files(), 1u);
  std::uint64_t length = 0;
  std::memcpy(&length, contents(path).data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(contents(path)[8], '{');
}

TEST_F(SafeTensorsTest, WritesTheHeaderOfTheDefinition) {
  const float values[] = {1, 2};
  const auto path = folder_ / "x.safetensors";
  write_safetensors(
      path, std::vector<NamedArray>{{"t", Array::of(View<const float, 1>(values, {2}))}});
  std::string header = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(contents(path),
            file_of(header, std::string(reinterpret_cast<const char*>(values), 8)));
  write_safetensors(path, {});
  EXPECT_EQ(contents(path), file_of("{}      ", ""));
  EXPECT_TRUE(SafeTensors(path).tensors().empty());
}

TEST_F(SafeTensorsTest, ReadsInTheOrderOfTheBytes) {
  const SafeTensors file = read(file_of(
      "{" + entry("b", "U8", "[2]", "[1,3]") + "," + entry("a", "U8", "[1]", "[0, 1]") + "}  ",
      "xyz"));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0], (TensorEntry{"a", "U8", {1}, 0, 1}));
  EXPECT_EQ(file.tensor("b").bytes()[1], std::byte{'z'});
  EXPECT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_THAT(message_of([&] { file.tensor("c"); }),
              HasSubstr("x.safetensors] must contain the requested tensor, got \"c\""));
}

TEST_F(SafeTensorsTest, CopiesATensorThatIsNotAligned) {
  std::string data = "x";
  const float values[] = {1.5f, -2.5f};
  data.append(reinterpret_cast<const char*>(values), 8);
  const SafeTensors file = read(file_of(
      "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "F32", "[2]", "[1,9]") + "}",
      data));
  EXPECT_THAT(file.tensor("b").to_doubles(), ElementsAre(1.5, -2.5));
  EXPECT_EQ((file.tensor("b").view<float, 1>()(1)), -2.5f);
}

TEST_F(SafeTensorsTest, TensorsOutliveTheReader) {
  const Array array = [&] {
    return read(file_of("{" + entry("a", "U8", "[3]", "[0,3]") + "}", "abc")).tensor("a");
  }();
  write_safetensors(folder_ / "x.safetensors", {});
  EXPECT_THAT(array.to_integers(), ElementsAre('a', 'b', 'c'));
}

TEST_F(SafeTensorsTest, KeepsDtypesItDoesNotKnow) {
  const SafeTensors file = read(file_of("{" + entry("a", "Q3_X", "[7]", "[0,3]") + "," +
                                            entry("b", "F4", "[2, 3]", "[3,6]") + "}",
                                        "abcdef"));
  EXPECT_EQ(file.tensor("a").element(), Element::opaque);
  EXPECT_EQ(file.tensor("a").dtype(), "Q3_X");
  EXPECT_EQ(file.tensor("a").bytes().size(), 3u);
  EXPECT_THROW((file.tensor("b").view<std::uint8_t, 2>()), std::invalid_argument);
  EXPECT_THROW(file.tensor("b").to_doubles(), std::invalid_argument);
  // The size is not a whole number of bytes. Known sizes are checked.
  EXPECT_THAT(error(file_of("{" + entry("b", "F4", "[3]", "[0,2]") + "}", "ab")),
              HasSubstr("not a whole number of bytes"));
  EXPECT_THAT(error(file_of("{" + entry("b", "F8_E5M2", "[3]", "[0,2]") + "}", "ab")),
              HasSubstr("takes 3 bytes, not data_offsets [0, 2]"));
}

std::string small_file() {
  return file_of(R"({"__metadata__":{"k":"v\u00e9"},)" + entry("a", "F32", "[1, 2]", "[0,8]") +
                     "," + entry("b", "I16", "[]", "[8,10]") + "} ",
                 "0123456789");
}

// The element size of an unknown type is unknown, so its extents are not checked against the
// file.
TEST_F(SafeTensorsTest, RefusesNumbersOfAnUnknownDtypeWhateverShapeItClaims) {
  const std::string size = std::to_string(std::int64_t{1} << 61);
  const Array odd =
      read(file_of("{" + entry("a", "X9", "[" + size + "]", "[0,0]") + "}", "")).tensor("a");
  const std::string name = (folder_ / "x.safetensors").string() + ": \"a\"";
  EXPECT_EQ(message_of([&] { odd.to_doubles(); }),
            "[" + name + "] must contain numbers, got X9");
  EXPECT_EQ(message_of([&] { odd.to_integers(); }),
            "[" + name + "] must contain integers, got X9");
}

TEST_F(SafeTensorsTest, ReadsAnEmptyTensorThatIsNotAligned) {
  std::string header =
      "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "F64", "[0]", "[1,1]") + "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const Array empty = read(file_of(header, "x")).tensor("b");
  EXPECT_THAT(empty.to_doubles(), ElementsAre());
  EXPECT_EQ((empty.view<double, 1>().size()), 0);
}

TEST_F(SafeTensorsTest, RefusesEveryTruncation) {
  const std::string whole = small_file();
  EXPECT_EQ(error(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(error(whole.substr(0, size)), "") << size;
  EXPECT_THAT(error(whole + "x"), HasSubstr("1 bytes that belong to no tensor, at byte " +
                                            std::to_string(whole.size())));
}

// After any change of bytes, reading gives tensors or a FormatError.
TEST_F(SafeTensorsTest, SurvivesChangedBytes) {
  const std::string whole = small_file();
  const auto attempt = [](const std::string& file) {
    try {
      internal::read_header("x", file);
    } catch (const FormatError& error) {
      EXPECT_LE(error.offset(), file.size());
    }
  };
  for (std::size_t at = 0; at < whole.size() - 10; ++at)
    for (const char byte :
         {'\0', '"', '[', ']', '{', '}', ',', ':', '-', '9', 'e', '\\', '\x80'}) {
      std::string changed = whole;
      changed[at] = byte;
      attempt(changed);
    }
  std::mt19937 engine(1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string changed = whole;
    for (int i = 0; i < 3; ++i)
      changed[engine() % changed.size()] = whole[engine() % whole.size()];
    attempt(changed);
  }
}

// Accepts and refuses the same strings as the JSON library.
TEST_F(SafeTensorsTest, ReadsStringsAsJsonHasThem) {
  std::vector<std::string> strings = {
      "",
      R"(\"\\\/\b\f\n\r\t)",
      R"(\u0041\u00e9\u20ac\ud83d\ude00)",
      R"(\uD800)",
      R"(\udc00)",
      R"(\ud800\u0041)",
      R"(\u12)",
      R"(\u12g4)",
      R"(\x)",
      R"(\)",
      "\u00e9\u20ac",
      "\xf0\x9f\x98\x80",
      "\xed\xa0\x80",
      "\t",
      "\x7f",
      R"(\u0000)",
      "a\\",
      R"(\u005C")",
  };
  std::mt19937 engine(1);
  const std::string letters = R"(\\\uud8Dc0a9")"
                              "\x80\xc3\xa9\xf0\x9f\t ";
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text;
    for (auto i = engine() % 14; i > 0; --i) text += letters[engine() % letters.size()];
    strings.push_back(text);
  }
  int taken = 0;
  for (const std::string& text : strings) {
    const std::string header = R"({"__metadata__":{"k":")" + text + R"("}})";
    const auto json = nlohmann::json::parse(header, nullptr, false);
    if (json.is_discarded()) {
      EXPECT_THROW(internal::read_header("x", file_of(header, "")), FormatError) << header;
      continue;
    }
    ++taken;
    EXPECT_EQ(internal::read_header("x", file_of(header, "")).metadata.at("k"),
              json["__metadata__"]["k"].get<std::string>())
        << header;
  }
  EXPECT_GT(taken, 150);
}

// Any header that the reader accepts is valid JSON, and the library reads the same values.
TEST_F(SafeTensorsTest, TakesNothingThatIsNotJson) {
  const std::string whole =
      R"({ "__metadata__":{"k":"v"} ,"a":{"dtype":"U8","shape":[1, 2],"data_offsets":[0,2]}, )"
      R"("b":{"data_offsets":[ 2,3],"shape":[],"dtype":"X"} } )";
  std::mt19937 engine(1);
  const std::string letters = "{}[],:\"0123456789.eE-+tfn \n\\ab";
  int taken = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string header = whole;
    const std::size_t at = engine() % header.size();
    switch (engine() % 3) {
      case 0:
        header[at] = letters[engine() % letters.size()];
        break;
      case 1:
        header.insert(at, 1, letters[engine() % letters.size()]);
        break;
      default:
        header.erase(at, 1 + engine() % 3);
    }
    internal::SafeTensorsHeader file;
    try {
      file = internal::read_header("x", file_of(header, "xyz"));
    } catch (const FormatError&) {
      continue;
    }
    ++taken;
    const auto json = nlohmann::json::parse(header, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << header;
    ASSERT_EQ(json.size(), file.tensors.size() + json.contains("__metadata__")) << header;
    for (const TensorEntry& tensor : file.tensors) {
      const auto& entry = json.at(tensor.name);
      EXPECT_EQ(entry.at("dtype"), tensor.dtype);
      EXPECT_EQ(entry.at("shape"), nlohmann::json(tensor.shape));
      EXPECT_EQ(entry.at("data_offsets"), nlohmann::json({tensor.begin, tensor.end}));
    }
  }
  EXPECT_GT(taken, 150);
}

TEST_F(SafeTensorsTest, SaysWhatIsWrongAndWhere) {
  const auto header_error = [&](const std::string& header, const std::string& data = "") {
    return error(file_of(header, data));
  };
  EXPECT_EQ(error(""), "the file ends before the length of its header, at byte 0");
  EXPECT_EQ(error(file_of("{}", "", 3)), "a header of 3 bytes in a file of 10, at byte 0");
  EXPECT_THAT(error(std::string(8, '\xff') + "{}"),
              HasSubstr("a header of 18446744073709551615"));
  EXPECT_EQ(error(file_of("", "")), "the header must begin with {, at byte 8");
  EXPECT_EQ(header_error(" {}"), "the header must begin with {, at byte 8");
  EXPECT_EQ(header_error("[]"), "the header must begin with {, at byte 8");
  EXPECT_EQ(header_error("{]"), "not JSON: ] in place of the name of a member, at byte 9");
  EXPECT_EQ(header_error("{} x"), "not JSON: x in place of the end, at byte 11");
  EXPECT_EQ(header_error(std::string("{}\0\0x", 5)),
            "not JSON: an unprintable byte in place of the end, at byte 10");
  EXPECT_THAT(header_error("{\"\xff\xfe\": 1}"), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(header_error("{\"\xff\xfe\": 1}"), HasSubstr("at byte 10"));
  EXPECT_THAT(header_error("{\"\x01\": 1}"), HasSubstr("a control character"));
  EXPECT_EQ(header_error(R"({"a": 1})"), "a tensor must be an object, got 1, at byte 14");
  EXPECT_THAT(header_error(R"({"a": null})"), HasSubstr("an object, got null"));
  EXPECT_THAT(header_error(R"({"a": []})"), HasSubstr("an object, got a list"));
  EXPECT_THAT(header_error(R"({"a": {}})"), HasSubstr("must have dtype, shape and two"));
  for (const char* wrong : {"{}", "[\"F32\"]", "3", "null", "true", "NaN"})
    EXPECT_THAT(header_error(std::string(R"({"a": {"shape": [], "data_offsets": [0, 0],)") +
                             R"("dtype":)" + wrong + "}}"),
                HasSubstr("dtype must be a string, got "))
        << wrong;
  for (const char* wrong : {"{}", "\"F32\"", "3", "null", "true", "NaN"}) {
    EXPECT_THAT(header_error("{" + entry("a", "U8", wrong, "[0,0]") + "}"),
                HasSubstr("shape must be a list, got "));
    EXPECT_THAT(header_error("{" + entry("a", "U8", "[0]", wrong) + "}"),
                HasSubstr("data_offsets must be a list, got "));
  }
  EXPECT_THAT(header_error(R"({"a": {"x": 3}})"),
              HasSubstr("the unknown key \"x\" in tensor \"a\""));
  EXPECT_THAT(header_error(R"({"a": {"shape": [], "shape": []}})"),
              HasSubstr("the key shape occurs twice"));
  EXPECT_THAT(header_error(R"({"__metadata__": {"a": 1}})"),
              HasSubstr("a value of the metadata must be a string, got 1"));
  EXPECT_THAT(header_error(R"({"__metadata__": []})"),
              HasSubstr("__metadata__ must be an object, got a list"));
  EXPECT_THAT(header_error(R"({"__metadata__": {"a": "", "a": ""}})"),
              HasSubstr("the metadata key \"a\" occurs twice"));
  EXPECT_THAT(header_error(R"({"__metadata__": {}, "__metadata__": {}})"),
              HasSubstr("__metadata__ occurs twice"));
  EXPECT_THAT(header_error("{\"a\": " + std::string(100'000, '[')),
              HasSubstr("nested deeper than 64 levels, at byte "));
  EXPECT_EQ(header_error("{" + std::string(100'000, '\n') + "x"),
            "not JSON: x in place of the name of a member, at byte 100009");
  std::string entries = R"({"__metadata__":{"":"")";
  for (int i = 1; i < 65536; ++i) entries += ",\"" + std::to_string(i) + "\":\"\"";
  EXPECT_EQ(header_error(entries + "}}"), "");
  EXPECT_THAT(header_error(entries + R"(,"x":""}})"),
              HasSubstr("more than 65536 entries of metadata"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})", "x"),
              HasSubstr("not JSON: 1 in place of the end of a value, at byte 37"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", "x"),
              HasSubstr("data_offsets must have at most 2 numbers"));
  std::string deep = "{";
  for (int i = 0; i < 50'000; ++i) deep += "\"a\":{";
  EXPECT_THAT(header_error(deep), HasSubstr("nested deeper than 64 levels"));

  for (const char* one : {"-1", "1.5", "1e2", "1.0", "[1]", "null", "true", "NaN", "Infinity",
                          "-Infinity", "-0", "\"1\""}) {
    const std::string list = std::string("[0,") + one + "]";
    EXPECT_THAT(header_error("{" + entry("a", "U8", list, "[0,0]") + "}"),
                HasSubstr("a number of shape must be a non-negative integer in digits, got "))
        << one;
    EXPECT_THAT(
        header_error("{" + entry("a", "U8", "[0]", list) + "}"),
        HasSubstr("a number of data_offsets must be a non-negative integer in digits, got "))
        << one;
  }
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[9223372036854775808]", "[0,0]") + "}"),
              HasSubstr("an extent beyond 64 bits"));
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[99999999999999999999]", "[0,0]") + "}"),
              HasSubstr("a number of shape must be an integer within 64 bits, got 9999"));
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}"),
              HasSubstr("within 64 bits"));
  EXPECT_THAT(header_error("{" + entry("a", "F64", "[4611686018427387904]", "[0,0]") + "}"),
              HasSubstr("within 64 bits"));
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_THAT(header_error("{" + entry("a", "U8", many + "]", "[0,1]") + "}", "x"),
              HasSubstr("shape must have at most 64 numbers"));

  for (const char* offsets : {"[0]", "[]", "[0,1,2]", "[0,-1]", "[0,1.0]"})
    EXPECT_NE(header_error("{" + entry("a", "U8", "[1]", offsets) + "}", "x"), "") << offsets;
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[1]", "[1,0]") + "}", "x"),
              HasSubstr("has data_offsets [1, 0] in 1 bytes"));
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[2]", "[0,2]") + "}", "x"),
              HasSubstr("has data_offsets [0, 2] in 1 bytes"));
  EXPECT_THAT(
      header_error("{" + entry("a", "U8", "[1]", "[18446744073709551615,0]") + "}", "x"),
      HasSubstr("in 1 bytes"));
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[2]", "[0,2]") + "," +
                               entry("b", "U8", "[2]", "[1,3]") + "}",
                           "xyz"),
              HasSubstr("which overlap byte 2"));
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                               entry("b", "U8", "[1]", "[2,3]") + "}",
                           "xyz"),
              HasSubstr("after a gap from byte 1"));
  EXPECT_THAT(header_error("{" + entry("a", "U8", "[1]", "[0,1]") + "," +
                               entry("a", "U8", "[1]", "[1,2]") + "}",
                           "xy"),
              HasSubstr("tensor \"a\" occurs twice"));
  EXPECT_THAT(header_error("{" + entry(std::string(500, 'n'), "U8", "[1]", "[0,9]") + "}"),
              HasSubstr("nnn...\""));
}

TEST_F(SafeTensorsTest, RefusesToWriteWhatCannotBeRead) {
  const auto path = folder_ / "x.safetensors";
  const auto message = [&](const std::vector<NamedArray>& tensors,
                           const Metadata& metadata = {}) {
    return message_of([&] { write_safetensors(path, tensors, metadata); });
  };
  EXPECT_THAT(message({{"a", Array()}, {"a", Array()}}), HasSubstr("got \"a\""));
  EXPECT_THAT(message({{"__metadata__", Array()}}), HasSubstr("got \"__metadata__\""));
  EXPECT_THAT(message({{"\xff", Array()}}), HasSubstr("must be UTF-8"));
  EXPECT_THAT(message({}, {{"k", "\xff"}}), HasSubstr("must be UTF-8"));
  EXPECT_EQ(folder_.files(), 0u);
}

}  // namespace safetensors_test
}  // namespace gnomon::io

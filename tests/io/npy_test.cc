#include "gnomon/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "gnomon/error.h"
#include "io/temporary.h"
#include "testing.h"

namespace gnomon::io {
namespace npy_test {

using gnomon::testing::contents;
using gnomon::testing::message_of;
using gnomon::testing::put;
using gnomon::testing::random_tensor;
using gnomon::testing::TemporaryFolder;
using gnomon::testing::Tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file written by hand from the definition of the format. `length` may be wrong.
std::string npy(const std::string& header, const std::string& elements, int major = 1,
                std::int64_t length = -1) {
  if (length < 0) length = static_cast<std::int64_t>(header.size());
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i)
    file += static_cast<char>(length >> (8 * i) & 255);
  return file + header + elements;
}

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(std::data(values)),
                     values.size() * sizeof(T));
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape +
         ", }\n";
}

class Npy : public ::testing::Test {
 protected:
  Array read(const std::string& file) { return read_npy(put(folder_ / "x.npy", file)); }
  std::string error(const std::string& file) {
    try {
      read(file);
    } catch (const FormatError& error) {
      EXPECT_LE(error.offset(), file.size());
      EXPECT_EQ(error.file(), (folder_ / "x.npy").string());
      return error.reason() + ", at byte " + std::to_string(error.offset());
    }
    return {};
  }
  TemporaryFolder folder_;
};

template <typename T>
class NpyOf : public ::testing::Test {};
using Types =
    ::testing::Types<double, float, Half, BFloat16, std::int64_t, std::int32_t, std::int16_t,
                     std::int8_t, std::uint64_t, std::uint32_t, std::uint16_t, std::uint8_t>;
TYPED_TEST_SUITE(NpyOf, Types);

TYPED_TEST(NpyOf, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  Tensor<TypeParam, 3> tensor({3, 5, 7});
  unsigned char pattern = 0;
  auto* bytes = reinterpret_cast<unsigned char*>(tensor.values.data());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = pattern += 37;
  write_npy(folder / "x.npy", tensor.view());
  const Array array = read_npy(folder / "x.npy");
  EXPECT_THAT(array.shape(), ElementsAre(3, 5, 7));
  const auto view = array.view<TypeParam, 3>();
  ASSERT_TRUE(view.contiguous());
  EXPECT_EQ(std::memcmp(view.data(), tensor.values.data(), tensor.bytes()), 0);
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_EQ(std::filesystem::file_size(folder / "x.npy"), 128 + tensor.bytes());
}

TYPED_TEST(NpyOf, WritesStridedViewsInRowMajorOrder) {
  const TemporaryFolder folder;
  Tensor<TypeParam, 2> tensor({4, 6});
  for (std::size_t i = 0; i < tensor.bytes(); ++i)
    reinterpret_cast<unsigned char*>(tensor.values.data())[i] = static_cast<unsigned char>(i);
  const View<TypeParam, 2> turned(tensor.values.data() + 5, {6, 4}, {-1, 6});
  write_npy(folder / "x.npy", turned);
  const Array array = read_npy(folder / "x.npy");
  const auto back = array.view<TypeParam, 2>();
  for (std::ptrdiff_t i = 0; i < 6; ++i)
    for (std::ptrdiff_t j = 0; j < 4; ++j)
      EXPECT_EQ(std::memcmp(&back(i, j), &turned(i, j), sizeof(TypeParam)), 0);
}

TEST_F(Npy, WritesWhatNumPyWrites) {
  // np.save of np.arange(6, dtype='<f4').reshape(2, 3).
  const Tensor<float, 2> tensor = [] {
    Tensor<float, 2> values({2, 3});
    for (int i = 0; i < 6; ++i)
      values.values[static_cast<std::size_t>(i)] = static_cast<float>(i);
    return values;
  }();
  write_npy(folder_ / "x.npy", tensor.view());
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  text += std::string(118 - text.size() - 1, ' ') + "\n";
  EXPECT_EQ(contents(folder_ / "x.npy"), npy(text, bytes_of<float>({0, 1, 2, 3, 4, 5})));
}

TEST_F(Npy, ReadsEveryVersionAndSpelling) {
  const std::string elements = bytes_of<float>({1, 2, 3, 4, 5, 6});
  for (int major : {1, 2, 3}) {
    const Array array = read(npy(header("<f4", "(2, 3)"), elements, major));
    EXPECT_EQ((array.view<float, 2>()(1, 2)), 6.0f) << major;
  }
  for (const char* spelled :
       {"{\"shape\":(2L,3L),\"fortran_order\":False,\"descr\":\"=f4\"}",
        "  {'fortran_order':False,'shape':(2,3,),'descr':'<f4',}   \n \n"})
    EXPECT_EQ((read(npy(spelled, elements)).view<float, 2>()(1, 0)), 4.0f);
}

TEST_F(Npy, ReadsScalarsAndEmptyArrays) {
  const Array scalar = read(npy(header("<f8", "()"), bytes_of<double>({2.5})));
  EXPECT_EQ(scalar.rank(), 0u);
  EXPECT_THAT(scalar.to_doubles(), ElementsAre(2.5));
  const Array empty = read(npy(header("<i8", "(3, 0, 2)"), ""));
  EXPECT_EQ(empty.size(), 0);
  EXPECT_EQ((empty.view<std::int64_t, 3>().extent(0)), 3);
  write_npy(folder_ / "y.npy", scalar);
  EXPECT_THAT(read_npy(folder_ / "y.npy").to_doubles(), ElementsAre(2.5));
  write_npy(folder_ / "y.npy", empty);
  EXPECT_THAT(read_npy(folder_ / "y.npy").shape(), ElementsAre(3, 0, 2));
}

TEST_F(Npy, BringsFortranOrderIntoRowMajorOrder) {
  // Element (i, j, k) is 100 i + 10 j + k; the first index moves fastest.
  std::string elements;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) elements += bytes_of<std::int32_t>({100 * i + 10 * j + k});
  const Array array = read(npy(header("<i4", "(2, 3, 4)", "True"), elements));
  const auto view = array.view<std::int32_t, 3>();
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) EXPECT_EQ(view(i, j, k), 100 * i + 10 * j + k);
  EXPECT_THAT(
      read(npy(header("<i4", "(3,)", "True"), bytes_of<std::int32_t>({7, 8, 9}))).to_integers(),
      ElementsAre(7, 8, 9));
}

TEST_F(Npy, ReadsElementsThatAreNotAligned) {
  std::string text = header("<f8", "(2,)");
  while (npy(text, "").size() % 8 != 3) text += ' ';
  EXPECT_THAT(read(npy(text, bytes_of<double>({1.5, -2.5}))).to_doubles(),
              ElementsAre(1.5, -2.5));
}

TEST_F(Npy, ConvertsToIntegersAndDoubles) {
  EXPECT_THAT(read(npy(header("|i1", "(2,)"), bytes_of<std::int8_t>({-3, 4}))).to_integers(),
              ElementsAre(-3, 4));
  EXPECT_THAT(read(npy(header("|b1", "(2,)"), bytes_of<char>({1, 0}))).to_integers(),
              ElementsAre(1, 0));
  EXPECT_THAT(
      read(npy(header("<f2", "(2,)"), bytes_of<std::uint16_t>({0x3c00, 0xc000}))).to_doubles(),
      ElementsAre(1, -2));
  EXPECT_THAT(
      message_of([&] {
        read(npy(header("<u8", "(1,)"), bytes_of<std::uint64_t>({1ull << 63}))).to_integers();
      }),
      HasSubstr("must contain integers below 2^63, got 9223372036854775808"));
  EXPECT_THAT(
      message_of([&] { read(npy(header("<f4", "(1,)"), bytes_of<float>({1}))).to_integers(); }),
      HasSubstr("must contain integers, got F32"));
}

TEST_F(Npy, NamesTheFileWhenTypeOrRankIsNotTheOneAskedFor) {
  const Array array = read(npy(header("<f4", "(2, 1)"), bytes_of<float>({1, 2})));
  EXPECT_EQ(
      message_of([&] { array.view<double, 2>(); }),
      "[" + (folder_ / "x.npy").string() + "] must contain f64 with 2 axes, got F32 [2, 1]");
  EXPECT_THROW((array.view<float, 1>()), std::invalid_argument);
  // bfloat16 may view uint16 and uint8 may view bool, but not the reverse.
  EXPECT_EQ(
      (static_cast<float>(read(npy(header("<u2", "(1,)"), bytes_of<std::uint16_t>({0x3f80})))
                              .view<BFloat16, 1>()(0))),
      1.0f);
  EXPECT_EQ((read(npy(header("|b1", "(1,)"), "\x01")).view<std::uint8_t, 1>()(0)), 1);
  EXPECT_THROW((read(npy(header("<f2", "(1,)"), "ab")).view<BFloat16, 1>()),
               std::invalid_argument);
}

TEST_F(Npy, OutlivesItsFile) {
  const Array array = read(npy(header("<f4", "(1,)"), bytes_of<float>({1})));
  write_npy(folder_ / "x.npy", Array());
  EXPECT_EQ((array.view<float, 1>()(0)), 1.0f);
  // An array may be written to the file that it maps.
  const Array again = read(npy(header("<f4", "(1,)"), bytes_of<float>({3})));
  write_npy(folder_ / "x.npy", again);
  EXPECT_THAT(read_npy(folder_ / "x.npy").to_doubles(), ElementsAre(3));
}

TEST_F(Npy, RefusesEveryTruncation) {
  for (int major : {1, 2}) {
    const std::string whole =
        npy(header("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6}), major);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_NE(error(whole.substr(0, size)), "") << size;
    EXPECT_EQ(error(whole), "");
    EXPECT_THAT(error(whole + "x"),
                HasSubstr("the file has 25, at byte " + std::to_string(whole.size())));
  }
}

// After any change of one byte, reading gives an array or a FormatError.
TEST_F(Npy, SurvivesEveryChangeOfAByte) {
  const std::string whole = npy(header("<f4", "(2, 3)"), bytes_of<float>({1, 2, 3, 4, 5, 6}));
  for (std::size_t at = 0; at < whole.size() - 24; ++at)
    for (const char byte :
         {'\0', ' ', '\'', '(', ')', ',', '-', '9', ':', '{', '}', '\x7f', '\x80', '\xff'}) {
      std::string changed = whole;
      changed[at] = byte;
      error(changed);
    }
}

TEST_F(Npy, SaysWhatIsWrongAndWhere) {
  const std::string four = bytes_of<float>({1});
  EXPECT_EQ(error("PK\x03\x04"),
            "not an .npy file: it does not begin with \\x93NUMPY, at byte 0");
  EXPECT_EQ(error(npy(header("<f4", "(1,)"), four, 4)),
            "version 4.0 is not 1.0, 2.0 or 3.0, at byte 6");
  EXPECT_EQ(error(npy("", "", 2, 0xffffffff)),
            "a header of 4294967295 bytes, more than 65536, at byte 8");
  EXPECT_EQ(error(npy("{}", "", 1, 60000)), "the file ends inside its header, at byte 12");
  EXPECT_EQ(error(npy(header(">f4", "(1,)"), four)),
            "big-endian elements are not supported, at byte 20");
  EXPECT_EQ(
      error(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", four)),
      "structured arrays are not supported, at byte 20");
  for (const char* descr :
       {"<c8", "|O", "<U3", "|S4", "|V2", "<f16", "f4", "|f4", "", "<", "<f4 "})
    EXPECT_THAT(error(npy(header(descr, "(1,)"), four)),
                HasSubstr("expected an element type such as '<f4' or '<i8'"))
        << descr;
  EXPECT_THAT(error(npy(header("<f4", "(-1,)"), four)), HasSubstr("negative extent"));
  EXPECT_THAT(error(npy(header("<f4", "(99999999999999999999,)"), four)),
              HasSubstr("extent beyond 64 bits"));
  EXPECT_THAT(error(npy(header("<f4", "(4294967296, 4294967296)"), "")),
              HasSubstr("a shape beyond 64 bits"));
  EXPECT_THAT(error(npy(header("<f4", "(4294967296, 4294967296, 0)"), "")),
              HasSubstr("a shape beyond 64 bits"));
  EXPECT_THAT(error(npy(header("<f4", "(4611686018427387904,)"), "")),
              HasSubstr("a shape beyond 64 bits"));
  EXPECT_THAT(error(npy(header("<f4", "(1000000000000,)"), four)),
              HasSubstr("takes 4000000000000 bytes, the file has 4"));
  EXPECT_THAT(error(npy(header("<f4", "(1)"), four)), HasSubstr("expected a comma"));
  EXPECT_THAT(error(npy(header("<f4", "(1 1)"), four)), HasSubstr("expected a comma"));
  EXPECT_THAT(error(npy(header("<f4", "(1, 1 1)"), four)), HasSubstr("expected a comma"));
  EXPECT_THAT(error(npy(header("<f4", "(,)"), four)), HasSubstr("expected an extent"));
  EXPECT_THAT(error(npy(header("<f4", "(1.5,)"), four)), HasSubstr("expected a comma"));
  EXPECT_THAT(error(npy(header("<f4", "(True,)"), four)), HasSubstr("expected an extent"));
  EXPECT_THAT(error(npy(header("<f4", "(1,)", "0"), four)),
              HasSubstr("expected True or False"));
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_THAT(error(npy(header("<f4", many + ")"), four)), HasSubstr("more than 64 axes"));
  EXPECT_THAT(error(npy(std::string(60000, '('), "")),
              HasSubstr("expected a header in braces"));
  EXPECT_THAT(error(npy("{'descr': '<f4', 'shape': (1,)}", four)), HasSubstr("each once"));
  EXPECT_THAT(error(npy("{'descr': '<f4', 'descr': '<f4'}", four)), HasSubstr("each once"));
  EXPECT_THAT(error(npy("{'\xff\xfe': '<f4'}", four)), HasSubstr("each once"));
  EXPECT_THAT(error(npy(header("<f4", "(1,)") + "x", four)),
              HasSubstr("unexpected text after the header"));
  EXPECT_THAT(error(npy("{'descr: 1}", four)), HasSubstr("expected a closing quote"));
  EXPECT_THAT(error(npy("", four)), HasSubstr("expected a header in braces, at byte 10"));
}

TEST_F(Npy, RefusesToWriteWhatItCannotSay) {
  EXPECT_THAT(
      message_of([&] { write_npy(folder_ / "x.npy", Array::opaque("F8_E4M3", {0}, {})); }),
      HasSubstr("element type must be supported by .npy, got F8_E4M3"));
  EXPECT_EQ(folder_.files(), 0u);
  EXPECT_THROW(Array(Element::f32, {2}, {}), std::invalid_argument);
  EXPECT_THROW(Array(Element::f32, {-1}, {}), std::invalid_argument);
}

}  // namespace npy_test
}  // namespace gnomon::io

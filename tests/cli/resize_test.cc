// `gnomon resize`: shapes, element types, preserved files, presets, errors.
#include <cmath>
#include <fstream>

#include "checkpoints.h"
#include "gnomon/embedding/resize.h"
#include "gnomon/io/npy.h"

namespace gnomon::cli {
namespace cli_resize_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Shape = io::Array::Shape;
using ::testing::HasSubstr;

class ResizeProgram : public InFolder {
 protected:
  template <typename T>
  void put_table(const std::string& name, std::vector<T> values, const Shape& shape) const {
    io::write_npy(file(name), io::Array(io::element_of<T>(), shape,
                                        std::as_bytes(std::span<const T>(values))));
  }
  // Random values of a table [N, C], and a table resized by the library.
  std::vector<double> numbers(std::size_t count) const {
    return testing::random_numbers(count, 3);
  }
  std::vector<double> by_library(const TableResize& resize, const std::vector<double>& table,
                                 GridSize from, GridSize to) const {
    const auto old_rows = resize.extra_rows + from.height * from.width;
    const auto rows = resize.extra_rows + to.height * to.width;
    const auto channels = static_cast<std::int64_t>(table.size()) / old_rows;
    std::vector<double> out(static_cast<std::size_t>(rows * channels));
    resize_table(resize, View<const double, 2>(table.data(), {old_rows, channels}), from,
                 View<double, 2>(out.data(), {rows, channels}), to);
    return out;
  }
};

TEST_F(ResizeProgram, ALineByHand) {
  // align_corners=False: sample i of 4 is at (i + 1/2) / 2 - 1/2 of 2.
  put_table<float>("in.npy", {0, 10, 4, 30}, {2, 2});
  done({"resize", file("in.npy"), "--preset", "linear", "--to", "4", "-o", file("out.npy")});
  const io::Array out = io::read_npy(file("out.npy"));
  EXPECT_EQ(out.shape(), (Shape{4, 2}));
  EXPECT_EQ(out.to_doubles(), (std::vector<double>{0, 10, 1, 15, 3, 25, 4, 30}));
}

TEST_F(ResizeProgram, EveryPresetIsTheLibrarys) {
  struct Case {
    const char* name;
    TableResize resize;
  };
  const Case cases[] = {{"vit", resize_vit()},
                        {"deit", resize_vit(2)},
                        {"clip", resize_vit()},
                        {"dinov2", resize_vit()},
                        {"glm4v", resize_vit(0)},
                        {"dinov2-original", resize_dinov2_original()},
                        {"dinov2-registers", resize_dinov2_registers()},
                        {"siglip2", resize_siglip2()},
                        {"qwen3-vl", resize_qwen3_vl()},
                        {"linear", resize_linear()}};
  for (const Case& one : cases) {
    const std::int64_t rows = one.resize.extra_rows + 16;
    const auto table = numbers(static_cast<std::size_t>(rows) * 3);
    put_table<double>("in.npy", table, {1, rows, 3});
    const std::string said = done(
        {"resize", file("in.npy"), "--preset", one.name, "--to", "3x5", "-o", file("out.npy")});
    EXPECT_THAT(said, HasSubstr("4x4 to 3x5: f64 [1, "));
    const io::Array out = io::read_npy(file("out.npy"));
    EXPECT_EQ(out.shape(), (Shape{1, one.resize.extra_rows + 15, 3}));
    EXPECT_EQ(out.to_doubles(), by_library(one.resize, table, {.height = 4, .width = 4},
                                           {.height = 3, .width = 5}))
        << one.name;
  }
}

TEST_F(ResizeProgram, SettingsByHandAndAGridThatIsNoSquare) {
  const auto table = numbers(26);
  put_table<double>("in.npy", table, {13, 2});
  done({"resize", file("in.npy"), "--kernel", "cubic", "--corners", "half-pixel", "--antialias",
        "on", "--extra-rows", "1", "--from", "2x6", "--to", "1x3", "-o", file("out.npy")});
  EXPECT_EQ(io::read_npy(file("out.npy")).to_doubles(),
            by_library({.kernel = ResizeKernel::cubic,
                        .corners = ResizeCorners::half_pixel,
                        .antialias = Antialias::on,
                        .extra_rows = 1},
                       table, {.height = 2, .width = 6}, {.height = 1, .width = 3}));
  done({"resize", file("in.npy"), "--kernel", "linear", "--corners", "aligned", "--from", "13",
        "--to", "7", "-o", file("out.npy")});
  EXPECT_EQ(io::read_npy(file("out.npy")).to_doubles(),
            by_library({.kernel = ResizeKernel::linear, .corners = ResizeCorners::aligned},
                       table, {.height = 13, .width = 1}, {.height = 7, .width = 1}));
}

template <typename T>
std::vector<T> rounded(const std::vector<double>& values) {
  std::vector<T> all;
  for (const double value : values) all.push_back(static_cast<T>(value));
  return all;
}
template <typename T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> all;
  for (const T value : values) all.push_back(testing::as_double(value));
  return all;
}

TEST_F(ResizeProgram, EveryElementTypeIsRoundedOnce) {
  const auto check = [&]<typename T>(T) {
    const auto table = rounded<T>(numbers(18));
    std::vector<std::uint16_t> bits;
    if constexpr (std::is_same_v<T, BFloat16>) {  // in .npy as u16
      for (const BFloat16 one : table) bits.push_back(one.bits);
      put_table("in.npy", bits, {9, 2});
    } else {
      put_table("in.npy", table, {9, 2});
    }
    done({"resize", file("in.npy"), "--preset", "siglip2", "--to", "5x2", "-o",
          file("out.npy")});
    const auto wanted =
        rounded<T>(by_library(resize_siglip2(), widened(table), {.height = 3, .width = 3},
                              {.height = 5, .width = 2}));
    const io::Array out = io::read_npy(file("out.npy"));
    const auto bytes = std::as_bytes(std::span<const T>(wanted));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), out.bytes().begin(), out.bytes().end()));
  };
  check(double());
  check(float());
  check(Half());
  check(BFloat16());
}

TEST_F(ResizeProgram, OneTensorOfAFileIsReplaced) {
  const std::vector<float> other{1, 2, 3};
  const auto table = rounded<BFloat16>(numbers(20));
  const std::vector<io::NamedArray> tensors{
      {"before", io::Array(io::Element::f32, {3}, std::as_bytes(std::span(other)))},
      {"vit.embeddings.position_embeddings",
       io::Array(io::Element::bf16, {1, 5, 4}, std::as_bytes(std::span(table)))},
      {"after", io::Array(io::Element::f32, {3, 1}, std::as_bytes(std::span(other)))}};
  io::write_safetensors(file("in.safetensors"), tensors, {{"format", "pt"}});
  const Json said = Json::parse(
      done({"resize", file("in.safetensors"), "--preset", "vit", "--to", "3x3", "--tensor",
            "vit.embeddings.position_embeddings", "--json", "-o", file("out.safetensors")}));
  EXPECT_EQ(said["from"], "2x2");
  EXPECT_EQ(said["shape"], Json({1, 10, 4}));
  const io::SafeTensors out(file("out.safetensors"));
  ASSERT_EQ(out.tensors().size(), 3u);
  EXPECT_EQ(out.tensors()[0].name, "before");
  EXPECT_EQ(out.tensors()[1].dtype, "BF16");
  EXPECT_EQ(out.tensors()[1].shape, (Shape{1, 10, 4}));
  EXPECT_EQ(out.tensor("after").to_doubles(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(out.tensor("after").shape(), (Shape{3, 1}));
  EXPECT_EQ(out.metadata(), (io::Metadata{{"format", "pt"}}));
  EXPECT_EQ(out.tensor("vit.embeddings.position_embeddings").to_doubles(),
            widened(rounded<BFloat16>(by_library(resize_vit(), widened(table),
                                                 {.height = 2, .width = 2},
                                                 {.height = 3, .width = 3}))));
  // Resize in place, without --tensor, because the file has only one tensor.
  io::write_safetensors(file("one.safetensors"), std::span(tensors).subspan(1, 1));
  done({"resize", file("one.safetensors"), "--preset", "vit", "--to", "1x4", "-o",
        file("one.safetensors")});
  EXPECT_EQ(io::SafeTensors(file("one.safetensors")).tensors()[0].shape, (Shape{1, 5, 4}));
}

TEST_F(ResizeProgram, WhatDoesNotFitIsRefused) {
  put_table<float>("in.npy", std::vector<float>(34), {17, 2});
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"resize", file("in.npy"), "-o", file("out.npy")});
    return refused(more);
  };
  EXPECT_THAT(with({"--to", "3x3"}),
              HasSubstr("--preset, or --kernel and --corners, must be given"));
  EXPECT_THAT(with({"--preset", "vit", "--kernel", "linear", "--to", "3x3"}),
              HasSubstr("--kernel must not be given with --preset"));
  EXPECT_THAT(with({"--preset", "vat", "--to", "3x3"}), HasSubstr("must be one of vit, deit"));
  EXPECT_THAT(with({"--preset", "siglip2", "--to", "3x3"}),
              HasSubstr("--from must be given if 17 rows after 0 extra rows are not a square"));
  EXPECT_THAT(with({"--preset", "vit", "--extra-rows", "17", "--to", "3x3"}),
              HasSubstr("not a square"));
  EXPECT_THAT(with({"--preset", "vit", "--extra-rows", "-1", "--to", "3x3"}),
              HasSubstr("--extra-rows must be at least 0, got -1"));
  EXPECT_THAT(with({"--preset", "vit", "--from", "3x4", "--to", "3x3"}),
              HasSubstr("must have 1 + 3 x 4 rows, got 17"));
  EXPECT_THAT(with({"--preset", "vit", "--from", "17", "--to", "3x3"}),
              HasSubstr("--from and --to must both be HxW, or both N, got 17 and 3x3"));
  EXPECT_THAT(with({"--preset", "linear", "--to", "0"}), HasSubstr("[grid]"));
  EXPECT_THAT(with({"--preset", "linear", "--to", "1x"}), HasSubstr("[grid]"));
  EXPECT_THAT(with({"--preset", "vit", "--to", "99999x9999", "--from", "4x4"}),
              HasSubstr("fewer than 2^28"));
  EXPECT_THAT(with({"--kernel", "cubic", "--corners", "aligned", "--antialias", "on",
                    "--extra-rows", "1", "--to", "3x3"}),
              HasSubstr("antialias must be off with aligned corners"));
  EXPECT_THAT(with({"--preset", "vit", "--to", "3x3", "--tensor", "x"}),
              HasSubstr("--tensor must be given for .safetensors files only"));
  EXPECT_THAT(refused({"resize", file("in.npy"), "--preset", "vit", "--to", "3x3", "-o",
                       file("out.safetensors")}),
              HasSubstr("-o must end in .npy"));
  put_table<std::int32_t>("int.npy", {1, 2, 3, 4}, {4, 1});
  EXPECT_THAT(refused({"resize", file("int.npy"), "--preset", "linear", "--to", "3", "-o",
                       file("out.npy")}),
              HasSubstr("elements must be f64, f32, f16 or bf16"));
  put_table<float>("four.npy", {1, 2, 3, 4}, {2, 2, 1});
  EXPECT_THAT(refused({"resize", file("four.npy"), "--preset", "linear", "--to", "3", "-o",
                       file("out.npy")}),
              HasSubstr("must be [N, C] or [1, N, C], not empty, got [2, 2, 1]"));
  testing::put(file("two.safetensors"), safetensors(llama_layer(0)));
  EXPECT_THAT(refused({"resize", file("two.safetensors"), "--preset", "linear", "--to", "3",
                       "-o", file("out.safetensors")}),
              HasSubstr("--tensor must name one of 4 tensors"));
  EXPECT_THAT(refused({"resize", file("two.safetensors"), "--preset", "linear", "--to", "3",
                       "--tensor", "no", "-o", file("out.safetensors")}),
              HasSubstr("must contain the requested tensor, got \"no\""));
  EXPECT_FALSE(fs::exists(file("out.npy")));
  EXPECT_FALSE(fs::exists(file("out.safetensors")));
}

}  // namespace cli_resize_test
}  // namespace gnomon::cli

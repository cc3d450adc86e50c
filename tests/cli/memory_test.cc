// The program's memory for hostile files: less than ten times the size of the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "model/gguf_builder.h"
#include "process.h"

namespace gnomon::cli {
namespace cli_memory_test {

namespace fs = std::filesystem;
using gnomon::testing::gguf_bytes;

// Sanitizers use additional memory.
#ifdef __SANITIZE_ADDRESS__
constexpr bool measured = false;
constexpr std::size_t size = 1'000'000;
#else
constexpr bool measured = true;
constexpr std::size_t size = 5'000'000;  // bytes of a file
#endif

class Memory : public ::testing::Test {
 protected:
  Memory() {
    std::string name = (fs::temp_directory_path() / "gnomon-cli-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::ofstream(file("small.json")) << sizes << "}";
    const auto outcome = run({"inspect", file("small.json").string(), "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    baseline_ = outcome.kilobytes;
  }
  ~Memory() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name) const { return folder_ / name; }
  testing::Outcome run(const std::vector<std::string>& arguments) const {
    return testing::run(GNOMON_PROGRAM, arguments, testing::Streams::separate);
  }
  void expect_bounded(const std::string& name, const fs::path& path) const {
    expect_bounded(name, path, {"inspect", path.string(), "--json"});
  }
  void expect_bounded(const std::string& name, const fs::path& path,
                      const std::vector<std::string>& arguments) const {
    const auto bytes = static_cast<double>(fs::file_size(path));
    const auto outcome = run(arguments);
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 2) << name << ": " << outcome.code;
    EXPECT_LT(outcome.errors.size(), 1000u) << name;
    if (outcome.code == 2) {
      EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << name;
    }
    const double times = 1024.0 * static_cast<double>(outcome.kilobytes - baseline_) / bytes;
    if (measured) {
      EXPECT_LT(times, 10) << name << " of " << bytes << " bytes: " << outcome.errors;
    }
    RecordProperty(name, std::to_string(times));
  }

  static constexpr const char* sizes =
      R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
          "num_hidden_layers": 2)";

 private:
  fs::path folder_;
  long baseline_ = 0;  // memory of the program for a small model
};

// Writes `begin`, then as many copies of `one` as fit, separated by commas, then `end`. Writes
// small pieces, because the memory of the parent counts for the child.
void write(const fs::path& path, const std::string& begin,
           const std::function<std::string(std::size_t)>& one, const std::string& end) {
  std::ofstream out(path, std::ios::binary);
  std::string piece = begin;
  for (std::size_t i = 0, written = 0; written + piece.size() < size; ++i) {
    if (i) piece += ',';
    piece += one(i);
    if (piece.size() < 1 << 16) continue;
    out << piece;
    written += piece.size();
    piece.clear();
  }
  out << piece << end;
}

std::string hexadecimal(std::size_t i) {
  std::string digits;
  do digits += "0123456789abcdef"[i % 16];
  while (i /= 16);
  return digits;
}

TEST_F(Memory, OfHostileConfigs) {
  struct Shape {
    std::string name, begin;
    std::function<std::string(std::size_t)> one;
    std::string end;
  };
  const auto same = [](std::string text) {
    return [text = std::move(text)](std::size_t) { return text; };
  };
  const auto named = [](std::string before, std::string after) {
    return [=](std::size_t i) {
      return std::string("\"").append(before).append(hexadecimal(i)).append(after);
    };
  };
  const std::string in = std::string(sizes) + ", ";
  const std::string thousand(1000, 'x');
  const Shape shapes[] = {
      {"numbers", in + "\"x\": [", same("0"), "]}"},
      {"lists", in + "\"x\": [", same("[]"), "]}"},
      {"strings", in + "\"x\": [", same("\"\""), "]}"},
      {"members", in, same("\"\":0"), "}"},
      {"objects", in, named("", "\":{}"), "}"},
      {"nested", in + "\"x\": [", same(std::string(61, '[') + std::string(61, ']')), "]}"},
      {"deep", in + "\"x\": " + std::string(1'000'000, '['), same("0"), "]}"},
      {"parts", in, named("", "_config\":{}"), "}"},
      {"models", in, named("", "\":{\"model_type\":\"\"}"), "}"},
      {"notes", in, named("rope", "\":0"), "}"},
      {"types", in + "\"rope_parameters\": {", named("", "\":{}"), "}}"},
      {"no types", in + "\"rope_parameters\": {", named("", "\":null"), "}}"},
      {"layers", in + "\"layer_types\": [", same("\"\""), "]}"},
      {"bases", in + "\"rope_theta\": [", same("2"), "]}"},
      {"factors",
       in + "\"rope_scaling\": {\"type\":\"longrope\",\"long_factor\":[1],"
            "\"short_factor\": [",
       same("1"), "]}}"},
      {"unknown keys", in + "\"rope_scaling\": {", named("", "\":0"), "}}"},
      {"long string", in + "\"x\": \"", same(thousand), "\"}"},
      {"long escapes", in + "\"x\": \"", same("\\u0000\\n\\ud83d\\ude00"), "\"}"},
      {"long name", in + "\"rope", same(thousand), "\": 1}"},
      {"long family", "{\"model_type\": \"", same(thousand), "\", \"rope_theta\": 3}"},
      {"long type", in + "\"rope_scaling\": {\"type\": \"", same(thousand), "\"}}"},
      {"long layer type", in + "\"layer_types\": [\"a\", \"", same(thousand), "\"]}"},
      {"long position", in + "\"position_embedding_type\": \"", same(thousand), "\"}"},
  };
  for (const Shape& shape : shapes) {
    const fs::path path = file("config.json");
    write(path, shape.begin, shape.one, shape.end);
    expect_bounded(shape.name, path);
  }
}

TEST_F(Memory, OfHostileGgufFiles) {
  const auto text = [](const std::string& value) { return testing::gguf_string(value); };
  const auto header = [&](std::uint64_t tensors, std::uint64_t entries) {
    return "GGUF" + gguf_bytes(std::uint32_t{3}) + gguf_bytes(tensors) + gguf_bytes(entries);
  };
  const std::string llama = text("general.architecture") + gguf_bytes(std::uint32_t{8}) +
                            text("llama") + text("llama.block_count") +
                            gguf_bytes(std::uint32_t{4}) + gguf_bytes(std::uint32_t{2});
  const fs::path path = file("x.gguf");
  {
    std::ofstream out(path, std::ios::binary);
    const std::size_t count = size / 17;  // length, 4 bytes of a key, type, a value
    out << header(0, 2 + count) << llama;
    for (std::size_t i = 0; i < count; ++i) {
      std::string name = hexadecimal(i);
      name.resize(5, '_');
      out << text(name) << gguf_bytes(std::uint32_t{0}) << '\1';
    }
  }
  expect_bounded("entries", path);
  {
    std::ofstream out(path, std::ios::binary);
    const std::size_t count = size / 29;
    out << header(count, 2) << llama;
    for (std::size_t i = 0; i < count; ++i) {
      std::string name = hexadecimal(i);
      name.resize(5, '_');
      out << text(name) << gguf_bytes(std::uint32_t{0}) << gguf_bytes(std::uint32_t{0})
          << gguf_bytes(std::uint64_t{0});
    }
  }
  expect_bounded("tensors", path);
  const auto array = [&](const std::string& name, const std::string& key, std::uint32_t type,
                         const std::string& element) {
    {
      std::ofstream out(path, std::ios::binary);
      const std::uint64_t count = size / element.size();
      out << header(0, 3) << llama << text(key) << gguf_bytes(std::uint32_t{9})
          << gguf_bytes(type) << gguf_bytes(count);
      for (std::uint64_t i = 0; i < count; ++i) out << element;
    }
    expect_bounded(name, path);
  };
  array("heads", "llama.attention.head_count", 0, "\4");
  array("texts", "x", 8, text(""));
  array("booleans", "x", 7, "\1");
  array("arrays", "x", 9, gguf_bytes(std::uint32_t{0}) + gguf_bytes(std::uint64_t{0}));
}

TEST_F(Memory, OfHostileSafeTensors) {
  const fs::path path = file("x.safetensors");
  const auto check = [&](const std::string& name, const std::string& begin,
                         const std::function<std::string(std::size_t)>& one,
                         const std::string& end) {
    write(path, std::string(8, '\0') + begin, one, end);
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        << gguf_bytes(std::uint64_t{fs::file_size(path) - 8});
    expect_bounded(name, path,
                   {"resize", path.string(), "--preset", "linear", "--to", "8", "-o",
                    file("y.safetensors").string()});
  };
  const auto tensor = [](const std::string& shape) {
    return [=](std::size_t i) {
      return std::string("\"")
          .append(hexadecimal(i))
          .append("\":{\"dtype\":\"\",\"shape\":[" + shape + "],\"data_offsets\":[0,0]}");
    };
  };
  std::string zeros = "0";
  for (int i = 1; i < 64; ++i) zeros += ",0";
  check("tensors", "{", tensor(""), "}");
  check("axes", "{", tensor(zeros), "}");
  check("extents", "{\"a\":{\"shape\":[", [](std::size_t) { return std::string("0"); }, "]}}");
  check(
      "metadata", "{\"__metadata__\":{",
      [](std::size_t i) { return '"' + hexadecimal(i) + "\":\"\""; }, "}}");
}

}  // namespace cli_memory_test
}  // namespace gnomon::cli

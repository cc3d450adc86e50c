// The commands on the pages of the documentation and in the help texts.
//
//   block    a line of a ```sh block that begins with `gnomon` must succeed
//   inline   `gnomon table ...` in the text names a command and may leave out arguments: it
//            succeeds, or the program refuses it because an argument is missing
//   help     the example of each command must succeed
//
// Files that a command reads are put into its folder by their names. Not run:
//
//   bench                             takes long; its options and NAME are checked
//   lab, generate, evaluate,          train models or read what a training wrote; their options
//   compare, batches                  must be in the help of the command
//   check --all                       takes long (check_test.cc); runs without --all
//   images (.png, .svg)               require vl-convert
//   words in capitals, "..."          stand for other words
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "apps/cli/command.h"
#include "bench/kernels/kernels.h"
#include "checkpoints.h"
#include "gnomon/io/npy.h"
#include "gnomon/model/encoding.h"

namespace gnomon::cli {
namespace pages_test {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using testing::contents;
using ::testing::HasSubstr;
using testing::put;
using Words = std::vector<std::string>;

enum class Where { block = 1, text, help };

struct Line {
  std::string page, text;
  Where where;
};

// docs/changes.md describes earlier versions.
std::vector<fs::path> pages() {
  const fs::path root = GNOMON_SOURCE_DIR;
  std::vector<fs::path> all{root / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md" && entry.path().filename() != "changes.md")
      all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<Line> lines_of(const fs::path& page) {
  static const std::regex command(R"(^((?:\w+=\S+ |srun )*gnomon .*))"),
      code("`(gnomon [^`]+)`");
  const std::string name = page.lexically_relative(GNOMON_SOURCE_DIR).string();
  std::vector<Line> lines;
  std::istringstream text(contents(page));
  std::string block;  // the language, "-" if none
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) {
      block = block.empty() ? line.substr(3) + "-" : "";
      continue;
    }
    std::smatch found;
    if (block == "sh-" || block == "bash-") {
      if (std::regex_search(line, found, command))
        lines.push_back({name, found[1], Where::block});
    } else if (block.empty()) {
      for (std::sregex_iterator at(line.begin(), line.end(), code), end; at != end; ++at)
        lines.push_back({name, (*at)[1], Where::text});
    }
  }
  return lines;
}

// The help of a command of gnomon-lab; empty if gnomon-lab is not built.
std::string help_of(const std::string& command) {
  static const std::string all = [] {
    const fs::path lab = fs::path(GNOMON_PROGRAM).parent_path() / "../lab/gnomon-lab";
    return fs::exists(lab) ? testing::run(lab, {"help"}, testing::Streams::separate).output
                           : "";
  }();
  const std::size_t begin = all.find("Usage: gnomon " + command + " ");
  return begin == all.npos ? "" : all.substr(begin, all.find('\f', begin) - begin);
}

std::vector<Line> help_lines() {
  std::vector<Line> lines;
  const auto add = [&](const std::string& name, const std::string& help) {
    const std::size_t at = help.find("Example: ");
    ASSERT_NE(at, help.npos) << name;
    std::string text = std::regex_replace(help.substr(at + 9), std::regex("\\\\\n *"), "");
    text = text.substr(0, text.find('\n'));
    lines.push_back({"help of " + name, text.substr(0, text.find(" | ")), Where::help});
  };
  add("gnomon", program_help());
  for (const Command& one : all_commands()) add(one.name(), one.help());
  for (const char* name : lab_commands)
    if (const std::string help = help_of(name); !help.empty()) add(name, help);
  return lines;
}

// The words of a line for a shell, without its comment and redirections. words[0] is "gnomon".
Words words_of(const std::string& line) {
  Words words;
  std::string word;
  char quote = 0;
  bool any = false;
  for (const char c : line + " ") {
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c, any = true;
    } else if (c != ' ') {
      word += c;
    } else if (any || !word.empty()) {
      if (word == "#" || word == ">") break;
      words.push_back(word);
      word.clear(), any = false;
    }
  }
  words.erase(words.begin(), std::find(words.begin(), words.end(), "gnomon"));
  return words;
}

class Pages : public ConvertProgram {
 protected:
  // Writes the file or folder that words[i] names, unless it exists.
  void put_fixture(const std::string& folder, const Words& words, std::size_t i) const {
    const std::string &word = words[i], &before = words[i - 1];
    static const std::set<std::string> models{"path/to/model", "Llama-3.1-8B", "Qwen3-8B",
                                              "~/models/Llama-3.1-8B"};
    // HOME is the folder.
    const std::string path = folder + "/" + (word.starts_with("~/") ? word.substr(2) : word);
    if (fs::exists(file(path))) return;
    if (models.contains(word)) {
      fs::create_directories(file(path));
      put_model(path);
      auto config = nlohmann::json::parse(llama_config);
      config["num_hidden_layers"] = 4;
      put(file(path + "/config.json"), config.dump());
    } else if (word == "config.json") {
      put(file(path), llama_config);
    } else if (word == "Llama-3.2-1B") {
      put_llama(path);
    } else if (word == "adapter_model.safetensors") {
      put(file(path),
          safetensors({{"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
                        "F32",
                        {32, 4},
                        4}}));
    } else if (word == "model.safetensors") {
      put(file(path),
          safetensors(
              {{"vision_model.embeddings.position_embedding.weight", "F32", {256, 8}, 4}}));
    } else if (word.ends_with(".npy") && before != "-o") {
      // Other files are tables: a class token and 14 x 14 cells, or 512 positions.
      const bool is_query = word == "q.npy";
      const io::Array::Shape shape = is_query            ? io::Array::Shape{512, 4, 8}
                                     : word == "vit.npy" ? io::Array::Shape{197, 8}
                                                         : io::Array::Shape{512, 8};
      const std::vector<float> zeros(512 * 4 * 8);
      const auto size =
          static_cast<std::size_t>(shape[0] * shape[1] * (is_query ? shape[2] : 1));
      io::write_npy(file(path), io::Array(io::Element::f32, shape,
                                          std::as_bytes(std::span(zeros).first(size))));
    } else if (before == "--parameters") {
      put_parameters(path, words[2]);
    }
  }
  // Parameters for 8 heads, in the form that `gnomon bias` reads.
  void put_parameters(const std::string& path, const std::string& kind) const {
    std::vector<Piece> pieces;
    const model::EncodingInfo& info = model::find_encoding(kind);
    for (const model::Parameter& one : model::parameters(info.usual({512, 8, 16})))
      pieces.push_back({one.name, "F32", {one.rows, one.columns}, 4});
    if (kind == "fire") {
      const char* names[] = {"mlp.0.weight", "mlp.0.bias", "mlp.2.weight",
                             "mlp.2.bias",   "c",          "L_multiplier"};
      for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].name = names[i];
    }
    std::string bytes = safetensors(pieces);
    std::fill(bytes.end() - static_cast<std::ptrdiff_t>(data_bytes(pieces)), bytes.end(),
              '\x3f');  // 0.747
    put(file(path), bytes);
  }
  static std::size_t data_bytes(const std::vector<Piece>& pieces) {
    std::size_t bytes = 0;
    for (const Piece& one : pieces)
      bytes += one.element_bytes * static_cast<std::size_t>(one.shape[0] * one.shape[1]);
    return bytes;
  }

  static void check_bench(const Words& words) {
    bench_command().parse(Words(words.begin() + 2, words.end()));
    const bool has_name = words.size() > 2 && words[2][0] != '-';
    EXPECT_FALSE(bench::kernels(has_name ? words[2] : "", 1).empty()) << words[2];
  }
  static void check_options(const Words& words) {
    const std::string help = help_of(words[1]);
    for (std::size_t i = 2; i < words.size() && !help.empty(); ++i)
      if (words[i].starts_with("-") && words[i] != "--help") {
        EXPECT_TRUE(std::regex_search(
            help, std::regex("[ ,(]" + words[i].substr(0, words[i].find('=')) + "\\b")))
            << words[i];
      }
  }
  void run_line(const Line& line, const Words& words) const {
    std::string folder = line.page;
    std::ranges::replace(folder, '/', '-');
    fs::create_directories(file(folder));
    for (std::size_t i = 1; i < words.size(); ++i) put_fixture(folder, words, i);
    const std::string path = fs::path(GNOMON_PROGRAM).parent_path();
    const std::string command = words[1] == "check"
                                    ? std::regex_replace(line.text, std::regex(" --all\\b"), "")
                                    : line.text;
    const auto outcome =
        testing::run("/bin/sh", {"-c", "HOME=$PWD; PATH=" + path + ":$PATH; " + command},
                     testing::Streams::separate, file(folder));
    if (line.where == Where::text && outcome.code == 2)
      EXPECT_THAT(
          outcome.errors,
          AnyOf(HasSubstr(" is required, got none"), HasSubstr(" must be given, got neither"),
                HasSubstr(" must be given, got none"), HasSubstr(" requires PATH, got none")));
    else
      EXPECT_EQ(outcome.code, 0) << outcome.errors;
  }
  void check(const Line& line) {
    SCOPED_TRACE(line.page + ": " + line.text);
    static const std::regex placeholder(R"(\b[A-Z]{3,}\b|\.\.\.)"), image(R"(\.(png|svg)\b)");
    // The page shows an error.
    if (line.text == "gnomon table sinusoidal --pairing halves" ||
        line.text == "gnomon table rotary --dim 7 --positions 0:4 --pairing halves")
      return;
    const Words words = words_of(line.text);
    ASSERT_GE(words.size(), 2u);
    if (std::ranges::find(lab_commands, words[1]) != std::end(lab_commands))
      return check_options(words);
    const std::string command = line.text.substr(0, line.text.find(" #"));
    if (std::regex_search(command, placeholder) || std::regex_search(command, image)) return;
    if (!run_.insert(line.text).second) return;
    words[1] == "bench" ? check_bench(words) : run_line(line, words);
  }

  std::set<std::string> run_;  // a command that several pages contain runs once
};

TEST_F(Pages, CommandsRun) {
  for (const fs::path& page : pages())
    for (const Line& line : lines_of(page)) check(line);
  EXPECT_GT(run_.size(), 60u);
}

TEST_F(Pages, ExamplesOfHelpTextsRun) {
  for (const Line& line : help_lines()) check(line);
  EXPECT_GT(run_.size(), 10u);
}

}  // namespace pages_test
}  // namespace gnomon::cli

// Names of files and texts in files that a terminal would act on, for every command that prints
// them.
#include <nlohmann/json.hpp>

#include "checkpoints.h"

namespace gnomon::cli {
namespace escapes_test {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::put;
using Words = std::vector<std::string>;

// Sets a title and a colour, clears the screen, reverses the direction, returns to the first
// column, ends the line, and is not UTF-8.
const std::string hostile = "a\x1b]0;t\a\x1b[2J\u009b31m\u202eb\x7f\r\ngnomon: c\xff";
// The same as far as JSON can contain it.
const std::string hostile_utf8 = hostile.substr(0, hostile.size() - 1);

class Escapes : public ConvertProgram {
 protected:
  // Runs a command. Expects that it names the hostile text, and shows it.
  void expect_escaped(const Words& words, int code) const {
    const auto outcome = run(words);
    const std::string all = outcome.output + outcome.errors;
    EXPECT_EQ(outcome.code, code) << all;
    EXPECT_THAT(all, AnyOf(HasSubstr("\\x1b"), HasSubstr("\\u001b"))) << words[0];
    for (const char* raw :
         {"\x1b", "\a", "\u009b", "\u202e", "\x7f", "\r", "\ngnomon: c", "\xff"})
      EXPECT_THAT(all, Not(HasSubstr(raw))) << words[0];
    if (code == 2) {
      EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1) << all;
    }
  }
};

TEST_F(Escapes, OfFilesThatDoNotExist) {
  const std::string path = file(hostile + "/" + hostile + ".npy"), out = file("out.npy");
  const std::string tensors = file(hostile + ".safetensors");
  for (const Words& words : {
           Words{"inspect", path},
           {"inspect", path, "--html", path},
           {"inspect", path, "-o", path},
           {"convert", tensors, "--to", "halves", "--heads", "2", "--head-dim", "2", "-o", out},
           {"convert", path, "--to", "halves", "-o", out},
           {"table", "sinusoidal", "--dim", "4", "--positions", path},
           {"table", "sinusoidal", "--dim", "4", "--positions", "0:2", "-o", path},
           {"table", "sinusoidal", "--dim", "4", "--positions", "0:2", "-o", tensors},
           {"table", "laplacian", "--dim", "4", "--graph", path},
           {"bias", "t5", "--heads", "2", "--queries", "2", "--keys", "2", "--parameters",
            path},
           {"bias", "graphormer", "--heads", "2", "--graph", path, "--parameters", path},
           {"rotate", path, "--pairing", "halves", "--positions", "0:2", "-o", out},
           {"rotate", path, "--config", path, "--positions", "0:2", "-o", out},
           {"resize", path, "--to", "2x2", "--preset", "vit", "-o", out},
           {"plot", "table", "--parameters", path, "-o", file("a.html")},
           {"plot", "table", "-o", path},
           {"plot", "grid", "--cells", hostile, "-o", file("a.html")},
           {"plot", "page", "--figures", path, "-o", file("a.html")},
       })
    expect_escaped(words, 2);
}

TEST_F(Escapes, OfWordsThatAreNoNames) {
  for (const Words& words : {Words{hostile},
                             {"check", hostile},
                             {"explain", hostile},
                             {"list", hostile},
                             {"bench", "--" + hostile},
                             {"completion", hostile},
                             {"man", hostile},
                             {"table", hostile},
                             {"table", "sinusoidal", "--dim", hostile},
                             {"bias", "alibi", "--heads", "2", hostile}})
    expect_escaped(words, 2);
}

TEST_F(Escapes, OfTextsInFiles) {
  const auto config = [&](nlohmann::json more) {
    nlohmann::json json = nlohmann::json::parse(llama_config);
    json.update(more);
    fs::create_directories(file(hostile));
    return put(file(hostile + "/config.json"), json.dump());
  };
  config({{"rope_theta", hostile_utf8}});
  expect_escaped({"inspect", file(hostile)}, 2);
  config({{"model_type", hostile_utf8}});
  expect_escaped({"inspect", file(hostile)}, 2);
  expect_escaped({"inspect", file(hostile), "--assume-pairing", "halves"}, 0);
  expect_escaped({"inspect", file(hostile), "--assume-pairing", "halves", "--json"}, 0);
  put(file("figures.json"), nlohmann::json({{{hostile_utf8, 1}}}).dump());
  const std::string bad = put(file(hostile + ".json"), "[" + hostile);
  expect_escaped({"plot", "page", "--figures", bad, "-o", file("a.html")}, 2);
  const std::string graph = put(file("graph.txt"), "0 1\n1 " + hostile);
  expect_escaped({"table", "laplacian", "--dim", "1", "--graph", graph}, 2);
}

TEST_F(Escapes, OfModelsThatAreConverted) {
  put_model("in");
  put(file("in/" + hostile), "");
  fs::create_directory(file("in/." + hostile));
  const std::string name = hostile_utf8 + "self_attn.q_proj.weight";
  put(file("in/" + shard_name(0)), safetensors({{name, "BF16", {32, 16}, 2}}));
  put_index("in",
            {{name, shard_name(0)}, {"model.layers.1.self_attn.q_proj.weight", shard_name(1)}});
  expect_escaped({"convert", file("in"), "--to", "adjacent", "--dry-run"}, 0);
  expect_escaped({"convert", file("in"), "--to", "adjacent", "--dry-run", "--json"}, 0);
  expect_escaped({"convert", file("in"), "--to", "adjacent", "-o", file(hostile)}, 0);
  expect_escaped({"convert", file("in"), "--to", "adjacent", "-o", file(hostile)}, 2);
}

}  // namespace escapes_test
}  // namespace gnomon::cli

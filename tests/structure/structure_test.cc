// Tests the rules that a compiler does not check: which module may include which, the size of
// files, and that each header has a test and a page.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace gnomon {
namespace structure_test {

namespace fs = std::filesystem;

const fs::path root = GNOMON_SOURCE_DIR;

std::string text_of(const fs::path& file) {
  std::ifstream in(root / file);
  EXPECT_TRUE(in) << "cannot read " << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Returns the files below `folder` with one of these endings, as sorted paths from the root.
std::vector<fs::path> files(const fs::path& folder, const std::set<std::string>& endings) {
  std::vector<fs::path> found;
  if (!fs::exists(root / folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder))
    if (entry.is_regular_file() && endings.contains(entry.path().extension().string()))
      found.push_back(entry.path().lexically_relative(root));
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> files(std::initializer_list<const char*> folders,
                            const std::set<std::string>& endings) {
  std::vector<fs::path> all;
  for (const char* folder : folders)
    for (fs::path& file : files(fs::path(folder), endings)) all.push_back(std::move(file));
  return all;
}

const std::set<std::string> cxx = {".h", ".cc", ".cu"};

// Lowest first. Modules of one level do not include each other.
const std::map<std::string, int> levels = {
    {"core", 1},
    {"position", 2},
    {"embedding", 3},
    {"rotary", 3},
    {"bias", 3},
    {"relative", 3},
    {"graph", 4},
    {"attention", 4},
    {"cuda", 5},
    {"io", 5},
    {"model", 6},
    {"analysis", 6},
    {"plot", 6},
    {"verdicts", 7},
    {"bindings/c", 8},
    {"bindings/onnx", 8},
    {"bindings/ggml", 8},
    {"bindings/python", 8},
    {"bindings/torch", 8},
    {"bindings/wasm", 8},
    {"apps/command_line", 8},
    {"apps/cli", 9},
    {"apps/lab/data", 9},
    {"apps/lab/model", 10},
    {"apps/lab/tasks", 11},
    {"apps/lab/runs", 12},
    {"apps/lab/statistics", 13},
    {"apps/lab/report", 14},
    {"apps/lab", 15},
};

// The CMake components, as in tools/cmake/components.cmake. Each is a separate library.
struct Component {
  std::vector<std::string> modules;
  std::set<std::string> needs;           // components whose headers it may include
  std::vector<std::string> third_party;  // other headers that its sources may include
};
const std::map<std::string, Component> components = {
    {"core",
     {{"core", "position", "embedding", "rotary", "bias", "relative", "attention"},
      {},
      {"hwy/"}}},
    {"graph", {{"graph"}, {"core"}, {"Eigen/", "Spectra/"}}},
    {"model", {{"model", "analysis", "io", "verdicts"}, {"core"}, {"nlohmann/"}}},
    {"report", {{"plot"}, {"core"}, {"nlohmann/"}}},
    {"cuda", {{"cuda"}, {"core"}, {}}},
};

// Empty for bindings and apps, which use all components.
std::string component_of(const std::string& module) {
  for (const auto& [name, component] : components)
    if (std::find(component.modules.begin(), component.modules.end(), module) !=
        component.modules.end())
      return name;
  return {};
}

// Returns the module of a file or of an #include: that of "include/gnomon/rotary/rotary.h" and
// "gnomon/rotary/rotary.h" is rotary, that of "include/gnomon/view.h" is core. Empty for files
// of other libraries.
std::string module_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const fs::path& part : fs::path(path)) parts.push_back(part.string());
  if (parts.front() == "include") parts.erase(parts.begin());
  if (parts.front().starts_with("gnomon") && parts.front().ends_with(".h")) return "core";
  if (parts.size() < 2) return {};
  if (parts[0] == "gnomon" && parts[1] == "torch") return "bindings/torch";
  if (parts[0] == "gnomon" || parts[0] == "src") return parts.size() == 2 ? "core" : parts[1];
  // The lab has folders with levels of their own.
  if (parts.size() > 3 && parts[0] == "apps" && parts[1] == "lab")
    return "apps/lab/" + parts[2];
  if (parts[0] == "bindings" || parts[0] == "apps") return parts[0] + "/" + parts[1];
  return {};
}

struct Include {
  std::string name;
  bool in_angles;
};
std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex line(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  std::istringstream text(text_of(file));
  for (std::string one; std::getline(text, one);)
    if (std::smatch match; std::regex_search(one, match, line))
      includes.push_back({match[2], match[1] == "<"});
  return includes;
}

TEST(Structure, EveryFileIsOfAModuleThatHasALevel) {
  for (const fs::path& file : files({"include", "src", "bindings", "apps"}, cxx))
    EXPECT_TRUE(levels.contains(module_of(file.string())))
        << file << ": module " << module_of(file.string()) << " has no level in this test";
}

TEST(Structure, FilesIncludeOnlyFromLowerLevels) {
  for (const fs::path& file : files({"include", "src", "bindings", "apps"}, cxx)) {
    const std::string module = module_of(file.string());
    if (!levels.contains(module)) continue;
    for (const Include& include : includes_of(file)) {
      const std::string other = module_of(include.name);
      if (other.empty() || other == module || !levels.contains(other)) continue;
      EXPECT_LT(levels.at(other), levels.at(module)) << file << " includes " << include.name;
    }
  }
}

TEST(Structure, FilesIncludeOnlyFromComponentsTheyNeed) {
  for (const fs::path& file : files({"include", "src"}, cxx)) {
    const std::string own = component_of(module_of(file.string()));
    ASSERT_FALSE(own.empty()) << file << " is of no component";
    for (const Include& include : includes_of(file)) {
      const std::string other = component_of(module_of(include.name));
      EXPECT_TRUE(other.empty() || other == own || components.at(own).needs.contains(other))
          << file << ": component " << own << " does not need " << other << ", which has "
          << include.name;
    }
  }
}

// gnomon.h is one header. Its sources belong to the components that they are built into.
TEST(Structure, TheCApiIncludesOnlyWhatItsComponentHas) {
  for (const fs::path& file : files("bindings/c", cxx)) {
    const bool is_model = file.filename() == "model.cc";
    for (const Include& include : includes_of(file)) {
      const std::string other = component_of(module_of(include.name));
      EXPECT_TRUE(other.empty() || other == "core" || (is_model && other == "model"))
          << file << " includes " << include.name;
    }
  }
}

// Standard headers have no folder, but some system headers do (<sys/mman.h>).
TEST(Structure, FilesIncludeOnlyLibrariesOfTheirComponent) {
  for (const fs::path& file : files("src", cxx))
    for (const Include& include : includes_of(file)) {
      // A header that only the components model and report include.
      if (file == "src/core/json_value.h" && include.name.starts_with("nlohmann/")) continue;
      const std::string& name = include.name;
      if (name.find('/') == name.npos || !module_of(name).empty() || name.starts_with("sys/") ||
          name.starts_with("sanitizer/"))
        continue;
      const auto& allowed = components.at(component_of(module_of(file.string()))).third_party;
      EXPECT_TRUE(std::any_of(allowed.begin(), allowed.end(),
                              [&](const std::string& one) { return name.starts_with(one); }))
          << file << " includes " << name;
    }
}

TEST(Structure, ComponentsAreThoseOfTheBuild) {
  std::map<std::string, std::set<std::string>> lists;
  static const std::regex line(R"(set\((gnomon_[a-z_]+) ([^)]*)\))");
  const std::string text = text_of("tools/cmake/components.cmake");
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    std::istringstream words((*at)[2]);
    for (std::string word; words >> word;)
      if (word != "\"\"") lists[(*at)[1]].insert(word);
  }
  std::set<std::string> names;
  for (const auto& [name, component] : components) {
    names.insert(name);
    EXPECT_EQ(lists["gnomon_" + name + "_modules"],
              std::set<std::string>(component.modules.begin(), component.modules.end()));
    EXPECT_EQ(lists["gnomon_" + name + "_needs"], component.needs) << name;
  }
  EXPECT_EQ(lists["gnomon_components"], names);
}

TEST(Structure, PublicHeadersIncludeNothingForeign) {
  static const std::regex standard("[a-z_]+|std(def|int)\\.h");
  for (const fs::path& file : files("include", cxx))
    for (const Include& include : includes_of(file)) {
      if (include.in_angles)
        EXPECT_TRUE(std::regex_match(include.name, standard)) << file << ": " << include.name;
      else
        EXPECT_TRUE(include.name.starts_with("gnomon/") || include.name == "gnomon.h")
            << file << ": " << include.name;
    }
}

// Other calls would read untrusted text without the limit of depth of src/core/json.h.
TEST(Structure, JsonIsParsedInOnePlace) {
  static const std::regex parse(R"(json::parse\()", std::regex::icase);
  for (const fs::path& file : files({"include", "src", "bindings", "apps"}, cxx)) {
    if (file == "src/core/json.h") continue;
    EXPECT_FALSE(std::regex_search(text_of(file), parse)) << file << " must call parse_json";
  }
}

// Loaders of pickles and of TorchScript run code of the file that they read.
bool loads_code(const std::string& line) {
  static const std::regex cxx_loader(
      R"(load_from\(|InputArchive [a-z_]+[,;({]|InputArchive[({]|torch::load\(|pickle_load)"
      R"(|unpickle\(|jit::(script::)?load\(|jit::import|_load_for_mobile)");
  static const std::regex python_loader(
      R"(torch\.jit\.load\(|pickle\.(load|Unpickler)\(|pickle\.loads\((?!pickle\.dumps\())"
      R"(|pickle import|read_pickle\(|dill\.|shelve\.|joblib\.|marshal\.|yaml\.load\()"
      R"(|allow_pickle ?= ?(?!False)|PackageImporter|hub\.load\(|_object_list\()"
      R"(|gather_object\()");
  return std::regex_search(line, cxx_loader) || std::regex_search(line, python_loader) ||
         (line.find("torch.load(") != line.npos && line.find("weights_only=True") == line.npos);
}
// They load files that the test itself has written.
const std::set<std::string> load_their_own = {
    "tests/torch/module_test.cc", "tests/torch/state_test.cc", "tests/lab/checkpoint_test.cc"};

TEST(Structure, NothingLoadsAPickleOrTorchScriptFromAFile) {
  for (const char* line :
       {"archive.load_from(file);", "InputArchive archive, model;", "torch::load(model, path);",
        "x = torch.load(path)", "torch::jit::load(path)", "pickle.load(f)",
        "np.load(path, allow_pickle=True)", "np.load(path, allow_pickle=1)",
        "InputArchive archive{};", "auto archive = InputArchive();",
        "torch::jit::unpickle(bytes)", "pickle.loads(file.read())", "from pickle import load",
        "pandas.read_pickle(path)", "torch.hub.load(name)", "dist.recv_object_list(all)"})
    EXPECT_TRUE(loads_code(line)) << line;
  for (const char* line :
       {"torch.load(path, weights_only=True)", "pickle.loads(pickle.dumps(x))",
        "void load(torch::serialize::InputArchive& archive) override;"})
    EXPECT_FALSE(loads_code(line)) << line;
  for (const fs::path& file :
       files({"include", "src", "bindings", "apps", "tests", "bench", "docs", "tools"},
             {".h", ".cc", ".cu", ".py", ".sh", ".ipynb", ".md"})) {
    if (load_their_own.contains(file.string()) || file == "tests/structure/structure_test.cc")
      continue;
    std::istringstream text(text_of(file));
    for (std::string line; std::getline(text, line);)
      EXPECT_FALSE(loads_code(line)) << file << ": " << line;
  }
}

// A file of more than about 400 lines contains two ideas.
TEST(Structure, FilesAreShort) {
  for (const fs::path& file :
       files({"include", "src", "bindings", "apps", "tests", "bench", "docs/examples", "tools"},
             {".h", ".cc", ".cu", ".py", ".sh"})) {
    const std::string text = text_of(file);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 450) << file;
  }
}

// Core headers too small for a page. numbers.md and isa.md describe the rest of core.
const std::set<std::string> without_page = {
    "gnomon.h",          "gnomon_context.h", "gnomon_paged_cache.h", "gnomon_ragged.h",
    "gnomon/angles.h",   "gnomon/context.h", "gnomon/dtype.h",       "gnomon/error.h",
    "gnomon/parallel.h", "gnomon/tensor.h",  "gnomon/version.h",     "gnomon/view.h",
};
const std::set<std::string> without_test = {"gnomon.h", "gnomon_context.h",
                                            "gnomon_paged_cache.h", "gnomon_ragged.h",
                                            "gnomon/version.h"};  // tests/c

TEST(Structure, EveryPublicHeaderHasATestOfItsName) {
  for (const fs::path& file : files("include", {".h"})) {
    const std::string name = file.lexically_relative("include").string();
    if (without_test.contains(name)) continue;
    const fs::path test =
        fs::path("tests") / module_of(name) / (file.stem().string() + "_test.cc");
    EXPECT_TRUE(fs::exists(root / test)) << name << " has no " << test;
  }
}

TEST(Structure, EveryPublicHeaderHasAPageOfItsName) {
  for (const fs::path& file : files("include", {".h"})) {
    const std::string name = file.lexically_relative("include").string();
    if (without_page.contains(name)) continue;
    const std::string module = module_of(name);
    const fs::path page =
        fs::path("docs") / (module == "core" ? "" : module) / (file.stem().string() + ".md");
    EXPECT_TRUE(fs::exists(root / page)) << name << " has no " << page;
  }
}

// Headers with functions that write to an argument, but without a kernel of their own: a check
// of strides, the operations of a LayerPlan, which other headers define, and the gradient of a
// lowering.
const std::set<std::string> without_naive = {
    "gnomon/rotary/complex.h", "gnomon/attention/layer_plan.h", "gnomon/bias/swin_v2.h"};

// A kernel returns nothing and writes to an argument. Gradients of a lowering (lower_backward)
// and checks are not kernels.
bool declares_kernel(const std::string& text) {
  static const std::regex kernel(R"((^|\n)void (?!lower_backward|check)[a-z_]+\()");
  return std::regex_search(text, kernel);
}

TEST(Structure, EveryKernelHasANaiveVersion) {
  static const std::regex line(
      "// Naive version: ([a-z0-9_/.]+),((\\s|//|,|`[a-z0-9_]+`)+)\\.");
  static const std::regex quoted("`([a-z0-9_]+)`");
  for (const fs::path& file : files("include", {".h"})) {
    const std::string name = file.lexically_relative("include").string();
    const std::string module = module_of(name), text = text_of(file);
    const bool kernels = module == "rotary" || module == "embedding" || module == "bias" ||
                         module == "relative" || module == "attention" ||
                         name == "gnomon/angles.h";
    std::smatch found;
    if (!std::regex_search(text, found, line)) {
      EXPECT_TRUE(!kernels || !declares_kernel(text) || without_naive.contains(name))
          << name << " has no line \"Naive version: FILE, `FUNCTION`.\"";
      continue;
    }
    const std::string path = found[1], functions = found[2];
    ASSERT_TRUE(fs::exists(root / path)) << name << " names " << path;
    const std::string naive = text_of(path);
    for (std::sregex_iterator at(functions.begin(), functions.end(), quoted), end; at != end;
         ++at)
      EXPECT_TRUE(std::regex_search(naive, std::regex("[a-z0-9_>] " + (*at)[1].str() + "\\(")))
          << path << " has no function " << (*at)[1];
  }
}

TEST(Structure, TheExceptionsExist) {
  for (const auto& list : {without_page, without_test, without_naive})
    for (const std::string& name : list)
      EXPECT_TRUE(fs::exists(root / "include" / name)) << name << " is excepted and gone";
}

// The page without comments, which are for the site alone, and without indented code.
std::string shown_text(const fs::path& page) {
  std::string text = text_of(page), shown;
  for (std::size_t at; (at = text.find("<!--")) != std::string::npos;) {
    const std::size_t end = text.find("-->", at);
    text.erase(at, end == std::string::npos ? end : end + 3 - at);
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("    ")) shown.append(line).push_back('\n');
  return shown;
}

// Returns the targets of the links of a page, as paths from the root, without links to the web
// and within the page.
std::vector<fs::path> links_of(const fs::path& page) {
  static const std::regex link(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  std::vector<fs::path> links;
  const std::string text = shown_text(page);
  for (std::sregex_iterator at(text.begin(), text.end(), link), end; at != end; ++at) {
    const std::string target = (*at)[1];
    if (target.find("://") == std::string::npos)
      links.push_back((page.parent_path() / target).lexically_normal());
  }
  return links;
}

TEST(Docs, TheIndexLinksEveryPage) {
  const auto links = links_of("docs/README.md");
  for (const fs::path& page : files("docs", {".md"})) {
    if (page == "docs/README.md") continue;
    EXPECT_NE(std::find(links.begin(), links.end(), page), links.end())
        << page << " is not linked from docs/README.md";
  }
}

TEST(Docs, EveryLinkLeadsSomewhere) {
  std::vector<fs::path> pages = files({"docs", "apps"}, {".md"});
  pages.emplace_back("README.md");
  for (const fs::path& page : pages)
    for (const fs::path& link : links_of(page))
      EXPECT_TRUE(fs::exists(root / link)) << page << " links to " << link;
}

// The code block of the README is the file that the packaging tests compile.
TEST(Docs, TheReadmeShowsTheExampleThatIsCompiled) {
  EXPECT_NE(text_of("README.md").find("```cpp\n" + text_of("docs/examples/first.cc") + "```\n"),
            std::string::npos);
}

// A new entry in the root is a decision: the root should be readable at a glance.
TEST(Structure, TheRootHoldsWhatTheDesignNames) {
  const std::set<std::string> named = {
      "CMakeLists.txt", "CMakePresets.json",
      "LICENSE",        "Makefile",
      "README.md",      "apps",
      "bench",          "bindings",
      "docs",           "include",
      "pyproject.toml", "src",
      "tests",          "tools",
  };
  const std::set<std::string> made = {"build", "report"};  // ignored by git
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".") || made.contains(name)) continue;
    EXPECT_TRUE(named.contains(name)) << name << " is new in the root";
  }
}

}  // namespace structure_test
}  // namespace gnomon

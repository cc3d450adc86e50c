// `gnomon check`: a verdict on each property claimed for position encodings, with a number.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "apps/cli/command.h"
#include "apps/cli/output.h"
#include "apps/command_line/terminal.h"
#include "gnomon/error.h"
#include "src/verdicts/report.h"
#include "src/verdicts/verdicts.h"

namespace gnomon::cli {
namespace {

using verdicts::EncodingMatrices;
using verdicts::Findings;
using verdicts::Promise;
using verdicts::properties;
using verdicts::Property;
using verdicts::Setting;
using verdicts::shown;
using verdicts::Verdict;

constexpr const char* check_help = R"(Usage: gnomon check [KIND...] [options]

Measures the properties claimed for position encodings and prints a verdict with
its number: sentences for one KIND, a table for several. Without KIND: none,
sinusoidal, learned, rotary, alibi, t5, shaw, transformer-xl.

  unique    positions differ        distance  only the distance counts
  beyond    past the trained length, at most half of the attention weight
            has no precedent in training; or the end of positions
  nearer    nearer keys score higher          order   it has an effect
  sides     left and right are told apart     cache   as the full pass

Properties that the definition of an encoding guarantees are tested: exit
status 1 if one fails. "trained": the property depends on training.

  --all         all encodings (gnomon list); also KIND all
  --verbose     all numbers, and each tested property
  --json        all numbers and verdicts
  --width C  --heads H  --trained N  --length N    (128, 4, 128, 512)

Example: gnomon check rotary
)";

constexpr const char* core[] = {"none",  "sinusoidal", "learned", "rotary",
                                "alibi", "t5",         "shaw",    "transformer-xl"};

struct CheckOptions {
  std::vector<std::string> kinds;
  Setting setting;
  bool all = false, verbose = false, json = false;
};

void print_line(const std::array<std::string, 10>& cells) {
  fmt::print("{:<21}{:>7}", cells[0], cells[1]);
  for (std::size_t i = 2; i < cells.size(); ++i) fmt::print("{:>{}}", cells[i], i < 5 ? 9 : 8);
  fmt::print("\n");
}

void print_head() {
  print_line(
      {"", "unique", "relative", "beyond", "", "nearer", "order", "left", "shift", "cache"});
  print_line({"", "", "", "jump", "novelty", "", "", "", "", ""});
}

void print_row(const Findings& f) {
  const bool past = f.extrapolation.past > 0;
  print_line({std::string(f.matrices->info->name) + (f.matrices->random ? " *" : ""),
              shown(f.uniqueness.separation), shown(f.relativity.deviation),
              past ? shown(f.extrapolation.jump) : "none",
              past ? shown(f.extrapolation.novelty) : "none", shown(f.decay.rank_correlation),
              shown(f.order), shown(f.reversal), shown(f.shift), shown(f.cache)});
}

// All numbers, for --verbose.
void print_numbers(const std::vector<Findings>& all) {
  print_head();
  bool random = false;
  for (const Findings& f : all) {
    print_row(f);
    random = random || f.matrices->random;
  }
  if (random) fmt::print("* random values instead of a trained table\n");
}

enum class Shown { all = 1, failed };
void print_promises(const std::vector<Findings>& all, Shown which) {
  for (const Findings& f : all)
    for (const Promise& one : f.promises)
      if (which == Shown::all || !one.kept())
        fmt::print("{:<7}{}: {} ({} {} {})\n", one.kept() ? "ok" : "FAILED",
                   f.matrices->info->title, one.what, shown(one.value),
                   one.side == Promise::Side::at_most ? "at most" : "at least",
                   shown(one.bound));
}

// "width 128, 4 heads, training length 128, tested to position 511"
std::string setting_text(const Setting& s) {
  return fmt::format("width {}, {} heads, training length {}, tested to position {}", s.width,
                     s.heads, s.trained, s.length - 1);
}

// Sentences for one encoding.
void print_sentences(const Findings& f) {
  fmt::print("{} ({})\n{}\n\n", f.matrices->info->title, f.matrices->info->name,
             setting_text(f.setting));
  const std::vector<Verdict> all = verdicts::verdicts(f);
  for (std::size_t i = 0; i < all.size(); ++i)
    print_wrapped(all[i].sentence,
                  fmt::format("{:<10}{:<9}", properties()[i].name, all[i].word),
                  std::string(19, ' '));
  if (f.matrices->random)
    fmt::print("\nMeasured with random parameters. trained: depends on training.\n");
}

// A row for each encoding, a column for each property.
void print_matrix(const std::vector<Findings>& all) {
  std::vector<std::vector<std::string>> rows{{""}};
  for (const Property& one : properties()) rows[0].emplace_back(one.name);
  for (const Findings& f : all) {
    rows.push_back({std::string(f.matrices->info->name)});
    for (const Verdict& one : verdicts::verdicts(f))
      rows.back().push_back(one.number.empty() ? one.word : one.word + " " + one.number);
    // The number is rounding and has a bound of its own.
    rows.back().back() = verdicts::verdicts(f).back().word;
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += fmt::format("{:<{}}", row[c], widths[c] + (c + 1 < row.size() ? 1 : 0));
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

void print_legend(const std::vector<Findings>& all) {
  double cache = 0;
  for (const Findings& f : all) cache = std::max(cache, f.cache);
  for (const Property& one : properties())
    print_wrapped(one.meaning, fmt::format("{:<10}", one.name), std::string(10, ' '));
  print_wrapped(fmt::format("the largest of these encodings is {}, the bound {}", shown(cache),
                            shown(verdicts::cache_bound)),
                std::string(10, ' '), std::string(10, ' '));
  fmt::print("trained   depends on training; numbers of random parameters are left out\n");
}

std::vector<std::string> chosen(const CheckOptions& o) {
  if (o.all && !o.kinds.empty())
    refuse("check", "KIND and --all must not both be given", o.kinds[0]);
  if (o.json && o.verbose)
    refuse("check", "--json and --verbose must not both be given", "both");
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    const std::string_view encoding = model::find_encoding(name).name;
    if (std::find(names.begin(), names.end(), encoding) == names.end())
      names.emplace_back(encoding);
  };
  if (o.all || o.kinds == std::vector<std::string>{"all"})
    for (const auto& one : model::encodings()) add(one.name);
  else if (o.kinds.empty())
    for (const char* name : core) add(name);
  else
    for (const std::string& name : o.kinds) add(name);
  return names;
}

int run_check(const CheckOptions& o) {
  const Setting& s = o.setting;
  verdicts::check(s);

  std::vector<EncodingMatrices> all_matrices;
  for (const std::string& name : chosen(o))
    all_matrices.push_back(verdicts::encoding_matrices(name, s));
  std::vector<Findings> all;
  bool kept = true;
  for (const EncodingMatrices& matrices : all_matrices) {
    all.push_back(verdicts::examine(matrices, s));
    kept = kept && all.back().kept();
  }
  if (o.json) {
    Json json = Json::array();
    for (const Findings& f : all) json.push_back(Json(verdicts::report(f)));
    print_json({{"width", s.width},
                {"heads", s.heads},
                {"trained", s.trained},
                {"length", s.length},
                {"encodings", json},
                {"kept", kept}});
    return kept ? 0 : 1;
  }
  if (all.size() == 1) {
    print_sentences(all[0]);
  } else {
    fmt::print("{} encodings: {}\n\n", all.size(), setting_text(s));
    print_matrix(all);
    fmt::print("\n");
    print_legend(all);
  }
  if (o.verbose) {
    fmt::print("\n");
    print_numbers(all);
    fmt::print("\n");
  } else if (!kept) {
    fmt::print("\n");
  }
  print_promises(all, o.verbose ? Shown::all : Shown::failed);
  return kept ? 0 : 1;
}

}  // namespace

Command check_command() {
  Command command("check", check_help);
  auto o = std::make_shared<CheckOptions>();
  command.option("KIND", &o->kinds);
  command.option("--width", &o->setting.width);
  command.option("--heads", &o->setting.heads);
  command.option("--trained", &o->setting.trained);
  command.option("--length", &o->setting.length);
  command.flag("--all", &o->all);
  command.flag("--verbose", &o->verbose);
  command.flag("--json", &o->json);
  command.run = [o] { return run_check(*o); };
  return command;
}

}  // namespace gnomon::cli

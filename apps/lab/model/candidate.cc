#include "apps/lab/model/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "apps/lab/data/batches.h"
#include "apps/lab/data/lists.h"
#include "apps/lab/data/model_size.h"
#include "apps/lab/data/task.h"
#include "apps/lab/model/task_model.h"
#include "apps/lab/model/transformer.h"
#include "gnomon/error.h"
#include "gnomon/model/scheme.h"

namespace gnomon::lab {
namespace {

constexpr ExtensionInfo list[] = {
    {"linear", "Interpolation (linear)", "Chen et al. 2023, arXiv:2306.15595"},
    {"ntk", "NTK-aware", "bloc97 2023; Peng et al. 2023, arXiv:2309.00071"},
    {"dynamic-ntk", "Dynamic NTK", "Peng et al. 2023, arXiv:2309.00071"},
    {"yarn", "YaRN", "Peng et al. 2023, arXiv:2309.00071"},
    {"drope", "Positions dropped (DroPE)", "Gelberg et al. 2025, arXiv:2512.12167"},
};

// The encoding names in a scheme, in their order, each once.
std::vector<std::string> names_in(const std::string& scheme) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < scheme.size();) {
    const std::size_t end = std::min(scheme.find_first_of("+*/", begin), scheme.size());
    const std::string part = scheme.substr(begin, end - begin);
    const bool number = part.find_first_not_of("0123456789") == std::string::npos;
    if (!number) add_once(names, part);
    begin = end + 1;
  }
  return names;
}

struct Suffix {
  std::string_view name, title, summary, source;
};
constexpr Suffix suffixes[] = {
    {"random", "random positions", "trained with random positions in ascending order",
     "Ruoss et al. 2023, arXiv:2305.16843"},
    {"resized", "resized", "its tables are resized to the grids of the tests",
     "Dosovitskiy et al. 2020, arXiv:2010.11929"},
    {"text", "text only", "no position in the pictures", ""},
    {"image", "pictures only", "no position in the text", ""},
    {"restart", "positions restart at each turn",
     "positions restart at 0 in each turn; all earlier turns are visible", ""},
    {"packed", "packed turns",
     "positions restart at 0 in each turn; only the tokens of the same turn are visible",
     "Krell et al. 2021, arXiv:2107.02027"},
    {"memory", "segment memory",
     "by segments; the keys and values of the tokens before a segment are kept in a memory, "
     "without gradient",
     "Dai et al. 2019, arXiv:1901.02860"},
    {"window", "one segment", "only one segment of tokens is visible", ""},
    {"drope", "positions dropped",
     "trained with its positions, which are removed before the last steps of training",
     "Gelberg et al. 2025, arXiv:2512.12167"}};

const Suffix& find_suffix(const std::string& name) {
  if (const Suffix* one = find_by(suffixes, &Suffix::name, name)) return *one;
  refuse("lab",
         fmt::format("the suffix after @ in --encodings must be one of {}",
                     fmt::join(mapped(suffixes, &Suffix::name), ", ")),
         name);
}

constexpr std::string_view own_prefix = "own:";

// The lab knows no more than the name.
Candidate own_candidate(const std::string& name, const SizedName& parts) {
  Candidate one{name, parts.name};
  one.title = parts.name.substr(own_prefix.size());
  const auto allowed = [](const char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  };
  if (one.title.empty() || one.title.size() > 64 ||
      !std::all_of(one.title.begin(), one.title.end(), allowed))
    refuse("lab", "own:NAME must have 1 to 64 letters, digits, - and _", name);
  if (parts.size) one.title += ", " + parts.size->text();
  one.enters = "unknown";
  one.summary = "trained outside of the lab";
  return one;
}

}  // namespace

std::span<const ExtensionInfo> extensions() { return list; }

const ExtensionInfo& find_extension(std::string_view name) {
  if (const ExtensionInfo* one = find_by(list, &ExtensionInfo::name, name)) return *one;
  refuse("lab",
         fmt::format("--extend must be one of {}",
                     fmt::join(mapped(list, &ExtensionInfo::name), ", ")),
         name);
}

std::string extension_title(const std::string& method) {
  return method == control_extension ? "Fine-tuned without scaling"
                                     : std::string(find_extension(method).title);
}

bool extends(const std::string& encoding) { return split_size(encoding).name == "rotary"; }

bool is_own(const std::string& name) { return name.starts_with(own_prefix); }

void require_trainable(const std::string& name) {
  if (is_own(name))
    refuse("lab", "own encodings must be trained by another program and joined with --merge",
           name);
}

Candidate find_candidate(const std::string& name) {
  const SizedName parts = split_size(name);
  if (is_own(name)) return own_candidate(name, parts);
  Candidate one{name, parts.name};
  const Suffix* suffix = nullptr;
  if (const std::size_t at = parts.name.find('@'); at != std::string::npos) {
    one.scheme = parts.name.substr(0, at);
    one.suffix = parts.name.substr(at + 1);
    suffix = &find_suffix(one.suffix);
  }
  const std::vector<std::string> names = names_in(one.scheme);
  model::Place enters = model::Place::nowhere;
  std::vector<std::string> summaries, sources;
  for (const std::string& part : names.empty() ? std::vector{one.scheme} : names) {
    const model::EncodingInfo& info = model::find_encoding(part);
    if (info.enters != model::Place::nowhere)
      enters = enters == model::Place::nowhere ? info.enters : enters | info.enters;
    one.title = info.title;
    summaries.emplace_back(info.summary);
    sources.emplace_back(info.source);
  }
  if (one.scheme != names.front()) one.title = one.scheme;
  if (suffix) {
    one.title += ", " + std::string(suffix->title);
    summaries.emplace_back(suffix->summary);
    if (!suffix->source.empty()) sources.emplace_back(suffix->source);
  }
  if (parts.size) one.title += ", " + parts.size->text();
  one.enters = model::name(enters);
  one.summary = fmt::format("{}", fmt::join(summaries, "; "));
  one.source = fmt::format("{}", fmt::join(sources, "; "));
  return one;
}

void check_suffix(const Candidate& candidate, const Settings& settings) {
  if (candidate.suffix.empty()) return;
  std::string allowed(settings.task->suffixes);
  const bool found =
      ("," + allowed + ",").find("," + candidate.suffix + ",") != std::string::npos;
  for (auto at = allowed.find(','); at != std::string::npos; at = allowed.find(',', at + 2))
    allowed.insert(at + 1, " ");
  if (!found)
    refuse("lab",
           fmt::format("with --task {} the suffix after @ in --encodings must be {}{}",
                       settings.task->name, allowed.empty() ? "left out" : "one of ", allowed),
           candidate.suffix);
}

model::Encoding find_usual(const std::string& name, const Settings& settings) {
  return model::find_encoding(name).usual(
      {settings.width, settings.heads, settings.task->window_tokens(settings.train_length)});
}

Transformer transformer_for(const Settings& settings, const Candidate& candidate,
                            std::int64_t tokens, std::int64_t seed) {
  model::Shape shape{settings.width, settings.heads, tokens, visibility(settings)};
  // A segment after another, for a table that is added to the embeddings.
  if (reading_of(candidate.suffix) == Reading::memory && !settings.task->has_examples())
    shape.length = 2 * tokens;
  if (candidate.has_random_positions())
    shape.length = std::max(tokens, settings.task->window_tokens(settings.longest()));
  Transformer made(settings,
                   model::parse_scheme(candidate.scheme, shape, block_count(settings)),
                   static_cast<std::uint64_t>(seed));
  if (candidate.drops_positions() && parameter_count(*made, "position") > 0)
    refuse("lab", "@drope requires encodings without parameters", candidate.scheme);
  return made;
}

std::string file_name(const std::string& name) {
  std::string safe = name;
  std::replace(safe.begin(), safe.end(), '/', ',');  // no name contains a comma or a dot
  std::replace(safe.begin(), safe.end(), ':', '.');  // rsync takes own: for a machine
  return safe;
}

}  // namespace gnomon::lab

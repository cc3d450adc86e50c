#include "apps/command_line/command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "gnomon/error.h"
#include "src/core/nearest.h"
#include "src/core/text.h"

namespace gnomon {
namespace {

using Argument = CommandLine::Argument;
using Words = std::vector<std::string>;

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') &&
         word[1] != '.';
}

std::string joined(const Words& words, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 < words.size() ? ", " : last) + words[i];
  return text;
}

std::vector<std::string_view> views(const Words& words) { return {words.begin(), words.end()}; }

// Reads the whole text as a number. Returns the rule that it breaks, or nothing.
template <typename T>
const char* read(const std::string& text, T& number) {
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  const bool is_whole = stop == end && begin != end;
  if constexpr (std::is_floating_point_v<T>) {
    if (!is_whole || error == std::errc::invalid_argument) return "must be a number";
    return error != std::errc() || !std::isfinite(number) ? "must be finite" : nullptr;
  } else {
    if (!is_whole || error == std::errc::invalid_argument) return "must be an integer";
    if (error == std::errc()) return nullptr;
    return sizeof(T) == 8 ? "must fit 64 bits" : "must fit 32 bits";
  }
}

template <typename T>
struct Value {
  using type = T;
};
template <typename T>
struct Value<std::optional<T>> {
  using type = T;
};

}  // namespace

CommandLine& CommandLine::option(std::string name, Target target) {
  const bool is_output = name == "-o";
  arguments_.push_back({.name = std::move(name), .target = target});
  return is_output ? output() : *this;
}

CommandLine& CommandLine::required(std::string name, Target target) {
  option(std::move(name), target);
  arguments_.back().is_required = true;
  return *this;
}

CommandLine& CommandLine::at_least(std::int64_t least) {
  arguments_.back().least = least;
  return *this;
}

CommandLine& CommandLine::choices(Words names, Words titles,
                                  std::function<std::string()> rule) {
  arguments_.back().choices = std::move(names);
  arguments_.back().titles = std::move(titles);
  arguments_.back().rule = std::move(rule);
  return *this;
}

CommandLine& CommandLine::selects() {
  arguments_.back().selects = true;
  return *this;
}

CommandLine& CommandLine::only_for(Words kinds) {
  arguments_.back().kinds = std::move(kinds);
  return *this;
}

CommandLine& CommandLine::required_for(Words kinds) {
  arguments_.back().is_required = true;
  return only_for(std::move(kinds));
}

CommandLine& CommandLine::only_with(Words options) {
  arguments_.back().partners = std::move(options);
  return *this;
}

CommandLine& CommandLine::not_with(Words options) {
  arguments_.back().opponents = std::move(options);
  return *this;
}

CommandLine& CommandLine::unlisted() {
  arguments_.back().is_listed = false;
  return *this;
}

CommandLine& CommandLine::file() {
  arguments_.back().is_file = true;
  return *this;
}

CommandLine& CommandLine::output() {
  arguments_.back().is_output = true;
  return file();
}

Words CommandLine::options() const {
  Words names;
  for (const Argument& one : arguments_)
    if (one.is_listed) names.push_back(one.name);
  return names;
}

bool CommandLine::given(std::string_view name) const {
  return std::any_of(arguments_.begin(), arguments_.end(), [&](const Argument& one) {
    return one.name == name && !one.given.empty();
  });
}

void CommandLine::fail(const std::string& rule, std::string_view got) const {
  refuse(name_, rule, std::string(got) + "; see gnomon " + name_ + " --help");
}

Argument& CommandLine::find(const std::string& name, const std::string& word) {
  std::vector<std::string_view> names;
  for (Argument& one : arguments_) {
    if (one.name == name) return one;
    if (one.is_option()) names.emplace_back(one.name);
  }
  const bool is_long = name.starts_with("--");
  if (!is_long) names.clear();  // all letters are near to each other
  fail("options must be those of the command",
       internal::with_nearest(names, is_long ? name : word));
}

void CommandLine::give(Argument& argument, const std::string& value) {
  if (value.empty()) fail(argument.name + " must not be empty", "\"\"");
  if (!argument.given.empty() && !std::holds_alternative<Words*>(argument.target))
    fail(argument.name + " must be given once",
         argument.is_flag() ? "it twice"
                            : argument.given[0] + " and " + internal::printable(value, 80));
  argument.given.push_back(value);
}

void CommandLine::take(const std::string& value) {
  Words names;
  for (Argument& one : arguments_) {
    if (one.is_option()) continue;
    if (one.given.empty() || std::holds_alternative<Words*>(one.target))
      return give(one, value);
    names.push_back(one.name);
  }
  fail(names.empty() ? "arguments must be options"
                     : "arguments after " + joined(names, " and ") + " must be options",
       internal::printable(value, 80));
}

// Replaces the given names by their choices.
void CommandLine::choose(Argument& argument) {
  if (argument.choices.empty()) return;
  for (std::string& word : argument.given) {
    const std::string wanted = internal::plain(word);
    std::size_t at = 0;
    while (at < argument.choices.size() &&
           (wanted.empty() ||
            (wanted != internal::plain(argument.choices[at]) &&
             (at >= argument.titles.size() || wanted != internal::plain(argument.titles[at])))))
      ++at;
    if (at == argument.choices.size())
      fail(argument.name + " " +
               (argument.rule ? argument.rule()
                              : "must be one of " + joined(argument.choices, ", ")),
           internal::with_nearest(views(argument.choices), word));
    word = argument.choices[at];
  }
}

void CommandLine::store(Argument& argument) const {
  std::visit(
      [&](auto* target) {
        using T = typename Value<std::remove_pointer_t<decltype(target)>>::type;
        if constexpr (std::is_same_v<T, bool>) {
          *target = true;
        } else if constexpr (std::is_same_v<T, Words>) {
          *target = argument.given;
        } else if constexpr (std::is_same_v<T, std::string>) {
          *target = argument.given[0];
        } else {
          T number{};
          const std::string shown = internal::printable(argument.given[0], 80);
          if (const char* rule = read(argument.given[0], number))
            fail(argument.name + " " + rule, shown);
          if (argument.least && number < static_cast<T>(*argument.least))
            fail(argument.name + " must be at least " + std::to_string(*argument.least), shown);
          *target = number;
        }
      },
      argument.target);
}

std::string CommandLine::selected() const {
  for (const Argument& one : arguments_)
    if (one.selects && !one.given.empty()) return one.given[0];
  return "none";
}

bool CommandLine::applies(const Argument& argument) const {
  return argument.kinds.empty() ||
         std::ranges::find(argument.kinds, selected()) != argument.kinds.end();
}

void CommandLine::check_uses(const Argument& argument) const {
  const auto is_given = [&](const std::string& name) { return given(name); };
  if (!applies(argument))
    fail(argument.name + " applies to " + joined(argument.kinds, " and "), selected());
  if (!argument.partners.empty() && std::ranges::none_of(argument.partners, is_given))
    fail(argument.name + " requires " + joined(argument.partners, " or "), "none");
  if (const auto other = std::ranges::find_if(argument.opponents, is_given);
      other != argument.opponents.end())
    fail(argument.name + " must not be given with " + *other, "both");
}

void CommandLine::parse(std::span<const std::string> words) {
  for (Argument& one : arguments_) one.given.clear();
  bool all_positional = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (all_positional || !is_option(word)) {
      take(word);
      continue;
    }
    if (word == "--") {
      all_positional = true;
      continue;
    }
    const bool is_long = word.starts_with("--");
    const std::size_t end = is_long ? std::min(word.find('='), word.size()) : 2;
    std::optional<std::string> value;
    if (end < word.size()) value = word.substr(word[end] == '=' ? end + 1 : end);
    Argument& option = find(word.substr(0, end), word);
    if (option.is_flag()) {
      if (value) fail(option.name + " must have no value", internal::printable(*value, 80));
      give(option, option.name);
      continue;
    }
    if (!value && i + 1 < words.size() && !is_option(words[i + 1])) value = words[++i];
    if (!value) fail(option.name + " must have a value", "none");
    give(option, *value);
  }
  for (Argument& one : arguments_) choose(one);
  for (Argument& one : arguments_)
    if (!one.given.empty()) store(one);
  for (const Argument& one : arguments_) {
    if (!one.given.empty())
      check_uses(one);
    else if (one.is_required && applies(one))
      fail(one.name + " is required", "none");
  }
}

}  // namespace gnomon

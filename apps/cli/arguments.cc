#include "apps/cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "gnomon/error.h"
#include "gnomon/io/npy.h"

namespace gnomon::cli {
namespace {

constexpr std::int64_t most_positions = std::int64_t{1} << 28;  // 2 GiB of ids

template <typename T>
bool parse_number(const std::string& text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

[[noreturn]] void refuse_positions(const std::string& text) {
  refuse("positions", "must be 0:1024, 0:1024:2, 5,9,131071 or the name of a .npy file", text);
}

Integers parse_range(const std::string& text) {
  const auto parts = split(text, ':');
  std::int64_t begin = 0, end = 0, step = 1;
  if (parts.size() > 3 || !parse_number(parts[0], begin) || !parse_number(parts[1], end) ||
      (parts.size() == 3 && !parse_number(parts[2], step)))
    refuse_positions(text);
  if (step == 0) refuse("positions", "step must not be 0", text);
  std::int64_t span = 0;
  if (__builtin_sub_overflow(end, begin, &span) || span / step >= most_positions)
    refuse("positions", "must be fewer than 2^28", text);
  Integers positions;
  for (std::int64_t at = begin; step > 0 ? at < end : at > end;) {
    positions.push_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  if (positions.empty()) refuse("positions", "must have at least one element", text);
  return positions;
}

bool is_file(const std::string& text) {
  return text.size() > 4 && text.compare(text.size() - 4, 4, ".npy") == 0;
}

bool is_floating(io::Element element) {
  return element == io::Element::f64 || element == io::Element::f32 ||
         element == io::Element::f16;
}

io::Array read_positions(const std::string& path) {
  io::Array array = io::read_npy(path);
  if (array.rank() != 1)
    refuse("positions", "the array must be [T]", io::to_string(array.shape()));
  if (array.size() == 0) refuse("positions", "must have at least one element", path);
  return array;
}

}  // namespace

std::variant<Integers, Doubles> parse_any_positions(const std::string& text) {
  if (is_file(text)) {
    const io::Array array = read_positions(text);
    if (is_floating(array.element())) return array.to_doubles();
    return array.to_integers();
  }
  if (text.find(':') != std::string::npos) return parse_range(text);
  Integers integers;
  Doubles doubles;
  for (const std::string& part : split(text, ',')) {
    double number = 0;
    std::int64_t integer = 0;
    if (parse_number(part, integer))
      integers.push_back(integer), number = static_cast<double>(integer);
    else if (!parse_number(part, number) || !std::isfinite(number))
      refuse_positions(text);
    doubles.push_back(number);
  }
  if (integers.size() == doubles.size()) return integers;
  return doubles;
}

Integers parse_positions(const std::string& text) {
  auto any = parse_any_positions(text);
  if (auto* integers = std::get_if<Integers>(&any)) return std::move(*integers);
  refuse("positions", "must be integers", text);
}

Integers parse_extents(const std::string& text, std::size_t least, std::size_t most) {
  Integers extents;
  std::int64_t cells = 1;
  for (const std::string& part : split(text, 'x')) {
    std::int64_t extent = 0;
    if (!parse_number(part, extent) || extent < 1) extents.resize(most);  // refused below
    extents.push_back(extent);
  }
  if (extents.size() < least || extents.size() > most)
    refuse("grid",
           least == 2 ? "must be HxW, for example 16x32"
           : least == 3
               ? "must be TxHxW, for example 8x16x32"
               : fmt::format("must be {} to {} extents, for example 16x32", least, most),
           text);
  for (const std::int64_t extent : extents) {
    if (extent > most_positions / cells)
      refuse("grid", "must have fewer than 2^28 cells", text);
    cells *= extent;
  }
  return extents;
}

std::pair<std::int64_t, std::int64_t> parse_grid(const std::string& text) {
  const Integers extents = parse_extents(text, 2, 2);
  return {extents[0], extents[1]};
}

void refuse_name(const std::string& option, const std::vector<std::string>& names,
                 const std::string& got) {
  const std::vector<std::string_view> all(names.begin(), names.end());
  refuse(option, fmt::format("must be one of {}", fmt::join(names, ", ")),
         internal::with_nearest(all, got));
}

Pairing parse_pairing(const std::string& text) {
  return parse_name<Pairing>(
      "pairing", {{"halves", Pairing::halves}, {"adjacent", Pairing::adjacent}}, text);
}

Angles parse_angles(const std::string& text) {
  return parse_name<Angles>("angles", {{"exact", Angles::exact}, {"float32", Angles::float32}},
                            text);
}

}  // namespace gnomon::cli

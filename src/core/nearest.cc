#include "src/core/nearest.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/core/text.h"

namespace gnomon::internal {
namespace {

std::size_t distance(const std::string& a, const std::string& b) {
  if (std::min(a.size(), b.size()) >= 3 &&
      (a.find(b) != std::string::npos || b.find(a) != std::string::npos))
    return a == b ? 0 : 1;
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> before(columns), last(columns), row(columns);
  for (std::size_t j = 0; j < columns; ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string plain(std::string_view name) {
  std::string letters;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const char c = name[at];
    if (name.substr(at, 2) == "++") letters += "plusplus", ++at;
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
  }
  return letters;
}

std::vector<std::string_view> nearest(std::span<const std::string_view> names,
                                      std::string_view got) {
  // A longer text than any name is not a misspelling. The limit bounds the time.
  const std::string wanted = plain(got.substr(0, 100));
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string_view name : names)
    if (const std::size_t edits = distance(wanted, plain(name)); edits <= 1 + wanted.size() / 5)
      near.emplace_back(edits, name);
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (near.size() > 3) near.resize(3);
  std::vector<std::string_view> found;
  for (const auto& one : near) found.push_back(one.second);
  return found;
}

std::string with_nearest(std::span<const std::string_view> names, std::string_view got) {
  std::string text = printable(got, 80);
  const char* between = "; nearest: ";
  for (const std::string_view name : nearest(names, got)) {
    text.append(between).append(name);
    between = ", ";
  }
  return text;
}

}  // namespace gnomon::internal

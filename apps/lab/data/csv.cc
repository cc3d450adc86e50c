#include "apps/lab/data/csv.h"

#include <cstdint>
#include <utility>

#include "gnomon/error.h"

namespace gnomon::lab {

std::vector<std::vector<std::string>> parse_csv(std::string_view csv, const std::string& name) {
  if (csv.starts_with("\xef\xbb\xbf")) csv.remove_prefix(3);
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string field;
  std::int64_t line = 1, opened = 0;  // lines
  enum class State { begin, plain, quoted, closed } state = State::begin;
  const auto malformed = [&](const char* rule, std::int64_t at) {
    refuse("lab", rule, name + ", line " + std::to_string(at));
  };
  const auto end_field = [&] {
    row.push_back(std::move(field));
    field.clear();
    state = State::begin;
  };
  const auto end_row = [&] {
    const bool empty = row.empty() && field.empty() && state == State::begin;
    if (empty) return;
    end_field();
    if (!rows.empty() && row.size() != rows[0].size())
      malformed("every row of a CSV file must have as many fields as the first one", line);
    rows.push_back(std::move(row));
    row.clear();
  };
  for (std::size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (state == State::quoted) {
      if (c == '"')
        state = State::closed;
      else
        field += c;
    } else if (c == '"' && state == State::closed) {  // doubled
      field += c;
      state = State::quoted;
    } else if (c == '"') {
      if (state == State::plain)
        malformed("a field of a CSV file with a quote must be quoted", line);
      state = State::quoted;
      opened = line;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n' || (c == '\r' && i + 1 < csv.size() && csv[i + 1] == '\n')) {
      if (c == '\r') ++i;
      end_row();
    } else {
      if (state == State::closed)
        malformed("a quoted field of a CSV file must end at its closing quote", line);
      field += c;
      state = State::plain;
    }
    line += csv[i] == '\n';
  }
  if (state == State::quoted) malformed("a quote of a CSV file must be closed", opened);
  end_row();
  return rows;
}

}  // namespace gnomon::lab

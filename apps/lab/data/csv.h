// Reader of CSV files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gnomon::lab {

// The rows of a CSV file, by RFC 4180. Lines end in "\n" or "\r\n"; empty lines are skipped.
// Throws std::invalid_argument with the line if a quote is not closed or stands inside a field,
// and if a row has another number of fields than the first one. `name`: that of the file.
std::vector<std::vector<std::string>> parse_csv(std::string_view csv, const std::string& name);

}  // namespace gnomon::lab

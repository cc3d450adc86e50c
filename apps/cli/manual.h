// Manual pages in roff, from the help texts.
#pragma once

#include <string>
#include <vector>

namespace gnomon::cli {

struct ManualPage {
  std::string file;  // "gnomon-table.1"
  std::string text;
};

// Returns the pages of the program and of all commands, gnomon.1 first. That of the lab is left
// out if gnomon-lab is not installed.
std::vector<ManualPage> manual_pages();

}  // namespace gnomon::cli

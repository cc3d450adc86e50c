#include "apps/lab/report.h"

#include "apps/lab/session.h"

namespace gnomon::lab {

std::filesystem::path write_report(const std::filesystem::path& out, const Json& results) {
  replace_file(out / "results.json", results.dump(1) + "\n");
  return out / "results.json";
}

}  // namespace gnomon::lab

#include "src/verdicts/report.h"

#include "gnomon/error.h"
#include "src/verdicts/verdicts.h"

namespace gnomon::verdicts {

void check(const Setting& s) {
  if (s.heads < 1) refuse("check", "heads must be at least 1", s.heads);
  if (s.width < 4 || s.width > 65536 || s.width / 2 < s.heads || s.width % (2 * s.heads) != 0)
    refuse("check", "width must be a multiple of 2 * heads and 4 to 65536", s.width);
  if (s.trained < 16 || s.trained > 4096)
    refuse("check", "trained must be 16 to 4096", s.trained);
  if (s.length < s.trained || s.length > 65536)
    refuse("check", "length must be at least trained, and at most 65536", s.length);
}

internal::OrderedJson report(const Findings& findings) {
  internal::OrderedJson json = as_json(findings);
  const std::vector<Verdict> found = verdicts(findings);
  auto& all = json["verdicts"] = internal::OrderedJson::object();
  for (std::size_t i = 0; i < found.size(); ++i)
    all[std::string(properties()[i].name)] = {
        {"word", found[i].word}, {"number", found[i].number}, {"sentence", found[i].sentence}};
  return json;
}

std::string to_json(std::string_view name, const Setting& setting) {
  check(setting);
  const EncodingMatrices matrices = encoding_matrices(std::string(name), setting);
  return report(examine(matrices, setting)).dump();
}

}  // namespace gnomon::verdicts

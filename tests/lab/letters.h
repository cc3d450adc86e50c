// Examples of the tasks with texts of letters.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "apps/lab/tasks/tasks.h"

namespace gnomon::testing {

inline std::vector<const lab::Task*> with_letters() {
  std::vector<const lab::Task*> all;
  for (const lab::Task* one : lab::tasks())
    if (one->letters.draw) all.push_back(one);
  return all;
}

inline std::string answer_of(const lab::Example& one) {
  std::string answer;
  for (std::size_t i = 0; i < one.bytes.size(); ++i)
    if (one.answer[i]) answer += one.bytes[i];
  return answer;
}
// The text before > or, without it, before the answer.
inline std::string prompt_of(const lab::Example& one) {
  const auto first = std::find(one.answer.begin(), one.answer.end(), true);
  return one.bytes.substr(
      0, std::min(one.bytes.find('>'), static_cast<std::size_t>(first - one.answer.begin())));
}

}  // namespace gnomon::testing

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
// The text that is not the answer, up to >.
inline std::string prompt_of(const lab::Example& one) {
  std::string prompt;
  for (std::size_t i = 0; i < one.bytes.size(); ++i)
    if (one.bytes[i] == '>')
      break;
    else if (!one.answer[i])
      prompt += one.bytes[i];
  return prompt;
}

}  // namespace gnomon::testing

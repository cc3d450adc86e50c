// A visitor of a std::variant that consists of one function for each alternative. A visitor
// that lacks an alternative does not compile.
#pragma once

namespace gnomon::internal {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace gnomon::internal

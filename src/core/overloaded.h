// A visitor made of one function for each alternative of a std::variant; one that lacks an
// alternative does not compile.
#pragma once

namespace gnomon::internal {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace gnomon::internal

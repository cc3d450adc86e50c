// Helpers for groups with a single encoding.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "gnomon/model/description.h"

namespace gnomon::model {

// Kind of the encoding; "none" for a group without one.
inline std::string kind_of(const LayerGroup& group) {
  EXPECT_LE(group.position.size(), 1u) << names(group.position);
  return group.position.empty() ? "none" : kind(group.position[0]);
}
template <typename Spec>
const Spec& spec_of(const LayerGroup& group) {
  EXPECT_LE(group.position.size(), 1u) << names(group.position);
  return std::get<Spec>(group.position.at(0));
}

}  // namespace gnomon::model

// Sizes: conversion to those of the standard library, and the check of a shape.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "gnomon/error.h"

namespace gnomon::internal {

constexpr std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

// Throws std::invalid_argument unless the shapes are equal.
template <std::size_t Rank>
void check_shape(std::string_view encoding, std::string_view name,
                 const std::array<std::ptrdiff_t, Rank>& got,
                 const std::array<std::ptrdiff_t, Rank>& wanted) {
  if (got != wanted)
    refuse(encoding, std::string(name) + " must be " + shape_text(wanted), shape_text(got));
}

}  // namespace gnomon::internal

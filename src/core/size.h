// Sizes: conversion to those of the standard library, checked products and sums, and the check
// of a shape. All products of numbers that a caller gives are computed here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

#include "gnomon/error.h"
#include "src/core/overflow.h"

namespace gnomon::internal {

// A count beyond a size of 32 bits is the greatest size, which containers refuse.
constexpr std::size_t to_size(std::int64_t count) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  if constexpr (sizeof(std::size_t) < sizeof count)
    if (count < 0 || static_cast<std::uint64_t>(count) > most) return most;
  return static_cast<std::size_t>(count);
}

// Elements of an array are fewer than 2^59 (2^28 if pointers have 32 bits), so that their bytes
// fit a size for elements of up to 16 bytes.
inline constexpr std::int64_t most_elements = std::numeric_limits<std::int64_t>::max() / 16 >>
                                              (64 - 8 * sizeof(std::size_t));

// The other extents of an empty array, multiplied, are at most this, because loops over them
// run although there is nothing to do.
inline constexpr std::int64_t most_rows_of_empty = std::int64_t{1} << 31;

// Multiplies `count` by an extent; an extent of 0 counts as 1. Returns false if the extent is
// negative or the product is more than most_elements.
constexpr bool multiply(std::int64_t& count, std::int64_t extent) noexcept {
  return extent >= 0 && !multiply_overflow(count, extent > 1 ? extent : 1, &count) &&
         count <= most_elements;
}

// Returns the product of the factors, 0 if one is 0. Throws std::invalid_argument if a factor
// is negative, or the product of the factors that are not 0 is more than most_elements
// (most_rows_of_empty if one is 0). what: the factors in the message, "batch x tokens".
std::int64_t checked_product(std::string_view operation, std::string_view what,
                             std::initializer_list<std::int64_t> factors);
// The same as a size of the standard library.
inline std::size_t checked_size(std::string_view operation, std::string_view what,
                                std::initializer_list<std::int64_t> factors) {
  return to_size(checked_product(operation, what, factors));
}
// Returns the sum. Throws std::invalid_argument if it does not fit 64 bits.
std::int64_t checked_sum(std::string_view operation, std::string_view what,
                         std::initializer_list<std::int64_t> terms);

// Returns whether `size` is rows x columns, without overflow; false if one is negative, or more
// than most_rows_of_empty beside a 0.
constexpr bool holds(std::size_t size, std::int64_t rows, std::int64_t columns) noexcept {
  std::int64_t count = 0;
  return rows >= 0 && columns >= 0 && !multiply_overflow(rows, columns, &count) &&
         to_size(count) == size &&
         (count || (rows <= most_rows_of_empty && columns <= most_rows_of_empty));
}

// Positions and distances that are subtracted are at most this in magnitude, so that no
// difference overflows.
inline constexpr std::int64_t farthest_position = std::int64_t{1} << 61;
constexpr bool subtractable(std::int64_t position) noexcept {
  return position >= -farthest_position && position <= farthest_position;
}

// A range of `count` >= 1 integers from `first` on, without its end, which may overflow.
// Returns whether it contains all integers from `least` to `greatest`, in this order.
constexpr bool contains(std::int64_t first, std::int64_t count, std::int64_t least,
                        std::int64_t greatest) noexcept {
  return count > 0 && least >= first &&
         static_cast<std::uint64_t>(greatest) - static_cast<std::uint64_t>(first) <
             static_cast<std::uint64_t>(count);
}
// Returns the text "first to last" of such a range.
std::string range_text(std::int64_t first, std::int64_t count);

// Throws std::invalid_argument unless the shapes are equal.
template <std::size_t Rank>
void check_shape(std::string_view encoding, std::string_view name,
                 const std::array<std::int64_t, Rank>& got,
                 const std::array<std::int64_t, Rank>& wanted) {
  if (got != wanted)
    refuse(encoding, std::string(name) + " must be " + shape_text(wanted), shape_text(got));
}

}  // namespace gnomon::internal

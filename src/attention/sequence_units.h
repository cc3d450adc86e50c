// Units of work of the sequences of a call, which may have different numbers of units.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "src/attention/scratch.h"

namespace gnomon::internal {

// Units are numbered from 0, sequence by sequence.
class SequenceUnits {
 public:
  struct Unit {
    std::int64_t sequence, index;  // index: within the sequence
  };

  // Sets `each` units for each sequence.
  void set(std::int64_t sequences, std::int64_t each) { sequences_ = sequences, each_ = each; }
  // Sets count_of(b) units for sequence b. Borrows O(sequences) numbers.
  template <typename CountOf>
    requires std::is_invocable_v<CountOf, std::int64_t>
  void set(std::int64_t sequences, const CountOf& count_of) {
    sequences_ = sequences;
    std::int64_t* const firsts = firsts_.emplace(sequences + 1).data();
    for (std::int64_t b = 0; b < sequences; ++b) firsts[b + 1] = firsts[b] + count_of(b);
  }

  std::int64_t total() const { return first(sequences_); }
  std::int64_t first(std::int64_t b) const { return firsts_ ? firsts_->data()[b] : b * each_; }
  std::int64_t count(std::int64_t b) const { return first(b + 1) - first(b); }
  Unit unit(std::int64_t n) const {
    if (!firsts_) return {n / each_, n % each_};
    const std::int64_t* const all = firsts_->data();
    const std::int64_t b = std::upper_bound(all, all + sequences_ + 1, n) - all - 1;
    return {b, n - all[b]};
  }

 private:
  std::int64_t sequences_ = 0, each_ = 0;
  std::optional<Numbers<std::int64_t>> firsts_;
};

}  // namespace gnomon::internal

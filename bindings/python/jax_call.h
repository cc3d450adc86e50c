// Calls from XLA: operands with batch axes, and a cache of what they are lowered to.
//
// `jax.vmap` adds batch axes in front of every operand and result (vmap_method "expand_dims"):
// of extent 1 if the operand is shared by the batch. A handler loops over the batch, or merges
// it with its own batch axis B if all of the batch has one plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/python/xla_ffi.h"
#include "gnomon/position/positions.h"
#include "gnomon/tensor.h"

namespace gnomon::python {

// An element of the batch of vmap, or (merged > 1) all of it.
struct Part {
  std::int64_t index = 0, merged = 1;
};

// A buffer with `rank` axes after the batch axes.
class Operand {
 public:
  Operand() = default;
  Operand(const xla::Buffer& buffer, std::int64_t rank, std::span<const std::int64_t> batch);

  bool given() const noexcept { return buffer_ != nullptr; }
  std::int64_t extent(std::int64_t axis) const noexcept { return shape()[axis]; }
  std::int64_t size() const noexcept;   // elements of one element of the batch
  std::int64_t batch() const noexcept;  // product of the batch axes
  xla::ElementType type() const noexcept { return buffer_->type; }
  // The first element of a part.
  void* data(const Part& part) const noexcept;

  // Calls body(tensor) with the axes as they are, or with axes 1 and 2 exchanged. B is
  // multiplied by part.merged.
  enum class Axes { as_given = 1, heads_first };
  struct Borrowed {
    Tensor tensor;
    std::int64_t shape[4] = {}, strides[4] = {};
    Borrowed() = default;
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    operator const Tensor&() const noexcept { return tensor; }  // NOLINT: a conversion
  };
  void borrow(const Part& part, Axes axes, Borrowed& out) const;

 private:
  const std::int64_t* shape() const noexcept {
    return buffer_->shape + (buffer_->rank - rank_);
  }

  const xla::Buffer* buffer_ = nullptr;
  std::int64_t rank_ = 0;
  std::span<const std::int64_t> batch_;  // the extents of the batch axes of the results
};

// The operands and attributes of a call. Operands are taken in their order.
class Call {
 public:
  // result_rank: the axes of result 0 after the batch axes.
  Call(const xla::CallFrame& frame, std::int64_t result_rank);

  std::string_view text(std::string_view attribute) const;
  // Returns true if the attribute `operands` names an operand.
  bool has(char operand) const {
    return text("operands").find(operand) != std::string_view::npos;
  }
  Operand argument(std::int64_t rank);
  Operand argument_if(char operand, std::int64_t rank) {
    return has(operand) ? argument(rank) : Operand();
  }
  std::vector<Operand> arguments(std::int64_t rank);  // all that remain
  Operand result(std::int64_t rank);
  std::vector<Operand> results(std::int64_t rank);

  std::int64_t batch() const noexcept;

 private:
  const xla::CallFrame& frame_;
  std::int64_t next_argument_ = 0, next_result_ = 0;
  std::span<const std::int64_t> batch_;
};

// An operand that the plan depends on: a parameter [rows, columns], sinks [1, H], or ids and
// sequences [rows, tokens].
struct State {
  const void* data = nullptr;
  xla::ElementType type = {};
  std::int64_t rows = 0, columns = 0;

  std::size_t bytes() const noexcept;
  std::vector<std::int64_t> integers() const;
  std::vector<float> floats() const;
};
State state_of(const Operand& operand, const Part& part);
// Positions [.., rows, tokens] of a part with B rows. If the batch is merged, they are copied
// to `scratch` as [.., merged B, tokens].
State rows_of(const Operand& operand, const Part& part, std::int64_t rows,
              std::vector<std::byte>& scratch);
Positions positions_of(const State& ids, const State* sequences);

// The plans of the last calls. A plan is used again if the text and all states are the same,
// bit by bit, as in the backward pass and in layers that share parameters.
template <typename Plan>
class Cache {
 public:
  using Lower = Plan (*)(std::string_view text, std::span<const State> states);
  std::shared_ptr<const Plan> get(std::string_view text, std::span<const State> states,
                                  Lower lower) {
    std::size_t hash = std::hash<std::string_view>()(text);
    for (const State& one : states)
      hash = hash * 31 + static_cast<std::size_t>(one.rows * 65537 + one.columns);
    std::vector<std::shared_ptr<const Entry>> candidates;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& entry : entries_)
        if (entry->hash == hash) candidates.push_back(entry);
    }
    for (const auto& entry : candidates)
      if (entry->equals(text, states)) {
        use(entry);
        return {entry, &entry->plan};
      }
    auto entry = std::make_shared<Entry>(hash, std::string(text), lower(text, states));
    for (const State& one : states) {
      const auto* const data = static_cast<const std::byte*>(one.data);
      entry->values.emplace_back(data, data + one.bytes());
      entry->states.push_back(one);
      entry->states.back().data = nullptr;
    }
    use(entry);
    return {entry, &entry->plan};
  }

 private:
  static constexpr std::size_t most = 32;
  struct Entry {
    Entry(std::size_t hash_, std::string text_, Plan plan_)
        : hash(hash_), text(std::move(text_)), plan(std::move(plan_)) {}
    bool equals(std::string_view other, std::span<const State> given) const {
      if (text != other || states.size() != given.size()) return false;
      for (std::size_t i = 0; i < given.size(); ++i) {
        const State &a = states[i], &b = given[i];
        if (a.type != b.type || a.rows != b.rows || a.columns != b.columns) return false;
        const auto* const data = static_cast<const std::byte*>(b.data);
        if (!std::equal(values[i].begin(), values[i].end(), data)) return false;
      }
      return true;
    }
    std::size_t hash;
    std::string text;
    Plan plan;
    std::vector<State> states;
    std::vector<std::vector<std::byte>> values;
  };

  // Makes an entry the first one, and removes the last one if there are too many.
  void use(const std::shared_ptr<const Entry>& entry) {
    std::shared_ptr<const Entry> removed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    entries_.remove(entry);
    entries_.push_front(entry);
    if (entries_.size() <= most) return;
    removed = std::move(entries_.back());
    entries_.pop_back();
  }

  std::mutex mutex_;
  std::list<std::shared_ptr<const Entry>> entries_;
};

}  // namespace gnomon::python

// Prefetches the rows of the next piece during the products of a piece: rows of one head are
// apart in memory, and a short sequence ends before its reads do.
#if defined(GNOMON_ATTENTION_NEXT_PIECE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef GNOMON_ATTENTION_NEXT_PIECE_INL_H_
#undef GNOMON_ATTENTION_NEXT_PIECE_INL_H_
#else
#define GNOMON_ATTENTION_NEXT_PIECE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "src/attention/pack-inl.h"
#include "src/attention/tile.h"
#include "src/core/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gnomon {
namespace HWY_NAMESPACE {

class NextPiece {
 public:
  NextPiece(const AttentionProblem& problem, const Result& out)
      : problem_(problem), out_(out) {}

  // Starts to prefetch the rows of `next`. work: multiply-adds until the rows are needed.
  void Start(const internal::ForwardPiece& next, std::int64_t work) {
    next_ = next, at_ = 0, done_ = 0;
    keys_ = problem_.keys_of(next.batch);
    rows_ = std::max(next.queries, keys_);
    rows_per_work_ =
        static_cast<double>(rows_) / static_cast<double>(std::max<std::int64_t>(work, 1));
  }
  // Prefetches the share of the rows that belongs to `work` multiply-adds.
  void Advance(std::int64_t work) {
    done_ += work;
    const double reached = static_cast<double>(done_) * rows_per_work_;
    Reach(std::min(rows_, static_cast<std::int64_t>(reached)));
  }
  void Finish() { Reach(rows_); }

 private:
  HWY_INLINE void Reach(std::int64_t end) {
    const std::int64_t group = problem_.group();
    for (; at_ < end; ++at_) {
      if (at_ < next_.queries)
        for (std::int64_t head = next_.key_head * group; head < (next_.key_head + 1) * group;
             ++head) {
          Fetch(problem_.q, next_.query + at_, head, problem_.head_dim);
          FetchOutput(next_.query + at_, head);
        }
      if (at_ < keys_) {
        Fetch(problem_.k, at_, next_.key_head, problem_.head_dim);
        Fetch(problem_.v, at_, next_.key_head, problem_.value_dim);
      }
    }
  }
  // Always inline: see PrefetchRowAt.
  HWY_INLINE void Fetch(const Operand& from, std::int64_t row, std::int64_t head,
                        std::int64_t size) const {
    const auto bytes = static_cast<std::int64_t>(from.bytes());
    const char* begin =
        static_cast<const char*>(from.data) + OffsetOf(from, next_.batch, row, head) * bytes;
    const char* last = begin + size * bytes - 1;  // possibly in another cache line
    for (const char* at = begin; at < last; at += 64) PrefetchFar(at);
    if (reinterpret_cast<std::uintptr_t>(begin) % 64) PrefetchFar(last);
  }
  HWY_INLINE void FetchOutput(std::int64_t row, std::int64_t head) const {
    const internal::Place place = out_.places(next_.batch, row);
    const auto bytes = static_cast<std::int64_t>(size_of(out_.dtype));
    const char* begin =
        static_cast<const char*>(out_.data) +
        (place.batch * out_.strides[0] + place.row * out_.strides[1] + head * out_.strides[2]) *
            bytes;
    for (std::int64_t i = 0; i < problem_.value_dim * bytes; i += 64)
      PrefetchToWrite(begin + i);
  }

  const AttentionProblem& problem_;
  const Result& out_;
  internal::ForwardPiece next_ = {};
  std::int64_t at_ = 0, rows_ = 0, keys_ = 0, done_ = 0;
  double rows_per_work_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace gnomon
HWY_AFTER_NAMESPACE();

#endif

#include "apps/lab/model/segment_reader.h"

#include <algorithm>

namespace gnomon::lab {

Reading reading_of(const std::string& suffix) {
  return suffix == "memory"   ? Reading::memory
         : suffix == "window" ? Reading::window
                              : Reading::whole;
}

SegmentReader::SegmentReader(const Settings& settings, std::int64_t segment,
                             std::int64_t memory)
    : shape_{.memory = memory,
             .segment = segment,
             .heads = settings.heads,
             .head_dim = settings.width / settings.heads,
             .value_dim = settings.width / settings.heads},
      layers_(static_cast<std::size_t>(settings.layers)) {}

at::Tensor SegmentReader::read(Transformer& model, const at::Tensor& tokens) {
  shape_.batch = tokens.size(0);
  if (memories_.empty() || memories_[0].shape() != shape_)
    memories_.assign(layers_, SegmentMemory<float>(shape_));
  for (SegmentMemory<float>& one : memories_) one.clear();
  return read_next(model, tokens);
}

at::Tensor SegmentReader::read_next(Transformer& model, const at::Tensor& tokens) {
  std::vector<at::Tensor> logits;
  for (std::int64_t begin = 0; begin < tokens.size(1); begin += shape_.segment) {
    const std::int64_t count = std::min(shape_.segment, tokens.size(1) - begin);
    logits.push_back(model->forward(tokens.narrow(1, begin, count), {.memory = &memories_}));
  }
  return at::cat(logits, 1);
}

}  // namespace gnomon::lab

// Families with positions on several axes (M-RoPE): the order of the axes over the pairs, and
// the default sections.
#include "src/model/rules.h"

namespace gnomon::model::internal {

void qwen2_vl(Reading& r) {
  r.mrope = MRopeOrder::sequential;
  r.sections = {16, 24, 24};
  read_rotary(r);
}

void qwen3_vl(Reading& r) {
  r.mrope = MRopeOrder::interleaved;
  r.sections = {24, 20, 20};
  read_rotary(r);
}

// Rotates a quarter of each head. Most layers are linear.
void qwen3_5(Reading& r) {
  r.mrope = MRopeOrder::interleaved;
  r.sections = {11, 11, 10};
  qwen3_next(r);
}

void glm4v(Reading& r) {
  r.mrope = MRopeOrder::sequential;
  r.sections = {8, 12, 12};
  read_rotary(r);
}

void ernie_vl(Reading& r) {
  r.mrope = MRopeOrder::ernie;
  r.sections = {22, 22, 20};
  read_rotary(r);
}

}  // namespace gnomon::model::internal

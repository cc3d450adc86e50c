// Tensors of which every member is drawn, as a capsule of DLPack may have them.
#include <initializer_list>
#include <list>

#include "c/drawn.h"
#include "fuzz/target.h"

namespace gnomon::fuzz {
namespace dlpack_fuzz {

bool read(std::span<const std::byte> bytes) {
  drawn::Draws draw(bytes);
  gnomon_rotary_spec spec{sizeof spec, 4, GNOMON_HALVES, 0, 0};
  gnomon_frequencies* frequencies = nullptr;
  require(gnomon_frequencies_create(&spec, &frequencies) == GNOMON_OK);
  gnomon_layer_plan* plan = nullptr;
  require(gnomon_layer_plan_create(&plan) == GNOMON_OK);
  require(gnomon_layer_plan_set_mask(plan, GNOMON_BIDIRECTIONAL, 0, -1, -1) == GNOMON_OK);
  int succeeded = 0;
  std::list<drawn::Drawn> tensors;
  const auto tensor = [&] { return &tensors.emplace_back(draw).tensor; };
  const auto answer = [&](gnomon_status status) {
    require(status >= GNOMON_OK && status <= GNOMON_OUT_OF_MEMORY);
    succeeded += status == GNOMON_OK;
  };
  for (int calls = 0; calls < 8 && draw.more(); ++calls, tensors.clear()) {
    switch (draw.below(7)) {
      case 0:
        answer(gnomon_rotate_at(tensor(), draw.one_in(2) ? tensor() : nullptr, tensor(),
                                frequencies));
        break;
      case 1:
        answer(gnomon_add_table(tensor(), tensor(), 1));
        break;
      case 2:
        answer(gnomon_append(tensor(), nullptr, tensor(), draw.one_in(2) ? tensor() : nullptr));
        break;
      case 3:
        answer(gnomon_cos_sin(tensor(), frequencies, tensor(), tensor()));
        break;
      case 4:
        answer(gnomon_alibi_slopes(4, 0, tensor()));
        break;
      case 5:
        answer(gnomon_shift_keys(tensor(), frequencies, 5));
        break;
      default: {
        gnomon_attention_input input{};
        input.size = sizeof input;
        input.q = tensor(), input.k = tensor(), input.v = tensor();
        answer(gnomon_attention(&input, plan, tensor(), draw.one_in(2) ? tensor() : nullptr));
      }
    }
  }
  gnomon_layer_plan_destroy(plan);
  gnomon_frequencies_destroy(frequencies);
  return succeeded > 0;
}

const Register registered("dlpack", read);

}  // namespace dlpack_fuzz
}  // namespace gnomon::fuzz

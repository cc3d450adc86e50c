// Reader: src/io/shard_index.cc
#include "fuzz/target.h"
#include "src/io/shard_index.h"

namespace gnomon::fuzz {
namespace shard_index_fuzz {

bool read(std::span<const std::byte> bytes) {
  return answered(
      [&] {
        for (const auto& [tensor, shard] : io::internal::read_shard_index(text(bytes), "fuzz"))
          require(shard.find_first_of("/\\") == shard.npos && shard.ends_with(".safetensors") &&
                  shard != ".safetensors");
      },
      bytes.size());
}

const Register registered("shard_index", read);

}  // namespace shard_index_fuzz
}  // namespace gnomon::fuzz

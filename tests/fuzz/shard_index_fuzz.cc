#include <string_view>

#include "fuzz/target.h"
#include "src/io/shard_index.h"

namespace gnomon::fuzz {
namespace shard_index_fuzz {

bool read(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return answered(
      [&] {
        for (const auto& [tensor, shard] : io::internal::read_shard_index(text, "fuzz"))
          require(shard.find_first_of("/\\") == shard.npos &&
                  shard.ends_with(".safetensors") && shard != ".safetensors");
      },
      bytes.size());
}

const Register registered("shard_index", read);

}  // namespace shard_index_fuzz
}  // namespace gnomon::fuzz

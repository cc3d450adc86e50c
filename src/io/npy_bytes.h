// `.npy` reader for bytes in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "gnomon/io/array.h"

namespace gnomon::io::internal {

// `owner` keeps `file` alive (null: the caller keeps it alive). `name` is the name in messages.
Array read_npy(const std::string& name, std::span<const std::byte> file,
               std::shared_ptr<const void> owner);

}  // namespace gnomon::io::internal

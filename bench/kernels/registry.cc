#include <unistd.h>

#include <algorithm>

#include "bench/kernels/kernels.h"

namespace gnomon::bench {

using std::int64_t;

std::vector<int64_t> lengths(std::optional<int64_t> only, int64_t bytes) {
  if (only) return {*only};
  const auto cache = static_cast<int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  const int64_t most = std::min(2 * std::max<int64_t>(cache, 32 << 20), memory / 8);
  const int64_t past = (most / bytes + 1023) / 1024 * 1024;
  return {1, 512, 8192, std::max<int64_t>(past, 16384)};
}

std::vector<KernelMaker> kernels(std::string_view name, std::optional<int64_t> tokens) {
  std::vector<KernelMaker> all;
  for (const auto of_file :
       {table_kernels, feature_kernels, rotary_kernels, token_angle_kernels, cached_key_kernels,
        paged_append_kernels, bias_kernels, attention_kernels, decoding_kernels,
        encoding_kernels, beside_kernels})
    for (KernelMaker& maker : of_file(tokens))
      if (maker.name.starts_with(name)) all.push_back(std::move(maker));
  return all;
}

std::string kernel_names() {
  std::vector<std::string> names;
  for (const KernelMaker& maker : kernels("", 1)) {
    const std::string word = maker.name.substr(0, maker.name.find(' '));
    if (std::find(names.begin(), names.end(), word) == names.end()) names.push_back(word);
  }
  std::string list;
  for (const std::string& one : names) list += (list.empty() ? "" : ", ") + one;
  return list;
}

std::vector<CountedKernel> counted_kernels() {
  std::vector<CountedKernel> all;
  for (const auto of_file : {counted_rotary, counted_cached_keys, counted_tables,
                             counted_biases, counted_attention, counted_decoding})
    for (CountedKernel& one : of_file()) all.push_back(std::move(one));
  return all;
}

}  // namespace gnomon::bench

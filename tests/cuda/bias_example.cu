#include "gnomon/cuda/bias.h"

// scores [H, T, S] += bias, for queries from position `offset` on. Launch: grid (T, H).
__global__ void add_bias(float* scores, int keys, long offset, gnomon::cuda::StripView view) {
  const int query = blockIdx.x, head = blockIdx.y;
  float* const row = scores + (static_cast<long>(head) * gridDim.x + query) * keys;
  for (int key = threadIdx.x; key < keys; key += blockDim.x)
    row[key] += gnomon::cuda::bias(view, head, offset + query, key);
}

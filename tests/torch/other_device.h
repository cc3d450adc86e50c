// A device without a GPU for tests of device handling: memory of the CPU with inverted bits.
// Its device type is XPU, for which the LibTorch of Debian and of PyPI has no operators, and to
// which modules can be moved (Tensor::set_data refuses PrivateUse1).
//
// - Every operator throws c10::Error if it receives tensors on different devices, except for
//   CPU tensors without dimensions, as on CUDA. It computes on decoded copies, so the numbers
//   are those of the CPU.
// - Code that reads the memory directly, as it can on the CPU, reads inverted bits.
// - The backward pass runs in another thread than the caller, as on CUDA.
#pragma once

#include <torch/types.h>

#include <set>
#include <string>

namespace gnomon::testing {

inline const std::string other_device_name = "xpu:0";
inline at::Device other_device() { return at::Device(at::DeviceType::XPU, 0); }

// The names of the operators that ran on the device, "aten::index_select". Empties the list.
std::set<std::string> take_operators_of_other_device();

// Operators of these that are not deterministic on CUDA, also after
// at::Context::setDeterministicAlgorithms(true, false), or that draw random numbers, which have
// other values than those of the CPU. Source: the documentation of
// torch.use_deterministic_algorithms in PyTorch 2.15, operators that throw.
std::set<std::string> unfit_for_cuda(const std::set<std::string>& operators);

}  // namespace gnomon::testing

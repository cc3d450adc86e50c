// The state of LibTorch modules as a `.safetensors` file: their parameters and buffers, and
// the encodings of Gnomon's modules among them.
//
//   libtorch::save_state(*model, "model.safetensors");
//   libtorch::load_state(*model, "model.safetensors");
//
// `model` is a PositionEncoding, a PositionScheme, or a module that contains any number of
// them. The names of the tensors are those of named_parameters and named_buffers, so other
// readers of `.safetensors` files find them. The metadata is
//
//   format           "pt", as in the files of other writers of PyTorch's tensors
//   gnomon_state     "1", the version of this layout
//   gnomon_version   the version of the library that wrote the file
//   gnomon:PATH      for each module of Gnomon, {"layers": [[{"kind": "t5", ...}]]}: its
//                    encodings. PATH is its name in the model ("position",
//                    "layers.3.position"), or nothing if it is the model
//
// Archives of torch::save can contain code, which torch::load runs. Modules of Gnomon are
// neither written to them nor read from them: torch::save and torch::load throw
// std::invalid_argument for a model that contains one.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <string>

#include "gnomon/io/array.h"

namespace gnomon::libtorch {

// Writes the file atomically (io::write_atomically). Throws std::invalid_argument, and writes
// nothing, if a tensor is undefined, is not strided, or has a type without a name in
// `.safetensors` files.
void save_state(const torch::nn::Module& module, const std::filesystem::path& path);

// Reads the file into the tensors of the module, on whatever device they are. The values are
// copied, so optimizers keep their parameters. Everything is checked first: the module has
// either all values of the file or none.
//
// Throws FormatError if the file is not a well-formed `.safetensors` file. Throws
// std::invalid_argument, which names the difference, if it is an archive of LibTorch or of
// PyTorch, has another layout, encodings other than those of the module, a tensor that the
// module does not have, or lacks one; or if a tensor has another type or shape.
void load_state(torch::nn::Module& module, const std::filesystem::path& path);

// Returns the tensor as an array for io::write_safetensors. The array keeps the bytes alive; a
// tensor on another device, or with other strides, is copied. Throws as save_state, and names
// the tensor `name`.
io::Array to_array(const at::Tensor& tensor, const std::string& name = "tensor");

// Returns a copy of the array, on the CPU. Throws std::invalid_argument if LibTorch has no
// type for its elements.
at::Tensor to_tensor(const io::Array& array);

}  // namespace gnomon::libtorch

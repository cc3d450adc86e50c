// `.npy`: one array per file, the format of np.save and np.load in NumPy.
//
//   NumPy Enhancement Proposal 1 and numpy/lib/format.py.
//   https://numpy.org/neps/nep-0001-npy-format.html
//
//   "\x93NUMPY" major minor | header length            | header             | elements
//                            u16, or u32 from 2.0 on
//
// The header is {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } with trailing
// spaces and a newline.
//
// Versions 1.0, 2.0 and 3.0 are read. Element types: float of 2, 4, 8 bytes, signed and
// unsigned integers of 1, 2, 4, 8 bytes, bool. `.npy` has no bfloat16: it is stored as uint16
// and viewed as BFloat16. Big-endian, structured, complex, string and object arrays are
// refused.
#pragma once

#include <filesystem>
#include <string>

#include "gnomon/io/array.h"
#include "gnomon/view.h"

namespace gnomon::io {

// Maps the file. Elements are copied only if they are not aligned to their size, or are in
// Fortran order. Fortran order is converted to row-major order in memory. Memory in addition to
// the mapping and such a copy: a few hundred bytes for any header.
//
// Throws FormatError (file, byte, reason) if the file is not a complete, well-formed `.npy` of
// a type above, e.g. if it is truncated, has trailing bytes, has a shape whose size does not
// match the file, or has a header longer than 64 KiB. Throws std::invalid_argument if the file
// cannot be opened.
Array read_npy(const std::filesystem::path& path);

// Writes version 1.0 in row-major order. As in NumPy, elements begin at a multiple of 64 bytes,
// at least 128. The file is replaced atomically (io/file.h). A bf16 array is written as uint16.
// Throws std::invalid_argument if the array is opaque.
void write_npy(const std::filesystem::path& path, const Array& array);
template <typename T, std::size_t Rank>
void write_npy(const std::filesystem::path& path, View<T, Rank> view) {
  write_npy(path, Array::of(view));
}

}  // namespace gnomon::io

// `.npy`: one array a file, as NumPy's np.save and np.load have it.
//
//   NumPy Enhancement Proposal 1 and numpy/lib/format.py.
//   https://numpy.org/neps/nep-0001-npy-format.html
//
//   "\x93NUMPY" major minor | header length | {'descr': '<f4', 'fortran_order': False,
//                             u16, or u32 from 2.0 on       'shape': (2, 3), } ... \n |
//                             elements
//
// Versions 1.0, 2.0 and 3.0 are read. Element types: float of 2, 4, 8 bytes, signed and
// unsigned integers of 1, 2, 4, 8 bytes, bool. There is no bfloat16 in `.npy`: it is stored as
// uint16 and viewed as BFloat16. Big-endian, structured, complex, string and object arrays are
// refused.
#pragma once

#include <filesystem>
#include <string>

#include "gnomon/io/array.h"
#include "gnomon/view.h"

namespace gnomon::io {

// Maps the file; elements are not copied, except where they are not aligned to their size or
// were written in Fortran order, which are brought into row-major order in memory. Memory
// beyond the mapping and such a copy: a few hundred bytes, whatever the header says.
//
// Throws FormatError (file, byte, reason) when the file is not a whole, well-formed `.npy` of a
// type above: cut short, bytes left over, a shape whose size does not fit the file, a header
// longer than 64 KiB. Throws std::invalid_argument when it cannot be opened.
Array read_npy(const std::filesystem::path& path);

// Writes version 1.0, row-major, elements from byte 128 or another multiple of 64 on, as NumPy
// does; aside and renamed (io/file.h). A bf16 array is written as uint16; opaque is refused.
void write_npy(const std::filesystem::path& path, const Array& array);
template <typename T, std::size_t Rank>
void write_npy(const std::filesystem::path& path, View<T, Rank> view) {
  write_npy(path, Array::of(view));
}

}  // namespace gnomon::io

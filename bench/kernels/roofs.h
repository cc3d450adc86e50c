// Roofs, against which kernels are compared: passes over memory, run by the threads of
// gnomon::parallel_for in pieces of 256 KB and compiled for the widest vectors of the machine;
// float multiply-adds in registers; and sgemm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gnomon::bench {

// Flips the signs of floats in place. Cost: the bytes read and written.
void touch_bytes(void* begin, std::size_t bytes);
// Fills memory, in words of eight bytes. A remainder is not written. Cost: the bytes written.
void fill_bytes(void* begin, std::size_t bytes);
// Reads memory. Cost: the bytes read.
void read_bytes(const void* begin, std::size_t bytes);

struct RoofRun {
  std::function<void()> run;
  double work = 0;  // bytes or floating-point operations of one run
  std::string name = {};
};

// Touch or fill an array of their own.
RoofRun touching(std::int64_t bytes);
RoofRun writing(std::int64_t bytes);
// Touches one array and reads another.
RoofRun touching_and_reading(std::int64_t touched, std::int64_t read);
// Copies an array to another. With fewer bytes to write than to read, reads all of the first
// array and fills the second one.
RoofRun copying(std::int64_t read, std::int64_t written);
// Reads existing arrays.
RoofRun reading(std::vector<std::pair<const void*, std::int64_t>> parts);

// The fastest matrix product of the machine: sgemm of 2048 x 2048 x 2048 by the fastest
// library, with the same number of threads. Without a library: multiply-adds in registers.
RoofRun best_multiplier();

}  // namespace gnomon::bench

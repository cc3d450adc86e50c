// The part of XLA's foreign function interface that the handlers of jax.cc use: structs of its
// C ABI, version 0.1 and later. Declared here, because jaxlib's headers are not there when the
// wheel is built. tests/python/jax/test_ffi_abi.py compares sizes, offsets and values with
// those of jaxlib.
//
// XLA passes a CallFrame to a handler. The handler returns null, or an error that
// `create_error` made.
// `size` of a struct is its size in bytes as XLA knows it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gnomon::xla {

// A handler reports the version that it needs. XLA accepts versions up to its own.
inline constexpr int major_version = 0, minor_version = 1;

enum class ElementType : std::int32_t {
  i32 = 4,
  i64 = 5,
  f16 = 10,
  f32 = 11,
  f64 = 12,
  bf16 = 16,
};

enum class ErrorCode : std::int32_t {
  invalid_argument = 3,
  resource_exhausted = 8,
  internal = 13
};

enum class ExtensionType : std::int32_t { metadata = 1 };
enum class AttributeType : std::int32_t { string = 4 };

struct Extension {
  std::size_t size;
  ExtensionType type;
  Extension* next;
};

struct Version {
  std::size_t size;
  Extension* extensions;
  int major, minor;
};

struct Error;  // opaque

struct ErrorArguments {
  std::size_t size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};

// The table of XLA's functions, up to the member that is used.
struct Api {
  std::size_t size;
  Extension* extensions;
  Version version;
  const void* internal_api;
  Error* (*create_error)(ErrorArguments*);
};

struct Buffer {
  std::size_t size;
  Extension* extensions;
  ElementType type;
  void* data;
  std::int64_t rank;
  std::int64_t* shape;  // [rank]; row-major, contiguous
};

struct Text {
  const char* data;
  std::size_t length;
};

// Arguments and results have the same layout. All elements are buffers (type 1).
struct Buffers {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  const std::int32_t* types;  // [count]
  Buffer** buffers;           // [count]
};

struct Attributes {
  std::size_t size;
  Extension* extensions;
  std::int64_t count;
  const AttributeType* types;  // [count]
  const Text* const* names;    // [count]
  const void* const* values;   // [count]; Text for AttributeType::string
};

struct CallFrame {
  std::size_t size;
  Extension* extensions;
  const Api* api;  // null if the call asks for metadata
  void* context;
  std::int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

struct Metadata {
  std::size_t size;
  Version version;
  std::uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

using Handler = Error*(CallFrame*);

}  // namespace gnomon::xla

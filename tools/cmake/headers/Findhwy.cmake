# The headers of Highway that tools/wasm.sh unpacks from NumPy's source distribution.
if(NOT TARGET hwy::hwy)
  add_library(hwy::hwy INTERFACE IMPORTED)
  target_include_directories(hwy::hwy SYSTEM INTERFACE "${gnomon_wasm_tools}/highway")
endif()
set(hwy_FOUND TRUE)

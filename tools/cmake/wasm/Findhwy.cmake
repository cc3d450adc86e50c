# Highway for WebAssembly: the headers that tools/wasm.sh unpacks from NumPy's source distribution, and the two
# sources that static dispatch needs.
set(hwy_root "${gnomon_wasm_tools}/highway")
if(NOT TARGET hwy::hwy)
  add_library(gnomon_wasm_hwy STATIC "${hwy_root}/hwy/targets.cc" "${hwy_root}/hwy/abort.cc")
  target_include_directories(gnomon_wasm_hwy SYSTEM PUBLIC "${hwy_root}")
  add_library(hwy::hwy ALIAS gnomon_wasm_hwy)
endif()
set(hwy_FOUND TRUE)

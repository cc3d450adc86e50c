# Changes the build for tools/mutation/mutate.py: each source of the library is compiled alone.
function(gnomon_single_sources)
  foreach(target gnomon_core gnomon_graph gnomon_model gnomon_report)
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL gnomon_single_sources)

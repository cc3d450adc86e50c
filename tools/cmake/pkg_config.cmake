# gnomon-<component>.pc for each component, and gnomon.pc, which requires them all.
file(RELATIVE_PATH pc_up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")

function(gnomon_pkg_config pc_name pc_what pc_fields)
  configure_file(tools/cmake/component.pc.in ${pc_name}.pc @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/${pc_name}.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

# A program that uses the static library links its dependencies, too; a shared library loads them.
set(private_libraries " ${OpenMP_CXX_FLAGS} -pthread -lstdc++ -lm")  # also for C programs
get_target_property(library_type gnomon_core TYPE)
if(NOT library_type STREQUAL "STATIC_LIBRARY")
  set(private_libraries "")
endif()
foreach(component IN LISTS gnomon_built)
  set(fields "Cflags: -I\${includedir}\n")
  if(component STREQUAL "core")
    string(APPEND fields "Libs: -L\${libdir} -lgnomon_core${private_libraries}")
  else()
    list(TRANSFORM gnomon_${component}_needs PREPEND "gnomon-" OUTPUT_VARIABLE needed)
    list(JOIN needed ", " needed)
    string(APPEND fields "Requires: ${needed}\nLibs: -L\${libdir} -lgnomon_${component}")
    if(component STREQUAL "cuda")  # with the static runtime, which requires only the driver
      string(APPEND fields " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt -pthread")
    endif()
  endif()
  gnomon_pkg_config(gnomon-${component} ": component ${component}" "${fields}")
endforeach()
set(all ${gnomon_built})
list(REMOVE_ITEM all cuda)
list(TRANSFORM all PREPEND "gnomon-")
list(JOIN all ", " all)
gnomon_pkg_config(gnomon "" "Requires: ${all}")

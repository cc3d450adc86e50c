# Rules of `cmake --install`: the library for find_package(gnomon) and pkg-config, and the programs
# if they are built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gnomon")

# Each component is a separate export, with the headers of its modules. The headers of core are in
# include/gnomon itself.
foreach(component IN LISTS gnomon_built)
  install(TARGETS gnomon_${component} EXPORT gnomon-${component})
  install(EXPORT gnomon-${component} NAMESPACE gnomon:: FILE gnomon-${component}-targets.cmake
          DESTINATION "${config_dir}")
  foreach(module IN LISTS gnomon_${component}_modules)
    if(module STREQUAL "core")
      file(GLOB headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/include/gnomon/*.h")
      install(FILES ${headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gnomon")
      install(FILES include/gnomon.h include/gnomon_context.h include/gnomon_paged_cache.h include/gnomon_ragged.h
              DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
    else()
      install(DIRECTORY include/gnomon/${module}
              DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gnomon" FILES_MATCHING PATTERN "*.h")
    endif()
  endforeach()
endforeach()
install(TARGETS gnomon EXPORT gnomon)
install(EXPORT gnomon NAMESPACE gnomon:: FILE gnomon-targets.cmake
        DESTINATION "${config_dir}")

# The LibTorch adapter is a separate export, so that the library alone does not require LibTorch.
if(TARGET gnomon_torch)
  install(TARGETS gnomon_torch EXPORT gnomon-torch)
  install(DIRECTORY bindings/torch/include/gnomon
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT gnomon-torch NAMESPACE gnomon:: FILE gnomon-torch-targets.cmake
          DESTINATION "${config_dir}")
endif()

if(TARGET gnomon-program)
  install(TARGETS gnomon-program)
  # The program writes its manual pages and the completion scripts of shells.
  if(NOT CMAKE_CROSSCOMPILING)
    set(share "${CMAKE_CURRENT_BINARY_DIR}/share")
    install(CODE "execute_process(COMMAND \"$<TARGET_FILE:gnomon-program>\" completion --share \"${share}\"
                                  COMMAND_ERROR_IS_FATAL ANY)")
    install(DIRECTORY "${share}/" DESTINATION "${CMAKE_INSTALL_DATADIR}")
  endif()
endif()
if(TARGET gnomon-lab)
  # `gnomon lab` starts it; users do not call it.
  install(TARGETS gnomon-lab gnomon-tokenizer DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/gnomon")
  install(FILES apps/lab/data/README.md DESTINATION "${CMAKE_INSTALL_DATADIR}/gnomon")
  install(DIRECTORY apps/lab/data/austen DESTINATION "${CMAKE_INSTALL_DATADIR}/gnomon")
endif()

configure_package_config_file(tools/cmake/gnomon-config.cmake.in gnomon-config.cmake
                              INSTALL_DESTINATION "${config_dir}"
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(gnomon-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/gnomon-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/gnomon-config-version.cmake"
        DESTINATION "${config_dir}")

include(pkg_config)

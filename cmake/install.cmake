# What `cmake --install` puts in place: the library for find_package(gnomon) and pkg-config, and
# the programs where they are built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/gnomon")

install(TARGETS gnomon EXPORT gnomon)
install(DIRECTORY include/gnomon DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
install(EXPORT gnomon NAMESPACE gnomon:: FILE gnomon-targets.cmake
        DESTINATION "${config_dir}")

# The LibTorch adapter is an export of its own, so that the library alone needs no LibTorch.
if(TARGET gnomon_torch)
  install(TARGETS gnomon_torch EXPORT gnomon-torch)
  install(DIRECTORY bindings/torch/include/gnomon
          DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT gnomon-torch NAMESPACE gnomon:: FILE gnomon-torch-targets.cmake
          DESTINATION "${config_dir}")
endif()

if(TARGET gnomon-program)
  install(TARGETS gnomon-program)
endif()
if(TARGET gnomon-lab)
  # `gnomon lab` starts it; it is no command of its own.
  install(TARGETS gnomon-lab DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/gnomon")
  install(FILES data/README.md DESTINATION "${CMAKE_INSTALL_DATADIR}/gnomon")
  install(DIRECTORY data/austen DESTINATION "${CMAKE_INSTALL_DATADIR}/gnomon")
endif()

configure_package_config_file(cmake/gnomon-config.cmake.in gnomon-config.cmake
                              INSTALL_DESTINATION "${config_dir}"
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(gnomon-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/gnomon-config.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/gnomon-config-version.cmake"
        DESTINATION "${config_dir}")

# Who links the static library links what it uses, too; the shared one brings it along.
set(pc_private "")
set(pc_openmp " ${OpenMP_CXX_FLAGS}")
get_target_property(library_type gnomon TYPE)
if(NOT library_type STREQUAL "STATIC_LIBRARY")
  set(pc_private ".private")
  set(pc_openmp "")
endif()
file(RELATIVE_PATH pc_up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/gnomon.pc.in gnomon.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/gnomon.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

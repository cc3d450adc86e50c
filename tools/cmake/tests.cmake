# One CTest test for each source file of a GoogleTest program: tests/bias/alibi_test.cc is bias.alibi. One for
# each case would start the program thousands of times, which takes longer than the tests.
#
#   gnomon_file_tests(PROGRAM PREFIX SOURCE...)
#
# The tests named in gnomon_long_tests run in `make test-long` only (ctest -C long). If gnomon_test_configuration
# is set, all tests of the program run with that configuration only (ctest -C asan).
# Without a prefix, also adds PROGRAM.registered, which fails if a case of the program belongs to none of them.
function(gnomon_file_tests program prefix)
  set(all "")
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" lines REGEX "^(TEST|TEST_F|TEST_P|TYPED_TEST)\\(")
    set(filter "")
    foreach(line IN LISTS lines)
      if(NOT line MATCHES "^([A-Z_]+)\\(([A-Za-z0-9_]+), ([A-Za-z0-9_]+)\\)")
        message(FATAL_ERROR "${source}: suite and name must be on one line: ${line}")
      endif()
      set(suite "${CMAKE_MATCH_2}")
      set(name "${CMAKE_MATCH_3}")
      if(CMAKE_MATCH_1 STREQUAL "TEST_P")
        list(APPEND filter "*/${suite}.${name}/*" "${suite}.${name}/*")  # with or without a prefix
      elseif(CMAKE_MATCH_1 STREQUAL "TYPED_TEST")
        list(APPEND filter "${suite}/*.${name}")
      else()
        list(APPEND filter "${suite}.${name}")
      endif()
    endforeach()
    if(NOT filter)
      continue()
    endif()
    list(APPEND all ${filter})
    list(JOIN filter ":" filter)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REGEX REPLACE "_test[.]cc$" "" name "${source}")
    string(REPLACE "/" "." name "${name}")
    set(configurations "")
    if("${prefix}${name}" IN_LIST gnomon_long_tests)
      set(configurations CONFIGURATIONS long)
    elseif(gnomon_test_configuration)
      set(configurations CONFIGURATIONS ${gnomon_test_configuration})
    endif()
    add_test(NAME ${prefix}${name} ${configurations} COMMAND ${program} --gtest_print_time=0 "--gtest_filter=${filter}")
    # A new case in the source is a new filter.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}")
  endforeach()
  if(NOT prefix)
    list(JOIN all ":" all)
    add_test(NAME ${program}.registered
             COMMAND ${program} --gtest_list_tests "--gtest_filter=-${all}")
    set_tests_properties(${program}.registered PROPERTIES FAIL_REGULAR_EXPRESSION "\\.\n")
  endif()
endfunction()

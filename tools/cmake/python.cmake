# The Python package: finds the interpreter, and lets vl-convert-python write the script of HTML pages, which
# `make setup` writes otherwise. Included before the library, which embeds the script.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module ${SKBUILD_SABI_COMPONENT})

if(NOT EXISTS "${GNOMON_VEGA_BUNDLE}")
  set(GNOMON_VEGA_BUNDLE "${CMAKE_BINARY_DIR}/vega.js")
endif()
if(NOT EXISTS "${GNOMON_VEGA_BUNDLE}")
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "import vl_convert; print(vl_convert.javascript_bundle())"
                  OUTPUT_FILE "${GNOMON_VEGA_BUNDLE}.new" RESULT_VARIABLE failed)
  if(failed)
    message(WARNING "vl-convert-python cannot be imported: the pages of `gnomon plot` will have no charts")
  else()
    file(RENAME "${GNOMON_VEGA_BUNDLE}.new" "${GNOMON_VEGA_BUNDLE}")
  endif()
endif()

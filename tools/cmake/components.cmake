# The components of the library: their modules in src/ and include/gnomon/, and the components that
# each requires. tests/structure checks #include lines against the same table.
set(gnomon_components core graph model report cuda)
set(gnomon_core_modules core position embedding rotary bias relative attention)
set(gnomon_graph_modules graph)
set(gnomon_model_modules model analysis io verdicts)
set(gnomon_report_modules plot)
set(gnomon_cuda_modules cuda)
set(gnomon_core_needs "")
set(gnomon_graph_needs core)
set(gnomon_model_needs core)
set(gnomon_report_needs core)
set(gnomon_cuda_needs core)

# cuda requires nvcc, so it is built only if it is named.
set(GNOMON_COMPONENTS "core;graph;model;report" CACHE STRING
    "Components to build and install: core, graph, model, report, cuda")
if(NOT GNOMON_COMPONENTS)
  message(FATAL_ERROR "GNOMON_COMPONENTS must contain at least 'core'.")
endif()
foreach(component IN LISTS GNOMON_COMPONENTS)
  if(NOT component IN_LIST gnomon_components)
    list(JOIN gnomon_components ", " known)
    message(FATAL_ERROR "GNOMON_COMPONENTS: unknown component '${component}', known: ${known}.")
  endif()
  foreach(needed IN LISTS gnomon_${component}_needs)
    if(NOT needed IN_LIST GNOMON_COMPONENTS)
      message(FATAL_ERROR "GNOMON_COMPONENTS: component '${component}' requires '${needed}'.")
    endif()
  endforeach()
endforeach()

# The components to build, in the order above: each after the components it requires.
set(gnomon_built "")
set(gnomon_complete ON)
foreach(component IN LISTS gnomon_components)
  if(component IN_LIST GNOMON_COMPONENTS)
    list(APPEND gnomon_built ${component})
  elseif(NOT component STREQUAL "cuda")
    set(gnomon_complete OFF)
  endif()
endforeach()

# Program, lab, tests and benchmarks require all components but cuda.
function(gnomon_require_complete option)
  if(${option} AND NOT gnomon_complete)
    message(FATAL_ERROR "${option} requires all components, GNOMON_COMPONENTS is "
                        "'${GNOMON_COMPONENTS}': pass -D${option}=OFF, or use a new build folder.")
  endif()
endfunction()

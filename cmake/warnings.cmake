# The warning options of all targets. Third-party headers are SYSTEM, so they give no warnings.
function(gnomon_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
endfunction()

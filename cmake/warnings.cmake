# One place for warnings; third-party headers are SYSTEM and stay silent.
function(gnomon_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion)
endfunction()

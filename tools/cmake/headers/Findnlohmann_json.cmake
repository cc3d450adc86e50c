# The system's nlohmann-json for another system: its headers alone, because the system's include folder has those of
# another libc. tools/wasm.sh links them.
if(NOT TARGET nlohmann_json::nlohmann_json)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE "${gnomon_wasm_tools}/json")
endif()
set(nlohmann_json_FOUND TRUE)

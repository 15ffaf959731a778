# fathom_embed(TARGET HEADER NAMESPACE [FUNCTION FILE]...): adds a source to TARGET that defines each FUNCTION, declared in
# HEADER as `std::string_view FUNCTION()`, to return the text of FILE (relative to lib/) as it was at build time.
# The same file is the script that writes the source: cmake -P, with `output`, `header`, `namespace` and `pairs` defined.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// Written by the build from the files named below.\n#include \"${header}\"\n\nnamespace ${namespace} {\n")
  string(REPLACE "|" ";" pairs "${pairs}")
  while(pairs)
    list(POP_FRONT pairs function file)
    file(READ "${file}" content)
    string(APPEND text "\n// ${file}\nstd::string_view ${function}() { return R\"EMBEDDED(${content})EMBEDDED\"; }\n")
  endwhile()
  file(WRITE "${output}" "${text}\n}  // namespace ${namespace}\n")
  return()
endif()

set(embed_script "${CMAKE_CURRENT_LIST_FILE}")
function(fathom_embed target header namespace)
  set(pairs ${ARGN})
  set(files "")
  set(arguments "")
  while(pairs)
    list(POP_FRONT pairs function file)
    list(APPEND files "${PROJECT_SOURCE_DIR}/lib/${file}")
    list(APPEND arguments "${function}" "${PROJECT_SOURCE_DIR}/lib/${file}")
  endwhile()
  list(JOIN arguments "|" arguments)
  set(output "${PROJECT_BINARY_DIR}/${target}_embedded.cpp")
  add_custom_command(OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-Doutput=${output}" "-Dheader=${header}" "-Dnamespace=${namespace}" "-Dpairs=${arguments}" -P "${embed_script}"
    DEPENDS ${files} "${embed_script}" VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()

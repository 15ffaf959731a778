# fathom_suite_tests(TARGET PREFIX): for each suite of a GoogleTest binary one test of ctest, named PREFIX and the suite, whose
# tests share a process: LibTorch takes longer to start than most of them run. Of a suite of more than `most` tests several
# processes take a part each. With FATHOM_EACH_TEST in ctest's environment every test is one of ctest's, by its own name.
# The same file is what ctest reads before it runs, with `binary` and `prefix` defined.
if(NOT DEFINED binary)
  set(suites_script "${CMAKE_CURRENT_LIST_FILE}")
  function(fathom_suite_tests target prefix)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
    file(GENERATE OUTPUT "${file}" CONTENT
      "set(binary \"$<TARGET_FILE:${target}>\")\nset(prefix ${prefix})\ninclude(\"${suites_script}\")\nunset(binary)\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
  endfunction()
  return()
endif()

set(most 48)

function(register name filter part parts)
  add_test("${prefix}${name}" "${binary}" "--gtest_filter=${filter}")
  # Tests run beside each other: threads that spin while they wait for work would take the cores from the rest.
  set_tests_properties("${prefix}${name}" PROPERTIES TIMEOUT 1200
    ENVIRONMENT "GOMP_SPINCOUNT=0;GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part}")
endfunction()

if(NOT EXISTS "${binary}")
  add_test("${prefix}not_built" "${binary}")
  return()
endif()
set(names "${binary}.names")
if(NOT EXISTS "${names}" OR NOT "${names}" IS_NEWER_THAN "${binary}")
  execute_process(COMMAND "${binary}" --gtest_list_tests OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " +# [^\n]*" "" listing "${listing}")  # the value of a parameter
  file(WRITE "${names}" "${listing}")
endif()

file(STRINGS "${names}" lines REGEX "^[^ ]+[.]$|^  [^ ]+$")  # "Suite.", then its tests
set(suites "")
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^  (.+)")
    set(suite "${line}")
    list(APPEND suites "${suite}")
    set(tests_of_${suite} 0)
  elseif(DEFINED ENV{FATHOM_EACH_TEST})
    register("${suite}${CMAKE_MATCH_1}" "${suite}${CMAKE_MATCH_1}" 0 1)
  else()
    math(EXPR tests_of_${suite} "${tests_of_${suite}} + 1")
  endif()
endforeach()
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[.]$" "" name "${suite}")
  math(EXPR parts "(${tests_of_${suite}} + ${most} - 1) / ${most}")
  if(parts EQUAL 1)
    register("${name}" "${suite}*" 0 1)
  elseif(parts GREATER 1)
    foreach(part RANGE 1 ${parts})
      math(EXPR index "${part} - 1")
      register("${name}.${part}_of_${parts}" "${suite}*" ${index} ${parts})
    endforeach()
  endif()
endforeach()

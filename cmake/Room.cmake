# fathom_precompiled_header(NAME [LINK libraries...]): cmake/NAME_header.h as the target fathom_NAME_header.
# fathom_reuse_header(TARGET NAME): compiles an executable's sources with it.
# fathom_room(NAME [TORCH] [PARTS folders...] [LINK libraries...]): the static library fathom_NAME from lib/NAME/*.cpp and these
# folders of it.
# TORCH rooms compile against LibTorch, and the global property fathom_torch_rooms names them; the others never see a torch
# header. Each kind has a precompiled header.
# fathom_room_tests(NAME [TORCH] [LINK libraries...]): the GoogleTest binary NAME_test from tests/NAME/*_test.cpp, where the
# folder exists. Under CMAKE_UNITY_BUILD several files are one to the compiler: those that have names in common have a namespace
# each (fathom::ops::linear_test).
# fathom_compile_tests(TARGET HEADER): compiles tests with this precompiled header and at -O1: they compile sooner, and what takes a
# test's time is the code of rooms.
function(fathom_precompiled_header name)
  cmake_parse_arguments(HEADER "" "" "LINK" ${ARGN})
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}_header.cpp" CONTENT "// Only carries the precompiled header.\n")
  add_library(fathom_${name}_header OBJECT "${PROJECT_BINARY_DIR}/${name}_header.cpp")
  target_link_libraries(fathom_${name}_header PRIVATE ${HEADER_LINK} fathom_warnings)
  target_precompile_headers(fathom_${name}_header PRIVATE "${PROJECT_SOURCE_DIR}/cmake/${name}_header.h")
  if(CCACHE)
    set_target_properties(fathom_${name}_header PROPERTIES
      CXX_COMPILER_LAUNCHER "sh;${PROJECT_SOURCE_DIR}/cmake/make_header.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

function(fathom_reuse_header target name)
  target_precompile_headers(${target} REUSE_FROM fathom_${name}_header)
  # -fPIC instead of the -fPIE of executables: the precompiled header was made with it.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()

function(fathom_room name)
  cmake_parse_arguments(ROOM "TORCH" "" "PARTS;LINK" ${ARGN})
  list(TRANSFORM ROOM_PARTS REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/lib/${name}/\\1/*.cpp")
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lib/${name}/*.cpp" ${ROOM_PARTS})
  add_library(fathom_${name} STATIC ${sources})
  target_include_directories(fathom_${name} PUBLIC "${PROJECT_SOURCE_DIR}/lib")
  target_link_libraries(fathom_${name} PUBLIC ${ROOM_LINK} PRIVATE fathom_warnings)
  if(ROOM_TORCH)
    target_link_libraries(fathom_${name} PUBLIC fathom::torch_cpu)
    target_precompile_headers(fathom_${name} REUSE_FROM fathom_torch_header)
    set_property(GLOBAL APPEND PROPERTY fathom_torch_rooms fathom_${name})
  else()
    target_precompile_headers(fathom_${name} REUSE_FROM fathom_plain_header)
  endif()
endfunction()

function(fathom_compile_tests target header)
  fathom_reuse_header(${target} ${header})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(fathom_room_tests name)
  cmake_parse_arguments(TEST "TORCH" "" "LINK" ${ARGN})
  list(REMOVE_ITEM TEST_LINK fathom_${name})  # it is linked whole
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${name}/*_test.cpp")
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources})
  target_include_directories(${name}_test PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name}_test PRIVATE FATHOM_SOURCE_DIR="${PROJECT_SOURCE_DIR}" FATHOM_BINARY_DIR="${PROJECT_BINARY_DIR}")
  # Whole, because of operators that are registered at load; a room that others use here too may be linked only once.
  set(room "$<LINK_LIBRARY:WHOLE_ARCHIVE,fathom_${name}>")
  if(name STREQUAL ledger)
    set(room fathom_ledger)
  endif()
  target_link_libraries(${name}_test PRIVATE ${room} ${TEST_LINK} GTest::gmock GTest::gtest_main fathom_warnings)
  if(NOT TEST_TORCH)
    fathom_compile_tests(${name}_test tests)
  else()
    fathom_compile_tests(${name}_test torch_tests)
    set_target_properties(${name}_test PROPERTIES BUILD_RPATH "${FATHOM_TORCH_DIR}/lib")
    # Every operator that a test runs on the CPU must be one that the dry run can play.
    target_sources(${name}_test PRIVATE $<TARGET_OBJECTS:fathom_recorded_operators>)
    if(NOT name STREQUAL phantom)
      target_link_libraries(${name}_test PRIVATE fathom_phantom)
    endif()
  endif()
  if(TEST_TORCH)
    fathom_suite_tests(${name}_test "${name}.")
  else()
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
  endif()
endfunction()

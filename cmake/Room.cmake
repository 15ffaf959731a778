# fathom_room(NAME [TORCH] [LINK libraries...]): the static library fathom_NAME from lib/NAME/*.cpp.
# TORCH rooms compile against LibTorch with the shared precompiled header; the others never see a torch header.
# fathom_room_tests(NAME): the GoogleTest binary NAME_test from tests/NAME/*_test.cpp, where the folder exists.
function(fathom_room name)
  cmake_parse_arguments(ROOM "TORCH" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lib/${name}/*.cpp")
  add_library(fathom_${name} STATIC ${sources})
  target_include_directories(fathom_${name} PUBLIC "${PROJECT_SOURCE_DIR}/lib")
  target_link_libraries(fathom_${name} PUBLIC ${ROOM_LINK} PRIVATE fathom_warnings)
  if(ROOM_TORCH)
    target_link_libraries(fathom_${name} PUBLIC fathom::torch_cpu)
    target_precompile_headers(fathom_${name} REUSE_FROM fathom_torch_header)
  endif()
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
  if(TEST_TORCH)
    target_precompile_headers(${name}_test REUSE_FROM fathom_torch_header)
    # -fPIC instead of the -fPIE of executables: the precompiled header was made with it.
    set_target_properties(${name}_test PROPERTIES BUILD_RPATH "${FATHOM_TORCH_DIR}/lib" POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name}_test PRIVATE -fPIC)
    # Every operator that a test runs on the CPU must be one that the dry run can play.
    target_sources(${name}_test PRIVATE "${PROJECT_SOURCE_DIR}/tests/recorded_operators.cpp")
    if(NOT name STREQUAL phantom)
      target_link_libraries(${name}_test PRIVATE fathom_phantom)
    endif()
  endif()
  # Tests run beside each other: threads that spin while they wait for work would take the cores from the rest.
  gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 600 ENVIRONMENT "GOMP_SPINCOUNT=0")
endfunction()

# `cmake --install build --prefix PREFIX`: PREFIX/bin/fathom with all that it needs below the same prefix, which may be moved.
# LibTorch is not part of it: the program finds the one that pip has put below the prefix, or python3's (app/loader.cpp).
set(libraries lib/fathom)
set(built "${PROJECT_BINARY_DIR}/lib")
set(beside "${built}/libsentencepiece.so.0" "${built}/libonig.so.5" "${built}/libutf8proc.so.2" "${built}/$<TARGET_SONAME_FILE_NAME:yaml-cpp>"
  "${built}/built_from.json")
# Before anything is copied: a build of other targets alone would leave half a program.
set(needed "$<TARGET_FILE:fathom>" ${beside} "${built}/fathom-phantom/built" "${built}/fathom-phantom/agent-copied"
  "${built}/fathom-phantom/follow.so")
foreach(part ${FATHOM_PARTS})
  list(APPEND needed "$<TARGET_FILE:${part}>")
endforeach()
install(CODE "
  foreach(file ${needed})
    if(NOT EXISTS \"\${file}\")
      string(APPEND missing \"\\n  \${file}\")
    endif()
  endforeach()
  if(missing)
    message(FATAL_ERROR \"nothing is installed, as the program is not built whole; there is no\${missing}\\n\"
      \"build it first: cmake --build ${PROJECT_BINARY_DIR} --target fathom\")
  endif()")
install(TARGETS fathom ${FATHOM_PARTS} RUNTIME DESTINATION bin LIBRARY DESTINATION ${libraries})
# fathom's own CUDA kernels are there where nvcc was.
install(FILES "${built}/libfathom_cuda_kernels.so" DESTINATION ${libraries} OPTIONAL
  PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(FILES ${beside} "${PROJECT_SOURCE_DIR}/configs/gpus.yaml" DESTINATION ${libraries})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/configs/models" "${PROJECT_SOURCE_DIR}/configs/gpu-times" DESTINATION ${libraries})
install(DIRECTORY "${built}/fathom-phantom" DESTINATION ${libraries} USE_SOURCE_PERMISSIONS
  PATTERN built EXCLUDE PATTERN agent-copied EXCLUDE)

# What `fathom example` copies.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/data" DESTINATION share/fathom/example)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/configs/" DESTINATION share/fathom/example/configs FILES_MATCHING PATTERN "*.yaml"
  PATTERN models EXCLUDE PATTERN gpu-times EXCLUDE PATTERN gpus.yaml EXCLUDE)

# The command line, for shells and for man.
set(words "${PROJECT_BINARY_DIR}/words")
file(MAKE_DIRECTORY "${words}")
foreach(reader bash zsh fish man)
  add_custom_command(TARGET fathom POST_BUILD COMMAND fathom completion ${reader} > "${words}/${reader}" VERBATIM)
endforeach()
install(FILES "${words}/bash" DESTINATION share/bash-completion/completions RENAME fathom)
install(FILES "${words}/zsh" DESTINATION share/zsh/site-functions RENAME _fathom)
install(FILES "${words}/fish" DESTINATION share/fish/vendor_completions.d RENAME fathom.fish)
install(FILES "${words}/man" DESTINATION share/man/man1 RENAME fathom.1)

# Whose code is in the program or beside it: Debian's packages, which have their licences, and the texts that those name.
install(FILES /usr/share/common-licenses/Apache-2.0 /usr/share/common-licenses/GPL-3 /usr/share/common-licenses/LGPL-2.1
  DESTINATION share/doc/fathom/licences OPTIONAL)
file(READ "${PROJECT_SOURCE_DIR}/cmake/parts.json" parts)
string(JSON count LENGTH "${parts}")
math(EXPR last "${count} - 1")
foreach(index RANGE ${last})
  string(JSON part MEMBER "${parts}" ${index})
  install(FILES "/usr/share/doc/${part}/copyright" DESTINATION share/doc/fathom/licences RENAME ${part} OPTIONAL)
endforeach()

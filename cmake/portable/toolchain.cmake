# Links against what a system of 2018 has (scripts/portable), for a program that runs on that and all later ones.
set(portable "${CMAKE_CURRENT_LIST_DIR}/../../.deps/portable")
foreach(kind EXE SHARED MODULE)
  # What is linked statically stays the library's own, lest another library of the process take it for its own.
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-B${portable}/link -Wl,--exclude-libs,libstdc++.a:liblater_glibc.a")
endforeach()
set(CMAKE_PREFIX_PATH "${portable}")

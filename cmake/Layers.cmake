# One OBJECT library a folder, all of them in one shared library: a static library would silently
# drop files whose only purpose is to register a component.
#
#   moelab_sources(a.cpp b.k.cpp ...)      in a folder's CMakeLists.txt
#   moelab_components(FAMILY name ...)     one file name.cpp (or name.k.cpp) registers FAMILY/name
#   moelab_uses(target ...)                third-party targets that this folder's sources need

set(MOELAB_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND MOELAB_WARNINGS -Wno-restrict)  # false reports on string + at -O3 (GCC 105651)
endif()

# What changes the code that is made: of plugins too.
set(MOELAB_CODE_OPTIONS "")
set(MOELAB_LINK_OPTIONS "")
if(MOELAB_MARCH)
  list(APPEND MOELAB_CODE_OPTIONS -march=${MOELAB_MARCH})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC 12 compiles `v == std::vector<std::int64_t>{18, 18, 0, 0}` to false with AVX-512: its
    # vectoriser of straight-line code loses the initializer list. Loops vectorise all the same.
    list(APPEND MOELAB_CODE_OPTIONS -fno-tree-slp-vectorize)
  endif()
endif()
if(MOELAB_SANITIZE)
  # GCC's flow analysis loses track in instrumented code (std::regex): that warning is off there.
  list(APPEND MOELAB_CODE_OPTIONS -fsanitize=${MOELAB_SANITIZE} -fno-sanitize-recover=all
       -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  set(MOELAB_LINK_OPTIONS -fsanitize=${MOELAB_SANITIZE})
endif()

# Flags of all our own code, tests included.
add_library(moelab_flags INTERFACE)
target_compile_options(moelab_flags INTERFACE ${MOELAB_WARNINGS} ${MOELAB_CODE_OPTIONS})
target_link_options(moelab_flags INTERFACE ${MOELAB_LINK_OPTIONS})
target_include_directories(moelab_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_link_libraries(moelab_flags INTERFACE OpenMP::OpenMP_CXX Threads::Threads)

function(_moelab_target out)
  file(RELATIVE_PATH relative ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" name "moelab_${relative}")
  if(NOT TARGET ${name})
    add_library(${name} OBJECT)
    target_link_libraries(${name} PRIVATE moelab_flags)
    set_property(GLOBAL APPEND PROPERTY MOELAB_LAYERS ${name})
  endif()
  set(${out} ${name} PARENT_SCOPE)
endfunction()

function(moelab_sources)
  _moelab_target(target)
  target_sources(${target} PRIVATE ${ARGN})
  foreach(source ${ARGN})
    if(source MATCHES "\\.k\\.cpp$")
      set_property(GLOBAL APPEND PROPERTY MOELAB_KERNELS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      # Results stay; loops with square roots and selections become vector code.
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
                                  "-fno-math-errno;-fno-trapping-math")
    endif()
  endforeach()
endfunction()

function(moelab_components family)
  foreach(name ${ARGN})
    set(prefix "")
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/components)
      set(prefix "components/")
    endif()
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${prefix}${name}.k.cpp)
      moelab_sources(${prefix}${name}.k.cpp)
    else()
      moelab_sources(${prefix}${name}.cpp)
    endif()
    set_property(GLOBAL APPEND PROPERTY MOELAB_COMPONENTS "${family}/${name}")
  endforeach()
endfunction()

function(moelab_uses)
  _moelab_target(target)
  target_link_libraries(${target} PRIVATE ${ARGN})
  set_property(GLOBAL APPEND PROPERTY MOELAB_THIRD_PARTY ${ARGN})
endfunction()

function(moelab_library name)
  get_property(layers GLOBAL PROPERTY MOELAB_LAYERS)
  get_property(third_party GLOBAL PROPERTY MOELAB_THIRD_PARTY)
  list(REMOVE_DUPLICATES third_party)
  set(objects "")
  foreach(layer ${layers})
    list(APPEND objects $<TARGET_OBJECTS:${layer}>)
  endforeach()
  add_library(${name} SHARED ${objects})
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:moelab_flags>
                        PRIVATE ${third_party} ${CMAKE_DL_LIBS})
  # What the folders' lists promise; tests/architecture compares the registry with it.
  get_property(components GLOBAL PROPERTY MOELAB_COMPONENTS)
  list(SORT components)
  string(REPLACE ";" "\n" components "${components}")
  file(WRITE ${CMAKE_BINARY_DIR}/components.txt "${components}\n")
endfunction()

# The build stamp, and what `cmake --install` brings: program, library, every header of core and
# registry, and the CMake package that plugins are built with.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(MOELAB_GENERATED ${CMAKE_BINARY_DIR}/generated)
set(MOELAB_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/moelab)
set(MOELAB_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/moelab)

file(GLOB_RECURSE headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
     ${CMAKE_SOURCE_DIR}/registry/*.h ${CMAKE_SOURCE_DIR}/core/*.h)
set(stamp ${MOELAB_GENERATED}/moelab_build.h)
list(TRANSFORM headers PREPEND ${CMAKE_SOURCE_DIR}/ OUTPUT_VARIABLE header_files)
add_custom_command(
  OUTPUT ${stamp}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUT=${stamp}
          -DMOELAB_VERSION=${PROJECT_VERSION} -P ${CMAKE_SOURCE_DIR}/cmake/write_build_stamp.cmake
  DEPENDS ${header_files} ${CMAKE_SOURCE_DIR}/cmake/build_stamp.h.in
          ${CMAKE_SOURCE_DIR}/cmake/write_build_stamp.cmake
  COMMENT "Hashing the headers" VERBATIM)
add_custom_target(moelab_stamp DEPENDS ${stamp})
add_dependencies(moelab_registry moelab_stamp)
target_include_directories(moelab_registry PRIVATE ${MOELAB_GENERATED})

target_compile_features(moelab_shared PUBLIC cxx_std_20)
target_include_directories(moelab_shared INTERFACE $<INSTALL_INTERFACE:${MOELAB_INCLUDE}>)
# Plugins are compiled for the CPU of the library that they go with; loops in headers vectorise.
target_compile_options(moelab_shared INTERFACE "$<INSTALL_INTERFACE:-fopenmp-simd;${MOELAB_CODE_OPTIONS}>")
target_link_options(moelab_shared INTERFACE "$<INSTALL_INTERFACE:${MOELAB_LINK_OPTIONS}>")
set_target_properties(moelab_shared PROPERTIES EXPORT_NAME moelab)
set_target_properties(moelab PROPERTIES EXPORT_NAME program
                      INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

install(TARGETS moelab moelab_shared EXPORT moelab)
install(EXPORT moelab NAMESPACE moelab:: FILE moelabTargets.cmake DESTINATION ${MOELAB_PACKAGE})
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${MOELAB_INCLUDE}/${folder})
endforeach()
install(FILES ${stamp} DESTINATION ${MOELAB_INCLUDE})
configure_package_config_file(cmake/install/moelabConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/moelabConfig.cmake
                              INSTALL_DESTINATION ${MOELAB_PACKAGE})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/moelabConfigVersion.cmake
                                 COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/moelabConfig.cmake ${CMAKE_BINARY_DIR}/moelabConfigVersion.cmake
              cmake/install/plugin_stamp.cpp DESTINATION ${MOELAB_PACKAGE})

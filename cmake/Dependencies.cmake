# Everything outside the compiler, each as one target. Debian's own dnnl-config.cmake asks for
# OpenCL, so oneDNN is looked up by header and library.
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(doctest REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(moelab_dnnl INTERFACE)
target_include_directories(moelab_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(moelab_dnnl INTERFACE ${DNNL_LIBRARY})

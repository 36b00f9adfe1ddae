# libmoelab_cuda.so: every *.k.cpp of core/ops once more, by nvcc, in a namespace of its own and
# with hidden symbols; opened at run time (core/backend/cuda_plugin.h), so that one binary serves
# machines with and without CUDA.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "the preset 'cuda' needs nvcc; put it in PATH or name it with CUDACXX, or use the preset 'release'")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 knows nvcc only up to C++17
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

find_package(CUDAToolkit REQUIRED)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)

get_property(kernels GLOBAL PROPERTY MOELAB_KERNELS)
set_source_files_properties(${kernels} PROPERTIES LANGUAGE CUDA)
add_library(moelab_cuda SHARED ${kernels} core/backend/cuda/report.cpp)
target_include_directories(moelab_cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_include_directories(moelab_cuda SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
target_link_libraries(moelab_cuda PRIVATE CUDA::cudart CUDA::cublas ${NCCL_LIBRARY})
target_link_options(moelab_cuda PRIVATE -Wl,--no-as-needed -Wl,--no-undefined)
target_compile_options(moelab_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas
    -Xcudafe --diag_suppress=unrecognized_gcc_pragma>
  $<$<COMPILE_LANGUAGE:CXX>:${MOELAB_WARNINGS}>)
set_target_properties(moelab_cuda PROPERTIES
  CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CXX_VISIBILITY_PRESET hidden
  CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  BUILD_RPATH "${CUDAToolkit_LIBRARY_DIR}")

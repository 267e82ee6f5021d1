# Compiler, warnings, build type, and clear errors for missing packages.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# For the extension of Python and what programs load, which are libraries: code that can be loaded anywhere, and calls its own
# functions all the same. Precompiled headers serve libraries and programs alike, which are to be compiled alike then.
if(REHEARSE_PRECOMPILE)
  add_compile_options(-fPIC)
  find_program(REHEARSE_LINKER NAMES ld.mold ld.lld ld.gold)  # GNU's own takes 10 s for a program of 140 MB, lld 1.6, gold 5
  mark_as_advanced(REHEARSE_LINKER)
  if(REHEARSE_LINKER)
    string(REGEX REPLACE ".*/ld[.]" "-fuse-ld=" linker ${REHEARSE_LINKER})
    add_link_options(${linker})
  endif()
else()
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()
add_compile_options(-fno-semantic-interposition)

# Where programs find the libraries that they load when they need them (sim/base/loaded_library.hpp).
set(CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR})
set(CMAKE_INSTALL_RPATH $ORIGIN/../${CMAKE_INSTALL_LIBEXECDIR}/rehearse)

# Up to 24 sources of a folder are compiled as one: headers and templates cost more than what is in a file, and the whole
# takes less than half of the time. Presets for development compile each by itself, so that a missing include is found.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # clang has no such warning
  add_compile_options(-Wno-subobject-linkage)  # of a type with a member of an unnamed namespace: each is in one source
endif()

# GCC collects its garbage from 1 GB on, where it would begin at 128 MB: an eighth of its time, for half as much memory again.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(--param=ggc-min-heapsize=1048576 --param=ggc-min-expand=40)
endif()

find_program(REHEARSE_CCACHE ccache)
mark_as_advanced(REHEARSE_CCACHE)
if(REHEARSE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT REHEARSE_PRECOMPILE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${REHEARSE_CCACHE})
endif()

# Designated initializers leave fields at their defaults on purpose.
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers)

if(REHEARSE_SANITIZE OR REHEARSE_FUZZ)
  add_compile_options(-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)  # an index beyond a vector's size, or the first of none, may be of memory that is there
  add_link_options(-fsanitize=address,undefined)
endif()
if(REHEARSE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "REHEARSE_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++ (Debian package clang)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# rehearse_precompile(TARGET): sources of the target find the headers of others, which they include anyway, already read; with
# LibTorch's, if it is linked, and doctest's of tests. Targets alike share a set, which is made once.
function(rehearse_precompile target)
  if(NOT REHEARSE_PRECOMPILE)
    return()
  endif()
  get_target_property(libraries ${target} LINK_LIBRARIES)
  set(headers precompiled)
  if("rehearse_torch" IN_LIST libraries)
    set(headers precompiled_torch)
  endif()
  if(target MATCHES "^test_")  # whoever includes doctest has to be linked with its main
    string(APPEND headers _test)
  endif()
  if(NOT TARGET rehearse_${headers})
    set(source ${PROJECT_BINARY_DIR}/${headers}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_library(rehearse_${headers} OBJECT ${source})
    target_link_libraries(rehearse_${headers} PRIVATE nlohmann_json::nlohmann_json Eigen3::Eigen)
    target_precompile_headers(rehearse_${headers} PRIVATE <algorithm> <array> <cmath> <filesystem> <fstream> <functional> <map> <memory> <optional>
                              <ranges> <set> <span> <sstream> <string> <variant> <vector> <Eigen/Cholesky> <Eigen/QR>
                              <nlohmann/json.hpp>)
    if(target MATCHES "^test_")
      target_link_libraries(rehearse_${headers} PRIVATE doctest::doctest)
      target_precompile_headers(rehearse_${headers} PRIVATE <doctest/doctest.h>)
    endif()
    if(headers MATCHES torch)
      target_link_libraries(rehearse_${headers} PRIVATE rehearse_torch)
      target_precompile_headers(rehearse_${headers} PRIVATE <torch/torch.h>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM rehearse_${headers})
endfunction()

# rehearse_require(PACKAGE DEBIAN_PACKAGE): find_package whose error says what to install.
macro(rehearse_require package debian_package)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found: install the Debian package ${debian_package}")
  endif()
endmacro()

# rehearse_require_pkg_config(PREFIX "module>=version" DEBIAN_PACKAGE): gives the target PkgConfig::PREFIX.
macro(rehearse_require_pkg_config prefix module debian_package)
  rehearse_require(PkgConfig pkg-config)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET "${module}")
  if(NOT ${prefix}_FOUND)
    message(FATAL_ERROR "${module} was not found: install the Debian package ${debian_package}")
  endif()
endmacro()

# rehearse_require_libsvm(): the target rehearse_libsvm; LIBSVM comes with neither a CMake package nor pkg-config's file.
macro(rehearse_require_libsvm)
  find_path(REHEARSE_LIBSVM_INCLUDE libsvm/svm.h)
  find_library(REHEARSE_LIBSVM svm)
  mark_as_advanced(REHEARSE_LIBSVM_INCLUDE REHEARSE_LIBSVM)
  if(NOT REHEARSE_LIBSVM_INCLUDE OR NOT REHEARSE_LIBSVM)
    message(FATAL_ERROR "LIBSVM was not found: install the Debian package libsvm-dev")
  endif()
  add_library(rehearse_libsvm INTERFACE)
  target_include_directories(rehearse_libsvm SYSTEM INTERFACE ${REHEARSE_LIBSVM_INCLUDE})
  target_link_libraries(rehearse_libsvm INTERFACE ${REHEARSE_LIBSVM})
endmacro()

# rehearse_require_torch(): the target rehearse_torch. A LibTorch other than Debian's is found through CMAKE_PREFIX_PATH.
# LibTorch calls whichever BLAS is installed: with libopenblas0-pthread training is 10 to 25 times faster than with the reference one.
macro(rehearse_require_torch)
  if(NOT TARGET rehearse_torch)
    rehearse_require(Torch "libtorch-dev (and libopenblas0-pthread), or configure with -DREHEARSE_PREDICTOR=OFF")
    add_library(rehearse_torch INTERFACE)
    target_include_directories(rehearse_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
    target_link_libraries(rehearse_torch INTERFACE ${TORCH_LIBRARIES} ${CMAKE_DL_LIBS})
  endif()
endmacro()

# Python 3 with headers, and pybind11.
macro(rehearse_require_python)
  find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
  if(NOT Python3_Development.Module_FOUND)
    message(FATAL_ERROR "the headers of Python were not found: install the Debian package python3-dev, or configure with -DREHEARSE_PYTHON=OFF")
  endif()
  set(PYBIND11_FINDPYTHON ON)
  rehearse_require(pybind11 pybind11-dev)
endmacro()

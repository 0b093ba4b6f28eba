# Decides whether the CUDA side is built: KVLAB_WITH_CUDA is set when nvcc >= 12.3 is there (the first
# whose graphs hold programmatic dependent launches) and KVLAB_CUDA is not OFF.
# One line says what was decided and why; a machine without a toolkit goes on without.
set(KVLAB_WITH_CUDA FALSE)
set(KVLAB_CUDA_MIN_VERSION 12.3)

# Sets `result` to the version of the compiler, or to "" when it does not tell.
function(kvlab_nvcc_version compiler result)
  execute_process(COMMAND ${compiler} --version OUTPUT_VARIABLE text ERROR_QUIET)
  set(${result} "" PARENT_SCOPE)
  if(text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

# Sets `reason` to why there is no CUDA side, or to "" when there may be one.
function(kvlab_cuda_obstacle reason)
  set(${reason} "" PARENT_SCOPE)
  if(KVLAB_CUDA STREQUAL OFF)
    set(${reason} "KVLAB_CUDA is OFF" PARENT_SCOPE)
    return()
  endif()
  find_program(KVLAB_NVCC nvcc HINTS $ENV{CUDACXX} $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(NOT KVLAB_NVCC)
    set(${reason} "no nvcc found" PARENT_SCOPE)
    return()
  endif()
  kvlab_nvcc_version(${KVLAB_NVCC} version)
  if(NOT version OR version VERSION_LESS KVLAB_CUDA_MIN_VERSION)
    set(${reason} "${KVLAB_NVCC} is version '${version}', ${KVLAB_CUDA_MIN_VERSION} or later is needed" PARENT_SCOPE)
  endif()
endfunction()

if(NOT KVLAB_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KVLAB_CUDA is '${KVLAB_CUDA}'; allowed are AUTO, ON and OFF")
endif()
kvlab_cuda_obstacle(obstacle)
if(NOT obstacle)
  set(ENV{CUDACXX} ${KVLAB_NVCC})
  # Machine code for sm_80 and sm_90, and PTX of sm_90 for what comes after. Both lines must precede the language.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  include(CheckLanguage)
  check_language(CUDA)  # in a project of its own: an nvcc that refuses this host compiler does not end the build
  if(NOT CMAKE_CUDA_COMPILER)
    set(obstacle "${KVLAB_NVCC} cannot compile a trial file")
  endif()
endif()
if(obstacle AND KVLAB_CUDA STREQUAL ON)
  message(FATAL_ERROR "KVLAB_CUDA=ON, but ${obstacle}. Install the CUDA toolkit, or use KVLAB_CUDA=AUTO.")
endif()
if(obstacle)
  message(STATUS "CUDA side: off (${obstacle})")
else()
  enable_language(CUDA)
  find_package(CUDAToolkit ${KVLAB_CUDA_MIN_VERSION} REQUIRED)
  set(KVLAB_WITH_CUDA TRUE)
  message(STATUS "CUDA side: on (nvcc ${CMAKE_CUDA_COMPILER_VERSION}, sm_80 and sm_90)")
endif()

# Flags of a target with CUDA sources. CMake 3.25 does not know that nvcc takes C++20, and applies the project's C++ settings
# to CUDA: -std by hand, for both languages. -Wpedantic does not pass through nvcc. A spill ends the build.
function(kvlab_cuda_flags target)
  foreach(property CXX_STANDARD CXX_STANDARD_REQUIRED CXX_EXTENSIONS)
    set_property(TARGET ${target} PROPERTY ${property})  # unset
  endforeach()
  target_link_libraries(${target} PRIVATE CUDA::cudart kvlab_flags)
  target_compile_options(${target} PRIVATE -std=c++20
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-Werror;-Werror=all-warnings>
    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xptxas --warn-on-spills,--warn-on-local-memory-usage,--warning-as-error>")
endfunction()

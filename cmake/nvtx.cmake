# NVTX names ranges for profilers. It is a header of the CUDA toolkit and needs neither nvcc nor a driver; without it, and
# with KVLAB_CUDA=OFF, nothing is named. Sets KVLAB_NVTX_INCLUDE_DIR, or KVLAB_WITH_NVTX to FALSE.
set(KVLAB_WITH_NVTX FALSE)
if(KVLAB_CUDA STREQUAL OFF)
  message(STATUS "NVTX ranges: off (KVLAB_CUDA is OFF)")
else()
  find_path(KVLAB_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} $ENV{CUDA_PATH}/include /usr/local/cuda/include)
  mark_as_advanced(KVLAB_NVTX_INCLUDE_DIR)
  if(KVLAB_NVTX_INCLUDE_DIR)
    set(KVLAB_WITH_NVTX TRUE)
    message(STATUS "NVTX ranges: on")
  else()
    message(STATUS "NVTX ranges: off (no nvtx3/nvToolsExt.h found)")
  endif()
endif()

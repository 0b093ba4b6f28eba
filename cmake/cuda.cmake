message(STATUS "CUDA side: off")

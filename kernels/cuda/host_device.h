// Marks functions that host code and kernels both call. Includes no CUDA header, so that plans can be made anywhere.
#pragma once

#if defined(__CUDACC__)
#define KVLAB_HOST_DEVICE __host__ __device__
#else
#define KVLAB_HOST_DEVICE
#endif

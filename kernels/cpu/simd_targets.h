// Which instruction sets the vector kernels are compiled for; the best one is picked at run time. Include it before
// hwy/foreach_target.h. Without a limit every kernel would be compiled six times over.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)

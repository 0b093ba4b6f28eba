// The sanitizers' annotations for switching stacks, as plain functions that do nothing in other builds. CMake defines
// KVLAB_ADDRESS_SANITIZER and KVLAB_THREAD_SANITIZER, since this folder itself is compiled without -fsanitize=thread.
#pragma once

#include <cstddef>

#if defined(KVLAB_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(KVLAB_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace kvlab::cuda::emulation {

#if defined(KVLAB_THREAD_SANITIZER)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

/// Tells AddressSanitizer that the next instruction leaves for another stack. `save` keeps this stack's shadow frames;
/// null when this stack will not be returned to.
inline void start_stack_switch([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                               [[maybe_unused]] std::size_t bytes) {
#if defined(KVLAB_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(save, bottom, bytes);
#endif
}

/// ... and that it has arrived. Stores where it came from, where asked.
inline void finish_stack_switch([[maybe_unused]] void* saved, [[maybe_unused]] const void** old_bottom,
                                [[maybe_unused]] std::size_t* old_bytes) {
#if defined(KVLAB_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(saved, old_bottom, old_bytes);
#endif
}

/// Forgets what AddressSanitizer knows of a stack that is given back.
inline void forget_stack([[maybe_unused]] void* bottom, [[maybe_unused]] std::size_t bytes) {
#if defined(KVLAB_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(bottom, bytes);
#endif
}

/// Reports of ThreadSanitizer since the program began.
long n_race_reports();

// ThreadSanitizer's idea of a thread. Switching implies no order; order comes from release and acquire alone.
#if defined(KVLAB_THREAD_SANITIZER)
using RaceThread = void*;
inline RaceThread current_race_thread() { return __tsan_get_current_fiber(); }
inline RaceThread make_race_thread() { return __tsan_create_fiber(0); }
inline void destroy_race_thread(RaceThread thread) { __tsan_destroy_fiber(thread); }
inline void enter_race_thread(RaceThread thread) { __tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync); }
inline void release_order(void* token) { __tsan_release(token); }
inline void acquire_order(void* token) { __tsan_acquire(token); }
#else
struct RaceThread {};
inline RaceThread current_race_thread() { return {}; }
inline RaceThread make_race_thread() { return {}; }
inline void destroy_race_thread(RaceThread) {}
inline void enter_race_thread(RaceThread) {}
inline void release_order(void*) {}
inline void acquire_order(void*) {}
#endif

}  // namespace kvlab::cuda::emulation

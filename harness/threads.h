// How many threads a command uses, and how they are bound to cores.
#pragma once

namespace kvlab {

/// `wanted`, or every core that this process may use (OMP_NUM_THREADS is respected) when it is 0.
int resolve_threads(int wanted);

/// Unbound workers may share one core for a whole run, and OpenMP reads its binding before main begins: replaces this
/// process once by itself with OMP_NUM_THREADS, OMP_PROC_BIND and OMP_PLACES set where they are not. Does nothing for
/// one thread, which would pin parallel one-thread processes to the same core.
void bind_threads(int threads, char** argv);

/// Undoes the binding of this thread, which OpenMP ties to one core at start when OMP_PROC_BIND is set: a program that
/// is started from here inherits it, and would find a machine of one core.
void allow_all_processors();

}  // namespace kvlab

#pragma once

// Loops over all cores. A few helper threads wait for the next loop, awake for microseconds and then asleep,
// so small loops start fast and a machine shared with other programs is not slowed down by waiting.

#include <algorithm>
#include <cstdint>
#include <functional>

namespace transduce {

// Sets the number of threads of all later loops and matrix products; 0 means one a core.
// Errors: InputError if negative or above 1024.
void set_threads(int count);

// The number of threads in use.
int threads();

// How many of them a loop started here would run on: 1 within another loop.
int threads_here();

// Makes the calling thread flush denormal floats to zero, which otherwise cost hundreds of cycles each. The
// helper threads always do; set_threads calls it for its caller.
void flush_denormals();

// Runs body(begin, end) over [0, count) cut into `threads()` nearly equal pieces, but into fewer when a piece
// would hold less than `grain` items. The cut depends on the number of threads only, never on timing.
// An exception thrown by a body is rethrown to the caller. Within another loop, or while another thread runs
// one, the pieces run in place.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// Runs body(i) for i in [0, count), handing out one at a time to whichever thread is free: for items of
// unequal cost that write disjoint results.
void parallel_each(int64_t count, const std::function<void(int64_t)>& body);

// Runs body(0) to body(count - 1) at the same time, count <= threads(), so that they may wait for one
// another; loops within them run in place. Returns false, having run nothing, where the threads are busy. An
// exception thrown by a body is rethrown to the caller when all have ended.
bool run_together(int64_t count, const std::function<void(int64_t)>& body);

}  // namespace transduce

#pragma once

// The memory of this process and of the machine, in bytes.

#include <cstdint>
#include <string>

namespace transduce {

// What this process holds of the machine's memory now, without pages of files, which the system can take back;
// 0 where the system does not say.
int64_t resident_bytes();

// What may still be taken: what the system calls available, or what the control group of this process (a
// container's limit; version 1 or 2) has left, whichever is less. INT64_MAX where the system does not say.
int64_t available_bytes();

// "8G" and "1.5 GiB" are multiples of 1024 bytes: K, M, G, T. Errors: InputError for what is no size.
int64_t parse_bytes(const std::string& text);

// "1.5 GiB", "12.3 MiB"
std::string bytes_text(int64_t bytes);

}  // namespace transduce

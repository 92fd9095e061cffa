#pragma once

// Numbers as people read them.

#include <cstdint>
#include <string>

namespace transduce {

// "1,234,567"
std::string grouped(int64_t number);

}  // namespace transduce

#pragma once

// Enumerations whose values have names that people write: in options, configurations and model files. Each
// keeps one table of them.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {

template <class E>
using Name = std::pair<E, const char*>;

// "a", "a or b", "a, b or c".
std::string alternatives(const std::vector<std::string_view>& names);

// The name of a value; "?" where the table lacks it.
template <class E, size_t n>
const char* name_in(const Name<E> (&table)[n], E value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "?";
}

// The value of a name; `what` says what is named. Errors: InputError that lists the names.
template <class E, size_t n>
E value_in(const Name<E> (&table)[n], const char* what, std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& [value, known] : table) {
    if (known == name) return value;
    names.emplace_back(known);
  }
  fail_input("unknown {} {}: give {}", what, in_quotes(name), alternatives(names));
}

}  // namespace transduce

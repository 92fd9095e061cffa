#pragma once

#include <string>
#include <string_view>

#include "transduce/data/vocabulary.h"

namespace transduce::cli {

// A token as a person can read it on an axis: one line, valid UTF-8, nothing invisible. As vocabulary files
// have it, but a blank is "␣"; Korean letters (conjoining jamo) are composed to syllables as far as they go
// and else stand alone; a lone combining mark gets a circle to sit on. Above 40 characters the rest is "…".
std::string token_label(std::string_view token);
// The same of an id; special symbols by their names.
std::string token_label(const Vocabulary& vocabulary, int32_t id);

}  // namespace transduce::cli

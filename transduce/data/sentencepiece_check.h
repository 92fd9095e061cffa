#pragma once

// Whether the bytes of a SentencePiece model are sound. The library trusts them: a crafted or damaged file
// can make it read outside of its memory, exhaust the stack or end the program (sentencepiece#1263, #1269).

#include <cstddef>
#include <string_view>

namespace transduce {

constexpr size_t max_sentencepiece_bytes = size_t{64} << 20;

// Errors: InputError saying what is wrong. What passes may still be refused by the library, but with an error
// or an exception of its own.
void check_sentencepiece_model(std::string_view model);

}  // namespace transduce

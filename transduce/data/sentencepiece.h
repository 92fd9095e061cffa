#pragma once

// SentencePiece (Kudo and Richardson, EMNLP 2018) as a tokenizer. The library cuts, joins and trains; ids are
// those of the model file, moved only where its special symbols are not at ours. Models that are trained here
// have them at ours, so their ids are the library's own.

#include <memory>
#include <string>

#include "transduce/data/tokenizer.h"

namespace transduce {

// A tokenizer over a model file's bytes. Its vocabulary is the special symbols and then every other piece in
// the order of the model. `name` is what errors call the model. Errors: InputError when the bytes are no
// sound model.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const TokenizerSpec& spec, std::string model,
                                                        const std::string& name);

// The bytes of a model trained on `lines` in the normal form of `spec`. Lines above 4,192 bytes teach it
// nothing. A pure function of the arguments: the number of threads is fixed, because the library's result
// depends on it. Errors: InputError for options out of range, text without a visible character, or what the
// library says; what `lines` throws.
std::string train_sentencepiece(const TokenizerSpec& spec, const LineSource& lines,
                                const VocabularyOptions& options);

}  // namespace transduce

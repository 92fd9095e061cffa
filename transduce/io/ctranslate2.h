#pragma once

// Models of CTranslate2 (https://github.com/OpenNMT/CTranslate2), the engine that runs models of OpenNMT,
// fairseq, Marian and others. docs/formats.md has the table of names.

#include <optional>
#include <string>

#include "transduce/io/model_directory.h"

namespace transduce {

struct CTranslate2Import {
  // Vocabulary files; empty: source_vocabulary and target_vocabulary, or shared_vocabulary, .json or .txt,
  // beside model.bin.
  std::string source_vocabulary;
  std::string target_vocabulary;
  // How text is cut, which the files do not say. Nothing: by characters if every ordinary token is one, else
  // by words, i.e. text must be cut into the vocabulary's tokens beforehand.
  std::optional<TokenizerKind> source_tokenizer;
  std::optional<TokenizerKind> target_tokenizer;
  // Attention heads, for files that do not say; 0: as the file says.
  int64_t heads = 0;
};

// Reads an encoder-decoder Transformer from a CTranslate2 model directory, or from a model.bin with its
// vocabularies beside it: float32, float16 and bfloat16 as they are, int8 and int16 dequantised. Embedding
// and output rows are put in our order of tokens. Rows for special symbols that theirs lack are zero and are
// given a bias that keeps them from having any probability. Source and target tokens that share an embedding
// share it here as well.
//
// Errors: InputError, one line that names the file, the tensor or field, and the value: those of
// CTranslate2File and read_foreign_vocabulary; another kind of model; what this program has no part for
// (relative or rotary positions, other activations, a norm after the embedding, several source embeddings,
// ...); settings that differ between encoder and decoder; a tensor that is missing, of another shape, or left
// unused.
Seq2SeqModel import_ctranslate2(const std::string& path, const CTranslate2Import& options = {});

// Writes a model as a CTranslate2 model directory that CTranslate2 4 runs: model.bin in float32, config.json
// and the vocabularies as .json, in our order of tokens; import_ctranslate2 reads it back. Sinusoids other
// than CTranslate2's own become a table of 2048 positions, beyond which it cannot go. Files of an earlier
// model are replaced, model.bin last. How text is cut and normalised is not part of such a directory:
// CTranslate2 takes tokens.
//
// Errors: InputError for an encoder without layers, a token that is not UTF-8 or is spelled like a special
// symbol, a tensor beyond 4 GiB; those of AtomicFile.
void export_ctranslate2(const std::string& directory, const Seq2SeqModel& model);

}  // namespace transduce

#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transduce/decode/alignment.h"
#include "transduce/decode/search.h"
#include "transduce/io/model_directory.h"

namespace transduce {

struct Translation {
  std::string text;
  Hypothesis hypothesis;
  // (source token, output token) pairs, where asked for.
  std::vector<std::pair<int64_t, int64_t>> alignment;
};

// Text in, text out.
class Translator {
 public:
  struct Options {
    SearchOptions search;                // token ids in it are added to those of the texts below
    std::vector<std::string> forbidden;  // tokens of the target vocabulary that are never generated
    bool forbid_unknown = false;         // the unknown token is never generated either
    std::vector<std::string> forced;     // texts whose tokens must all occur
    int64_t batch_size = 64;             // sentences in work at the same time
    int64_t read_ahead = 1024;  // lines taken in before the next are begun: those of like length go together
    int64_t max_source_length = 1024;  // tokens of a source; the rest of a longer one is cut off
    std::string joiner;                // joins words that were split beforehand; empty: as the model has it
    bool alignments = false;
    AttentionChoice attention;  // whose attention alignments show
  };

  struct Line {
    std::string source;
    std::string prefix;  // what its translation must begin with, at most 1024 tokens
  };
  struct Result {
    int64_t number = 0;  // of the line, from 1
    Line line;
    std::vector<Translation> translations;  // best first; for a line of white space one, the empty text
    int64_t source_tokens = 0;              // before it was cut
    int64_t cut_to = 0;                     // tokens kept of it; 0 where all were
  };

  // Several models translate as an ensemble; they must outlive the translator. Errors: InputError on options
  // out of range, on models with different vocabularies, and on texts that the target vocabulary lacks.
  Translator(std::vector<const Seq2SeqModel*> models, const Options& options);
  Translator(const Seq2SeqModel& model, const Options& options)
      : Translator(std::vector<const Seq2SeqModel*>{&model}, options) {}

  // The n-best translations of each line, in the order of the lines.
  std::vector<std::vector<Translation>> translate(std::span<const std::string> lines) const;

  // A stream of lines of any length in bounded memory. `input` sets the next line; when it must not wait and
  // there is none at hand, it may say `later`. `output` is given the results in the order of the lines, each
  // as soon as its turn comes.
  enum class Next { line, later, end };
  using Input = std::function<Next(Line& line, bool wait)>;
  using Output = std::function<void(const Result& result)>;
  void run(const Input& input, const Output& output) const;

 private:
  class Stream;
  const Seq2SeqModel& first() const { return *models_[0]; }
  std::string text_of(const std::vector<int32_t>& tokens, const std::string& prefix) const;

  std::vector<const Seq2SeqModel*> models_;
  Options options_;
  int64_t max_source_length_;
  int64_t max_prefix_length_;
};

// Errors: InputError unless the models cut text into the same tokens with the same ids.
void check_same_vocabularies(const std::vector<const Seq2SeqModel*>& models);

// What the models translate with, in their order.
std::vector<const Transformer*> transformers_of(const std::vector<const Seq2SeqModel*>& models);

// Tokens of a source that are translated: `wanted`, or what the models have learned positions for, the end
// symbol left out.
int64_t source_limit(const std::vector<const Seq2SeqModel*>& models, int64_t wanted);

}  // namespace transduce

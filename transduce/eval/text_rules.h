#pragma once

// How BLEU and TER cut text into tokens. Each rule is one of the regular expressions of the NIST scripts
// mteval-v13a.pl and mteval-v14.pl and of tercom's normaliser, which sacreBLEU repeats.

#include <string>
#include <string_view>

namespace transduce {

// What BLEU compares; sacreBLEU's names.
enum class BleuTokenizer {
  v13a,       // "13a": mteval-v13a.pl, for languages that are written like the Western European ones
  intl,       // "intl": mteval-v14.pl --international-tokenization, by Unicode categories
  character,  // "char": every character is a token
  none,       // "none": the text is tokenized already
};

// From "13a", "intl", "char" or "none". Errors: InputError that lists them.
BleuTokenizer parse_bleu_tokenizer(std::string_view name);
const char* name_of(BleuTokenizer tokenizer);

// `text` with white space between its tokens; sacreBLEU's tokenizers of these names.
std::u32string tokenize_for_bleu(std::u32string_view text, BleuTokenizer tokenizer);

struct TercomRules {
  bool normalized = false;      // split punctuation off, resolve &amp; and its like
  bool no_punctuation = false;  // drop punctuation
  bool asian_support = false;   // the two above also for CJK characters and punctuation, one by one
  bool case_sensitive = false;
};

// `text` with white space between its tokens; sacreBLEU's TercomTokenizer.
std::u32string tokenize_for_ter(std::u32string_view text, const TercomRules& rules);

}  // namespace transduce

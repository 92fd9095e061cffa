#pragma once

// BLEU (Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002), with
// the numbers of sacreBLEU 2 (Post, "A call for clarity in reporting BLEU scores", WMT 2018).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transduce/eval/metric.h"
#include "transduce/eval/text_rules.h"

namespace transduce {

// What takes the place of a precision that no n-gram matches (Chen and Cherry, "A systematic comparison of
// smoothing techniques for sentence-level BLEU", WMT 2014).
enum class BleuSmoothing {
  none,         // "none": nothing, so BLEU is 0
  floor,        // "floor": a small number of matches (method 1); 0.1 unless given
  add_k,        // "add-k": k more matches and n-grams for every order above 1 (method 2); 1 unless given
  exponential,  // "exp": 1/2, 1/4, ... of a match, order after order (method 3), as mteval-v13a.pl
};

// From "none", "floor", "add-k" or "exp". Errors: InputError that lists them.
BleuSmoothing parse_bleu_smoothing(std::string_view name);
const char* name_of(BleuSmoothing smoothing);

// sacreBLEU's defaults.
struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::v13a;
  BleuSmoothing smoothing = BleuSmoothing::exponential;
  std::optional<double> smoothing_value;  // for floor and add-k
  int64_t max_order = 4;                  // the longest n-grams
  bool lowercase = false;
  bool effective_order = false;  // leave out orders longer than the hypothesis: for single sentences

  // Errors: InputError naming what is out of range.
  void validate() const;
};

// What BLEU is computed from.
struct BleuCounts {
  int64_t hypothesis_length = 0, reference_length = 0;  // tokens; of the closest reference (the shorter one)
  std::vector<int64_t> matches, totals;                 // (max_order): n-grams found in a reference, and all
};

struct BleuScore {
  double score = 0.0;              // per cent
  std::vector<double> precisions;  // (max_order), per cent, smoothed
  double brevity_penalty = 1.0;
  BleuCounts counts;
};

// Section 2.3 of the paper; equals sacreBLEU's BLEU.compute_bleu. Errors: InputError when there are not
// max_order counts.
BleuScore bleu_of(const BleuCounts& counts, const BleuOptions& options = {});

// BLEU of many lines; equals sacrebleu.corpus_bleu. Errors: see collect_statistics and BleuOptions::validate.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, ReferenceSets references,
                      const BleuOptions& options = {});

// The same with one reference a line.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, const std::vector<std::string>& reference,
                      const BleuOptions& options = {});

// BLEU of one line, with effective order whatever the options say; equals sacrebleu.sentence_bleu.
// `references` has one text or more. Errors: as corpus_bleu.
BleuScore sentence_bleu(const std::string& hypothesis, std::span<const std::string> references,
                        BleuOptions options = {});

class Bleu : public Metric {
 public:
  // Errors: InputError on options out of range.
  explicit Bleu(const BleuOptions& options);

  std::string name() const override { return "BLEU"; }
  // As sacreBLEU's, and "order:N" where N is not 4, which sacreBLEU does not show.
  std::string settings() const override;
  size_t width() const override { return 2 + 2 * static_cast<size_t>(options_.max_order); }
  void measure(const Segment& segment, std::span<double> statistics) const override;
  double score(std::span<const double> sums) const override { return detail(sums).score; }
  // The score with what it is made of.
  BleuScore detail(std::span<const double> sums) const;

 private:
  BleuOptions options_;
};

}  // namespace transduce

#pragma once

// What all metrics share. Each takes a few numbers from every line ("sufficient statistics"); the score of
// any set of lines is a function of their sums. So lines are measured once, on all threads and in pieces of
// any size, and resampling tests (significance.h) only add rows up.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transduce {

// Several references: sets[r][i] is what set r has for line i. (Not one list a line: that would be cut or
// mixed up silently, so sizes are checked.)
using ReferenceSets = std::span<const std::vector<std::string>>;

// A generated line and what it should be: one reference or more.
struct Segment {
  std::string_view hypothesis;
  std::vector<std::string_view> references;
};

class Metric {
 public:
  virtual ~Metric() = default;

  // "BLEU", "chrF2++", "TER", ...
  virtual std::string name() const = 0;

  // What the score depends on, as sacreBLEU writes it: "case:mixed|eff:no|tok:13a|smooth:exp".
  virtual std::string settings() const = 0;

  // Numbers taken from each line.
  virtual size_t width() const = 0;

  // Writes a line's `width()` numbers to `statistics`. Any number of threads may call it.
  virtual void measure(const Segment& segment, std::span<double> statistics) const = 0;

  // Whether the better of two scores is the higher one.
  virtual bool higher_is_better() const { return true; }

  // The score, in per cent, of lines whose statistics add up to `sums`, (width).
  virtual double score(std::span<const double> sums) const = 0;
};

// The statistics of many lines.
struct Statistics {
  size_t width = 0;
  std::vector<double> values;  // (lines, width)

  size_t lines() const { return width == 0 ? 0 : values.size() / width; }
  std::span<const double> row(size_t i) const { return std::span(values).subspan(i * width, width); }
  std::vector<double> sums() const;  // (width), added in the order of the lines
};

// Measures every line, on all threads. Errors: InputError when there is no line, no reference set, or a set
// whose number of lines differs from that of the hypotheses.
Statistics collect_statistics(const Metric& metric, std::span<const std::string> hypotheses,
                              ReferenceSets references);

// The whole signature: "nrefs:1|case:mixed|...", with `resampling` ("bs:1000|seed:12345", or nothing) where
// sacreBLEU has it. The name of the program that made the score is the caller's to add.
std::string signature(const Metric& metric, size_t references, std::string_view resampling = {});

}  // namespace transduce

#include "transduce/eval/ter_search.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

namespace transduce {
namespace {

constexpr int64_t kLongestShift = 10;
constexpr int64_t kFarthestShift = 50;
constexpr int64_t kMostTries = 1000;
constexpr int64_t kBand = 25;
constexpr int32_t kInfinite = 1 << 30;  // the cost of cells outside the band

// The edit distance matrix between a reference and hypotheses of one length. Row i belongs to the first i
// words of the hypothesis, column j to the first j of the reference; only a band around the diagonal is held.
class BandedMatrix {
 public:
  BandedMatrix(int64_t hypothesis_length, std::u32string_view reference)
      : reference_(reference), rows_(static_cast<size_t>(hypothesis_length) + 1) {
    const auto columns = static_cast<int64_t>(reference.size()) + 1;
    const double ratio = hypothesis_length == 0
                             ? 1.0
                             : static_cast<double>(reference.size()) / static_cast<double>(hypothesis_length);
    int64_t band = kBand;
    // Neighbouring rows must overlap, or there is no way through.
    if (static_cast<double>(kBand) < ratio / 2) band = static_cast<int64_t>(std::ceil(ratio / 2 + kBand));
    size_t cells = 0;
    for (int64_t i = 0; i <= hypothesis_length; ++i) {
      const auto diagonal = static_cast<int64_t>(std::floor(static_cast<double>(i) * ratio));
      const bool whole = i == 0;
      Row& row = rows_[static_cast<size_t>(i)];
      row.begin = whole ? 0 : std::max<int64_t>(0, diagonal - band);
      row.end = whole || i == hypothesis_length ? columns : std::min(columns, diagonal + band);
      row.offset = cells;
      cells += static_cast<size_t>(std::max<int64_t>(0, row.end - row.begin));
    }
    cells_.resize(cells);
    for (int64_t j = 0; j < columns; ++j) cells_[static_cast<size_t>(j)] = static_cast<int32_t>(j);
  }

  int64_t hypothesis_length() const { return static_cast<int64_t>(rows_.size()) - 1; }
  int64_t reference_length() const { return static_cast<int64_t>(reference_.size()); }
  int32_t distance() const { return cells_.back(); }

  int32_t at(int64_t i, int64_t j) const {
    const Row& row = rows_[static_cast<size_t>(i)];
    return j < row.begin || j >= row.end ? kInfinite
                                         : cells_[row.offset + static_cast<size_t>(j - row.begin)];
  }

  // Fills row i >= 1, for a hypothesis whose i-th word is `word`, from row i - 1 of `above`.
  void fill_row(int64_t i, char32_t word, const BandedMatrix& above) {
    const Row& row = rows_[static_cast<size_t>(i)];
    int32_t left = kInfinite, diagonal = above.at(i - 1, row.begin - 1);
    for (int64_t j = row.begin; j < row.end; ++j) {
      const int32_t up = above.at(i - 1, j);
      const bool same = j > 0 && word == reference_[static_cast<size_t>(j - 1)];
      left = std::min({kInfinite, diagonal + (same ? 0 : 1), up + 1, left + 1});
      cells_[row.offset + static_cast<size_t>(j - row.begin)] = left;
      diagonal = up;
    }
  }

  bool same_row(int64_t i, const BandedMatrix& other) const {
    const Row& row = rows_[static_cast<size_t>(i)];
    const auto begin = static_cast<std::ptrdiff_t>(row.offset);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::max<int64_t>(0, row.end - row.begin));
    return std::equal(cells_.begin() + begin, cells_.begin() + end, other.cells_.begin() + begin);
  }

 private:
  struct Row {
    int64_t begin = 0, end = 0;  // columns
    size_t offset = 0;           // in cells_
  };
  std::u32string_view reference_;
  std::vector<Row> rows_;
  std::vector<int32_t> cells_;
};

// How the words of hypothesis and reference face each other along one cheapest path.
struct Alignment {
  std::vector<int64_t> facing;  // (reference): the last word of the hypothesis up to there; -1: none
  // (length + 1): the number of wrong words before each place, so that stretches are checked by a difference
  std::vector<int64_t> hypothesis_errors, reference_errors;
};

// Of equally cheap ways, tercom prefers a match or substitution, then dropping a word of the hypothesis.
Alignment align(const BandedMatrix& matrix, std::u32string_view hypothesis, std::u32string_view reference) {
  Alignment result;
  int64_t i = matrix.hypothesis_length(), j = matrix.reference_length();
  result.facing.resize(reference.size());
  std::vector<int64_t> hypothesis_wrong(hypothesis.size()), reference_wrong(reference.size());
  while (i > 0 || j > 0) {
    const auto h = static_cast<size_t>(i - 1), r = static_cast<size_t>(j - 1);
    const int32_t here = matrix.at(i, j);
    const bool same = i > 0 && j > 0 && hypothesis[h] == reference[r];
    if (i > 0 && j > 0 && here == matrix.at(i - 1, j - 1) + (same ? 0 : 1)) {
      result.facing[r] = i - 1;
      hypothesis_wrong[h] = reference_wrong[r] = same ? 0 : 1;
      --i, --j;
    } else if (i > 0 && (j == 0 || here == matrix.at(i - 1, j) + 1)) {
      hypothesis_wrong[h] = 1;
      --i;
    } else {
      result.facing[r] = i - 1;
      reference_wrong[r] = 1;
      --j;
    }
  }
  const auto running = [](const std::vector<int64_t>& wrong) {
    std::vector<int64_t> sums{0};
    for (const int64_t w : wrong) sums.push_back(sums.back() + w);
    return sums;
  };
  result.hypothesis_errors = running(hypothesis_wrong);
  result.reference_errors = running(reference_wrong);
  return result;
}

// Moves `length` words of the hypothesis from `start` to before word `target`; a target within the stretch
// moves it behind as many of the words that follow.
struct Shift {
  int64_t start = 0, length = 0, target = 0;

  void apply(std::u32string& words) const {
    const auto begin = words.begin();
    const auto size = static_cast<int64_t>(words.size());
    if (target < start) {
      std::rotate(begin + target, begin + start, begin + start + length);
    } else {
      const int64_t end = target > start + length ? target : std::min(size, target + length);
      std::rotate(begin + start, begin + start + length, begin + end);
    }
  }
};

// Finds the best shift of the current hypothesis.
class ShiftSearch {
 public:
  ShiftSearch(std::u32string_view hypothesis, std::u32string_view reference)
      : words_(hypothesis),
        reference_(reference),
        current_(static_cast<int64_t>(hypothesis.size()), reference),
        tried_(current_) {}

  int64_t edits() {
    int64_t shifts = 0;
    for (;; ++shifts) {
      for (int64_t i = 1; i <= current_.hypothesis_length(); ++i) {
        current_.fill_row(i, words_[static_cast<size_t>(i - 1)], current_);
      }
      if (!find_best() || tries_ >= kMostTries || best_gain_ <= 0) return shifts + current_.distance();
      best_.apply(words_);
    }
  }

 private:
  // Tries shifts of stretches that also stand in the reference; false if there is none.
  bool find_best() {
    found_ = false;
    alignment_ = align(current_, words_, reference_);
    const auto hypothesis_length = static_cast<int64_t>(words_.size());
    const auto reference_length = static_cast<int64_t>(reference_.size());
    for (int64_t h = 0; h < hypothesis_length; ++h) {
      const int64_t first = std::max<int64_t>(0, h - kFarthestShift);
      const int64_t last = std::min(reference_length - 1, h + kFarthestShift);
      for (int64_t r = first; r <= last; ++r) {
        const int64_t longest = std::min({kLongestShift, hypothesis_length - h, reference_length - r});
        for (int64_t length = 1; length <= longest && same_word(h + length - 1, r + length - 1); ++length) {
          if (worth_trying(h, r, length)) try_targets(h, r, length);
          if (tries_ >= kMostTries) return found_;
        }
      }
    }
    return found_;
  }

  bool same_word(int64_t h, int64_t r) const {
    return words_[static_cast<size_t>(h)] == reference_[static_cast<size_t>(r)];
  }

  // Both stretches must hold an error, and the words must not be in place already.
  bool worth_trying(int64_t h, int64_t r, int64_t length) const {
    const auto wrong = [&](const std::vector<int64_t>& errors, int64_t begin) {
      return errors[static_cast<size_t>(begin + length)] > errors[static_cast<size_t>(begin)];
    };
    const int64_t facing = alignment_.facing[static_cast<size_t>(r)];
    return wrong(alignment_.hypothesis_errors, h) && wrong(alignment_.reference_errors, r) &&
           (facing < h || facing >= h + length);
  }

  // Moves the stretch to behind each word that faces the stretch of the reference or the word before it.
  void try_targets(int64_t h, int64_t r, int64_t length) {
    int64_t previous = -1;
    for (int64_t place = r - 1; place < r + length; ++place) {
      const int64_t target = place < 0 ? 0 : alignment_.facing[static_cast<size_t>(place)] + 1;
      if (target == previous) continue;
      previous = target;
      const Shift shift{h, length, target};
      const int64_t gain = current_.distance() - distance_after(shift);
      ++tries_;
      // tercom's order: the greatest gain, then the longest, the earliest, and the nearest to the beginning.
      const auto rank = [](int64_t g, const Shift& s) {
        return std::tuple(g, s.length, -s.start, -s.target);
      };
      if (found_ && rank(gain, shift) <= rank(best_gain_, best_)) continue;
      found_ = true;
      best_gain_ = gain;
      best_ = shift;
    }
  }

  // Rows before the first word that moves stay as they are; so do those after the last one as soon as one
  // row comes out the same.
  int32_t distance_after(const Shift& shift) {
    std::u32string moved = words_;
    shift.apply(moved);
    const auto difference = std::mismatch(moved.begin(), moved.end(), words_.begin()).first - moved.begin();
    const auto tail = std::mismatch(moved.rbegin(), moved.rend(), words_.rbegin()).first - moved.rbegin();
    const auto size = static_cast<int64_t>(moved.size());
    for (int64_t i = difference + 1; i <= size; ++i) {
      tried_.fill_row(i, moved[static_cast<size_t>(i - 1)], i == difference + 1 ? current_ : tried_);
      if (i >= size - tail && tried_.same_row(i, current_)) return current_.distance();
    }
    return difference == size ? current_.distance() : tried_.distance();
  }

  std::u32string words_;
  std::u32string_view reference_;
  BandedMatrix current_, tried_;
  Alignment alignment_;
  Shift best_;
  int64_t best_gain_ = 0;
  bool found_ = false;
  int64_t tries_ = 0;
};

}  // namespace

int64_t translation_edits(std::u32string_view hypothesis, std::u32string_view reference) {
  if (reference.empty()) return static_cast<int64_t>(hypothesis.size());
  return ShiftSearch(hypothesis, reference).edits();
}

}  // namespace transduce

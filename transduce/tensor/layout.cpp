#include "transduce/tensor/layout.h"

#include <algorithm>
#include <limits>

#include "transduce/base/error.h"

namespace transduce {

Layout Layout::packed(const std::vector<int32_t>& lengths) {
  Layout layout;
  layout.begin.reserve(lengths.size());
  for (const int32_t length : lengths) {
    check_input(length >= 0, "[layout] a sequence of {} rows", length);
    layout.begin.push_back(static_cast<int32_t>(layout.rows));
    layout.rows += length;
    check_input(layout.rows <= std::numeric_limits<int32_t>::max(),
                "[layout] more than 2^31 rows in a batch");
    layout.longest = std::max(layout.longest, length);
  }
  layout.length = lengths;
  return layout;
}

Layout Layout::placed(std::vector<int32_t> begin, std::vector<int32_t> length, int64_t rows) {
  check_input(begin.size() == length.size(), "[layout] {} places but {} lengths", begin.size(),
              length.size());
  Layout layout;
  for (size_t b = 0; b < begin.size(); ++b) {
    check_input(begin[b] >= 0 && length[b] >= 0 && int64_t{begin[b]} + length[b] <= rows,
                "[layout] rows {} to {} lie outside of a matrix of {} rows", begin[b],
                int64_t{begin[b]} + length[b], rows);
    layout.longest = std::max(layout.longest, length[b]);
  }
  layout.begin = std::move(begin);
  layout.length = std::move(length);
  layout.rows = rows;
  return layout;
}

}  // namespace transduce

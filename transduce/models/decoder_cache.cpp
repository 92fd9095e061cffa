#include <algorithm>

#include "transduce/models/transformer.h"

namespace transduce {
namespace {

// A matrix (rows, W) whose first rows are those of `from` that `kept` names, in this order.
Tensor with_rows(const Tensor& from, const std::vector<int32_t>& kept, int64_t rows) {
  Tensor to({rows, from.dim(1)}, from.dtype());
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    to.rows(at, at + 1).copy_from(from.rows(kept[i], kept[i] + 1));
  }
  return to;
}

}  // namespace

void DecoderCache::reorder(const std::vector<int32_t>& from) {
  std::vector<Sequence> sequences;
  sequences.reserve(from.size());
  for (const int32_t slot : from) {
    check_input(slot >= 0 && slot < slots(), "[reorder] there is no slot {} among {}", slot, slots());
    sequences.push_back(sequences_[static_cast<size_t>(slot)]);
  }
  sequences_ = std::move(sequences);
}

void DecoderCache::add(const Layout& source, const std::vector<Tensor>& memory) {
  std::vector<int32_t> renamed(sources_.begin.size(), -1);  // by old number
  std::vector<int32_t> lengths, kept;
  for (Sequence& sequence : sequences_) {
    const auto old = static_cast<size_t>(sequence.source);
    if (renamed[old] < 0) {
      renamed[old] = static_cast<int32_t>(lengths.size());
      lengths.push_back(sources_.length[old]);
      for (int32_t i = 0; i < sources_.length[old]; ++i) kept.push_back(sources_.begin[old] + i);
    }
    sequence.source = renamed[old];
  }
  const auto first_row = static_cast<int64_t>(kept.size());
  for (const int32_t length : source.length) {
    sequences_.push_back({static_cast<int32_t>(lengths.size()), {}});
    lengths.push_back(length);
  }
  sources_ = Layout::packed(lengths);
  for (size_t i = 0; i < layers_.size(); ++i) {
    Tensor& all = layers_[i].memory;
    Tensor next = all.empty() ? Tensor({sources_.rows, memory[i].dim(1)}, memory[i].dtype())
                              : with_rows(all, kept, sources_.rows);
    if (source.rows > 0) next.rows(first_row, sources_.rows).copy_from(memory[i]);
    all = std::move(next);
  }
}

void DecoderCache::extend() {
  if (free_rows_.size() < sequences_.size()) collect_rows();
  for (Sequence& sequence : sequences_) {
    sequence.rows.push_back(free_rows_.back());
    free_rows_.pop_back();
  }
}

// Finds the rows that no slot refers to. Where too few are left, or nearly all are, the rows in use move to
// a matrix of twice what they need: so the cost of a row stays bounded, and a single long sequence does not
// hold on to its memory.
void DecoderCache::collect_rows() {
  constexpr int64_t kLeast = 64;
  const int64_t capacity = layers_[0].tokens.empty() ? 0 : layers_[0].tokens.dim(0);
  std::vector<int32_t> renamed(static_cast<size_t>(capacity), -1), kept;
  for (const Sequence& sequence : sequences_) {
    for (const int32_t row : sequence.rows) {
      int32_t& name = renamed[static_cast<size_t>(row)];
      if (name >= 0) continue;
      name = static_cast<int32_t>(kept.size());
      kept.push_back(row);
    }
  }
  const int64_t wanted = std::max<int64_t>(kLeast, 2 * (static_cast<int64_t>(kept.size()) + slots()));
  free_rows_.clear();
  if (capacity < wanted / 4 * 3 || capacity > 4 * wanted) {
    for (LayerCache& layer : layers_) {
      const Shape shape{wanted, layer.memory.dim(1)};
      layer.tokens =
          layer.tokens.empty() ? Tensor(shape, layer.memory.dtype()) : with_rows(layer.tokens, kept, wanted);
    }
    for (Sequence& sequence : sequences_) {
      for (int32_t& row : sequence.rows) row = renamed[static_cast<size_t>(row)];
    }
    for (int64_t row = wanted - 1; row >= static_cast<int64_t>(kept.size()); --row) {
      free_rows_.push_back(static_cast<int32_t>(row));
    }
  } else {
    for (int64_t row = capacity - 1; row >= 0; --row) {
      if (renamed[static_cast<size_t>(row)] < 0) free_rows_.push_back(static_cast<int32_t>(row));
    }
  }
}

}  // namespace transduce

#pragma once

// Sentence pairs on the disk, read where they lie, so that a corpus may be larger than memory: their ids, or
// their texts where each epoch cuts them anew. The file is described in docs/formats.md.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transduce/base/hash.h"
#include "transduce/base/mapped_file.h"
#include "transduce/data/batches.h"
#include "transduce/data/corpus.h"

namespace transduce {

// How a corpus becomes an index.
struct IndexSettings {
  std::shared_ptr<const Tokenizer> source, target;
  LengthLimit limit;
  bool as_text = false;  // keeps the texts of the pairs within the limit, not their ids

  // Changes with all that decides what an index of a corpus holds.
  uint64_t fingerprint() const;
};

// What an index says about itself, at its end.
struct IndexSummary {
  uint64_t inputs = 0, settings = 0;                           // fingerprints of what it was made from
  uint64_t pairs = 0;                                          // that it holds
  uint64_t source_vocabulary = 0, target_vocabulary = 0;       // ids are below these
  uint64_t read = 0, over = 0, longest = 0, longest_pair = 0;  // LengthReport
  uint64_t content = 0;  // hash of every pair: its lengths, its ids or bytes
};

// Writes an index from its beginning to its end; memory does not grow with it.
class IndexWriter {
 public:
  using Sink = std::function<void(std::string_view bytes)>;

  // `element_bytes`: 4 for ids, 1 for texts. `sink` takes the bytes of the file in order.
  IndexWriter(Sink sink, uint32_t element_bytes);

  void add(const Example& pair);   // of 4 bytes an element
  void add(const TextPair& pair);  // of 1
  // `summary`: all but `pairs` and `content`.
  void finish(IndexSummary summary);

 private:
  void write(const void* data, size_t bytes);
  void write_pair(std::string_view source, std::string_view target);
  void end_block();

  Sink sink_;
  uint32_t element_bytes_;
  std::string buffer_;
  uint64_t written_ = 0;           // bytes, those in the buffer included
  std::vector<uint64_t> records_;  // of the block: two words a pair
  std::vector<uint64_t> blocks_;   // where the records of each block lie
  uint64_t pairs_ = 0;
  Hash content_;
};

class CorpusIndex {
 public:
  // Checks every byte that is ever used. Errors: InputError when it is no index, is damaged or cut short.
  explicit CorpusIndex(const std::string& path);

  int64_t size() const { return static_cast<int64_t>(summary_.pairs); }
  const IndexSummary& summary() const { return summary_; }
  LengthReport report() const;
  bool holds_text() const { return element_bytes_ == 1; }

  // Of all pairs: 8 bytes each. In elements: ids or bytes.
  std::vector<PairLengths> lengths() const;
  // Pair i, below size(), of an index of ids.
  Example example(int64_t i) const;
  // Pair i, below size(), of an index of texts.
  TextPair text(int64_t i) const;

  // "29000 pairs, 1f0c3a...": other pairs, or another order of them, give another one.
  std::string fingerprint() const;

 private:
  struct Record {
    uint64_t begin = 0;  // of the source's elements; the target's follow
    uint32_t source = 0, target = 0;
  };
  template <class T>
  T read(uint64_t at) const;
  // Where the records of pair i's block lie.
  uint64_t records_of(uint64_t i) const;
  Record record(uint64_t i) const;
  std::string_view elements(const Record& record, bool target) const;
  // Lets memory go when enough was looked at.
  void count_look(uint64_t bytes) const;
  void check_frame(const std::string& name);
  void check_blocks(const std::string& name) const;
  void check_pairs(const std::string& name) const;

  MappedFile file_;
  uint32_t element_bytes_ = 4;
  IndexSummary summary_;
  uint64_t blocks_at_ = 0;
  mutable uint64_t looked_at_ = 0;  // bytes that may be in memory because they were looked at
};

// Encodes the pairs of `next` on all threads, holds them to the limit and writes the index; `inputs` is the
// fingerprint of where they come from. `told` hears the number of pairs so far now and then. Errors: what
// `next` and `sink` throw.
void write_index(const PairSource& next, const IndexSettings& settings, uint64_t inputs,
                 const IndexWriter::Sink& sink, const std::function<void(int64_t)>& told = nullptr);

// The ids of an epoch from an index of texts, cut at random (see sample_pairs), those above the limit left
// out or cut; in a file in `directory` that goes with the result. A corpus is drawn from in parts of at most
// 65,536 pairs and about 16 MiB of text.
std::shared_ptr<const CorpusIndex> sample_index(const CorpusIndex& texts, const IndexSettings& settings,
                                                const SubwordSampling& sampling, uint64_t epoch,
                                                const std::string& directory);

// The index of examples that are at hand, in a file in `directory` that goes with the result.
std::shared_ptr<const CorpusIndex> index_examples(const std::vector<Example>& examples,
                                                  const std::string& directory);

// The fingerprint of an index of these examples.
std::string fingerprint(const std::vector<Example>& examples);

}  // namespace transduce

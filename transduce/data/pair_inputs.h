#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transduce/base/temporary_file.h"
#include "transduce/data/corpus.h"

namespace transduce {

// Files of sentence pairs that are read more than once, whatever they are: standard input, pipes and other
// things that give their content only once are copied first. The copy has no name and goes with this object.
class PairInputs {
 public:
  // `directory`: on whose disk copies lie. Errors: as LineReader; RunError when the disk is full.
  PairInputs(PairFiles files, const std::string& directory);

  PairReader reader() const { return PairReader(files_, paths_); }
  const PairFiles& files() const { return files_; }

  // Of all files as they are on the disk.
  int64_t bytes() const { return bytes_; }

  // Tells inputs apart by their content alone, every byte of it: not by names or times, which may lie.
  // Errors: InputError when a file cannot be read.
  uint64_t fingerprint() const;

  // Errors: RunError when a file is not as it was when this object was made.
  void check_unchanged() const;

 private:
  PairFiles files_;
  std::vector<std::unique_ptr<TemporaryFile>> copies_;
  std::map<std::string, std::string> paths_;                   // where each file is read, by its name
  std::map<std::string, std::pair<int64_t, int64_t>> states_;  // size and time of change, by path
  int64_t bytes_ = 0;
};

}  // namespace transduce

#pragma once

// What `train` learns from, as an index beside the model: made once, used again while nothing has changed.

#include <functional>
#include <memory>
#include <string>

#include "transduce/data/corpus_index.h"
#include "transduce/data/pair_inputs.h"

namespace transduce::cli {

// Pairs that can be read again and again.
struct TrainingPairs {
  std::function<PairSource()> read;       // from the beginning
  std::function<uint64_t()> fingerprint;  // of them all, without reading them as pairs
  std::function<double(int64_t pairs)>
      done;  // the part of all that has been read, 0 to 1, with so many pairs
  std::function<void()> check_unchanged = [] {};  // throws when they are no longer what they were
};

// Those of files, and those of a function that makes pair i < count; `name` tells made-up pairs apart.
TrainingPairs pairs_of(std::shared_ptr<const PairInputs> inputs);
TrainingPairs made_up_pairs(std::function<TextPair(int64_t)> make, int64_t count, const std::string& name);

// One side of all pairs, read from the beginning; shows how far it is where there is a terminal.
LineSource lines_of(const TrainingPairs& pairs, std::string TextPair::*side);

// The index in the file `path`, made anew unless it is that of these pairs and settings and is whole. Shows
// how far it is: a bar on a terminal, a line every ten seconds elsewhere. `note` is set to what was done.
// Errors: as write_index; InputError or RunError when the file cannot be written.
std::shared_ptr<const CorpusIndex> index_beside_model(const std::string& path, const TrainingPairs& pairs,
                                                      const IndexSettings& settings, std::string& note);

}  // namespace transduce::cli

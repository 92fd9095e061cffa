#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transduce/data/batches.h"
#include "transduce/data/corpus_index.h"
#include "transduce/data/tasks.h"

namespace transduce {

// How far the data has been given. With the data, the batch options and their seed it decides all that comes.
struct BatchPosition {
  uint64_t epoch = 0;
  int64_t batch = 0;  // batches given of this epoch; at an epoch's end all of them

  bool operator==(const BatchPosition&) const = default;
};

// Where a training run takes its batches from.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The next batch; never empty, never ends.
  virtual std::vector<Example> next() = 0;
  virtual BatchPosition position() const = 0;
  // Goes on from a position, as if all before it had been given. One beyond an epoch's end becomes its end.
  virtual void seek(const BatchPosition& position) = 0;
  // Batches in the current epoch; 0 for data without end.
  virtual int64_t batches_per_epoch() const = 0;
  // Tells data apart, in words for people.
  virtual std::string fingerprint() const = 0;

  // How often the whole data has been seen, counting the batches given so far; 0 for data without end.
  double epochs() const;
  // Whether the batch given last was its epoch's last.
  bool at_epoch_end() const;
};

// Epoch after epoch of the pairs of an index of ids, shuffled anew each time (see make_batches): a batch
// reads its ids from the index, so memory holds the order of an epoch alone. Errors: InputError when there is
// no pair, or from make_batches.
std::unique_ptr<BatchSource> corpus_batches(std::shared_ptr<const CorpusIndex> corpus,
                                            const BatchOptions& options);

// The same where each epoch has an index of its own, e.g. of texts cut at random: `corpus_of(e)` gives that
// of epoch e, counted from 0. `corpus_of` should be a pure function, so that a run can be repeated.
using CorpusOfEpoch = std::function<std::shared_ptr<const CorpusIndex>(uint64_t epoch)>;
std::unique_ptr<BatchSource> corpus_batches(CorpusOfEpoch corpus_of, const BatchOptions& options);

// Tells made-up tasks apart, in words for people.
std::string fingerprint(const Task& task);

// Fresh examples of a made-up task without end: batch i holds examples i * batch_size and on of the seed.
std::unique_ptr<BatchSource> task_batches(const Task& task, std::shared_ptr<const Tokenizer> source,
                                          std::shared_ptr<const Tokenizer> target,
                                          const BatchOptions& options);

}  // namespace transduce

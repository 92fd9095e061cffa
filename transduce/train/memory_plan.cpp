#include "transduce/train/memory_plan.h"

#include <algorithm>

#include "transduce/autograd/ops.h"
#include "transduce/base/memory.h"
#include "transduce/data/seq2seq_batch.h"
#include "transduce/models/anatomy.h"

namespace transduce {
namespace {

constexpr int64_t kFloat = 4;  // bytes
// The program's code, buffers of products: what small trainings were measured to hold beyond the rest.
constexpr int64_t kOverhead = int64_t{24} << 20;

// The most that one micro-batch holds on either side, and how many an update has.
struct Largest {
  int64_t source = 1, target = 1, count = 1;
};

Largest largest_of(const std::vector<std::vector<Example>>& batches, int64_t micro_batch_tokens) {
  Largest most;
  for (const std::vector<Example>& batch : batches) {
    const auto parts = cut_micro_batches(batch, micro_batch_tokens);
    most.count = std::max(most.count, static_cast<int64_t>(parts.size()));
    for (const std::vector<int64_t>& part : parts) {
      int64_t source = 0, target = 0;
      for (const int64_t i : part) {
        source += static_cast<int64_t>(batch[static_cast<size_t>(i)].source.size()) + 1;
        target += static_cast<int64_t>(batch[static_cast<size_t>(i)].target.size()) + 1;
      }
      most.source = std::max(most.source, source);
      most.target = std::max(most.target, target);
    }
  }
  return most;
}

// Beside what is kept: the gradients on their way through the widest sublayer, or what the loss works with.
int64_t scratch_of(const TransformerConfig& c, int64_t source, int64_t target) {
  const int64_t rows = std::max(source, target), V = c.target_vocabulary;
  const int64_t inner = c.activation == Activation::swiglu ? 3 * c.feed_forward : 2 * c.feed_forward;
  const int64_t layer = rows * (4 * c.width + inner) + source * c.width;
  const int64_t chunk = ops::chunk_rows(target, V);
  const int64_t loss = (chunk < target ? chunk * V : 0) + 2 * target * c.width;
  return kFloat * std::max(layer, loss);
}

}  // namespace

std::vector<std::vector<Example>> sample_batches(BatchSource& source) {
  constexpr size_t kMostBatches = 200;
  constexpr size_t kMostTokens = 1000000;
  const BatchPosition before = source.position();
  std::vector<std::vector<Example>> batches;
  size_t tokens = 0;
  do {
    batches.push_back(source.next());
    for (const Example& example : batches.back()) tokens += example.source.size() + example.target.size();
  } while (batches.size() < kMostBatches && tokens < kMostTokens && !source.at_epoch_end());
  source.seek(before);
  return batches;
}

MemoryNeed memory_need(const MemoryQuestion& q, const std::vector<std::vector<Example>>& batches,
                       int64_t micro_batch_tokens) {
  const Largest most = largest_of(batches, micro_batch_tokens);
  // Somewhere the longest text comes, be it alone.
  const int64_t source = std::max(most.source, q.longest + 1), target = std::max(most.target, q.longest + 1);
  const Anatomy parts = anatomy(q.config, {1, source, target});
  MemoryNeed need;
  need.program = q.program + kOverhead;
  need.parameters = parts.total(&Part::parameter_bytes);
  need.optimizer = 2 * need.parameters;
  need.average = q.average ? need.parameters : 0;
  need.activations = parts.total(&Part::training_bytes);
  need.scratch = scratch_of(q.config, source, target);
  need.scratch += (need.activations + need.scratch) / 4;  // the arena's blocks may be larger than their tensors
  // As Trainer::update deals them out.
  const int64_t count = most.count * q.accumulate;
  need.at_once = 2 * count > q.threads ? std::min<int64_t>(count, q.threads) : 1;
  return need;
}

int64_t fitting_micro_batch_tokens(const MemoryQuestion& question,
                                   const std::vector<std::vector<Example>>& batches, int64_t most,
                                   int64_t budget) {
  for (int64_t tokens = most;; tokens /= 2) {
    const MemoryNeed need = memory_need(question, batches, tokens);
    if (need.total() <= budget) return tokens;
    check_input(
        tokens > 1,
        "this training needs about {} with single pairs as micro-batches too (parameters, gradients and "
        "optimiser {}, activations of {} pairs {}, program and data {}), and has {}: give more --memory "
        "if there is more, a smaller model, a smaller vocabulary, shorter texts (--max-length), or fewer "
        "--threads",
        bytes_text(need.total()), bytes_text(need.fixed() - need.program), need.at_once,
        bytes_text(need.at_once * (need.activations + need.scratch)), bytes_text(need.program),
        bytes_text(budget));
  }
}

}  // namespace transduce

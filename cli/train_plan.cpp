#include "cli/train_plan.h"

#include <fmt/ranges.h>

#include <set>

#include "cli/console.h"
#include "transduce/base/figures.h"
#include "transduce/base/memory.h"
#include "transduce/base/parallel.h"
#include "transduce/data/seq2seq_batch.h"

namespace transduce::cli {
namespace {

void print_data(const TrainingPlan& plan) {
  const std::string valid = grouped(plan.valid_pairs);
  if (plan.batches_per_epoch == 0) {
    say("data        fresh training examples, {} validation pairs\n", valid);
  } else {
    say("data        {} training pairs in {} batches an epoch, {} validation pairs\n",
        grouped(plan.train_pairs), grouped(plan.batches_per_epoch), valid);
    // Where texts are cut anew each epoch nobody knows.
    if (plan.target_tokens > 0) {
      say("            {} source and {} target tokens to train on, end symbols counted\n",
          grouped(plan.source_tokens), grouped(plan.target_tokens));
    }
  }
  for (const std::string& note : plan.notes) say("            {}\n", note);
}

// The learning rate where the schedule turns, and where the run begins, is half done and ends.
void print_schedule(const Schedule& schedule, int64_t steps) {
  std::set<int64_t> updates{1, std::max<int64_t>(1, steps / 2), steps};
  if (schedule.warmup > 0 && schedule.warmup < steps) updates.insert(schedule.warmup);
  std::vector<std::string> rates;
  for (const int64_t update : updates) {
    rates.push_back(fmt::format("{:.3g} at update {}", schedule.at(update), grouped(update)));
  }
  say("schedule    {}: learning rate {}\n", to_string(schedule.kind), fmt::join(rates, ", "));
}

void print_memory(const TrainingPlan& plan) {
  const MemoryNeed& need = plan.need;
  say("memory      about {} of {}: parameters and gradients {}, optimiser {}{}, {} x activations {} and "
      "scratch "
      "{}, program and data {}\n",
      bytes_text(need.total()), bytes_text(plan.budget), bytes_text(2 * need.parameters),
      bytes_text(need.optimizer),
      need.average > 0 ? fmt::format(", moving average {}", bytes_text(need.average)) : "", need.at_once,
      bytes_text(need.activations), bytes_text(need.scratch), bytes_text(need.program));
  if (plan.micro_batch_tokens != default_micro_batch_tokens) {
    say("            micro-batches of {} tokens a side instead of {}, so that memory suffices\n",
        plan.micro_batch_tokens, default_micro_batch_tokens);
  }
  if (need.total() > plan.budget) {  // resumed where there is less than before
    say("            that is more than there is: give --memory a number of bytes, and micro-batches get "
        "smaller\n");
  }
}

}  // namespace

void MemoryOption::add_to(CLI::App& app) {
  app.add_option(
         "--memory", text_,
         "memory to stay within, e.g. 8G: where it is short, batches are worked on in smaller pieces; "
         "free: what the machine has free")
      ->group("Loop");
}

int64_t MemoryOption::budget(int64_t resident) const {
  if (text_ != "free") return parse_bytes(text_);
  const int64_t available = available_bytes();
  return available > INT64_MAX - resident ? INT64_MAX : resident + available;
}

void TrainingPlan::print(const LoopOptions& loop) const {
  const TransformerConfig& c = config;
  say("model       {}+{} layers, width {}, {} heads, feed-forward {}, {}-norm, {}; {} parameters\n",
      c.encoder_layers, c.decoder_layers, c.width, c.heads, c.feed_forward, to_string(c.norm),
      to_string(c.activation), grouped(Transformer::count_parameters(c)));
  say("vocabulary  {} source, {} target tokens{}\n", grouped(c.source_vocabulary),
      grouped(c.target_vocabulary), joint_vocabulary ? " (one for both sides)" : "");
  print_data(*this);
  print_schedule(loop.trainer.schedule, steps);
  print_memory(*this);
  const double updates_an_epoch =
      static_cast<double>(batches_per_epoch) / static_cast<double>(loop.run.accumulate);
  const std::string epochs =
      batches_per_epoch == 0
          ? ""
          : fmt::format(", {:.3g} epochs,", static_cast<double>(steps) / std::max(updates_an_epoch, 1.0));
  say("run         {} updates{} on {} threads; {} in work at once\n", grouped(steps), epochs, threads(),
      need.at_once == 1 ? "one micro-batch" : fmt::format("{} micro-batches", need.at_once));
}

}  // namespace transduce::cli

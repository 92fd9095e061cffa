#pragma once

// report.html: a training as a page that stands alone, made from its log.jsonl and its train.toml.

#include <string>

#include "transduce/train/training_history.h"

namespace transduce {

// The page: how the training stands, curves, scores, samples beside their references, settings. `name`: the
// model's; `settings`: the text of train.toml.
std::string training_report(const TrainingHistory& history, const std::string& settings,
                            const std::string& name);

// What people call the model in a directory: the directory's own name.
std::string name_of_model(const std::string& directory);

}  // namespace transduce

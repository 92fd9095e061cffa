#pragma once

// The laboratory: small experiments that show why each part of a Transformer is there. An experiment is one
// file of this folder. It measures with the layers, the tape and the training loop that everything else uses,
// and sets what it finds beside the figure that was published, where there is one.

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "transduce/page/svg.h"

namespace transduce::lab {

enum class Verdict {
  exact,           // the same as published, character by character
  within,          // apart by no more than the tolerance that the note states
  holds,           // no figure was published, but what is claimed is what was measured
  fails,           // none of these
  not_reproduced,  // it cannot be, for the reason that the note states
};
const char* to_string(Verdict verdict);

// A row of an experiment's table.
struct Claim {
  std::string text;       // what is claimed
  std::string published;  // the figure as it was printed; empty where there is none
  std::string measured;   // ours, printed the same way
  Verdict verdict = Verdict::fails;
  std::string note;    // the tolerance and why, or the reason
  bool timed = false;  // depends on how busy the machine is
};

// A figure that has to come out as it was printed.
Claim exact(std::string text, std::string published, std::string measured);

// A figure that depends on random numbers. It is printed with `digits` decimals.
struct Tolerance {
  double value = 0.0;
  std::string why;
  int digits = 3;
};
Claim near(std::string text, double published, double measured, const Tolerance& tolerance);

// A statement without a figure to compare with: what was measured, and whether it is as claimed.
Claim holds(std::string text, std::string measured, bool as_claimed, std::string note = "");

// The same for a time, or a ratio of times, on this machine.
Claim timed(std::string text, std::string measured, bool as_claimed, std::string note);

// A published figure that we do not get, and why.
Claim not_reproduced(std::string text, std::string published, std::string measured, std::string reason);

using page::HeatMap;
using page::LineChart;
using page::Series;
using Picture = std::variant<HeatMap, LineChart>;

struct Findings {
  std::vector<Claim> claims;
  std::vector<Picture> pictures;
};

struct Experiment {
  const char* name;
  const char* question;  // that it answers
  Findings (*run)();     // a pure function but for what is timed: all random numbers come from fixed seeds
};

// All experiments, in the order of a lesson.
std::span<const Experiment> experiments();

// One of them. Errors: InputError that lists the names.
const Experiment& experiment_named(const std::string& name);

// Each stands in the file of its name.
Findings residual();
Findings layernorm();
Findings norm_placement();
Findings activation();
Findings embedding_scale();
Findings positions();
Findings scaling();
Findings masks();
Findings teacher_forcing();
Findings schedule();
Findings label_smoothing();
Findings copy_or_reverse();
Findings complexity();
Findings budget();

}  // namespace transduce::lab

#include "transduce/lab/lab.h"

#include <cmath>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce::lab {
namespace {

constexpr Experiment kExperiments[] = {
    {"embedding-scale", "Why are embeddings multiplied by the square root of the width?", embedding_scale},
    {"positions", "How does a model that sees all tokens at once know their order?", positions},
    {"scaling", "Why are attention's scores divided by the square root of the head size?", scaling},
    {"masks", "What must a token not see, and what happens when it does?", masks},
    {"residual", "Why does every layer add its input to its output?", residual},
    {"layernorm", "What does LayerNorm do to a token?", layernorm},
    {"norm-placement", "Does the norm belong behind the sum or before the layer?", norm_placement},
    {"activation", "ReLU, GELU, SwiGLU: what is the difference?", activation},
    {"teacher-forcing", "Why is training parallel when generating is not?", teacher_forcing},
    {"schedule", "Why does the learning rate rise before it falls?", schedule},
    {"label-smoothing", "What does label smoothing ask for, and what does it cost or bring?",
     label_smoothing},
    {"copy-or-reverse", "Is copying easier to learn than reversing?", copy_or_reverse},
    {"complexity", "What costs more, attention or the feed-forward network?", complexity},
    {"budget", "Where do a Transformer's parameters sit?", budget},
};

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::exact:
      return "exact";
    case Verdict::within:
      return "within tolerance";
    case Verdict::holds:
      return "holds";
    case Verdict::fails:
      return "FAILS";
    case Verdict::not_reproduced:
      return "not reproduced";
  }
  return "?";
}

Claim exact(std::string text, std::string published, std::string measured) {
  const Verdict verdict = published == measured ? Verdict::exact : Verdict::fails;
  return {std::move(text), std::move(published), std::move(measured), verdict, ""};
}

Claim near(std::string text, double published, double measured, const Tolerance& tolerance) {
  const bool close = std::abs(measured - published) <= tolerance.value;
  return {std::move(text), fmt::format("{:.{}f}", published, tolerance.digits),
          fmt::format("{:.{}f}", measured, tolerance.digits), close ? Verdict::within : Verdict::fails,
          fmt::format("tolerance {:.2g}: {}", tolerance.value, tolerance.why)};
}

Claim holds(std::string text, std::string measured, bool as_claimed, std::string note) {
  return {std::move(text), "", std::move(measured), as_claimed ? Verdict::holds : Verdict::fails,
          std::move(note)};
}

Claim timed(std::string text, std::string measured, bool as_claimed, std::string note) {
  Claim claim = holds(std::move(text), std::move(measured), as_claimed, std::move(note));
  claim.timed = true;
  return claim;
}

Claim not_reproduced(std::string text, std::string published, std::string measured, std::string reason) {
  return {std::move(text), std::move(published), std::move(measured), Verdict::not_reproduced,
          std::move(reason)};
}

std::span<const Experiment> experiments() { return kExperiments; }

const Experiment& experiment_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Experiment& experiment : kExperiments) {
    if (name == experiment.name) return experiment;
    names.emplace_back(experiment.name);
  }
  fail_input("unknown experiment {}: choose one of {}, or all", in_quotes(name), join(names, ", "));
}

}  // namespace transduce::lab

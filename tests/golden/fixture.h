#pragma once

// A golden fixture in memory (README.md says what is in one), and where and how exactly it is to be met.

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/check.h"
#include "transduce/io/safetensors.h"
#include "transduce/models/transformer.h"

namespace transduce::golden {

struct Fixture {
  std::string name;
  nlohmann::json config;
  std::map<std::string, Tensor> tensors;

  static Fixture read(const std::string& path) {
    const TensorFile file = read_safetensors(path);
    return {path.substr(path.rfind('/') + 1), nlohmann::json::parse(file.metadata.at("config")),
            file.tensors};
  }

  const Tensor& at(const std::string& key) const {
    const auto found = tensors.find(key);
    if (found == tensors.end()) fail_input("{} has no tensor '{}'", name, key);
    return found->second;
  }
  checks::Values values(const std::string& key) const { return checks::values_of(at(key)); }
  Layout layout(const std::string& key) const { return Layout::packed(at(key).to_vector<int32_t>()); }

  // The names of the parameters: all that are none of the three other groups.
  std::set<std::string> parameters() const {
    std::set<std::string> names;
    for (const auto& [key, tensor] : tensors) {
      const bool other =
          key.starts_with("input.") || key.starts_with("expected.") || key.starts_with("grad.");
      if (!other) names.insert(key);
    }
    return names;
  }
};

// The configuration of a model, or of a layer alone, without dropout as the fixtures are.
inline TransformerConfig config_of(const Fixture& fixture) {
  const nlohmann::json& j = fixture.config;
  TransformerConfig config;
  config.width = j.at("width");
  config.heads = j.at("heads");
  config.feed_forward = j.at("feed_forward");
  config.norm = parse_norm_placement(j.at("norm"));
  config.activation = parse_activation(j.at("activation"));
  config.dropout = 0.0;
  if (j.at("kind") != "model") return config;
  config.source_vocabulary = j.at("source_vocabulary");
  config.target_vocabulary = j.at("target_vocabulary");
  config.encoder_layers = j.at("encoder_layers");
  config.decoder_layers = j.at("decoder_layers");
  config.tie = parse_tie(j.at("tie"));
  config.output_bias = j.at("output_bias");
  return config;
}

// Sets every parameter from the fixture; none may be missing or left over on either side.
inline void load_parameters(const Fixture& fixture, const ParameterSet& set) {
  std::set<std::string> left = fixture.parameters();
  for (const Parameter& parameter : set.parameters()) {
    EXPECT_EQ(left.erase(parameter.name), 1u) << fixture.name << " lacks parameter " << parameter.name;
    parameter.variable.value().copy_from(fixture.at(parameter.name).to(parameter.variable.dtype()));
  }
  EXPECT_TRUE(left.empty()) << fixture.name << " has a parameter the model does not have: " << *left.begin();
}

// Compares with one fixture and keeps the largest relative error.
class Comparison {
 public:
  Comparison(const Fixture& fixture, double tolerance) : fixture_(fixture), tolerance_(tolerance) {}

  // `slack`: how much more than one forward and backward pass lies behind `got`. `floor`: see relative_error.
  void expect(const std::string& key, const checks::Values& got, double slack = 1.0, double floor = 1e-3) {
    const double error = checks::relative_error(got, fixture_.values(key), floor);
    EXPECT_LE(error, slack * tolerance_) << fixture_.name << ": " << key;
    worst_ = std::max(worst_, error);
  }
  void expect(const std::string& key, const Tensor& got) { expect(key, checks::values_of(got)); }

  // sum(output * weights) is a sum of either sign, so its error is relative to the sum of the magnitudes.
  void expect_weighted_loss(const Tensor& got) {
    const checks::Values output = fixture_.values("expected.output"),
                         weights = fixture_.values("input.weights");
    double magnitude = 0.0;
    for (size_t i = 0; i < output.size(); ++i) magnitude += std::abs(output[i] * weights[i]);
    expect("expected.loss", checks::values_of(got), 1.0, magnitude);
  }

  // `scale`: what the gradients found are multiplied by to be those of the fixture's loss.
  void expect_gradients(const ParameterSet& set, double scale = 1.0) {
    for (const Parameter& parameter : set.parameters()) {
      checks::Values got = checks::values_of(parameter.variable.gradient());
      for (double& value : got) value *= scale;
      expect("grad." + parameter.name, got);
    }
  }

  double worst() const { return worst_; }

 private:
  const Fixture& fixture_;
  double tolerance_;
  double worst_ = 0.0;
};

}  // namespace transduce::golden

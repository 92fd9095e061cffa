// Layers and whole models against PyTorch: results, losses, every gradient, the losses of ten Adam steps.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tests/golden/fixture.h"
#include "tests/golden/python.h"
#include "transduce/train/optimizer.h"

namespace transduce::golden {
namespace {

using checks::roundoff32;
using checks::Values;
using checks::values_of;
using checks::weighted_sum;

// What a forward and a backward pass may be off by, relative to the largest magnitude of a tensor.
//
// float64: 1e-12, some thousand roundings of 1.1e-16.
// float32: n roundings of at most u = 2^-24 that are independent add up to about sqrt(n) u (Higham and Mary
// 2019); the factor of 4 is for the largest of some ten thousand such errors. A value of the model stands at
// the end of a path of sums, a gradient at the end of that path there and back: n is twice the terms of all
// sums on the way, and ten more a sublayer for what softmax, norm, activation and residual round. The inputs
// are of size 1 and the layers' gains about 1, so nothing else amplifies.
struct Precision {
  const char* name;
  Backend& (*backend)();
  DType dtype;

  double tolerance(const Fixture& fixture) const {
    if (dtype == DType::float64) return 1e-12;
    const nlohmann::json& j = fixture.config;
    const auto size = [&](const char* key) { return j.value(key, 0.0); };
    constexpr double longest = 20;  // keys of a sequence
    const double width = size("width"), other = 10;
    const double core = width / size("heads") + longest + other;        // scores, softmax, weighted sum
    const double attention = core + width + width + 2 * width + other;  // with two projections and a norm
    const double feed_forward = width + size("feed_forward") + 2 * width + other;
    const double encoder = attention + feed_forward, decoder = 2 * attention + feed_forward;
    double path = 0;
    if (j.at("kind") == "attention") path = core;
    if (j.at("kind") == "encoder_layer") path = encoder;
    if (j.at("kind") == "decoder_layer") path = decoder;
    if (j.at("kind") == "model") {
      path = size("encoder_layers") * encoder + size("decoder_layers") * decoder + 3 * width +
             size("target_vocabulary") + other;
    }
    return 4 * roundoff32 * std::sqrt(2 * path);
  }
};

const Precision kOracle{"reference_float64", reference_backend, DType::float64};
const Precision kFast{"cpu_float32", cpu_backend, DType::float32};

Var leaf(const Fixture& fixture, const std::string& key, const Precision& precision) {
  return Var(fixture.at(key).to(precision.dtype), true);
}

// ---- attention and layers -----------------------------------------------------------------------------

double check_attention(const Fixture& fixture, const Precision& precision) {
  Comparison compare(fixture, precision.tolerance(fixture));
  const Var q = leaf(fixture, "input.query", precision), k = leaf(fixture, "input.key", precision);
  const Var v = leaf(fixture, "input.value", precision);
  AttentionSpec spec;
  spec.queries = fixture.layout("input.lengths");
  spec.keys = fixture.layout("input.source_lengths");
  spec.heads = fixture.config.at("heads");
  spec.causal = fixture.config.at("causal");
  Tape tape;
  const Var out = ops::attention(q, k, v, spec);
  const Var loss = weighted_sum(out, fixture.at("input.weights"));
  tape.backward(loss);
  compare.expect("expected.output", out.value());
  compare.expect_weighted_loss(loss.value());
  compare.expect("grad.input.query", q.gradient());
  compare.expect("grad.input.key", k.gradient());
  compare.expect("grad.input.value", v.gradient());

  // The kernel's own by-product: (H, N) where the fixture has (N, H).
  const Tensor y(q.shape(), precision.dtype), log_sum_exp({spec.heads, q.dim(0)}, precision.dtype);
  current_backend().attention(q.value(), k.value(), v.value(), spec, y, log_sum_exp, Tensor());
  const Values by_head = values_of(log_sum_exp);
  Values by_row;
  for (int64_t i = 0; i < q.dim(0); ++i) {
    for (int64_t h = 0; h < spec.heads; ++h) by_row.push_back(by_head[static_cast<size_t>(h * q.dim(0) + i)]);
  }
  compare.expect("expected.log_sum_exp", by_row);
  return compare.worst();
}

double check_encoder_layer(const Fixture& fixture, const Precision& precision) {
  Comparison compare(fixture, precision.tolerance(fixture));
  ParameterSet parameters;
  const EncoderLayer layer(Scope(parameters), config_of(fixture));
  parameters.allocate(precision.dtype);
  load_parameters(fixture, parameters);
  const Var x = leaf(fixture, "input.x", precision);
  AttentionContext context;
  context.queries = context.keys = fixture.layout("input.lengths");
  Tape tape;
  const Var y = layer(x, context);
  const Var loss = weighted_sum(y, fixture.at("input.weights"));
  tape.backward(loss);
  compare.expect("expected.output", y.value());
  compare.expect_weighted_loss(loss.value());
  compare.expect("grad.input.x", x.gradient());
  compare.expect_gradients(parameters);
  return compare.worst();
}

double check_decoder_layer(const Fixture& fixture, const Precision& precision) {
  Comparison compare(fixture, precision.tolerance(fixture));
  ParameterSet parameters;
  const DecoderLayer layer(Scope(parameters), config_of(fixture));
  parameters.allocate(precision.dtype);
  load_parameters(fixture, parameters);
  const Var x = leaf(fixture, "input.x", precision), memory = leaf(fixture, "input.memory", precision);
  DecoderContext context;
  context.self.queries = context.self.keys = context.cross.queries = fixture.layout("input.lengths");
  context.self.causal = true;
  context.cross.keys = fixture.layout("input.source_lengths");
  Tape tape;
  const Var y = layer(x, layer.project(memory), context);
  const Var loss = weighted_sum(y, fixture.at("input.weights"));
  tape.backward(loss);
  compare.expect("expected.output", y.value());
  compare.expect_weighted_loss(loss.value());
  compare.expect("grad.input.x", x.gradient());
  compare.expect("grad.input.memory", memory.gradient());
  compare.expect_gradients(parameters);
  return compare.worst();
}

// ---- whole models -------------------------------------------------------------------------------------

struct Batch {
  Tokens source, target;
  Tensor expected;  // (N) int32
};

// Packed ids of the fixture as sequences.
Tokens tokens_of(const Fixture& fixture, const std::string& ids, const std::string& lengths) {
  const std::vector<int32_t> id = fixture.at(ids).to_vector<int32_t>();
  std::vector<std::vector<int32_t>> sequences;
  size_t at = 0;
  for (const int32_t length : fixture.at(lengths).to_vector<int32_t>()) {
    sequences.emplace_back(id.begin() + static_cast<int64_t>(at),
                           id.begin() + static_cast<int64_t>(at) + length);
    at += static_cast<size_t>(length);
  }
  EXPECT_EQ(at, id.size());
  return pack(sequences);
}

Batch packed_batch(const Fixture& fixture) {
  return {tokens_of(fixture, "input.source_ids", "input.source_lengths"),
          tokens_of(fixture, "input.target_input_ids", "input.target_lengths"),
          fixture.at("input.target_output_ids")};
}

// (B, T) ids with `columns` more pads on the right.
Tensor widened(const Tensor& ids, int64_t columns) {
  const Tensor wide = Tensor::zeros({ids.dim(0), ids.dim(1) + columns}, DType::int32);
  wide.columns(0, ids.dim(1)).copy_from(ids);
  return wide;
}

// The same batch through the entrance for padded ids.
Batch padded_batch(const Fixture& fixture, int64_t more_columns) {
  const auto read = [&](const char* key) { return pack_padded(widened(fixture.at(key), more_columns), 0); };
  return {read("input.source_ids_padded"), read("input.target_input_ids_padded"),
          read("input.target_output_ids_padded").ids};
}

// The mean loss of the batch; gradients of the sum are left in the parameters.
double train_pass(const Transformer& model, const Batch& batch, double smoothing) {
  Tape tape;
  const ops::CrossEntropy loss =
      model.loss(model.forward(batch.source, batch.target), batch.expected, smoothing);
  tape.backward(loss.sum);
  return loss.total / static_cast<double>(batch.expected.size());
}

void check_padded(const Fixture& fixture, const Transformer& model, const Batch& packed) {
  const double smoothing = fixture.config.at("label_smoothing");
  const auto run = [&](const Batch& batch) {
    model.parameters().gradients().fill_zero();
    Values result{train_pass(model, batch, smoothing)};
    const Values gradients = values_of(model.parameters().gradients());
    result.insert(result.end(), gradients.begin(), gradients.end());
    return result;
  };
  const Values expected = run(packed);
  for (const int64_t more_columns : {0, 1, 57}) {
    const Batch batch = padded_batch(fixture, more_columns);
    for (const auto& [got, wanted] :
         {std::pair(batch.source, packed.source), std::pair(batch.target, packed.target)}) {
      checks::expect_equal<int32_t>(got.ids, wanted.ids, "ids");
      checks::expect_equal<int32_t>(got.positions, wanted.positions, "positions");
      EXPECT_EQ(got.layout.begin, wanted.layout.begin);
      EXPECT_EQ(got.layout.length, wanted.layout.length);
    }
    checks::expect_equal<int32_t>(batch.expected, packed.expected, "expected ids");
    EXPECT_EQ(run(batch), expected) << fixture.name << " with " << more_columns << " more columns of padding";
  }
}

// Ten steps of Adam as torch.optim.Adam does them, from the fixture's parameters.
void check_training(const Fixture& fixture, Transformer& model, const Batch& batch, Comparison& compare) {
  OptimizerOptions options;
  options.decoupled_weight_decay = false;
  options.beta2 = 0.98;
  options.epsilon = 1e-9;
  Optimizer optimizer(model.parameters(), options);
  model.parameters().gradients().fill_zero();
  Values losses;
  for (int step = 0; step < 10; ++step) {
    losses.push_back(train_pass(model, batch, fixture.config.at("label_smoothing")));
    EXPECT_TRUE(optimizer.step(1e-3, 1.0 / static_cast<double>(batch.expected.size())).applied);
  }
  // Every step adds the error of a pass to the parameters. (Noise that Adam scales up, as in the gradient of
  // the key bias, has no effect: a gradient of noise is one that the loss does not depend on.)
  compare.expect("expected.losses", losses, 10.0);
}

double check_model(const Fixture& fixture, const Precision& precision) {
  Comparison compare(fixture, precision.tolerance(fixture));
  Transformer model(config_of(fixture), precision.dtype);
  load_parameters(fixture, model.parameters());
  const Batch batch = packed_batch(fixture);

  Tape tape;
  const Var encoded = model.encode(batch.source);
  const Var decoded = model.decode(batch.target, encoded, batch.source.layout);
  const ops::CrossEntropy loss = model.loss(decoded, batch.expected, fixture.config.at("label_smoothing"));
  compare.expect("expected.encoder_output", encoded.value());
  compare.expect("expected.logits", model.logits(decoded).value());
  const double rows = static_cast<double>(batch.expected.size());
  compare.expect("expected.loss", Values{loss.total / rows});
  tape.backward(loss.sum);
  compare.expect_gradients(model.parameters(), 1.0 / rows);

  check_padded(fixture, model, batch);
  check_training(fixture, model, batch, compare);
  return compare.worst();
}

double check(const Fixture& fixture, const Precision& precision) {
  const UseBackend use(precision.backend());
  const std::string kind = fixture.config.at("kind");
  if (kind == "attention") return check_attention(fixture, precision);
  if (kind == "encoder_layer") return check_encoder_layer(fixture, precision);
  if (kind == "decoder_layer") return check_decoder_layer(fixture, precision);
  if (kind == "model") return check_model(fixture, precision);
  ADD_FAILURE() << fixture.name << ": unknown kind " << kind;
  return NAN;
}

void report(const Fixture& fixture, const Precision& precision, double worst) {
  std::printf("  %-44s %-18s largest relative error %.2e, tolerance %.2e\n", fixture.name.c_str(),
              precision.name, worst, precision.tolerance(fixture));
}

// ---- the tests ----------------------------------------------------------------------------------------

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TRANSDUCE_TESTS "/golden/fixtures")) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  void run(const Precision& precision) {
    const Fixture fixture = Fixture::read(TRANSDUCE_TESTS "/golden/fixtures/" + GetParam() + ".safetensors");
    const double worst = check(fixture, precision);
    RecordProperty("largest_relative_error", fmt::format("{:.3e}", worst));
    report(fixture, precision, worst);
  }
};

TEST_P(Golden, ReferenceInFloat64) { run(kOracle); }
TEST_P(Golden, CpuInFloat32) { run(kFast); }

INSTANTIATE_TEST_SUITE_P(Fixtures, Golden, ::testing::ValuesIn(fixture_names()),
                         [](const auto& fixture) { return fixture.param; });

TEST(GoldenFixtures, AreAllThere) { EXPECT_EQ(fixture_names().size(), 18u); }

TEST(GoldenLive, ModelsOfRandomShape) {
  const std::string python = find_python();
  if (python.empty()) {
    GTEST_SKIP() << "no Python with torch and safetensors: set TRANSDUCE_PYTHON to one to run the live test";
  }
  for (const int seed : {1, 2, 3}) {
    const std::string path =
        fmt::format("{}transduce_live_{}_{}.safetensors", ::testing::TempDir(), getpid(), seed);
    const std::string command =
        fmt::format("{} {} --live {} --output {}", quoted(python),
                    quoted(TRANSDUCE_TESTS "/../tools/make_golden.py"), seed, quoted(path));
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    Fixture fixture = Fixture::read(path);
    std::filesystem::remove(path);
    fixture.name = fmt::format("live {}", seed);
    for (const Precision& precision : {kOracle, kFast}) report(fixture, precision, check(fixture, precision));
  }
}

}  // namespace
}  // namespace transduce::golden

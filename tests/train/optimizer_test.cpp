// Updates against PyTorch's, and the promise that what is not finite is never applied.

#include "transduce/train/optimizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/check.h"

namespace transduce {
namespace {

using checks::Values;
using checks::values_of;

// Two parameters, so that the padding between them is in play.
struct Model {
  ParameterSet set;
  Var a = set.declare("a", {3}, Init::zeros());
  Var b = set.declare("b", {1}, Init::zeros());

  explicit Model(DType dtype) {
    set.allocate(dtype);
    set.initialize(0);
    a.value().copy_from(Tensor::of<double>({3}, {0.5, -1.25, 2.0}).to(dtype));
  }
  void set_gradient(const Values& g) const {
    a.gradient().copy_from(Tensor::of<double>({3}, {g[0], g[1], g[2]}).to(a.dtype()));
    b.gradient().copy_from(Tensor::of<double>({1}, {g[3]}).to(b.dtype()));
  }
  Values values() const {
    Values all = values_of(a.value());
    all.push_back(values_of(b.value())[0]);
    return all;
  }
};

const Values kGradients[] = {{0.3, -2.0, 0.001, 0.0}, {-0.1, 1.5, 0.002, 4.0}, {0.25, -0.5, -0.003, -1.0}};

struct Case {
  const char* name;
  bool decoupled;
  double weight_decay, clip_norm;
  Values expected;
};

// From PyTorch 2.13, in float64:
//   p = torch.tensor([0.5, -1.25, 2.0, 0.0], dtype=torch.float64, requires_grad=True)
//   optimizer = torch.optim.Adam([p], lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=...)  # or AdamW
//   for g in gradients:
//     p.grad = torch.tensor(g, dtype=torch.float64)
//     torch.nn.utils.clip_grad_norm_([p], ...)  # where there is a clip norm
//     optimizer.step()
const Case kCases[] = {
    {"Adam",
     false,
     0.0,
     0.0,
     {0.47958203593207904, -1.2371638938457328, 1.9810382323876106, -0.011434103068129245}},
    {"Adam with decay",
     false,
     0.1,
     0.0,
     {0.47700272827135315, -1.2356897553330854, 1.9700097391613032, -0.011432776813335762}},
    {"AdamW",
     true,
     0.1,
     0.0,
     {0.47810754308265513, -1.2334385270490145, 1.9750738445101668, -0.011426697148511076}},
    {"AdamW, clipped",
     true,
     0.1,
     1.0,
     {0.47541577579007693, -1.2272248317260652, 1.978257652385811, -0.007247399143986719}},
};
constexpr double kNorms[] = {2.0223750888497416, 4.273172591880651, 1.1456478516542508};

OptimizerOptions options_of(const Case& c) {
  OptimizerOptions options;
  options.decoupled_weight_decay = c.decoupled;
  options.beta2 = 0.98;
  options.epsilon = 1e-9;
  options.weight_decay = c.weight_decay;
  options.clip_norm = c.clip_norm;
  return options;
}

// `scale`: the gradients are stored larger and scaled down by the step, as a sum over tokens is.
void expect_updates(const Case& c, DType dtype, double scale, double tolerance) {
  Model model(dtype);
  Optimizer optimizer(model.set, options_of(c));
  for (size_t i = 0; i < 3; ++i) {
    Values gradient = kGradients[i];
    for (double& value : gradient) value /= scale;
    model.set_gradient(gradient);
    const Optimizer::Update update = optimizer.step(0.01, scale);
    EXPECT_TRUE(update.applied);
    EXPECT_NEAR(update.gradient_norm, kNorms[i], tolerance * kNorms[i]) << c.name;
    EXPECT_EQ(checks::largest(values_of(model.set.gradients())), 0.0) << "gradients are zeroed";
  }
  EXPECT_EQ(optimizer.steps(), 3);
  checks::expect_close(model.values(), c.expected, tolerance, c.name);
  double squares = 0.0;  // what lies between the parameters stays zero
  for (const double value : values_of(model.set.values())) squares += value * value;
  double expected = 0.0;
  for (const double value : model.values()) expected += value * value;
  EXPECT_DOUBLE_EQ(squares, expected);
}

TEST(OptimizerTest, EqualsPyTorchInFloat64) {
  const UseBackend use(reference_backend());
  for (const Case& c : kCases) {
    expect_updates(c, DType::float64, 1.0, 1e-14);
    expect_updates(c, DType::float64, 1.0 / 128, 1e-14);
  }
}

TEST(OptimizerTest, EqualsPyTorchInFloat32) {
  // Three updates of some ten roundings each.
  for (const Case& c : kCases) {
    expect_updates(c, DType::float32, 1.0, 30 * checks::roundoff32);
    expect_updates(c, DType::float32, 1.0 / 1000, 30 * checks::roundoff32);
  }
}

TEST(OptimizerTest, ClipsOnlyAboveTheNorm) {
  const UseBackend use(reference_backend());
  const auto after = [](double clip_norm) {
    Model model(DType::float64);
    Case c = kCases[2];
    c.clip_norm = clip_norm;
    OptimizerOptions options = options_of(c);
    options.epsilon = 1.0;  // so that the size of a gradient matters at the first update
    Optimizer optimizer(model.set, options);
    model.set_gradient(kGradients[0]);
    optimizer.step(0.01, 1.0);
    return model.values();
  };
  EXPECT_EQ(after(0.0), after(2.1)) << "the norm is 2.02";
  EXPECT_NE(after(0.0), after(2.0));
}

TEST(OptimizerTest, NeverAppliesWhatIsNotFinite) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    Model model(DType::float32), untouched(DType::float32);
    Optimizer optimizer(model.set, options_of(kCases[2])), fresh(untouched.set, options_of(kCases[2]));
    model.set_gradient(kGradients[0]);
    optimizer.step(0.01, 1.0);
    const std::vector<float> before = model.set.values().to_vector<float>();
    model.set_gradient({0.1, bad, 0.1, 0.1});
    const Optimizer::Update update = optimizer.step(0.01, 1.0);
    EXPECT_FALSE(update.applied);
    EXPECT_FALSE(std::isfinite(update.gradient_norm));
    EXPECT_EQ(model.set.values().to_vector<float>(), before);
    EXPECT_EQ(checks::largest(values_of(model.set.gradients())), 0.0) << "or it would poison the next step";
    EXPECT_EQ(optimizer.steps(), 1);

    // The moments and the count are as if the bad step had never been.
    untouched.set_gradient(kGradients[0]);
    fresh.step(0.01, 1.0);
    for (const auto& [m, o] : {std::pair(&model, &optimizer), std::pair(&untouched, &fresh)}) {
      m->set_gradient(kGradients[1]);
      EXPECT_TRUE(o->step(0.01, 1.0).applied);
    }
    EXPECT_EQ(model.set.values().to_vector<float>(), untouched.set.values().to_vector<float>());
  }
}

TEST(OptimizerTest, ANormAboveFloat32IsStillANumber) {
  Model model(DType::float32);
  Optimizer optimizer(model.set, options_of(kCases[3]));
  model.set_gradient({3e38, 3e38, 3e38, 3e38});
  const Optimizer::Update update = optimizer.step(0.01, 1.0);
  EXPECT_TRUE(update.applied) << "the squares are summed in float64 and the norm is clipped";
  EXPECT_NEAR(update.gradient_norm, 6e38, 1e32);
  for (const double value : model.values()) EXPECT_TRUE(std::isfinite(value));
}

TEST(OptimizerTest, OptionsOutOfRangeAreRefusedWithTheValue) {
  const auto refused = [](void (*change)(OptimizerOptions&), const char* said) {
    Model model(DType::float32);
    OptimizerOptions options;
    change(options);
    try {
      const Optimizer optimizer(model.set, options);
      ADD_FAILURE() << "accepted: " << said;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  };
  refused([](OptimizerOptions& o) { o.beta1 = 1.0; }, "beta1 1");
  refused([](OptimizerOptions& o) { o.beta2 = -0.1; }, "beta2 -0.1");
  refused([](OptimizerOptions& o) { o.epsilon = 0.0; }, "epsilon 0");
  refused([](OptimizerOptions& o) { o.weight_decay = -1.0; }, "weight decay -1");
  refused([](OptimizerOptions& o) { o.clip_norm = -2.0; }, "clip norm -2");
  refused([](OptimizerOptions& o) { o.clip_norm = NAN; }, "clip norm nan");
}

}  // namespace
}  // namespace transduce

#include "transduce/autograd/ops.h"

#include <algorithm>

namespace transduce::ops {
namespace {

// Messages are put together only when a check fails: these run before every op.

// Whether an op on these inputs has to leave a record.
template <class... Vars>
bool recording(const Vars&... inputs) {
  return Tape::current() != nullptr && (inputs.needs_gradient() || ...);
}

Tensor value_or_empty(const Var& v) { return v.empty() ? Tensor() : v.value(); }

// A result of an op: `backward(y)` is recorded when a gradient has to flow, and runs only if one arrived. `y`
// comes without its value: an op that reads that again keeps the tensor.
template <class F>
Var result(Tensor value, bool record, F&& backward) {
  Var y(std::move(value), record);
  if (record) {
    Tape::current()->record([y = y.without_value(), backward = std::forward<F>(backward)] {
      if (y.has_gradient()) backward(y);
    });
  }
  return y;
}

void check_matrix(const char* op, const char* what, const Var& x) {
  if (!x.empty() && x.value().rank() == 2) return;
  fail_input("[{}] expected {} to be a matrix, got {}", op, what,
             x.empty() ? "nothing" : to_string(x.shape()));
}

// For kernels that may not be given a column range of a wider matrix: they would misread it in silence.
void check_whole(const char* op, const char* what, const Var& x) {
  check_matrix(op, what, x);
  check_input(x.value().contiguous(), "[{}] expected {} to be a whole matrix, got columns of a wider one: {}",
              op, what, to_string(x.shape()));
}

void check_width(const char* op, const char* what, const Var& x, const char* letter, int64_t width) {
  check_matrix(op, what, x);
  if (x.dim(1) == width) return;
  fail_input("[{}] expected {} (N, {}) with {} = {}, got {}", op, what, letter, letter, width,
             to_string(x.shape()));
}

void check_vector(const char* op, const char* what, const Var& x, int64_t size) {
  if (x.empty() || (x.value().rank() == 1 && x.dim(0) == size)) return;
  fail_input("[{}] expected {} ({}), got {}", op, what, size, to_string(x.shape()));
}

void check_same(const char* op, const char* a_name, const Var& a, const char* b_name, const Var& b) {
  check_whole(op, a_name, a);
  check_whole(op, b_name, b);
  if (a.shape() == b.shape()) return;
  fail_input("[{}] expected {} and {} of one shape, got {} and {}", op, a_name, b_name, to_string(a.shape()),
             to_string(b.shape()));
}

// The ids must lie in the table: a wrong one would read foreign memory.
void check_ids(const char* op, const char* what, const Tensor& ids, int64_t limit) {
  if (ids.rank() != 1 || ids.dtype() != DType::int32) {
    fail_input("[{}] expected {} (N) int32, got {} {}", op, what, name_of(ids.dtype()),
               to_string(ids.shape()));
  }
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.size(); ++i) {
    check_input(id[i] >= 0 && id[i] < limit, "[{}] {} {} at place {} is outside of 0 to {}", op, what, id[i],
                i, limit - 1);
  }
}

void check_linear(const char* op, const Var& x, const Var& weight, const Var& bias) {
  check_whole(op, "weight", weight);
  check_width(op, "x", x, "I", weight.dim(1));
  check_vector(op, "bias", bias, weight.dim(0));
}

int64_t activated_width(const char* op, Activation kind, int64_t width) {
  if (kind != Activation::swiglu) return width;
  check_input(width % 2 == 0, "[{}] swiglu needs an even width (gate and value), got {}", op, width);
  return width / 2;
}

template <class T>
T sum_of(const Tensor& x) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
  Wide sum = 0;
  for (int64_t i = 0; i < x.size(); ++i) sum += x.data<T>()[i];
  return static_cast<T>(sum);
}

double total_of(const Tensor& x) {
  double sum = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    switch (x.dtype()) {
      case DType::float32:
        sum += static_cast<double>(x.data<float>()[i]);
        break;
      case DType::float64:
        sum += x.data<double>()[i];
        break;
      default:
        sum += x.data<std::complex<double>>()[i].real();
    }
  }
  return sum;
}

Tensor sum_tensor(const Tensor& x) {
  switch (x.dtype()) {
    case DType::float32:
      return Tensor::of<float>({1}, {sum_of<float>(x)});
    case DType::float64:
      return Tensor::of<double>({1}, {sum_of<double>(x)});
    default:
      return Tensor::of<std::complex<double>>({1}, {sum_of<std::complex<double>>(x)});
  }
}

double scalar(const Tensor& x) {
  return x.dtype() == DType::float32 ? static_cast<double>(*x.data<float>()) : *x.data<double>();
}

}  // namespace

int64_t chunk_rows(int64_t rows, int64_t vocabulary) {
  const int64_t wanted = std::max<int64_t>(320, (int64_t{1} << 22) / std::max<int64_t>(vocabulary, 1));
  return std::max<int64_t>(1, std::min(rows, wanted));
}

Var embedding(const EmbeddingInputs& in, double scale, float p) {
  check_whole("embedding", "table", in.table);
  check_ids("embedding", "id", in.ids, in.table.dim(0));
  if (in.position_table) {
    check_width("embedding", "position_table", in.position_table, "C", in.table.dim(1));
    check_ids("embedding", "position", in.positions, in.position_table.dim(0));
    check_input(in.positions.size() == in.ids.size(), "[embedding] {} ids but {} positions", in.ids.size(),
                in.positions.size());
  }
  const Dropout drop = next_dropout(p);
  Tensor y({in.ids.size(), in.table.dim(1)}, in.table.dtype());
  current_backend().embedding(in.ids, in.table.value(), in.positions, value_or_empty(in.position_table),
                              scale, drop, y);
  return result(y, recording(in.table, in.position_table), [=](const Var& out) {
    const Turn turn(in.table);
    current_backend().embedding_backward(out.gradient(), in.ids, in.positions, scale, drop,
                                         in.table.gradient(), in.position_table.gradient());
  });
}

Var rotary(const Var& x, const Tensor& positions, const Var& table) {
  check_whole("rotary", "table", table);
  check_matrix("rotary", "x", x);
  check_ids("rotary", "position", positions, table.dim(0));
  const int64_t head = table.dim(1);
  if (head < 2 || head % 2 != 0 || x.dim(1) % head != 0 || positions.size() != x.dim(0)) {
    fail_input(
        "[rotary] expected x (N, heads * D) with D = {}, which must be even, and N = {}, the positions, got "
        "{}",
        head, positions.size(), to_string(x.shape()));
  }
  Tensor y(x.shape(), x.dtype());
  current_backend().rotary(x.value(), positions, table.value(), y);
  return result(y, recording(x), [=](const Var& out) {
    current_backend().rotary_backward(out.gradient(), positions, table.value(), x.gradient());
  });
}

Var linear(const Var& x, const Var& weight, const Var& bias) {
  check_linear("linear", x, weight, bias);
  Tensor y({x.dim(0), weight.dim(0)}, x.dtype());
  if (weight.frozen() && x.dim(0) > Backend::few_rows && weight.packed()) {
    current_backend().linear_packed(x.value(), weight.packed(), value_or_empty(bias), y);
  } else {
    current_backend().linear(x.value(), weight.value(), value_or_empty(bias), y);
  }
  return result(y, recording(x, weight, bias), [=, input = x.value()](const Var& out) {
    const Turn turn(weight);
    current_backend().linear_backward(out.gradient(), input, weight.value(), x.gradient(), weight.gradient(),
                                      bias.gradient());
  });
}

Var activation(const Var& pre, Activation kind, float p) {
  check_whole("activation", "pre", pre);
  const Dropout drop = next_dropout(p);
  Tensor y({pre.dim(0), activated_width("activation", kind, pre.dim(1))}, pre.dtype());
  current_backend().activation(pre.value(), kind, drop, y);
  return result(y, recording(pre), [=, at = pre.value()](const Var& out) {
    current_backend().activation_backward(out.gradient(), at, kind, drop, pre.gradient());
  });
}

Var linear_activation(const Var& x, const Var& weight, const Var& bias, Activation kind, float p) {
  check_linear("linear_activation", x, weight, bias);
  check_whole("linear_activation", "x", x);
  if (weight.frozen()) return activation(linear(x, weight, bias), kind, p);
  const Dropout drop = next_dropout(p);
  const bool record = recording(x, weight, bias);
  const int64_t width = activated_width("linear_activation", kind, weight.dim(0));
  Tensor y({x.dim(0), width}, x.dtype());
  // (N, O): kept only for the gradient, or as room for a gate. ReLU's gradient can be told from y.
  Tensor pre;
  if ((record && kind != Activation::relu) || kind == Activation::swiglu || kind == Activation::none) {
    pre = Tensor({x.dim(0), weight.dim(0)}, x.dtype());
  }
  current_backend().linear_activation(x.value(), weight.value(), value_or_empty(bias), kind, drop, pre, y);
  const Tensor at = pre ? pre : y;
  return result(y, record, [=, input = x.value()](const Var& out) {
    Tensor dpre = Tensor::zeros(at.shape(), at.dtype());
    current_backend().activation_backward(out.gradient(), at, kind, drop, dpre);
    const Turn turn(weight);
    current_backend().linear_backward(dpre, input, weight.value(), x.gradient(), weight.gradient(),
                                      bias.gradient());
  });
}

Var residual(const Var& x, const Var& branch, float p) {
  check_same("residual", "x", x, "branch", branch);
  const Dropout drop = next_dropout(p);
  Tensor y(x.shape(), x.dtype());
  current_backend().residual(x.value(), branch.value(), drop, y);
  return result(y, recording(x, branch), [=, branch = branch.without_value()](const Var& out) {
    const Tensor dy = out.gradient();  // of no use to anyone after this
    current_backend().residual_backward(dy, drop, Tensor(), branch.gradient());
    if (!x.take_gradient(dy)) current_backend().residual_backward(dy, drop, x.gradient(), Tensor());
  });
}

Var dropout(const Var& x, float p) {
  check_whole("dropout", "x", x);
  const Dropout drop = next_dropout(p);
  if (!drop.active()) return x;
  Tensor y(x.shape(), x.dtype());
  current_backend().dropout(x.value(), drop, y);
  return result(y, recording(x), [=](const Var& out) {
    current_backend().dropout_backward(out.gradient(), drop, x.gradient());
  });
}

Var norm(const Var& x, const NormParameters& parameters) { return residual_norm(x, Var(), 0.0f, parameters); }

Var residual_norm(const Var& x, const Var& branch, float p, const NormParameters& parameters) {
  const auto& [gain, bias, spec] = parameters;
  check_whole("norm", "x", x);
  check_input(!gain.empty(), "[norm] expected a gain ({}), got nothing", x.dim(1));
  check_vector("norm", "gain", gain, x.dim(1));
  check_vector("norm", "bias", bias, x.dim(1));
  if (branch) check_same("norm", "x", x, "branch", branch);
  const Dropout drop = branch ? next_dropout(p) : Dropout{};
  const bool record = recording(x, branch, gain, bias);
  Tensor y(x.shape(), x.dtype()), sum, mean, inverse_deviation;
  if (record) {
    if (branch) sum = Tensor(x.shape(), x.dtype());
    mean = Tensor({x.dim(0)}, x.dtype());
    inverse_deviation = Tensor({x.dim(0)}, x.dtype());
  }
  current_backend().residual_norm(x.value(), value_or_empty(branch), drop, gain.value(), value_or_empty(bias),
                                  spec, sum, y, mean, inverse_deviation);
  if (!branch) sum = x.value();
  // Structured bindings cannot be captured; the struct of handles can.
  return result(y, record, [=, branch = branch.without_value()](const Var& out) {
    const Turn turn(parameters.gain);
    current_backend().residual_norm_backward(
        out.gradient(), sum, parameters.gain.value(), mean, inverse_deviation, parameters.spec, drop,
        x.gradient(), branch.gradient(), parameters.gain.gradient(), parameters.bias.gradient());
  });
}

Var attention(const Var& q, const Var& k, const Var& v, AttentionSpec spec, float p, Tensor* weights) {
  check_matrix("attention", "q", q);
  const int64_t width = q.dim(1);
  check_width("attention", "k", k, "C", width);
  check_width("attention", "v", v, "C", width);
  check_input(spec.heads >= 1 && width % spec.heads == 0, "[attention] width {} is not divisible by {} heads",
              width, spec.heads);
  check_input(k.dim(0) == v.dim(0), "[attention] {} keys but {} values", k.dim(0), v.dim(0));
  const int64_t keys = spec.key_rows ? spec.key_rows.size() : k.dim(0);
  if (spec.queries.rows != q.dim(0) || spec.keys.rows != keys) {
    fail_input("[attention] layouts of {} query and {} key rows do not fit q {} and k {}{}",
               spec.queries.rows, spec.keys.rows, to_string(q.shape()), to_string(k.shape()),
               spec.key_rows ? fmt::format(" with {} rows named", keys) : "");
  }
  if (spec.key_rows) check_ids("attention", "key row", spec.key_rows, k.dim(0));
  check_input(spec.queries.sequences() == spec.keys.sequences(), "[attention] {} query but {} key sequences",
              spec.queries.sequences(), spec.keys.sequences());
  if (spec.causal) {
    for (size_t b = 0; b < spec.queries.length.size(); ++b) {
      check_input(spec.keys.length[b] >= spec.queries.length[b],
                  "[attention] causal attention needs as many keys as queries, got {} and {} in sequence {}",
                  spec.keys.length[b], spec.queries.length[b], b);
    }
  }
  if (spec.visible &&
      (spec.visible.dtype() != DType::uint8 || spec.visible.size() != spec.block_elements())) {
    fail_input("[attention] expected a visible mask of {} uint8 elements (the sum of T x S), got {} {}",
               spec.block_elements(), name_of(spec.visible.dtype()), to_string(spec.visible.shape()));
  }
  spec.dropout = next_dropout(p);
  const bool record = recording(q, k, v);
  check_input(!record || !spec.key_rows,
              "[attention] rows of keys can be named only where no gradient is wanted");
  Tensor out({q.dim(0), width}, q.dtype()), log_sum_exp;
  if (record) log_sum_exp = Tensor({spec.heads, q.dim(0)}, q.dtype());
  if (weights != nullptr) *weights = Tensor({spec.heads, spec.block_elements()}, q.dtype());
  current_backend().attention(q.value(), k.value(), v.value(), spec, out, log_sum_exp,
                              weights != nullptr ? *weights : Tensor());
  return result(
      out, record,
      [=, spec = std::move(spec), queries = q.value(), keys = k.value(), values = v.value()](const Var& y) {
        current_backend().attention_backward(y.gradient(), queries, keys, values, out, log_sum_exp, spec,
                                             q.gradient(), k.gradient(), v.gradient());
      });
}

CrossEntropy linear_cross_entropy(const Var& x, const Var& weight, const Var& bias, const Tensor& targets,
                                  double smoothing) {
  check_linear("linear_cross_entropy", x, weight, bias);
  check_whole("linear_cross_entropy", "x", x);
  check_ids("linear_cross_entropy", "target", targets, weight.dim(0));
  if (targets.size() != x.dim(0)) {
    fail_input("[linear_cross_entropy] {} targets for x {}", targets.size(), to_string(x.shape()));
  }
  check_input(smoothing >= 0.0 && smoothing < 1.0,
              "label smoothing {} is out of range: give a value from 0 to below 1", smoothing);
  const int64_t rows = x.dim(0), vocabulary = weight.dim(0);
  const DType dtype = x.dtype();
  const bool record = recording(x, weight, bias);
  CrossEntropy loss;
  loss.likelihood = Tensor({rows}, dtype);
  loss.best = Tensor({rows}, DType::int32);
  const Tensor chunk({chunk_rows(rows, vocabulary), vocabulary}, dtype);
  const Tensor row_loss({rows}, dtype);
  // The gradients for an upstream gradient of 1, found in the pass that has the logits at hand. Where these
  // are one chunk, their gradient is what it keeps, and the weight's, which is larger, is left to the
  // backward pass.
  const bool whole = record && x.needs_gradient() && chunk.dim(0) == rows;
  Tensor dx, dweight, dbias;
  if (record && x.needs_gradient()) dx = Tensor::zeros(x.shape(), dtype);
  if (record && !whole && weight.needs_gradient()) dweight = Tensor::zeros(weight.shape(), dtype);
  if (record && !whole && bias.needs_gradient()) dbias = Tensor::zeros(bias.shape(), dtype);
  current_backend().linear_cross_entropy(x.value(), weight.value(), value_or_empty(bias), targets, smoothing,
                                         chunk, row_loss, loss.likelihood, loss.best, dx, dweight, dbias);
  loss.total = total_of(row_loss);
  const Tensor dlogits = whole ? chunk : Tensor();
  loss.sum = result(sum_tensor(row_loss), record, [=, input = x.value()](const Var& sum) {
    Backend& backend = current_backend();
    const double upstream = scalar(sum.gradient());
    if (dx) backend.accumulate(upstream, dx, x.gradient());
    const Turn turn(weight);
    if (dlogits && upstream != 1.0) backend.accumulate(upstream - 1.0, dlogits, dlogits);
    if (dlogits) {
      backend.linear_backward(dlogits, input, weight.value(), Tensor(), weight.gradient(), bias.gradient());
    }
    if (dweight) backend.accumulate(upstream, dweight, weight.gradient());
    if (dbias) backend.accumulate(upstream, dbias, bias.gradient());
  });
  return loss;
}

Var linear_int8(const Var& x, const Int8Matrix& weight, const Var& bias) {
  check_matrix("linear_int8", "x", x);
  check_width("linear_int8", "x", x, "I", weight.values.dim(1));
  check_input(!recording(x, bias, bias) && x.dtype() == DType::float32,
              "[linear_int8] an 8-bit weight serves inference in float32 only");
  const Tensor y({x.dim(0), weight.values.dim(0)}, x.dtype());
  current_backend().linear_int8(x.value(), weight, value_or_empty(bias), y);
  return Var(y);
}

CrossEntropy linear_int8_cross_entropy(const Var& x, const Int8Matrix& weight, const Var& bias,
                                       const Tensor& targets) {
  const int64_t rows = x.dim(0), vocabulary = weight.values.dim(0), step = chunk_rows(rows, vocabulary);
  check_ids("linear_int8_cross_entropy", "target", targets, vocabulary);
  CrossEntropy loss;
  loss.likelihood = Tensor({rows}, DType::float32);
  loss.best = Tensor({rows}, DType::int32);
  const int64_t blocks = (vocabulary + Backend::score_block - 1) / Backend::score_block;
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first);
    const Tensor logits = linear_int8(Var(x.value().rows(first, first + count)), weight, bias).value();
    const Tensor total({count}, DType::float32), block_max({count, blocks}, DType::float32);
    current_backend().log_sum_exp(logits, total, block_max);
    for (int64_t i = 0; i < count; ++i) {
      const float* row = logits.row<float>(i);
      const int32_t target = targets.data<int32_t>()[first + i];
      const float likelihood = row[target] - total.data<float>()[i];
      loss.likelihood.data<float>()[first + i] = likelihood;
      loss.best.data<int32_t>()[first + i] =
          static_cast<int32_t>(std::max_element(row, row + vocabulary) - row);
      loss.total -= static_cast<double>(likelihood);
    }
  }
  loss.sum = Var(Tensor::of<float>({1}, {static_cast<float>(loss.total)}));
  return loss;
}

}  // namespace transduce::ops

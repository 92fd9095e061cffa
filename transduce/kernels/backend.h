#pragma once

// The kernels a device must offer, declared once with their shapes. A device is one folder that implements
// Backend; nothing else knows where a tensor lives.
//
// Letters: B sequences, N packed token rows, M packed rows of the other side, T / S lengths of one target /
// source sequence, C width, H heads, D = C / H head size, F feed-forward width, V vocabulary, I / O in / out.
//
// Rules. Outputs are written, gradients (names that begin with d and stand last) are accumulated into, with
// no exception. An empty tensor stands for an absent optional argument; an empty gradient is not wanted.
// Matrices may be column ranges of wider ones only where marked "strided". All floating tensors of a call
// have one dtype. Kernels allocate no tensors. Shapes were checked by the caller (autograd/ops.cpp).

#include <cmath>

#include "transduce/base/random.h"
#include "transduce/tensor/layout.h"
#include "transduce/tensor/tensor.h"

namespace transduce {

enum class Activation { none, relu, gelu, gelu_tanh, swish, swiglu };
enum class NormKind { layer, rms };

// Inverted dropout: element i of the op's output is kept, times 1 / (1 - p), when random_word(key, i) >=
// p * 2^32, else it becomes 0. i counts the elements row by row. p = 0 does nothing.
struct Dropout {
  float p = 0.0f;
  RandomKey key;

  bool active() const { return p > 0.0f; }
  // random_word(key, i) below this drops element i.
  uint32_t threshold() const { return static_cast<uint32_t>(static_cast<double>(p) * 4294967296.0); }
  double scale() const { return 1.0 / (1.0 - static_cast<double>(p)); }
};

struct NormSpec {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
};

// Who may see whom in an attention call.
struct AttentionSpec {
  Layout queries;  // B sequences in the N query rows
  Layout keys;     // B sequences in the M key rows; with `key_rows` among its entries
  // (sum of S_b) int32, forward only: entry i names the row of k and v that holds key i. Sequences may share
  // rows, as the hypotheses of a beam share what they have in common. Empty: key i lies in row i.
  Tensor key_rows;
  int64_t heads = 1;
  // Query t of a sequence with T queries and S keys sees keys 0 .. S - T + t: the last query sees all.
  bool causal = false;
  bool scaled = true;  // scores are divided by sqrt(D); false: left as they are
  // (sum over b of T_b * S_b) uint8, block after block row by row: nonzero means "may be seen". Empty: all
  // may. A row that sees nothing attends to nothing: its output, gradients and weights are zero.
  Tensor visible;
  // On the probabilities; element index h * P + (position in the blocks as in `visible`), P = sum of T_b *
  // S_b.
  Dropout dropout;

  // P: the elements of all blocks.
  int64_t block_elements() const {
    int64_t sum = 0;
    for (size_t b = 0; b < queries.length.size(); ++b) sum += int64_t{queries.length[b]} * keys.length[b];
    return sum;
  }
  // What the scores of heads of size D are multiplied by.
  double scale(int64_t D) const { return scaled ? 1.0 / std::sqrt(static_cast<double>(D)) : 1.0; }
};

// Adam as torch.optim.Adam, AdamW as torch.optim.AdamW (decoupled weight decay).
struct AdamSpec {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.0;
  bool decoupled = false;       // true: AdamW
  int64_t step = 1;             // counts from 1, for the bias correction
  double gradient_scale = 1.0;  // every gradient is multiplied by it first (clipping, loss normalisation)
};

// A weight matrix in 8 bits, for inference: element (o, i) stands for scales[o] * values[o][i].
struct Int8Matrix {
  Tensor values;  // (O, I) int8, from -127 to 127
  Tensor scales;  // (O)
  Tensor packed;  // values as the backend wants to read them: see Backend::pack
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;

  // y = scale * table[id] + position_table[position], then dropout. torch.nn.Embedding with the paper's
  // sqrt(C).
  //   ids (N) int32; table (V, C); positions (N) int32; position_table (P, C) or empty; y (N, C)
  virtual void embedding(const Tensor& ids, const Tensor& table, const Tensor& positions,
                         const Tensor& position_table, double scale, const Dropout& dropout, Tensor y) = 0;
  //   dtable (V, C); dposition_table (P, C) or empty
  virtual void embedding_backward(const Tensor& dy, const Tensor& ids, const Tensor& positions, double scale,
                                  const Dropout& dropout, Tensor dtable, Tensor dposition_table) = 0;

  // Rotary positions (Su et al. 2021, RoFormer, equation 34). In every head of D columns the pair (2i, 2i +
  // 1) of row n is turned by the angle whose sine and cosine stand at the same columns of row positions[n] of
  // `table`, which is sinusoid_table(P, D) of nn/positions.h:
  //   y[2i] = cos x[2i] - sin x[2i + 1],   y[2i + 1] = sin x[2i] + cos x[2i + 1]
  //   x (N, heads * D) strided; positions (N) int32; table (P, D), D even; y (N, heads * D)
  virtual void rotary(const Tensor& x, const Tensor& positions, const Tensor& table, Tensor y) = 0;
  //   dy (N, heads * D) strided; dx (N, heads * D) strided
  virtual void rotary_backward(const Tensor& dy, const Tensor& positions, const Tensor& table, Tensor dx) = 0;

  // y = x weight^T + bias. torch.nn.functional.linear.
  //   x (N, I) strided; weight (O, I); bias (O) or empty; y (N, O) strided
  virtual void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) = 0;
  //   dy (N, O) strided; dx (N, I) strided; dweight (O, I); dbias (O)
  virtual void linear_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, Tensor dx,
                               Tensor dweight, Tensor dbias) = 0;

  // A weight (O, I) that stays as it is, in the form that products with more than `few_rows` rows read it in:
  // not made anew for each, y = linear_packed(x, pack(weight), bias) is linear(x, weight, bias). A backend
  // without such a form returns an empty tensor.
  //   x (N, I) strided; bias (O) or empty; y (N, O) strided
  static constexpr int64_t few_rows = 12;
  virtual Tensor pack(const Tensor& weight) = 0;
  virtual void linear_packed(const Tensor& x, const Tensor& packed, const Tensor& bias, Tensor y) = 0;

  // y = dropout(activation(pre)). swiglu: pre is (N, 2F), gate first: y = swish(pre[:, :F]) * pre[:, F:].
  // gelu is exact (erf), gelu_tanh the approximation, swish = x * sigmoid(x).
  //   pre (N, F) or (N, 2F); y (N, F)
  // The backward pass of relu takes y as well as pre.
  virtual void activation(const Tensor& pre, Activation kind, const Dropout& dropout, Tensor y) = 0;
  virtual void activation_backward(const Tensor& dy, const Tensor& pre, Activation kind,
                                   const Dropout& dropout, Tensor dpre) = 0;

  // Fills weight.packed from its values; to be called once they are there. A backend may leave it empty.
  virtual void pack(Int8Matrix& weight) = 0;
  // y = x weight^T + bias with every row of x rounded to 256 steps of equal size s from its least element to
  // its largest, zero among them: s = (max(x[i], 0) - min(x[i], 0)) / 255, y[i][o] = s * scales[o] * sum over
  // k of round(x[i][k] / s) * values[o][k] + bias[o]. The sum is exact, so a row's result does not depend on
  // the others, nor on the processor but for the last rounding. I <= 65536.
  //   x (N, I) strided; bias (O) or empty; y (N, O) strided
  virtual void linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias, Tensor y) = 0;

  // pre = x weight^T + bias; y = dropout(activation(pre)), fused. `pre` may be empty when no gradient is
  // wanted and the activation is neither none nor swiglu: then y serves as its room.
  //   x (N, I); weight (O, I); bias (O) or empty; pre (N, O); y (N, O), or (N, O / 2) for swiglu
  virtual void linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                                 const Dropout& dropout, Tensor pre, Tensor y) = 0;

  // y = x + dropout(branch).  x, branch, y (N, C)
  virtual void residual(const Tensor& x, const Tensor& branch, const Dropout& dropout, Tensor y) = 0;
  virtual void residual_backward(const Tensor& dy, const Dropout& dropout, Tensor dx, Tensor dbranch) = 0;

  // y = dropout(x).  x, y (N, C)
  virtual void dropout(const Tensor& x, const Dropout& dropout, Tensor y) = 0;
  virtual void dropout_backward(const Tensor& dy, const Dropout& dropout, Tensor dx) = 0;

  // sum = x + dropout(branch); y = (sum - mean) * inverse_deviation * gain + bias, row by row; the variance
  // is the biased one, epsilon under the root (torch.nn.LayerNorm). rms: mean is 0 and the mean square stands
  // for the variance (torch.nn.RMSNorm). An empty branch: plain norm of x, `sum` empty. Without gradients
  // mean and inverse_deviation may be empty; `sum` may be empty too, or be y itself.
  //   x, branch, sum, y (N, C); gain (C); bias (C) or empty; mean, inverse_deviation (N)
  virtual void residual_norm(const Tensor& x, const Tensor& branch, const Dropout& dropout,
                             const Tensor& gain, const Tensor& bias, const NormSpec& norm, Tensor sum,
                             Tensor y, Tensor mean, Tensor inverse_deviation) = 0;
  //   sum: what was normalised (x itself where there was no branch); dbranch empty where there was none
  virtual void residual_norm_backward(const Tensor& dy, const Tensor& sum, const Tensor& gain,
                                      const Tensor& mean, const Tensor& inverse_deviation,
                                      const NormSpec& norm, const Dropout& dropout, Tensor dx, Tensor dbranch,
                                      Tensor dgain, Tensor dbias) = 0;

  // Scaled dot-product attention, head by head and sequence by sequence (the paper, 3.2.1; head h uses
  // columns h * D .. h * D + D - 1): out = dropout(softmax(q k^T / sqrt(D))) v.
  //   q (N, C), k (M, C), v (M, C), out (N, C): all strided
  //   log_sum_exp (H, N): of each row's visible scaled scores; may be empty when no gradient is wanted
  //   weights (H, P): the probabilities before dropout, blocks as in AttentionSpec; empty when not wanted
  // Rows of `out` that belong to no sequence are left alone.
  virtual void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec,
                         Tensor out, Tensor log_sum_exp, Tensor weights) = 0;
  //   dout strided; dq, dk, dv strided. Sequences must not share rows.
  virtual void attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& out, const Tensor& log_sum_exp, const AttentionSpec& spec,
                                  Tensor dq, Tensor dk, Tensor dv) = 0;

  // The output layer and its loss, chunk by chunk so that (N, V) never exists: with p = softmax(x weight^T +
  // bias),
  //   loss[i] = -(1 - s) log p[target] - (s / V) sum over all v of log p[v]
  // as torch.nn.functional.cross_entropy with label_smoothing s, one value a row. The gradients of
  // sum over i of loss[i] are accumulated in the same pass where wanted. With R >= N the first N rows of
  // `chunk` are the gradient of the logits afterwards, if any gradient was wanted.
  //   x (N, C); weight (V, C); bias (V) or empty; targets (N) int32; chunk (R, V): room for R rows at a time
  //   loss (N): smoothed; likelihood (N): log p[target], or empty; best (N) int32: argmax, or empty
  //   dx (N, C); dweight (V, C); dbias (V)
  virtual void linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    const Tensor& targets, double smoothing, Tensor chunk, Tensor loss,
                                    Tensor likelihood, Tensor best, Tensor dx, Tensor dweight,
                                    Tensor dbias) = 0;

  // What a search needs of the next tokens' scores, in one pass: result[i] = log of the sum over v of
  // e^x[i][v] (torch.logsumexp), and block_max[i][b] = the largest of x[i][64 b .. 64 b + 63], so that the
  // best few are found without looking at all.
  //   x (N, V); result (N); block_max (N, ceil(V / 64))
  static constexpr int64_t score_block = 64;
  virtual void log_sum_exp(const Tensor& x, Tensor result, Tensor block_max) = 0;

  // y += scale * x, any shape, contiguous.
  virtual void accumulate(double scale, const Tensor& x, Tensor y) = 0;
  // The sum of squares, in float64, in an order that depends on the number of threads only.
  virtual double sum_of_squares(const Tensor& x) = 0;
  // One update over flat buffers (P).
  virtual void adam(const AdamSpec& spec, const Tensor& gradient, Tensor parameters, Tensor first_moment,
                    Tensor second_moment) = 0;
};

// The fast float32 kernels for the processor the program runs on.
Backend& cpu_backend();
// The scalar templates of reference.h for float32, float64 and complex128 (forward): documentation and
// oracle.
Backend& reference_backend();

}  // namespace transduce

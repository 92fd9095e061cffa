#pragma once

// Scalar reference of the loss and of the flat loops of the optimiser. See reference.h.

#include <algorithm>

#include "transduce/kernels/reference_layers.h"

namespace transduce::reference {

// log of the sum of exp over a row, with the largest taken out so that nothing overflows; its index in *best.
template <class T>
T log_sum_exp_of(Vector<const T> logits, int32_t* best) {
  *best = 0;
  for (size_t v = 1; v < logits.size(); ++v) {
    if (real_part(logits[v]) > real_part(logits[static_cast<size_t>(*best)])) *best = static_cast<int32_t>(v);
  }
  const T largest = T(real_part(logits[static_cast<size_t>(*best)]));
  T sum = T(0);
  for (const T logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

// loss[i] = -(1 - s) log p[target] - (s / V) sum over v of log p[v], with p = softmax(x weight^T + bias):
// torch.nn.functional.cross_entropy(reduction = "none", label_smoothing = s); the paper, 5.4 (Szegedy et al.
// 2016). The gradient of loss[i] for the logits is p[v] - s / V - (1 - s) [v is the target]. The logits exist
// for R rows at a time, in `chunk`, where their gradients take their place.
//   x (N, C), weight (V, C), bias (V) or absent, targets (N), chunk (R, V)
//   loss (N), likelihood (N) or absent, best (N) or absent, dx (N, C), dweight (V, C), dbias (V)
template <class T>
void linear_cross_entropy(Matrix<const T> x, Matrix<const T> weight, Vector<const T> bias,
                          Vector<const int32_t> targets, double smoothing, Matrix<T> chunk, Vector<T> loss,
                          Vector<T> likelihood, Vector<int32_t> best, Matrix<T> dx, Matrix<T> dweight,
                          Vector<T> dbias) {
  const int64_t vocabulary = weight.rows;
  const T share = T(smoothing / static_cast<double>(vocabulary));
  for (int64_t begin = 0; begin < x.rows; begin += chunk.rows) {
    const int64_t rows = std::min(chunk.rows, x.rows - begin);
    const Matrix<const T> chunk_x(x[begin], rows, x.columns, x.stride);
    const Matrix<T> logits(chunk.data, rows, vocabulary, chunk.stride);
    linear<T>(chunk_x, weight, bias, logits);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = begin + r, target = targets[i];
      int32_t largest = 0;
      const T total = log_sum_exp_of<T>(Vector<const T>(logits[r], vocabulary), &largest);
      T log_probabilities = T(0);  // of all words, summed up
      for (int64_t v = 0; v < vocabulary; ++v) log_probabilities += logits[r][v] - total;
      const T log_probability = logits[r][target] - total;
      loss[i] = -T(1 - smoothing) * log_probability - share * log_probabilities;
      if (!likelihood.empty()) likelihood[i] = log_probability;
      if (!best.empty()) best[i] = largest;
      for (int64_t v = 0; v < vocabulary; ++v) logits[r][v] = std::exp(logits[r][v] - total) - share;
      logits[r][target] -= T(1 - smoothing);
    }
    const Matrix<T> chunk_dx = dx ? Matrix<T>(dx[begin], rows, dx.columns, dx.stride) : Matrix<T>();
    linear_backward<T>(logits, chunk_x, weight, chunk_dx, dweight, dbias);
  }
}

// result[i] = log of the sum of exp(x[i]): torch.logsumexp; block_max: the largest of each `block` elements.
//   x (N, V), result (N), block_max (N, ceil(V / block))
template <class T>
void log_sum_exp(Matrix<const T> x, int64_t block, Vector<T> result, Matrix<T> block_max) {
  for (int64_t i = 0; i < x.rows; ++i) {
    int32_t best = 0;
    result[i] = log_sum_exp_of<T>(Vector<const T>(x[i], x.columns), &best);
    for (int64_t b = 0; b < block_max.columns; ++b) {
      const int64_t end = std::min(x.columns, (b + 1) * block);
      block_max[i][b] = *std::max_element(x[i] + b * block, x[i] + end);
    }
  }
}

// y += scale * x
template <class T>
void accumulate(double scale, Vector<const T> x, Vector<T> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += T(scale) * x[i];
}

// Sum of squares in float64: what torch.nn.utils.clip_grad_norm_ takes the root of.
template <class T>
double sum_of_squares(Vector<const T> x) {
  double sum = 0;
  for (const T value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// One step of torch.optim.Adam (Kingma and Ba 2015, algorithm 1; weight decay joins the gradient) or,
// decoupled, torch.optim.AdamW (Loshchilov and Hutter 2019, algorithm 2; weight decay shrinks the
// parameters).
//   all (P)
template <class T>
void adam(const AdamSpec& spec, Vector<const T> gradient, Vector<T> parameters, Vector<T> first_moment,
          Vector<T> second_moment) {
  const double correction1 = 1 - std::pow(spec.beta1, static_cast<double>(spec.step));
  const double correction2 = 1 - std::pow(spec.beta2, static_cast<double>(spec.step));
  for (size_t i = 0; i < parameters.size(); ++i) {
    T g = T(spec.gradient_scale) * gradient[i];
    if (spec.decoupled) {
      parameters[i] *= T(1 - spec.learning_rate * spec.weight_decay);
    } else {
      g += T(spec.weight_decay) * parameters[i];
    }
    first_moment[i] = T(spec.beta1) * first_moment[i] + T(1 - spec.beta1) * g;
    second_moment[i] = T(spec.beta2) * second_moment[i] + T(1 - spec.beta2) * g * g;
    const T m = first_moment[i] / T(correction1), v = second_moment[i] / T(correction2);
    parameters[i] -= T(spec.learning_rate) * m / (std::sqrt(v) + T(spec.epsilon));
  }
}

}  // namespace transduce::reference

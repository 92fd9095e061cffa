#pragma once

// Scalar reference of residual connection and normalisation in one. See reference.h.

#include "transduce/kernels/reference_scalar.h"

namespace transduce::reference {

// sum = x + dropout(branch); y = (sum - mean) * inverse_deviation * gain + bias, row by row.
// layer: torch.nn.functional.layer_norm (Ba et al. 2016): mean and biased variance of the row's C elements,
//   inverse_deviation = 1 / sqrt(variance + epsilon).
// rms: torch.nn.functional.rms_norm (Zhang and Sennrich 2019): the same with mean = 0.
//   x, branch (or absent), sum (or absent, or y itself), y (N, C); gain (C); bias (C) or absent;
//   mean, inverse_deviation (N) or absent
template <class T>
void residual_norm(Matrix<const T> x, Matrix<const T> branch, const Dropout& dropout, Vector<const T> gain,
                   Vector<const T> bias, const NormSpec& norm, Matrix<T> sum, Matrix<T> y, Vector<T> mean,
                   Vector<T> inverse_deviation) {
  const int64_t width = y.columns;
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      T value = x[i][c];
      if (branch) value += branch[i][c] * dropout_factor<T>(dropout, i * width + c);
      y[i][c] = value;  // until it is normalised below
      if (sum) sum[i][c] = value;
    }
    T center = T(0);
    if (norm.kind == NormKind::layer) {
      for (int64_t c = 0; c < width; ++c) center += y[i][c];
      center /= T(width);
    }
    T variance = T(0);
    for (int64_t c = 0; c < width; ++c) variance += (y[i][c] - center) * (y[i][c] - center);
    variance /= T(width);
    const T inverse = T(1) / std::sqrt(variance + T(norm.epsilon));
    for (int64_t c = 0; c < width; ++c) {
      y[i][c] = (y[i][c] - center) * inverse * gain[c] + (bias.empty() ? T(0) : bias[c]);
    }
    if (!mean.empty()) mean[i] = center;
    if (!inverse_deviation.empty()) inverse_deviation[i] = inverse;
  }
}

// With the normalised row n = (sum - mean) * r, where r = inverse_deviation, and dn = dy * gain:
//   dsum[c] = r * (dn[c] - average(dn) - n[c] * average(dn * n))
// The first average comes from the mean (so rms has none), the second from the deviation.
//   dy, sum (N, C); gain (C); mean, inverse_deviation (N); dx, dbranch (N, C); dgain, dbias (C)
template <class T>
void residual_norm_backward(Matrix<const T> dy, Matrix<const T> sum, Vector<const T> gain,
                            Vector<const T> mean, Vector<const T> inverse_deviation, const NormSpec& norm,
                            const Dropout& dropout, Matrix<T> dx, Matrix<T> dbranch, Vector<T> dgain,
                            Vector<T> dbias) {
  const int64_t width = dy.columns;
  for (int64_t i = 0; i < dy.rows; ++i) {
    const T center = norm.kind == NormKind::layer ? mean[i] : T(0), inverse = inverse_deviation[i];
    T average = T(0), average_product = T(0);
    for (int64_t c = 0; c < width; ++c) {
      const T normalised = (sum[i][c] - center) * inverse;
      if (norm.kind == NormKind::layer) average += dy[i][c] * gain[c];
      average_product += dy[i][c] * gain[c] * normalised;
    }
    average /= T(width);
    average_product /= T(width);
    for (int64_t c = 0; c < width; ++c) {
      const T normalised = (sum[i][c] - center) * inverse;
      const T dsum = inverse * (dy[i][c] * gain[c] - average - normalised * average_product);
      if (dx) dx[i][c] += dsum;
      if (dbranch) dbranch[i][c] += dsum * dropout_factor<T>(dropout, i * width + c);
      if (!dgain.empty()) dgain[c] += dy[i][c] * normalised;
      if (!dbias.empty()) dbias[c] += dy[i][c];
    }
  }
}

}  // namespace transduce::reference

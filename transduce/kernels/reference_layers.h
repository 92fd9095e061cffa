#pragma once

// Scalar reference of the layers that act on each token row by itself: embedding, linear, activation,
// residual and dropout. See reference.h.

#include <stdexcept>

#include "transduce/kernels/reference_scalar.h"

namespace transduce::reference {

// y[i] = dropout(scale * table[ids[i]] + position_table[positions[i]])
// torch.nn.functional.embedding; the sum with the positions and scale = sqrt(C) are of "Attention Is All You
// Need" (Vaswani et al. 2017), 3.4 and 3.5, its dropout of 5.4.
//   ids (N), table (V, C), positions (N), position_table (P, C) or absent, y (N, C)
template <class T>
void embedding(Vector<const int32_t> ids, Matrix<const T> table, Vector<const int32_t> positions,
               Matrix<const T> position_table, double scale, const Dropout& dropout, Matrix<T> y) {
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t c = 0; c < y.columns; ++c) {
      T sum = T(scale) * table[ids[i]][c];
      if (position_table) sum += position_table[positions[i]][c];
      y[i][c] = sum * dropout_factor<T>(dropout, i * y.columns + c);
    }
  }
}

//   dy (N, C), dtable (V, C), dposition_table (P, C)
template <class T>
void embedding_backward(Matrix<const T> dy, Vector<const int32_t> ids, Vector<const int32_t> positions,
                        double scale, const Dropout& dropout, Matrix<T> dtable, Matrix<T> dposition_table) {
  for (int64_t i = 0; i < dy.rows; ++i) {
    for (int64_t c = 0; c < dy.columns; ++c) {
      const T dsum = dy[i][c] * dropout_factor<T>(dropout, i * dy.columns + c);
      if (dtable) dtable[ids[i]][c] += T(scale) * dsum;
      if (dposition_table) dposition_table[positions[i]][c] += dsum;
    }
  }
}

// Every pair of columns of a head is a point of the plane that is turned by the angle of its position: rotary
// positions (Su et al. 2021). As a complex number it is multiplied by cos + i sin.
//   x (N, heads * D), positions (N), table (P, D): sine and cosine of each pair's angle, y (N, heads * D)
template <class T>
void rotary(Matrix<const T> x, Vector<const int32_t> positions, Matrix<const T> table, Matrix<T> y) {
  for (int64_t n = 0; n < y.rows; ++n) {
    for (int64_t c = 0; c < y.columns; c += 2) {
      const T* angle = table[positions[n]] + c % table.columns;
      const T sine = angle[0], cosine = angle[1];
      y[n][c] = cosine * x[n][c] - sine * x[n][c + 1];
      y[n][c + 1] = sine * x[n][c] + cosine * x[n][c + 1];
    }
  }
}

// A gradient is turned back.
//   dy, dx (N, heads * D)
template <class T>
void rotary_backward(Matrix<const T> dy, Vector<const int32_t> positions, Matrix<const T> table,
                     Matrix<T> dx) {
  for (int64_t n = 0; n < dx.rows; ++n) {
    for (int64_t c = 0; c < dx.columns; c += 2) {
      const T* angle = table[positions[n]] + c % table.columns;
      const T sine = angle[0], cosine = angle[1];
      dx[n][c] += cosine * dy[n][c] + sine * dy[n][c + 1];
      dx[n][c + 1] += cosine * dy[n][c + 1] - sine * dy[n][c];
    }
  }
}

// y = x weight^T + bias: torch.nn.functional.linear.
//   x (N, I), weight (O, I), bias (O) or absent, y (N, O)
template <class T>
void linear(Matrix<const T> x, Matrix<const T> weight, Vector<const T> bias, Matrix<T> y) {
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t o = 0; o < y.columns; ++o) {
      T sum = bias.empty() ? T(0) : bias[o];
      for (int64_t k = 0; k < x.columns; ++k) sum += x[i][k] * weight[o][k];
      y[i][o] = sum;
    }
  }
}

// dx += dy weight, dweight += dy^T x, dbias += the sum of dy's rows.
//   dy (N, O), x (N, I), weight (O, I), dx (N, I), dweight (O, I), dbias (O)
template <class T>
void linear_backward(Matrix<const T> dy, Matrix<const T> x, Matrix<const T> weight, Matrix<T> dx,
                     Matrix<T> dweight, Vector<T> dbias) {
  for (int64_t i = 0; i < dy.rows; ++i) {
    for (int64_t o = 0; o < dy.columns; ++o) {
      if (dx) {
        for (int64_t k = 0; k < dx.columns; ++k) dx[i][k] += dy[i][o] * weight[o][k];
      }
      if (dweight) {
        for (int64_t k = 0; k < dweight.columns; ++k) dweight[o][k] += dy[i][o] * x[i][k];
      }
      if (!dbias.empty()) dbias[o] += dy[i][o];
    }
  }
}

// torch.sigmoid
template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// sqrt(2 / pi), of the tanh approximation.
inline constexpr double gelu_tanh_scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
inline constexpr double gelu_tanh_cubic = 0.044715;

// torch.nn.functional.relu, gelu (approximate = "none" and "tanh"; Hendrycks and Gimpel 2016), silu.
template <class T>
T activate(Activation kind, T x) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::relu:
      return real_part(x) > 0 ? x : T(0);
    case Activation::gelu:
      return T(0.5) * x * (T(1) + erf(x * T(1 / std::numbers::sqrt2)));
    case Activation::gelu_tanh: {
      const T u = T(gelu_tanh_scale) * (x + T(gelu_tanh_cubic) * x * x * x);
      return T(0.5) * x * (T(1) + std::tanh(u));
    }
    case Activation::swish:
      return x * sigmoid(x);
    case Activation::swiglu:
      break;
  }
  throw std::logic_error("[activation] swiglu is a function of two numbers");
}

// The derivative of activate.
template <class T>
T activate_slope(Activation kind, T x) {
  switch (kind) {
    case Activation::none:
      return T(1);
    case Activation::relu:
      return real_part(x) > 0 ? T(1) : T(0);
    case Activation::gelu: {
      // x Phi(x) has the slope Phi(x) + x phi(x), with the normal distribution Phi and its density phi.
      const T distribution = T(0.5) * (T(1) + erf(x * T(1 / std::numbers::sqrt2)));
      const T density = T(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * std::exp(T(-0.5) * x * x);
      return distribution + x * density;
    }
    case Activation::gelu_tanh: {
      const T u = T(gelu_tanh_scale) * (x + T(gelu_tanh_cubic) * x * x * x);
      const T du = T(gelu_tanh_scale) * (T(1) + T(3 * gelu_tanh_cubic) * x * x);
      const T tanh_u = std::tanh(u);
      return T(0.5) * (T(1) + tanh_u) + T(0.5) * x * (T(1) - tanh_u * tanh_u) * du;
    }
    case Activation::swish: {
      const T s = sigmoid(x);
      return s + x * s * (T(1) - s);
    }
    case Activation::swiglu:
      break;
  }
  throw std::logic_error("[activation] swiglu is a function of two numbers");
}

// y = dropout(activation(pre)). swiglu (Shazeer, "GLU variants improve Transformer", 2020):
// y = swish(gate) * up with pre = [gate, up]. y may be pre itself, but for swiglu.
//   pre (N, F), or (N, 2F) for swiglu; y (N, F)
template <class T>
void activation(Matrix<const T> pre, Activation kind, const Dropout& dropout, Matrix<T> y) {
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t f = 0; f < y.columns; ++f) {
      const T active = kind == Activation::swiglu
                           ? activate(Activation::swish, pre[i][f]) * pre[i][y.columns + f]
                           : activate(kind, pre[i][f]);
      y[i][f] = active * dropout_factor<T>(dropout, i * y.columns + f);
    }
  }
}

//   dy (N, F); pre, dpre (N, F) or (N, 2F)
template <class T>
void activation_backward(Matrix<const T> dy, Matrix<const T> pre, Activation kind, const Dropout& dropout,
                         Matrix<T> dpre) {
  for (int64_t i = 0; i < dy.rows; ++i) {
    for (int64_t f = 0; f < dy.columns; ++f) {
      const T dactive = dy[i][f] * dropout_factor<T>(dropout, i * dy.columns + f);
      if (kind == Activation::swiglu) {
        const T gate = pre[i][f], up = pre[i][dy.columns + f];
        dpre[i][f] += dactive * up * activate_slope(Activation::swish, gate);
        dpre[i][dy.columns + f] += dactive * activate(Activation::swish, gate);
      } else {
        dpre[i][f] += dactive * activate_slope(kind, pre[i][f]);
      }
    }
  }
}

// pre = x weight^T + bias; y = dropout(activation(pre)). With pre absent y is its room.
//   x (N, I), weight (O, I), bias (O) or absent, pre (N, O), y (N, O) or (N, O / 2) for swiglu
template <class T>
void linear_activation(Matrix<const T> x, Matrix<const T> weight, Vector<const T> bias, Activation kind,
                       const Dropout& dropout, Matrix<T> pre, Matrix<T> y) {
  const Matrix<T> room = pre ? pre : y;
  linear<T>(x, weight, bias, room);
  activation<T>(room, kind, dropout, y);
}

// y = x + dropout(branch): the paper's 3.1 and 5.4.
//   x, branch, y (N, C)
template <class T>
void residual(Matrix<const T> x, Matrix<const T> branch, const Dropout& dropout, Matrix<T> y) {
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t c = 0; c < y.columns; ++c) {
      y[i][c] = x[i][c] + branch[i][c] * dropout_factor<T>(dropout, i * y.columns + c);
    }
  }
}

template <class T>
void residual_backward(Matrix<const T> dy, const Dropout& dropout, Matrix<T> dx, Matrix<T> dbranch) {
  for (int64_t i = 0; i < dy.rows; ++i) {
    for (int64_t c = 0; c < dy.columns; ++c) {
      if (dx) dx[i][c] += dy[i][c];
      if (dbranch) dbranch[i][c] += dy[i][c] * dropout_factor<T>(dropout, i * dy.columns + c);
    }
  }
}

// y = dropout(x): torch.nn.functional.dropout (Srivastava et al. 2014), inverted: scaled when training.
//   x, y (N, C)
template <class T>
void dropout(Matrix<const T> x, const Dropout& spec, Matrix<T> y) {
  for (int64_t i = 0; i < y.rows; ++i) {
    for (int64_t c = 0; c < y.columns; ++c) y[i][c] = x[i][c] * dropout_factor<T>(spec, i * y.columns + c);
  }
}

template <class T>
void dropout_backward(Matrix<const T> dy, const Dropout& spec, Matrix<T> dx) {
  for (int64_t i = 0; i < dy.rows; ++i) {
    for (int64_t c = 0; c < dy.columns; ++c)
      dx[i][c] += dy[i][c] * dropout_factor<T>(spec, i * dy.columns + c);
  }
}

// y = s * scale * (round(x / s) values^T) + bias, 8 bits an element on both sides: s is the range of x's row,
// zero included, / 255 (Jacob et al. 2018, whose zero point is a whole number of steps), one scale a row of
// the weight.
//   x (N, I), values (O, I), scales (O), bias (O) or absent, y (N, O)
inline void linear_int8(Matrix<const float> x, Matrix<const int8_t> values, Vector<const float> scales,
                        Vector<const float> bias, Matrix<float> y) {
  for (int64_t i = 0; i < x.rows; ++i) {
    float low = 0.0f, high = 0.0f;
    for (int64_t k = 0; k < x.columns; ++k) low = std::min(low, x[i][k]), high = std::max(high, x[i][k]);
    const float range = high - low, scale = range / 255.0f, inverse = range > 0.0f ? 255.0f / range : 0.0f;
    const float highest = std::nearbyint(low * inverse) + 255.0f;  // the last of 256 steps
    for (int64_t o = 0; o < values.rows; ++o) {
      int64_t sum = 0;
      for (int64_t k = 0; k < x.columns; ++k) {
        sum += static_cast<int64_t>(std::min(std::nearbyint(x[i][k] * inverse), highest)) * values[o][k];
      }
      y[i][o] = static_cast<float>(sum) * (scale * scales[o]) + (bias.empty() ? 0.0f : bias[o]);
    }
  }
}

}  // namespace transduce::reference

#include "transduce/kernels/reference.h"

#include <stdexcept>
#include <string>

namespace transduce {
namespace {

// Calls f with a zero of the floating type that `dtype` names.
template <class F>
void forward_dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    case DType::complex128:
      return f(std::complex<double>{});
    default:
      throw std::logic_error(std::string("[reference] no kernel for ") + name_of(dtype));
  }
}

// The same for what has no complex128: backward passes and the optimiser.
template <class F>
void real_dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    default:
      throw std::logic_error(std::string("[reference] no backward or optimiser kernel for ") +
                             name_of(dtype));
  }
}

template <class T>
reference::Matrix<T> matrix(const Tensor& t) {
  if (t.empty()) return {};
  return {t.data<T>(), t.dim(0), t.dim(1), t.row_stride()};
}

// All elements of a contiguous tensor.
template <class T>
reference::Vector<T> vector(const Tensor& t) {
  if (t.empty()) return {};
  return {t.data<T>(), static_cast<size_t>(t.size())};
}

class ReferenceBackend : public Backend {
 public:
  const char* name() const override { return "reference"; }

  void embedding(const Tensor& ids, const Tensor& table, const Tensor& positions,
                 const Tensor& position_table, double scale, const Dropout& dropout, Tensor y) override {
    forward_dispatch(y.dtype(), [&]<class T>(T) {
      reference::embedding<T>(vector<int32_t>(ids), matrix<T>(table), vector<int32_t>(positions),
                              matrix<T>(position_table), scale, dropout, matrix<T>(y));
    });
  }

  void embedding_backward(const Tensor& dy, const Tensor& ids, const Tensor& positions, double scale,
                          const Dropout& dropout, Tensor dtable, Tensor dposition_table) override {
    real_dispatch(dy.dtype(), [&]<class T>(T) {
      reference::embedding_backward<T>(matrix<T>(dy), vector<int32_t>(ids), vector<int32_t>(positions), scale,
                                       dropout, matrix<T>(dtable), matrix<T>(dposition_table));
    });
  }

  void rotary(const Tensor& x, const Tensor& positions, const Tensor& table, Tensor y) override {
    forward_dispatch(y.dtype(), [&]<class T>(T) {
      reference::rotary<T>(matrix<T>(x), vector<int32_t>(positions), matrix<T>(table), matrix<T>(y));
    });
  }

  void rotary_backward(const Tensor& dy, const Tensor& positions, const Tensor& table, Tensor dx) override {
    real_dispatch(dy.dtype(), [&]<class T>(T) {
      reference::rotary_backward<T>(matrix<T>(dy), vector<int32_t>(positions), matrix<T>(table),
                                    matrix<T>(dx));
    });
  }

  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor y) override {
    forward_dispatch(y.dtype(), [&]<class T>(T) {
      reference::linear<T>(matrix<T>(x), matrix<T>(weight), vector<T>(bias), matrix<T>(y));
    });
  }

  void linear_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, Tensor dx, Tensor dweight,
                       Tensor dbias) override {
    real_dispatch(dy.dtype(), [&]<class T>(T) {
      reference::linear_backward<T>(matrix<T>(dy), matrix<T>(x), matrix<T>(weight), matrix<T>(dx),
                                    matrix<T>(dweight), vector<T>(dbias));
    });
  }

  void activation(const Tensor& pre, Activation kind, const Dropout& dropout, Tensor y) override {
    forward_dispatch(y.dtype(), [&]<class T>(T) {
      reference::activation<T>(matrix<T>(pre), kind, dropout, matrix<T>(y));
    });
  }

  void activation_backward(const Tensor& dy, const Tensor& pre, Activation kind, const Dropout& dropout,
                           Tensor dpre) override {
    real_dispatch(dy.dtype(), [&]<class T>(T) {
      reference::activation_backward<T>(matrix<T>(dy), matrix<T>(pre), kind, dropout, matrix<T>(dpre));
    });
  }

  void linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation kind,
                         const Dropout& dropout, Tensor pre, Tensor y) override {
    forward_dispatch(y.dtype(), [&]<class T>(T) {
      reference::linear_activation<T>(matrix<T>(x), matrix<T>(weight), vector<T>(bias), kind, dropout,
                                      matrix<T>(pre), matrix<T>(y));
    });
  }

  void residual(const Tensor& x, const Tensor& branch, const Dropout& dropout, Tensor y) override {
    forward_dispatch(y.dtype(), [&]<class T>(T) {
      reference::residual<T>(matrix<T>(x), matrix<T>(branch), dropout, matrix<T>(y));
    });
  }

  void residual_backward(const Tensor& dy, const Dropout& dropout, Tensor dx, Tensor dbranch) override {
    real_dispatch(dy.dtype(), [&]<class T>(T) {
      reference::residual_backward<T>(matrix<T>(dy), dropout, matrix<T>(dx), matrix<T>(dbranch));
    });
  }

  void dropout(const Tensor& x, const Dropout& dropout, Tensor y) override {
    forward_dispatch(y.dtype(),
                     [&]<class T>(T) { reference::dropout<T>(matrix<T>(x), dropout, matrix<T>(y)); });
  }

  void dropout_backward(const Tensor& dy, const Dropout& dropout, Tensor dx) override {
    real_dispatch(dy.dtype(),
                  [&]<class T>(T) { reference::dropout_backward<T>(matrix<T>(dy), dropout, matrix<T>(dx)); });
  }

  void residual_norm(const Tensor& x, const Tensor& branch, const Dropout& dropout, const Tensor& gain,
                     const Tensor& bias, const NormSpec& norm, Tensor sum, Tensor y, Tensor mean,
                     Tensor inverse_deviation) override {
    forward_dispatch(y.dtype(), [&]<class T>(T) {
      reference::residual_norm<T>(matrix<T>(x), matrix<T>(branch), dropout, vector<T>(gain), vector<T>(bias),
                                  norm, matrix<T>(sum), matrix<T>(y), vector<T>(mean),
                                  vector<T>(inverse_deviation));
    });
  }

  void residual_norm_backward(const Tensor& dy, const Tensor& sum, const Tensor& gain, const Tensor& mean,
                              const Tensor& inverse_deviation, const NormSpec& norm, const Dropout& dropout,
                              Tensor dx, Tensor dbranch, Tensor dgain, Tensor dbias) override {
    real_dispatch(dy.dtype(), [&]<class T>(T) {
      reference::residual_norm_backward<T>(matrix<T>(dy), matrix<T>(sum), vector<T>(gain), vector<T>(mean),
                                           vector<T>(inverse_deviation), norm, dropout, matrix<T>(dx),
                                           matrix<T>(dbranch), vector<T>(dgain), vector<T>(dbias));
    });
  }

  void attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec, Tensor out,
                 Tensor log_sum_exp, Tensor weights) override {
    forward_dispatch(out.dtype(), [&]<class T>(T) {
      reference::attention<T>(matrix<T>(q), matrix<T>(k), matrix<T>(v), spec, matrix<T>(out),
                              matrix<T>(log_sum_exp), matrix<T>(weights));
    });
  }

  void attention_backward(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& out, const Tensor& log_sum_exp, const AttentionSpec& spec, Tensor dq,
                          Tensor dk, Tensor dv) override {
    real_dispatch(dout.dtype(), [&]<class T>(T) {
      reference::attention_backward<T>(matrix<T>(dout), matrix<T>(q), matrix<T>(k), matrix<T>(v),
                                       matrix<T>(out), matrix<T>(log_sum_exp), spec, matrix<T>(dq),
                                       matrix<T>(dk), matrix<T>(dv));
    });
  }

  void linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                            double smoothing, Tensor chunk, Tensor loss, Tensor likelihood, Tensor best,
                            Tensor dx, Tensor dweight, Tensor dbias) override {
    const auto run = [&]<class T>(T) {
      reference::linear_cross_entropy<T>(matrix<T>(x), matrix<T>(weight), vector<T>(bias),
                                         vector<int32_t>(targets), smoothing, matrix<T>(chunk),
                                         vector<T>(loss), vector<T>(likelihood), vector<int32_t>(best),
                                         matrix<T>(dx), matrix<T>(dweight), vector<T>(dbias));
    };
    if (dx || dweight || dbias) {
      real_dispatch(x.dtype(), run);
    } else {
      forward_dispatch(x.dtype(), run);
    }
  }

  Tensor pack(const Tensor&) override { return Tensor(); }
  void linear_packed(const Tensor&, const Tensor&, const Tensor&, Tensor) override {
    throw std::logic_error("the reference packs no weights");
  }
  void pack(Int8Matrix&) override {}

  void linear_int8(const Tensor& x, const Int8Matrix& weight, const Tensor& bias, Tensor y) override {
    reference::linear_int8(matrix<float>(x), matrix<int8_t>(weight.values), vector<float>(weight.scales),
                           vector<float>(bias), matrix<float>(y));
  }

  void log_sum_exp(const Tensor& x, Tensor result, Tensor block_max) override {
    real_dispatch(x.dtype(), [&]<class T>(T) {
      reference::log_sum_exp<T>(matrix<T>(x), score_block, vector<T>(result), matrix<T>(block_max));
    });
  }

  void accumulate(double scale, const Tensor& x, Tensor y) override {
    forward_dispatch(y.dtype(),
                     [&]<class T>(T) { reference::accumulate<T>(scale, vector<T>(x), vector<T>(y)); });
  }

  double sum_of_squares(const Tensor& x) override {
    double sum = 0;
    real_dispatch(x.dtype(), [&]<class T>(T) { sum = reference::sum_of_squares<T>(vector<T>(x)); });
    return sum;
  }

  void adam(const AdamSpec& spec, const Tensor& gradient, Tensor parameters, Tensor first_moment,
            Tensor second_moment) override {
    real_dispatch(parameters.dtype(), [&]<class T>(T) {
      reference::adam<T>(spec, vector<T>(gradient), vector<T>(parameters), vector<T>(first_moment),
                         vector<T>(second_moment));
    });
  }
};

}  // namespace

Backend& reference_backend() {
  static ReferenceBackend backend;
  return backend;
}

}  // namespace transduce

#pragma once

// CTranslate2 models made up for tests: the bytes of a model.bin, and what such a model computes, written
// down from the description of its parts in float64 and apart from the program.

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "transduce/base/random.h"

namespace transduce::testing {

// Types by the number that they have in the file.
enum class Stored : uint8_t { float32, int8, int16, int32, float16, bfloat16 };
constexpr size_t stored_bytes[] = {4, 1, 2, 4, 2, 2};

// A model.bin, tensor by tensor.
struct ModelBin {
  struct Entry {
    std::string name;
    std::vector<uint32_t> shape;
    Stored type;
    std::string bytes;
  };
  uint32_t version = 2;
  std::string specification = "TransformerBase";
  uint32_t revision = 2;
  std::vector<Entry> entries;
  std::vector<std::pair<std::string, std::string>> aliases;

  template <class T>
  static std::string little(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  static std::string text(const std::string& value) {
    return little(static_cast<uint16_t>(value.size() + 1)) + value + '\0';
  }

  template <class T>
  void add(const std::string& name, const std::vector<uint32_t>& shape, Stored type,
           const std::vector<T>& values) {
    entries.push_back(
        {name, shape, type, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}});
  }
  void flag(const std::string& name, int8_t value) { add<int8_t>(name, {}, Stored::int8, {value}); }
  void number(const std::string& name, float value) { add<float>(name, {}, Stored::float32, {value}); }

  Entry& at(const std::string& name) {
    for (Entry& entry : entries) {
      if (entry.name == name) return entry;
    }
    throw std::out_of_range(name);
  }
  void remove(const std::string& name) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.name == name; });
  }

  std::string bytes() const {
    std::string out = little(version) + text(specification) + little(revision) +
                      little(static_cast<uint32_t>(entries.size()));
    for (const Entry& entry : entries) {
      out += text(entry.name) + little(static_cast<uint8_t>(entry.shape.size()));
      for (const uint32_t size : entry.shape) out += little(size);
      const auto size = static_cast<uint32_t>(entry.bytes.size());
      if (version >= 4) {
        out += little(entry.type) + little(size);
      } else {
        const auto item = static_cast<uint8_t>(stored_bytes[static_cast<size_t>(entry.type)]);
        out += little(item) + little(size / item);
      }
      out += entry.bytes;
    }
    if (version < 3) return out;
    out += little(static_cast<uint32_t>(aliases.size()));
    for (const auto& [alias, name] : aliases) out += text(alias) + text(name);
    return out;
  }
};

using Matrix = std::vector<std::vector<double>>;  // rows

struct MadeUp {
  int64_t source_rows = 7, target_rows = 6, width = 8, heads = 2, inner = 6, layers = 1;
  bool pre_norm = true;
  bool gelu = false;
  double epsilon = 1e-5;
  Matrix positions;                          // what stands in place of CTranslate2's own sinusoids
  std::map<std::string, Matrix> parameters;  // a vector is a matrix of one row

  // Draws every parameter.
  explicit MadeUp(uint64_t seed = 1) : random_({seed, 0}) {}
  void draw() {
    const int64_t c = width;
    parameters["encoder/embeddings/weight"] = matrix(source_rows, c);
    parameters["decoder/embeddings/weight"] = matrix(target_rows, c);
    linear("decoder/projection", target_rows, c);
    for (const std::string side : {"encoder", "decoder"}) {
      for (int64_t i = 0; i < layers; ++i) {
        const std::string layer = side + "/layer_" + std::to_string(i);
        attention(layer + "/self_attention", {3 * c, c});
        if (side == "decoder") attention(layer + "/attention", {c, 2 * c, c});
        norm(layer + "/ffn/layer_norm");
        linear(layer + "/ffn/linear_0", inner, c);
        linear(layer + "/ffn/linear_1", c, inner);
      }
      if (pre_norm) norm(side + "/layer_norm");
    }
  }

  // All parameters as float32, under their names.
  ModelBin file() const {
    ModelBin bin;
    for (const auto& [name, values] : parameters) {
      const bool vector = !name.ends_with("/weight");
      std::vector<float> flat;
      for (const auto& row : values) flat.insert(flat.end(), row.begin(), row.end());
      const auto rows = static_cast<uint32_t>(values.size()),
                 columns = static_cast<uint32_t>(values[0].size());
      bin.add(name, vector ? std::vector{columns} : std::vector{rows, columns}, Stored::float32, flat);
    }
    return bin;
  }

  // Log-probabilities (T, V) after each of `target`'s tokens; all ids are the file's.
  Matrix log_probabilities(const std::vector<int>& source, const std::vector<int>& target) const {
    const Matrix memory = stack("encoder", source, {});
    Matrix result = apply("decoder/projection", stack("decoder", target, memory));
    for (auto& row : result) {
      double sum = 0.0;
      for (const double x : row) sum += std::exp(x);
      for (double& x : row) x -= std::log(sum);
    }
    return result;
  }

 private:
  Matrix matrix(int64_t rows, int64_t columns, double around = 0.0) {
    Matrix m(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
    for (auto& row : m) {
      for (double& x : row) x = static_cast<float>(around + 0.5 * random_.normal());
    }
    return m;
  }
  void linear(const std::string& name, int64_t out, int64_t in) {
    parameters[name + "/weight"] = matrix(out, in);
    parameters[name + "/bias"] = matrix(1, out);
  }
  void norm(const std::string& name) {
    parameters[name + "/gamma"] = matrix(1, width, 1.0);
    parameters[name + "/beta"] = matrix(1, width);
  }
  void attention(const std::string& name, const std::vector<int64_t>& outs) {
    norm(name + "/layer_norm");
    std::vector<int64_t> all = outs;
    for (size_t i = 0; i < all.size(); ++i) linear(name + "/linear_" + std::to_string(i), all[i], width);
  }

  const Matrix& at(const std::string& name) const { return parameters.at(name); }

  Matrix apply(const std::string& name, const Matrix& x) const {
    const Matrix &weight = at(name + "/weight"), &bias = at(name + "/bias");
    Matrix y;
    for (const auto& row : x) {
      y.emplace_back();
      for (size_t o = 0; o < weight.size(); ++o) {
        double sum = bias[0][o];
        for (size_t i = 0; i < row.size(); ++i) sum += weight[o][i] * row[i];
        y.back().push_back(sum);
      }
    }
    return y;
  }

  Matrix normalized(const std::string& name, Matrix x) const {
    for (auto& row : x) {
      double mean = 0.0, variance = 0.0;
      for (const double v : row) mean += v / static_cast<double>(row.size());
      for (const double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + epsilon) * at(name + "/gamma")[0][i] +
                 at(name + "/beta")[0][i];
      }
    }
    return x;
  }

  // Columns [begin, begin + width).
  Matrix columns(const Matrix& x, int64_t begin) const {
    Matrix y;
    for (const auto& row : x) y.emplace_back(row.begin() + begin, row.begin() + begin + width);
    return y;
  }

  Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, bool causal) const {
    const auto size = static_cast<size_t>(width / heads);
    Matrix y(q.size(), std::vector<double>(static_cast<size_t>(width)));
    for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
      for (size_t i = 0; i < q.size(); ++i) {
        const size_t seen = causal ? i + 1 : k.size();
        std::vector<double> weight(seen);
        double sum = 0.0;
        for (size_t j = 0; j < seen; ++j) {
          double score = 0.0;
          for (size_t d = h * size; d < (h + 1) * size; ++d) score += q[i][d] * k[j][d];
          weight[j] = std::exp(score / std::sqrt(static_cast<double>(size)));
          sum += weight[j];
        }
        for (size_t j = 0; j < seen; ++j) {
          for (size_t d = h * size; d < (h + 1) * size; ++d) y[i][d] += weight[j] / sum * v[j][d];
        }
      }
    }
    return y;
  }

  template <class Sublayer>
  Matrix residual(const std::string& norm_name, const Matrix& x, Sublayer&& sublayer) const {
    Matrix y = sublayer(pre_norm ? normalized(norm_name, x) : x);
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t c = 0; c < x[i].size(); ++c) y[i][c] += x[i][c];
    }
    return pre_norm ? y : normalized(norm_name, y);
  }

  Matrix embedded(const std::string& side, const std::vector<int>& ids) const {
    Matrix x;
    const auto half = static_cast<size_t>(width / 2);
    for (size_t t = 0; t < ids.size(); ++t) {
      x.push_back(at(side + "/embeddings/weight")[static_cast<size_t>(ids[t])]);
      for (size_t c = 0; c < x[t].size(); ++c) {
        const double angle =
            static_cast<double>(t + 1) *
            std::exp(-static_cast<double>(c % half) * std::log(10000.0) / static_cast<double>(half - 1));
        const double position =
            positions.empty() ? (c < half ? std::sin(angle) : std::cos(angle)) : positions[t][c];
        x[t][c] = x[t][c] * std::sqrt(static_cast<double>(width)) + position;
      }
    }
    return x;
  }

  Matrix stack(const std::string& side, const std::vector<int>& ids, const Matrix& memory) const {
    const bool decoder = side == "decoder";
    Matrix x = embedded(side, ids);
    for (int64_t i = 0; i < layers; ++i) {
      const std::string layer = side + "/layer_" + std::to_string(i), self = layer + "/self_attention",
                        cross = layer + "/attention", ffn = layer + "/ffn";
      x = residual(self + "/layer_norm", x, [&](const Matrix& h) {
        const Matrix qkv = apply(self + "/linear_0", h);
        return apply(self + "/linear_1",
                     attend(columns(qkv, 0), columns(qkv, width), columns(qkv, 2 * width), decoder));
      });
      if (decoder) {
        x = residual(cross + "/layer_norm", x, [&](const Matrix& h) {
          const Matrix kv = apply(cross + "/linear_1", memory);
          return apply(cross + "/linear_2",
                       attend(apply(cross + "/linear_0", h), columns(kv, 0), columns(kv, width), false));
        });
      }
      x = residual(ffn + "/layer_norm", x, [&](const Matrix& h) {
        Matrix inside = apply(ffn + "/linear_0", h);
        for (auto& row : inside) {
          for (double& v : row) v = gelu ? 0.5 * v * (1.0 + std::erf(v / std::sqrt(2.0))) : std::max(v, 0.0);
        }
        return apply(ffn + "/linear_1", inside);
      });
    }
    return pre_norm ? normalized(side + "/layer_norm", x) : x;
  }

  Random random_;
};

}  // namespace transduce::testing

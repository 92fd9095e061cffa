#pragma once

// The table of ops: for each the cases it is tested on, with the same mathematics written as plain loops.

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/check.h"
#include "transduce/autograd/ops.h"

namespace transduce::op_tests {

using checks::Complex;

// A matrix of complex numbers for the plain loops; a vector is one row; no rows and no columns: absent.
struct Grid {
  int64_t rows = 0, columns = 0;
  std::vector<Complex> values;

  Grid() = default;
  Grid(int64_t n, int64_t c) : rows(n), columns(c), values(static_cast<size_t>(n * c)) {}
  Complex* operator[](int64_t i) { return values.data() + i * columns; }
  const Complex* operator[](int64_t i) const { return values.data() + i * columns; }
  bool absent() const { return columns == 0; }
};

struct OpCase {
  std::string name;
  // What is differentiated by, float64 with values that float32 holds exactly; an empty tensor is an absent
  // argument.
  std::vector<Tensor> leaves;
  // The op under test.
  std::function<Var(const std::vector<Var>& leaves)> op;
  // The same by loops that share nothing with the kernels; dropout by next_dropout, in the op's order.
  std::function<Grid(const std::vector<Grid>& leaves)> plain;
  // For a fused op: the same by the ops it is made of. Null for others.
  std::function<Var(const std::vector<Var>& leaves)> composed = nullptr;
  // How far the case is from well-conditioned: what a relative error of its inputs may be multiplied by.
  double condition = 1.0;
};

struct OpRow {
  const char* name;
  std::vector<OpCase> (*cases)();

  friend void PrintTo(const OpRow& row, std::ostream* out) { *out << row.name; }
};

const std::vector<OpRow>& op_table();

}  // namespace transduce::op_tests

#pragma once

// The scalar reference: every kernel of backend.h, forward and backward, as plain loops. It documents the
// mathematics, and it is the oracle for the fast kernels: at float64 it is exact to about 1e-12, and its
// backward templates are themselves checked against complex-step derivatives of its forward templates.
//
// T is float, double or, forward, std::complex<double>. Everything is computed in T. Shapes are those of
// backend.h; names that begin with d are gradients and are accumulated into; an absent gradient is not
// wanted.

#include "transduce/kernels/reference_attention.h"
#include "transduce/kernels/reference_layers.h"
#include "transduce/kernels/reference_norm.h"
#include "transduce/kernels/reference_training.h"

#include "transduce/train/average.h"

#include "transduce/base/parallel.h"
#include "transduce/io/model_directory.h"

namespace transduce {

void average_parameters(const std::vector<std::string>& files, Transformer& model) {
  check_input(!files.empty(), "there is nothing to average: no file of parameters was named");
  check_input(model.parameters().int8_parameters().empty(),
              "weights in 8 bits cannot be averaged: average the models that they were made of");
  float* const values = model.parameters().values().data<float>();
  std::vector<double> sums(static_cast<size_t>(model.parameters().values().size()), 0.0);
  const auto for_all = [&](auto&& change) {
    parallel_for(static_cast<int64_t>(sums.size()), 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) change(sums[static_cast<size_t>(i)], values[i]);
    });
  };
  for (const std::string& file : files) {
    load_parameters(file, model);
    for_all([](double& sum, float& value) { sum += value; });
  }
  const auto count = static_cast<double>(files.size());
  for_all([&](double& sum, float& value) { value = static_cast<float>(sum / count); });
}

}  // namespace transduce

#pragma once

// Model files in the safetensors format (https://github.com/huggingface/safetensors): eight bytes with the
// length of the header, little-endian; the header, a JSON object that gives each tensor's dtype, shape and
// range of bytes; the elements, without gaps.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transduce/tensor/tensor.h"

namespace transduce {

// A file whose header has been read and checked; elements are read when asked for. F32, F64, I32, I8 and U8
// keep their type; F16 and BF16 become float32, which holds each of their values exactly.
class TensorReader {
 public:
  // What a tensor of the file will be in memory.
  struct Outline {
    Shape shape;
    DType dtype;
  };

  // Errors: InputError, one line that names the file, the tensor and the values, when the file cannot be
  // read, is cut short, or breaks any rule of the format: among them a header that is not such a JSON object,
  // is longer than 100,000,000 bytes or has more than 100,000 members, an unknown dtype, a name given twice,
  // a shape that does not match its range, and ranges that overlap, leave gaps or do not end with the file.
  explicit TensorReader(const std::string& path);
  ~TensorReader();

  const std::map<std::string, Outline>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // A tensor with its elements, in new memory or in `to`, which is contiguous and has its shape and type.
  // Errors: InputError when reading fails; std::out_of_range for a name that the file does not have,
  // std::logic_error for another shape or type.
  Tensor read(const std::string& name);
  void read(const std::string& name, const Tensor& to);

 private:
  struct Source;  // the open file, and where each tensor lies in it

  std::map<std::string, Outline> tensors_;
  std::map<std::string, std::string> metadata_;
  std::unique_ptr<Source> source_;
};

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads all tensors of a file. Errors: as TensorReader; memory is taken for elements when all is checked, so
// a small file never takes much.
TensorFile read_safetensors(const std::string& path);

// Writes float32, float64, int32, int8 and uint8 tensors to a file that is either complete or not there at
// all (see AtomicFile); strided tensors are written without their gaps. The elements lie in the order given,
// except that types of more bytes come first, as the official library writes them too: so every tensor is
// aligned for readers that map the file.
//
// Errors: InputError for an empty tensor, another dtype, a name given twice, the name "__metadata__", text
// that is not UTF-8, a header above the limits of read_safetensors; those of AtomicFile.
void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace transduce

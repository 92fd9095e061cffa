#pragma once

// model.bin, the file of parameters in a CTranslate2 model directory
// (https://github.com/OpenNMT/CTranslate2). Little-endian, without padding; u8, u16, u32 are unsigned
// integers, a string is a u16 with its length (the NUL at its end counts) and its bytes:
//
//   u32 version, string specification, u32 revision
//   u32 number of tensors, each:    string name, u8 rank, u32 size of each axis,
//                                   version 2 and 3: u8 bytes of an element (4 float32, 2 int16, 1 int8),
//                                                    u32 number of elements
//                                   from version 4:  u8 type (the enumeration below), u32 number of bytes
//                                   the elements, row by row
//   from version 3: u32 number of aliases, each: string alias, string name of a tensor above

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transduce/tensor/tensor.h"

namespace transduce {

class CTranslate2File {
 public:
  // Reads a file of version 2 to 6. Errors: InputError, one line that names the file, the tensor and the
  // values, when it cannot be read, is cut short, has another version, a type or rank unknown, a name given
  // twice, a shape that does not match its bytes, an alias of nothing, or bytes that follow the end. A count
  // or length is believed only as far as the file holds bytes for it, so memory stays within a few times the
  // file's size.
  explicit CTranslate2File(const std::string& path);

  // What error messages call it: the path in quotes.
  const std::string& name() const { return name_; }
  // e.g. "TransformerSpec", and the number of its layout, which grows when tensors are renamed.
  const std::string& specification() const { return specification_; }
  uint32_t revision() const { return revision_; }

  bool has(const std::string& tensor) const { return variables_.contains(tensor); }

  // The number in a tensor of rank 0; nothing where there is none of this name. Counts as taken. Errors:
  // InputError when the tensor has axes, or its value is not finite.
  std::optional<double> scalar(const std::string& tensor) const;

  // The values of a tensor as float32; counts as taken, and so does its scale. float16 and bfloat16 are
  // widened. int8 and int16 are divided by the tensor NAME_scale: one number, or one for each row. Errors:
  // InputError when there is no such tensor, it holds int32, its scale is missing, zero or of another size,
  // or a value is not finite.
  Tensor values(const std::string& tensor) const;

  // Whether a tensor holds floating-point numbers; a flag does not.
  bool is_floating(const std::string& tensor) const;

  // All elements of all tensors, aliases counted once each: bounds the size of the model.
  int64_t elements() const;

  // The shape of a tensor; empty also when there is none of this name.
  Shape shape(const std::string& tensor) const;

  // Tensors and aliases that nobody has taken, each with its shape or, of rank 0, its value: what an importer
  // does not know.
  std::vector<std::string> untaken() const;

 private:
  enum class Type : uint8_t { float32, int8, int16, int32, float16, bfloat16 };
  struct Variable {
    Shape shape;
    Type type = Type::float32;
    size_t begin = 0;       // of its elements in content_
    std::string stored_as;  // its own name, or the one it is an alias of
  };
  class Reader;

  const Variable& find(const std::string& tensor) const;
  std::vector<float> raw_values(const Variable& variable) const;
  void dequantize(const std::string& tensor, const Variable& variable, std::vector<float>& values) const;

  std::string name_;
  std::string content_;
  std::string specification_;
  uint32_t revision_ = 0;
  std::map<std::string, Variable> variables_;
  mutable std::set<std::string> taken_;
};

}  // namespace transduce

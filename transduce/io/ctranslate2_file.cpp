#include "transduce/io/ctranslate2_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "transduce/base/file.h"
#include "transduce/base/half.h"
#include "transduce/base/text.h"

namespace transduce {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read as they lie in memory");

constexpr uint32_t min_version = 2, max_version = 6;
constexpr size_t max_file_bytes = size_t{1} << 36;
constexpr size_t max_rank = 8;
constexpr size_t max_name_bytes = 1000;
constexpr const char* cut_short = "if it was cut short, copy or download it again";

// Bytes of an element, in the order of the file's enumeration.
constexpr size_t item_bytes[] = {4, 1, 2, 4, 2, 2};

// `count` elements of type T, which may lie at any address.
template <class T, class Convert>
std::vector<float> converted(const char* from, size_t count, Convert convert) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, from + i * sizeof(T), sizeof(T));
    values[i] = convert(element);
  }
  return values;
}

}  // namespace

// Goes through the file once. Nothing is taken from beyond its end.
class CTranslate2File::Reader {
 public:
  explicit Reader(CTranslate2File& file) : file_(file) {}

  void read() {
    const auto version = number<uint32_t>("version");
    check_input(
        version >= min_version && version <= max_version,
        "{} has version {}: versions {} to {} of CTranslate2's model.bin can be read; is it one? Convert "
        "the model again with a CTranslate2 of this time",
        file_.name_, version, min_version, max_version);
    file_.specification_ = string("specification");
    file_.revision_ = number<uint32_t>("revision");
    const auto tensors = number<uint32_t>("number of tensors");
    for (uint32_t i = 0; i < tensors; ++i) read_tensor(i, tensors, version);
    const uint32_t aliases = version >= 3 ? number<uint32_t>("number of aliases") : 0;
    for (uint32_t i = 0; i < aliases; ++i) read_alias();
    check_input(left() == 0, "{}: {} bytes follow the end of the last tensor or alias, at byte {}",
                file_.name_, left(), at_);
  }

 private:
  size_t left() const { return file_.content_.size() - at_; }

  // Moves over `bytes` bytes and returns where they begin.
  size_t pass(uint64_t bytes, const std::string& what) {
    check_input(bytes <= left(), "{}: the {} needs {} bytes at byte {}, but the file has {}; {}", file_.name_,
                what, bytes, at_, file_.content_.size(), cut_short);
    const size_t begin = at_;
    at_ += static_cast<size_t>(bytes);
    return begin;
  }

  template <class T>
  T number(const std::string& what) {
    T value;
    std::memcpy(&value, file_.content_.data() + pass(sizeof(T), what), sizeof(T));
    return value;
  }

  std::string string(const std::string& what) {
    const auto length = number<uint16_t>("length of the " + what);
    const size_t begin = pass(length, what);
    const std::string bytes = file_.content_.substr(begin, length);
    check_input(
        bytes.find('\0') + 1 == bytes.size() && length <= max_name_bytes + 1,
        "{}: the {} at byte {} is {} of {} bytes, where text that ends with NUL, of at most {} bytes, "
        "should stand",
        file_.name_, what, begin, in_quotes(bytes, 40), length, max_name_bytes);
    return bytes.substr(0, bytes.size() - 1);
  }

  void read_tensor(uint32_t index, uint32_t of, uint32_t version) {
    const std::string name = string(fmt::format("name of tensor {} of {}", index + 1, of));
    const std::string what = fmt::format("tensor {}", in_quotes(name, 100));
    Variable variable;
    variable.stored_as = name;
    const auto rank = number<uint8_t>("rank of " + what);
    check_input(rank <= max_rank, "{}: {} has rank {}: at most {} is known", file_.name_, what, rank,
                max_rank);
    for (int i = 0; i < rank; ++i) variable.shape.push_back(number<uint32_t>("shape of " + what));
    variable.type = version >= 4 ? type_of_id(number<uint8_t>("type of " + what), what)
                                 : type_of_size(number<uint8_t>("element size of " + what), what);
    const size_t item = item_bytes[static_cast<size_t>(variable.type)];
    const uint64_t stated = uint64_t{number<uint32_t>("size of " + what)} * (version >= 4 ? 1 : item);
    uint64_t needed = item;
    bool fits = true;
    for (const int64_t size : variable.shape) {
      fits = fits && !__builtin_mul_overflow(needed, static_cast<uint64_t>(size), &needed);
    }
    check_input(fits && needed == stated, "{}: {} of shape {} does not go with the {} bytes stated for it",
                file_.name_, what, to_string(variable.shape), stated);
    variable.begin = pass(stated, what);
    check_input(file_.variables_.emplace(name, std::move(variable)).second, "{} holds {} twice", file_.name_,
                what);
  }

  Type type_of_id(uint8_t id, const std::string& what) const {
    check_input(id < std::size(item_bytes), "{}: {} has type {}: types 0 to {} are known", file_.name_, what,
                id, std::size(item_bytes) - 1);
    return static_cast<Type>(id);
  }

  Type type_of_size(uint8_t bytes, const std::string& what) const {
    check_input(bytes == 4 || bytes == 2 || bytes == 1,
                "{}: {} has elements of {} bytes: 4 (float32), 2 (int16) and 1 (int8) are known", file_.name_,
                what, bytes);
    return bytes == 4 ? Type::float32 : bytes == 2 ? Type::int16 : Type::int8;
  }

  void read_alias() {
    const std::string alias = string("name of an alias"), name = string("name behind an alias");
    const auto found = file_.variables_.find(name);
    check_input(found != file_.variables_.end(), "{}: alias {} stands for {}, which the file does not hold",
                file_.name_, in_quotes(alias, 100), in_quotes(name, 100));
    check_input(file_.variables_.emplace(alias, Variable(found->second)).second,
                "{}: alias {} has the name of a tensor or of another alias", file_.name_,
                in_quotes(alias, 100));
  }

  CTranslate2File& file_;
  size_t at_ = 0;
};

CTranslate2File::CTranslate2File(const std::string& path) : name_(in_quotes(path, 4096)) {
  content_ = read_file(path, max_file_bytes);
  Reader(*this).read();
}

const CTranslate2File::Variable& CTranslate2File::find(const std::string& tensor) const {
  const auto found = variables_.find(tensor);
  check_input(found != variables_.end(), "{} lacks the tensor {}", name_, in_quotes(tensor, 100));
  return found->second;
}

Shape CTranslate2File::shape(const std::string& tensor) const {
  const auto found = variables_.find(tensor);
  return found == variables_.end() ? Shape{} : found->second.shape;
}

bool CTranslate2File::is_floating(const std::string& tensor) const {
  const auto found = variables_.find(tensor);
  if (found == variables_.end()) return false;
  const Type type = found->second.type;
  return type == Type::float32 || type == Type::float16 || type == Type::bfloat16;
}

int64_t CTranslate2File::elements() const {
  int64_t total = 0;
  for (const auto& [name, variable] : variables_) total += elements_of(variable.shape);
  return total;
}

std::vector<float> CTranslate2File::raw_values(const Variable& variable) const {
  const char* from = content_.data() + variable.begin;
  const auto count = static_cast<size_t>(elements_of(variable.shape));
  const auto plain = [](auto x) { return static_cast<float>(x); };
  switch (variable.type) {
    case Type::float32:
      return converted<float>(from, count, plain);
    case Type::int8:
      return converted<int8_t>(from, count, plain);
    case Type::int16:
      return converted<int16_t>(from, count, plain);
    case Type::int32:
      return converted<int32_t>(from, count, plain);
    case Type::float16:
      return converted<uint16_t>(from, count, from_half);
    case Type::bfloat16:
      return converted<uint16_t>(from, count, from_bfloat16);
  }
  throw std::logic_error("[ctranslate2] unknown type");
}

std::optional<double> CTranslate2File::scalar(const std::string& tensor) const {
  if (!has(tensor)) return std::nullopt;
  const Variable& variable = find(tensor);
  check_input(variable.shape.empty(), "{}: {} should be one number, but has shape {}", name_,
              in_quotes(tensor, 100), to_string(variable.shape));
  taken_.insert(tensor);
  const float value = raw_values(variable).front();
  check_input(std::isfinite(value), "{}: {} is not a finite number", name_, in_quotes(tensor, 100));
  return value;
}

void CTranslate2File::dequantize(const std::string& tensor, const Variable& variable,
                                 std::vector<float>& values) const {
  // The scale of an alias is that of the tensor behind it.
  const std::string scale_name = variable.stored_as + "_scale";
  taken_.insert({scale_name, tensor + "_scale"});
  const Variable& stored = find(scale_name);
  const std::vector<float> scale = raw_values(stored);
  const bool by_row = stored.shape.size() == 1;
  check_input(stored.type == Type::float32 && (stored.shape.empty() || by_row) &&
                  (!by_row || (!variable.shape.empty() && stored.shape[0] == variable.shape[0])),
              "{}: {} of shape {} does not fit the tensor {}: it must be float32, one number or one a row",
              name_, in_quotes(scale_name, 100), to_string(stored.shape), to_string(variable.shape));
  const size_t width = values.size() / std::max<size_t>(scale.size(), 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const float by = by_row ? scale[i / width] : scale[0];
    check_input(std::isfinite(by) && by != 0.0f, "{}: {} holds the scale {}", name_,
                in_quotes(scale_name, 100), by);
    values[i] /= by;
  }
}

Tensor CTranslate2File::values(const std::string& tensor) const {
  const Variable& variable = find(tensor);
  taken_.insert(tensor);
  check_input(variable.type != Type::int32,
              "{}: tensor {} {} holds int32 numbers: a kind of quantisation that cannot be read", name_,
              in_quotes(tensor, 100), to_string(variable.shape));
  std::vector<float> values = raw_values(variable);
  if (variable.type == Type::int8 || variable.type == Type::int16) dequantize(tensor, variable, values);
  check_input(std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }),
              "{}: tensor {} holds values that are not finite numbers: the file is damaged", name_,
              in_quotes(tensor, 100));
  return Tensor::of(variable.shape, values);
}

std::vector<std::string> CTranslate2File::untaken() const {
  std::vector<std::string> names;
  for (const auto& [name, variable] : variables_) {
    if (taken_.contains(name)) continue;
    const std::string what = variable.shape.empty() ? fmt::format("= {}", raw_values(variable).front())
                                                    : to_string(variable.shape);
    names.push_back(fmt::format("{} {}", in_quotes(name, 100), what));
  }
  return names;
}

}  // namespace transduce

#include "transduce/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "transduce/base/error.h"
#include "transduce/base/file.h"
#include "transduce/base/half.h"
#include "transduce/base/text.h"

namespace transduce {
namespace {

// What an error about a tensor begins with, put together where it is formatted.
struct About {
  std::string_view file;  // in quotes
  std::string_view name;
};

}  // namespace
}  // namespace transduce

template <>
struct fmt::formatter<transduce::About> : fmt::formatter<std::string_view> {
  auto format(const transduce::About& about, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}: tensor {}", about.file, transduce::in_quotes(about.name, 100));
  }
};

namespace transduce {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

constexpr uint64_t length_bytes = 8;
constexpr uint64_t max_header_bytes = 100'000'000;  // the official library's limit
constexpr size_t max_rank = 32;
constexpr size_t max_members =
    100'000;  // tensors and metadata of a file; keeps hostile headers quick to refuse
constexpr const char* metadata_key = "__metadata__";

// How a dtype of the format is stored and read.
struct Format {
  const char* name;
  uint64_t item_bytes;  // in the file
  DType dtype;          // in memory
};

constexpr Format formats[] = {
    {"F64", 8, DType::float64}, {"F32", 4, DType::float32},  {"I32", 4, DType::int32},
    {"F16", 2, DType::float32}, {"BF16", 2, DType::float32}, {"U8", 1, DType::uint8},
    {"I8", 1, DType::int8},
};

// What the header says of one tensor. Offsets count from the end of the header.
struct Entry {
  std::string dtype;
  Shape shape;
  std::vector<uint64_t> offsets;  // begin, end
  bool has_shape = false;
  const Format* format = nullptr;  // set by check_entry

  uint64_t begin() const { return offsets[0]; }
  uint64_t end() const { return offsets[1]; }
};

using Entries = std::map<std::string, Entry>;

struct Header {
  Entries entries;
  std::map<std::string, std::string> metadata;
};

void check_members(const std::string& file, size_t count) {
  check_input(count <= max_members, "{}: a header of more than {} tensors and metadata; split the file", file,
              max_members);
}

// Takes the header's JSON piece by piece, as the parser meets it, and admits only what the format has: so
// nothing can nest deeper, and no tree of values is built. Every function throws InputError for what does not
// belong.
class HeaderReader {
 public:
  HeaderReader(const std::string& file, Header& header) : file_(file), header_(header) {}

  bool null() { unexpected("null"); }
  bool boolean(bool value) { unexpected(value ? "true" : "false"); }
  bool number_integer(int64_t value) { unexpected(fmt::format("the number {}", value)); }
  bool number_float(double, const std::string& text) { unexpected(fmt::format("the number {:.40}", text)); }
  bool binary(std::vector<std::uint8_t>&) { unexpected("binary data"); }

  bool number_unsigned(uint64_t value) {
    if (place_ == Place::shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        unexpected(fmt::format("the number {}", value));
      }
      check_input(entry_->shape.size() < max_rank, "{} has a shape of more than {} sizes; {}",
                  About{file_, entry_name_}, max_rank, way_out);
      entry_->shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::offsets && entry_->offsets.size() < 2) {
      entry_->offsets.push_back(value);
    } else {
      unexpected(fmt::format("the number {}", value));
    }
    return true;
  }

  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      check_input(header_.metadata.emplace(key_, value).second, "{}: the metadata names {} twice; {}", file_,
                  in_quotes(key_, 100), way_out);
    } else if (place_ == Place::tensor && key_ == "dtype") {
      check_input(entry_->dtype.empty() && !value.empty(), "{} has an empty dtype or two; {}",
                  About{file_, entry_name_}, way_out);
      entry_->dtype = value;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(size_t) {
    if (place_ == Place::file) {
      place_ = Place::tensors;
    } else if (place_ == Place::tensors && key_ == metadata_key) {
      check_input(!has_metadata_, "{}: the header has {} twice; {}", file_, metadata_key, way_out);
      has_metadata_ = true;
      place_ = Place::metadata;
    } else if (place_ == Place::tensors) {
      const auto [at, is_new] = header_.entries.try_emplace(key_);
      check_input(is_new, "{} is in the header twice; {}", About{file_, key_}, way_out);
      entry_name_ = key_;
      entry_ = &at->second;
      place_ = Place::tensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& name) {
    key_ = name;
    if (place_ != Place::tensor) check_members(file_, header_.entries.size() + header_.metadata.size() + 1);
    if (place_ == Place::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      fail_input("{} has a field {} that the format does not have; {}", About{file_, entry_name_},
                 in_quotes(name, 100), way_out);
    }
    return true;
  }

  bool end_object() {
    if (place_ == Place::tensor) {
      const char* missing = entry_->dtype.empty()     ? "dtype"
                            : !entry_->has_shape      ? "shape"
                            : entry_->offsets.empty() ? "data_offsets"
                                                      : nullptr;
      check_input(missing == nullptr, "{} has no {}; {}", About{file_, entry_name_}, missing ? missing : "",
                  way_out);
    }
    place_ = place_ == Place::tensors ? Place::file : Place::tensors;
    return true;
  }

  bool start_array(size_t) {
    if (place_ == Place::tensor && key_ == "shape" && !entry_->has_shape) {
      entry_->has_shape = true;
      place_ = Place::shape;
    } else if (place_ == Place::tensor && key_ == "data_offsets" && entry_->offsets.empty()) {
      place_ = Place::offsets;
    } else {
      unexpected("an array");
    }
    return true;
  }

  bool end_array() {
    check_input(place_ != Place::offsets || entry_->offsets.size() == 2,
                "{} has {} data_offsets where two should stand; {}", About{file_, entry_name_},
                entry_->offsets.size(), way_out);
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    fail_input("{}: the header is not JSON: an error at its byte {}; {}", file_, position, way_out);
  }

  static constexpr const char* way_out = "write the file again with a safetensors library";

 private:
  enum class Place { file, tensors, metadata, tensor, shape, offsets };

  [[noreturn]] void unexpected(const std::string& found) const {
    switch (place_) {
      case Place::file:
        fail_input("{}: the header is {} where an object should stand; {}", file_, found, way_out);
      case Place::tensors:
        fail_input("{}: the header has {} for {} where an object should stand; {}", file_, found,
                   in_quotes(key_, 100), way_out);
      case Place::metadata:
        fail_input("{}: the metadata has {} for {} where a string should stand; {}", file_, found,
                   in_quotes(key_, 100), way_out);
      default:
        fail_input("{} has {} in its {} where it does not belong; {}", About{file_, entry_name_}, found, key_,
                   way_out);
    }
  }

  const std::string& file_;
  Header& header_;
  Place place_ = Place::file;
  std::string key_;         // the last one met
  std::string entry_name_;  // the tensor being read
  Entry* entry_ = nullptr;
  bool has_metadata_ = false;
};

Header parse_header(const std::string& file, const std::string& text) {
  // The parser would take a NUL for the end of the text, and skip a byte-order mark.
  check_input(text.starts_with('{') && text.find('\0') == std::string::npos,
              "{}: the header is not a JSON object; is this a safetensors file?", file);
  Header header;
  HeaderReader reader(file, header);
  nlohmann::json::sax_parse(text, &reader);
  return header;
}

// Sets the entry's format and checks its shape against its range, and the range against the file.
void check_entry(const std::string& file, const std::string& name, Entry& entry, uint64_t data_bytes) {
  const auto format = std::find_if(std::begin(formats), std::end(formats),
                                   [&](const Format& f) { return entry.dtype == f.name; });
  check_input(format != std::end(formats),
              "{} has dtype {}; F32, F64, F16, BF16, I32 and U8 can be read: convert it to one of them",
              About{file, name}, in_quotes(entry.dtype, 40));
  entry.format = format;
  uint64_t bytes = format->item_bytes;
  bool fits = true;
  for (const int64_t size : entry.shape) {
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
  }
  check_input(fits && bytes <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
              "{} is {} ({}): more bytes than can be counted; {}", About{file, name}, entry.dtype,
              fmt::join(entry.shape, ", "), HeaderReader::way_out);
  check_input(entry.begin() <= entry.end(), "{} has data_offsets {} to {}: the end lies before the begin; {}",
              About{file, name}, entry.begin(), entry.end(), HeaderReader::way_out);
  check_input(entry.end() <= data_bytes,
              "{} has data_offsets {} to {} but only {} bytes follow the header; "
              "if the file was cut short, copy or download it again",
              About{file, name}, entry.begin(), entry.end(), data_bytes);
  check_input(bytes == entry.end() - entry.begin(),
              "{} is {} ({}): {} bytes, but its data_offsets {} to {} hold {}; {}", About{file, name},
              entry.dtype, fmt::join(entry.shape, ", "), bytes, entry.begin(), entry.end(),
              entry.end() - entry.begin(), HeaderReader::way_out);
}

// The entries' bytes must cover the data exactly once.
void check_coverage(const std::string& file, const Entries& entries, uint64_t data_bytes) {
  std::vector<const Entries::value_type*> order;
  for (const auto& item : entries) order.push_back(&item);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->second.offsets < b->second.offsets; });
  uint64_t covered = 0;
  for (const auto* item : order) {
    const uint64_t begin = item->second.begin(), end = item->second.end();
    check_input(begin >= covered, "{} has data_offsets {} to {}, but bytes up to {} belong to another; {}",
                About{file, item->first}, begin, end, covered, HeaderReader::way_out);
    check_input(begin <= covered, "{} has data_offsets {} to {}, which leaves a gap from {}; {}",
                About{file, item->first}, begin, end, covered, HeaderReader::way_out);
    covered = end;
  }
  check_input(covered == data_bytes,
              "{}: {} bytes follow the last tensor, which ends at byte {} of the data; {}", file,
              data_bytes - covered, covered, HeaderReader::way_out);
}

// The elements of a contiguous tensor.
char* bytes_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::float64:
      return reinterpret_cast<char*>(tensor.data<double>());
    case DType::float32:
      return reinterpret_cast<char*>(tensor.data<float>());
    case DType::int32:
      return reinterpret_cast<char*>(tensor.data<int32_t>());
    case DType::int8:
      return reinterpret_cast<char*>(tensor.data<int8_t>());
    default:
      return reinterpret_cast<char*>(tensor.data<uint8_t>());
  }
}

// Reads exactly `bytes` bytes.
void read_bytes(std::ifstream& stream, const std::string& file, void* to, uint64_t bytes) {
  stream.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
  check_input(static_cast<uint64_t>(stream.gcount()) == bytes,
              "{}: reading stopped {} bytes short: the disk fails or the file changes while it is read", file,
              bytes - static_cast<uint64_t>(stream.gcount()));
}

// Reads `count` two-byte elements and widens them.
void read_widened(std::ifstream& stream, const std::string& file, float (*widen)(uint16_t), float* to,
                  uint64_t count) {
  std::vector<uint16_t> piece(std::min<uint64_t>(count, 1 << 16));
  for (uint64_t done = 0; done < count; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), count - done));
    read_bytes(stream, file, piece.data(), piece.size() * sizeof(uint16_t));
    to = std::transform(piece.begin(), piece.end(), to, widen);
  }
}

// Opens a regular file and sets `bytes` to its size.
std::ifstream open_file(const std::string& path, const std::string& file, uint64_t& bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  check_input(std::filesystem::exists(status), "{}: cannot read it: {}", file,
              error ? error.message() : "no such file");
  check_input(std::filesystem::is_regular_file(status), "{}: not a file; name the .safetensors file itself",
              file);
  std::ifstream stream(path, std::ios::binary);
  check_input(stream.is_open(), "{}: cannot read it: {}", file, std::strerror(errno));
  bytes = std::filesystem::file_size(path, error);
  check_input(!error, "{}: cannot read it: {}", file, error.message());
  return stream;
}

std::string read_header(std::ifstream& stream, const std::string& file, uint64_t file_bytes) {
  check_input(file_bytes >= length_bytes, "{}: {} bytes are too few for a safetensors file; copy it again",
              file, file_bytes);
  uint64_t header_bytes = 0;
  read_bytes(stream, file, &header_bytes, length_bytes);
  check_input(header_bytes <= max_header_bytes,
              "{}: a header of {} bytes is more than the format's {}; is this a safetensors file?", file,
              header_bytes, max_header_bytes);
  check_input(
      header_bytes <= file_bytes - length_bytes,
      "{}: a header of {} bytes does not fit in a file of {} bytes; if it was cut short, copy or download "
      "it again",
      file, header_bytes, file_bytes);
  std::string header(header_bytes, ' ');
  read_bytes(stream, file, header.data(), header_bytes);
  return header;
}

// ---- writing
// ---------------------------------------------------------------------------------------------------

const Format& format_of(const std::string& file, const std::string& name, const Tensor& tensor) {
  check_input(!tensor.empty(), "{} is empty and cannot be written", About{file, name});
  for (const Format& format : formats) {
    if (format.dtype == tensor.dtype() && format.item_bytes == size_of(tensor.dtype())) return format;
  }
  fail_input("{} is {}; float32, float64, int32, int8 and uint8 can be written", About{file, name},
             name_of(tensor.dtype()));
}

void check_header_size(const std::string& file, size_t bytes) {
  check_input(bytes <= max_header_bytes, "{}: a header of {} bytes or more is beyond the format's {}", file,
              bytes, max_header_bytes);
}

std::string json_string(const std::string& file, const std::string& text) {
  check_header_size(file, text.size());
  check_input(is_valid_utf8(text), "{}: {} is not UTF-8 and cannot be written", file, in_quotes(text, 100));
  return nlohmann::json(text).dump();
}

using NamedTensor = std::pair<std::string, Tensor>;

// The header, and the tensors in the order of their bytes.
std::pair<std::string, std::vector<const NamedTensor*>> lay_out(
    const std::string& file, const std::vector<NamedTensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  check_members(file, tensors.size() + metadata.size());
  std::vector<const NamedTensor*> order;
  std::set<std::string_view> names{metadata_key};
  for (const NamedTensor& item : tensors) {
    check_input(names.insert(item.first).second, "{}: the name {} is given twice or reserved", file,
                in_quotes(item.first, 100));
    format_of(file, item.first, item.second);
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return size_of(a->second.dtype()) > size_of(b->second.dtype());
  });

  std::vector<std::string> members;
  if (!metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [key, value] : metadata) {
      texts.push_back(json_string(file, key) + ":" + json_string(file, value));
    }
    members.push_back(fmt::format("\"{}\":{{{}}}", metadata_key, fmt::join(texts, ",")));
  }
  uint64_t begin = 0;
  for (const NamedTensor* item : order) {
    const auto& [name, tensor] = *item;
    const Format& format = format_of(file, name, tensor);
    const uint64_t end = begin + static_cast<uint64_t>(tensor.size()) * format.item_bytes;
    members.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  json_string(file, name), format.name, fmt::join(tensor.shape(), ","), begin,
                                  end));
    begin = end;
  }
  std::string header = fmt::format("{{{}}}", fmt::join(members, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  check_header_size(file, header.size());
  return {std::move(header), std::move(order)};
}

void write_elements(AtomicFile& out, const Tensor& tensor) {
  const int64_t rows = tensor.contiguous() ? 1 : tensor.dim(0);
  const auto bytes = static_cast<size_t>(tensor.size() / rows) * size_of(tensor.dtype());
  for (int64_t i = 0; i < rows; ++i) {
    out.write({bytes_of(rows == 1 ? tensor : tensor.rows(i, i + 1)), bytes});
  }
}

}  // namespace

struct TensorReader::Source {
  std::string file;  // its path in quotes
  std::ifstream stream;
  uint64_t data_begin = 0;
  Entries entries;
};

TensorReader::TensorReader(const std::string& path) : source_(std::make_unique<Source>()) {
  const std::string file = source_->file = in_quotes(path, 4096);
  uint64_t file_bytes = 0;
  source_->stream = open_file(path, file, file_bytes);
  const std::string text = read_header(source_->stream, file, file_bytes);
  source_->data_begin = length_bytes + text.size();
  const uint64_t data_bytes = file_bytes - source_->data_begin;

  Header header = parse_header(file, text);
  for (auto& [name, entry] : header.entries) check_entry(file, name, entry, data_bytes);
  check_coverage(file, header.entries, data_bytes);
  for (const auto& [name, entry] : header.entries) tensors_[name] = {entry.shape, entry.format->dtype};
  metadata_ = std::move(header.metadata);
  source_->entries = std::move(header.entries);
}

TensorReader::~TensorReader() = default;

Tensor TensorReader::read(const std::string& name) {
  const Outline& outline = tensors_.at(name);
  const Tensor tensor(outline.shape, outline.dtype);
  read(name, tensor);
  return tensor;
}

void TensorReader::read(const std::string& name, const Tensor& to) {
  const Entry& entry = source_->entries.at(name);
  if (to.shape() != entry.shape || to.dtype() != entry.format->dtype || !to.contiguous()) {
    throw std::logic_error(fmt::format("{} does not fit where it is to go", About{source_->file, name}));
  }
  std::ifstream& stream = source_->stream;
  stream.seekg(static_cast<std::streamoff>(source_->data_begin + entry.begin()));
  if (entry.format->item_bytes == size_of(to.dtype())) {
    read_bytes(stream, source_->file, bytes_of(to), entry.end() - entry.begin());
  } else {
    read_widened(stream, source_->file, entry.dtype == "F16" ? from_half : from_bfloat16, to.data<float>(),
                 static_cast<uint64_t>(to.size()));
  }
}

TensorFile read_safetensors(const std::string& path) {
  TensorReader reader(path);
  TensorFile result{{}, reader.metadata()};
  for (const auto& [name, outline] : reader.tensors()) result.tensors.emplace(name, reader.read(name));
  return result;
}

void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto [header, order] = lay_out(in_quotes(path, 4096), tensors, metadata);
  AtomicFile out(path);
  const uint64_t header_bytes = header.size();
  out.write({reinterpret_cast<const char*>(&header_bytes), length_bytes});
  out.write(header);
  for (const NamedTensor* item : order) write_elements(out, item->second);
  out.commit();
}

}  // namespace transduce

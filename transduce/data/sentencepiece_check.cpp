#include "transduce/data/sentencepiece_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {
namespace {

// The library builds its index of pieces by recursion, a level a byte.
constexpr size_t max_piece_bytes = 8192;
// The library keeps so many symbols, or rules, that begin at one place of a text.
constexpr int max_nested_symbols = 64, max_nested_rules = 32;

// A field of a protocol buffer message.
struct Field {
  uint64_t number = 0;
  enum class Type { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 } type = Type::varint;
  uint64_t value = 0;      // of a number
  std::string_view bytes;  // of the others
};

// Reads the fields of a message one by one.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field.number = key >> 3;
    field.type = static_cast<Field::Type>(key & 7);
    switch (field.type) {
      case Field::Type::varint:
        field.value = varint();
        return true;
      case Field::Type::fixed64:
        field.bytes = take(8);
        return true;
      case Field::Type::bytes:
        field.bytes = take(varint());
        return true;
      case Field::Type::fixed32:
        field.bytes = take(4);
        return true;
    }
    fail_input("it is not a SentencePiece model, or is damaged");
  }

 private:
  std::string_view take(uint64_t size) {
    check_input(size <= rest_.size(), "it ends early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    fail_input("it is not a SentencePiece model, or is damaged");
  }

  std::string_view rest_;
};

bool holds_message(const Field& field, uint64_t number) {
  return field.number == number && field.type == Field::Type::bytes;
}

template <class T>
T read_as(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// message SentencePiece: 1 piece, 2 score, 3 type (4: user-defined).
void check_piece(std::string_view message, std::vector<std::string_view>& user_symbols) {
  Message fields(message);
  std::string_view piece;
  bool user_defined = false;
  for (Field field; fields.next(field);) {
    if (holds_message(field, 1)) piece = field.bytes;
    if (field.number == 2 && field.type == Field::Type::fixed32) {
      check_input(std::isfinite(read_as<float>(field.bytes)), "the score of the piece {} is not a number",
                  in_quotes(piece, 40));
    }
    if (field.number == 3 && field.type == Field::Type::varint) user_defined |= field.value == 4;
  }
  check_input(piece.size() <= max_piece_bytes, "the piece {} is {} bytes long; at most {} are allowed",
              in_quotes(piece, 40), piece.size(), max_piece_bytes);
  if (user_defined) user_symbols.push_back(piece);
}

// How many symbols can begin at one place: the longest chain of which each begins with the one before.
void check_nesting(std::vector<std::string_view> symbols) {
  std::sort(symbols.begin(), symbols.end());
  std::vector<std::string_view> chain;
  for (const std::string_view symbol : symbols) {
    while (!chain.empty() && !symbol.starts_with(chain.back())) chain.pop_back();
    chain.push_back(symbol);
    check_input(std::ssize(chain) <= max_nested_symbols,
                "more than {} user-defined symbols begin with each other", max_nested_symbols);
  }
}

// The double array trie of normalization rules (Yata's Darts-clone): a unit of 32 bits a node. Whatever text
// the library walks through it, it must stay inside.
class RuleTrie {
 public:
  // `results`: bytes that the values of the trie point into.
  RuleTrie(std::string_view units, size_t results)
      : units_(units), size_(units.size() / sizeof(uint32_t)), results_(results) {}

  void check() {
    if (size_ == 0) fail_damaged();
    nested_.assign(size_, unseen);
    open(0);
    while (!path_.empty()) {
      Node& node = path_.back();
      if (node.label == 256) {
        close();
        continue;
      }
      const uint32_t child = node.children ^ static_cast<uint32_t>(node.label++);
      if (label(child) != static_cast<uint32_t>(node.label - 1)) continue;
      if (nested_[child] == on_path) fail_damaged();  // a circle
      if (nested_[child] == unseen) {
        open(child);
      } else {
        node.nested = std::max(node.nested, nested_[child]);
      }
    }
  }

 private:
  static constexpr int unseen = -1, on_path = -2;
  struct Node {
    uint32_t unit = 0;
    uint32_t children = 0;  // the unit of the child with label c is children ^ c
    int label = 0;          // the child to look at next
    int nested = 0;         // most rules on a way down from here
  };

  [[noreturn]] static void fail_damaged() { fail_input("its normalization rules are damaged"); }

  uint32_t unit(uint32_t i) const { return read_as<uint32_t>(units_.substr(i * sizeof(uint32_t))); }
  uint32_t label(uint32_t i) const { return unit(i) & 0x800000FFu; }

  void open(uint32_t at) {
    const uint32_t bits = unit(at);
    const uint64_t children = at ^ (uint64_t{bits >> 10} << ((bits & 0x200u) >> 6));
    if ((children | 0xFF) >= size_) fail_damaged();
    const bool has_rule = at != 0 && ((bits >> 8) & 1) != 0;
    const auto to = static_cast<uint32_t>(children);
    if (has_rule && (unit(to) & 0x7FFFFFFFu) >= results_) fail_damaged();
    nested_[at] = on_path;
    path_.push_back({at, to, 0, 0});
  }

  void close() {
    const Node node = path_.back();
    path_.pop_back();
    const int nested = node.nested + (node.unit != 0 ? static_cast<int>((unit(node.unit) >> 8) & 1) : 0);
    if (nested > max_nested_rules) fail_damaged();
    nested_[node.unit] = nested;
    if (!path_.empty()) path_.back().nested = std::max(path_.back().nested, nested);
  }

  std::string_view units_;
  size_t size_, results_;
  std::vector<int> nested_;  // of each unit, or unseen, or on_path
  std::vector<Node> path_;
};

// message NormalizerSpec: 2 the compiled rules, <size of the trie> <trie> <results>.
void check_rules(std::string_view message) {
  Message fields(message);
  for (Field field; fields.next(field);) {
    if (!holds_message(field, 2) || field.bytes.empty()) continue;
    check_input(field.bytes.size() > 4, "its normalization rules are damaged");
    const auto trie = read_as<uint32_t>(field.bytes);
    const std::string_view rest = field.bytes.substr(4);
    check_input(trie < rest.size(), "its normalization rules are damaged");
    RuleTrie(rest.substr(0, trie), rest.size() - trie).check();
  }
}

}  // namespace

// message ModelProto: 1 pieces, 3 normalization, 5 its undoing.
void check_sentencepiece_model(std::string_view model) {
  Message fields(model);
  std::vector<std::string_view> user_symbols;
  int64_t pieces = 0;
  for (Field field; fields.next(field);) {
    if (holds_message(field, 1)) {
      check_piece(field.bytes, user_symbols);
      ++pieces;
    } else if (holds_message(field, 3) || holds_message(field, 5)) {
      check_rules(field.bytes);
    }
  }
  check_input(pieces > 0, "it is not a SentencePiece model, or is damaged");
  check_nesting(std::move(user_symbols));
}

}  // namespace transduce

#include "transduce/data/corpus_index.h"

#include <algorithm>
#include <cstring>

#include "transduce/base/error.h"
#include "transduce/base/temporary_file.h"

namespace transduce {
namespace {

constexpr std::string_view magic = "trdindex", end_magic = "trdends\n";
constexpr uint64_t version = 1;
constexpr uint64_t pairs_in_block = 65536;
constexpr uint64_t header_bytes = 24;  // magic, version, bytes an element
constexpr uint64_t record_bytes = 16;  // begin, lengths
constexpr size_t write_bytes = size_t{1} << 20;
// Of what was looked at so much may stay in memory.
constexpr uint64_t resident_bytes = uint64_t{128} << 20;
// The system brings in so much around a place that is looked at.
constexpr uint64_t around_bytes = uint64_t{64} << 10;
// What is encoded or drawn at a time.
constexpr size_t part_pairs = 65536;
constexpr size_t part_bytes = size_t{16} << 20;

std::string_view bytes_of(const std::vector<int32_t>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)};
}

void add_ids(Hash& hash, std::string_view bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint32_t)) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    hash.add(word);
  }
}

// A side of a pair: its length and its elements.
void add_side(Hash& hash, std::string_view bytes, uint32_t element_bytes) {
  hash.add(static_cast<uint32_t>(bytes.size() / element_bytes));
  if (element_bytes == 1) {
    hash.add(bytes);
  } else {
    add_ids(hash, bytes);
  }
}

std::string words_for(uint64_t pairs, uint64_t hash) { return fmt::format("{} pairs, {:016x}", pairs, hash); }

// Takes pairs until they are enough for a part; empty at the end.
std::vector<TextPair> next_part(const PairSource& next) {
  std::vector<TextPair> pairs;
  size_t bytes = 0;
  for (TextPair pair; pairs.size() < part_pairs && bytes < part_bytes && next(pair);) {
    bytes += pair.source.size() + pair.target.size();
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

// A file without a name that becomes an index.
std::shared_ptr<const CorpusIndex> temporary_index(
    const std::string& directory, const std::function<void(const IndexWriter::Sink&)>& write) {
  TemporaryFile file(directory);
  write([&](std::string_view bytes) { file.write(bytes); });
  return std::make_shared<CorpusIndex>(file.path());
}

}  // namespace

uint64_t IndexSettings::fingerprint() const {
  Hash hash;
  for (const Tokenizer* tokenizer : {source.get(), target.get()}) {
    const std::string content = tokenizer->file_content();
    hash.add(fmt::format("{} {} {}\n", name_of(tokenizer->spec().kind),
                         name_of(tokenizer->spec().normal_form), content.size()));
    hash.add(content);
  }
  hash.add(fmt::format("{} tokens, {}, {}", limit.tokens, limit.cut, as_text));
  return hash.value();
}

IndexWriter::IndexWriter(Sink sink, uint32_t element_bytes)
    : sink_(std::move(sink)), element_bytes_(element_bytes) {
  const uint64_t numbers[] = {version, element_bytes};
  write(magic.data(), magic.size());
  write(numbers, sizeof(numbers));
}

void IndexWriter::add(const Example& pair) { write_pair(bytes_of(pair.source), bytes_of(pair.target)); }

void IndexWriter::add(const TextPair& pair) { write_pair(pair.source, pair.target); }

void IndexWriter::write_pair(std::string_view source, std::string_view target) {
  records_.push_back(written_);
  records_.push_back(source.size() / element_bytes_ | uint64_t{target.size() / element_bytes_} << 32);
  for (const std::string_view side : {source, target}) {
    add_side(content_, side, element_bytes_);
    write(side.data(), side.size());
  }
  ++pairs_;
  if (records_.size() == 2 * pairs_in_block) end_block();
}

void IndexWriter::end_block() {
  const uint64_t zeros = 0;
  write(&zeros, (8 - written_ % 8) % 8);
  blocks_.push_back(written_);
  write(records_.data(), records_.size() * sizeof(uint64_t));
  records_.clear();
}

void IndexWriter::finish(IndexSummary summary) {
  if (!records_.empty()) end_block();
  summary.pairs = pairs_;
  summary.content = content_.value();
  const uint64_t zeros = 0;
  write(&zeros, (8 - written_ % 8) % 8);
  write(blocks_.data(), blocks_.size() * sizeof(uint64_t));
  write(&summary, sizeof(summary));
  write(end_magic.data(), end_magic.size());
  sink_(buffer_);
  buffer_.clear();
}

void IndexWriter::write(const void* data, size_t bytes) {
  buffer_.append(static_cast<const char*>(data), bytes);
  written_ += bytes;
  if (buffer_.size() < write_bytes) return;
  sink_(buffer_);
  buffer_.clear();
}

CorpusIndex::CorpusIndex(const std::string& path) : file_(path) {
  const std::string name = in_quotes(path, 4096);
  check_frame(name);
  check_blocks(name);
  check_pairs(name);
  file_.let_go();
}

template <class T>
T CorpusIndex::read(uint64_t at) const {
  T value;
  std::memcpy(&value, file_.bytes().data() + at, sizeof(T));
  return value;
}

// Checks what stands at both ends.
void CorpusIndex::check_frame(const std::string& name) {
  constexpr uint64_t end_bytes = sizeof(IndexSummary) + end_magic.size();
  const std::string_view bytes = file_.bytes();
  check_input(bytes.size() >= header_bytes + end_bytes && bytes.starts_with(magic),
              "{} is no index of a corpus", name);
  check_input(bytes.ends_with(end_magic), "the index {} is cut short", name);
  const auto found = read<uint64_t>(magic.size()), element = read<uint64_t>(magic.size() + 8);
  check_input(found == version, "the index {} has version {}, this program reads version {}", name, found,
              version);
  check_input(element == 1 || element == 4, "the index {} is damaged: elements of {} bytes", name, element);
  element_bytes_ = static_cast<uint32_t>(element);
  summary_ = read<IndexSummary>(bytes.size() - end_bytes);
  const uint64_t blocks = summary_.pairs / pairs_in_block + (summary_.pairs % pairs_in_block > 0 ? 1 : 0);
  check_input(summary_.pairs <= UINT32_MAX && blocks * 8 <= bytes.size() - header_bytes - end_bytes &&
                  summary_.source_vocabulary <= INT32_MAX && summary_.target_vocabulary <= INT32_MAX,
              "the index {} is damaged: it cannot hold {} pairs", name, summary_.pairs);
  blocks_at_ = bytes.size() - end_bytes - blocks * 8;
}

// Checks that the records of each block lie behind one another within the file.
void CorpusIndex::check_blocks(const std::string& name) const {
  uint64_t end = header_bytes;
  for (uint64_t first = 0; first < summary_.pairs; first += pairs_in_block) {
    const uint64_t records = records_of(first);
    const uint64_t bytes = std::min(summary_.pairs - first, pairs_in_block) * record_bytes;
    check_input(records % 8 == 0 && records >= end && records <= blocks_at_ && bytes <= blocks_at_ - records,
                "the index {} is damaged: the block of pair {} lies outside", name, first + 1);
    end = records + bytes;
  }
  check_input(end == blocks_at_, "the index {} is damaged: it holds more than its pairs", name);
}

// Checks each pair: where it lies, its ids, and all of them together.
void CorpusIndex::check_pairs(const std::string& name) const {
  Hash hash;
  uint64_t end = header_bytes;  // of the pairs so far
  for (uint64_t i = 0; i < summary_.pairs; ++i) {
    if (i % pairs_in_block == 0) file_.let_go();
    const uint64_t records = records_of(i);
    const Record pair = record(i);
    const uint64_t bytes = (uint64_t{pair.source} + pair.target) * element_bytes_;
    check_input(pair.begin == end && end <= records && bytes <= records - end,
                "the index {} is damaged: pair {} lies outside", name, i + 1);
    end += bytes;
    for (const bool target : {false, true}) {
      const std::string_view side = elements(pair, target);
      add_side(hash, side, element_bytes_);
      const uint64_t vocabulary = target ? summary_.target_vocabulary : summary_.source_vocabulary;
      for (size_t at = 0; element_bytes_ == 4 && at < side.size(); at += 4) {
        uint32_t id = 0;
        std::memcpy(&id, side.data() + at, sizeof(id));
        check_input(id < vocabulary, "the index {} is damaged: pair {} has the id {} of {}", name, i + 1, id,
                    vocabulary);
      }
    }
    if ((i + 1) % pairs_in_block != 0 && i + 1 != summary_.pairs) continue;
    const std::string_view padding = file_.bytes().substr(end, records - end);
    check_input(padding.size() < 8 && padding.find_first_not_of('\0') == std::string_view::npos,
                "the index {} is damaged: something lies behind pair {}", name, i + 1);
    end = records + (i % pairs_in_block + 1) * record_bytes;
  }
  check_input(hash.value() == summary_.content,
              "the index {} is damaged: its content is not what was written", name);
}

LengthReport CorpusIndex::report() const {
  LengthReport report;
  report.pairs = static_cast<int64_t>(summary_.read);
  report.over = static_cast<int64_t>(summary_.over);
  report.longest = static_cast<int64_t>(summary_.longest);
  report.longest_pair = static_cast<int64_t>(summary_.longest_pair);
  return report;
}

uint64_t CorpusIndex::records_of(uint64_t i) const {
  return read<uint64_t>(blocks_at_ + i / pairs_in_block * 8);
}

CorpusIndex::Record CorpusIndex::record(uint64_t i) const {
  const uint64_t at = records_of(i) + i % pairs_in_block * record_bytes;
  const auto lengths = read<uint64_t>(at + 8);
  return {read<uint64_t>(at), static_cast<uint32_t>(lengths), static_cast<uint32_t>(lengths >> 32)};
}

std::string_view CorpusIndex::elements(const Record& record, bool target) const {
  const uint64_t source_bytes = uint64_t{record.source} * element_bytes_;
  return target ? file_.bytes().substr(record.begin + source_bytes, uint64_t{record.target} * element_bytes_)
                : file_.bytes().substr(record.begin, source_bytes);
}

std::vector<PairLengths> CorpusIndex::lengths() const {
  std::vector<PairLengths> lengths;
  lengths.reserve(summary_.pairs);
  for (uint64_t i = 0; i < summary_.pairs; ++i) {
    if (i % (16 * pairs_in_block) == 0) file_.let_go();
    const Record pair = record(i);
    lengths.push_back({pair.source, pair.target});
  }
  file_.let_go();
  return lengths;
}

void CorpusIndex::count_look(uint64_t bytes) const {
  looked_at_ += bytes + 2 * around_bytes;
  if (looked_at_ < resident_bytes) return;
  file_.let_go();
  looked_at_ = 0;
}

Example CorpusIndex::example(int64_t i) const {
  const Record pair = record(static_cast<uint64_t>(i));
  const auto ids = [&](bool target) {
    const std::string_view bytes = elements(pair, target);
    std::vector<int32_t> side(bytes.size() / sizeof(int32_t));
    if (!side.empty()) std::memcpy(side.data(), bytes.data(), bytes.size());
    return side;
  };
  Example example{ids(false), ids(true)};
  count_look((uint64_t{pair.source} + pair.target) * element_bytes_);
  return example;
}

TextPair CorpusIndex::text(int64_t i) const {
  const Record pair = record(static_cast<uint64_t>(i));
  TextPair text{std::string(elements(pair, false)), std::string(elements(pair, true))};
  count_look(text.source.size() + text.target.size());
  return text;
}

std::string CorpusIndex::fingerprint() const { return words_for(summary_.pairs, summary_.content); }

void write_index(const PairSource& next, const IndexSettings& settings, uint64_t inputs,
                 const IndexWriter::Sink& sink, const std::function<void(int64_t)>& told) {
  IndexWriter writer(sink, settings.as_text ? 1 : 4);
  LengthReport report;
  for (std::vector<TextPair> pairs = next_part(next); !pairs.empty(); pairs = next_part(next)) {
    std::vector<Example> examples = encode_pairs(pairs, *settings.source, *settings.target);
    report.append(limit_lengths(settings.limit, examples, &pairs));
    for (size_t i = 0; i < examples.size(); ++i) {
      if (settings.as_text) {
        writer.add(pairs[i]);
      } else {
        writer.add(examples[i]);
      }
    }
    if (told) told(report.pairs);
  }
  IndexSummary summary;
  summary.inputs = inputs;
  summary.settings = settings.fingerprint();
  summary.source_vocabulary = static_cast<uint64_t>(settings.source->vocabulary().size());
  summary.target_vocabulary = static_cast<uint64_t>(settings.target->vocabulary().size());
  summary.read = static_cast<uint64_t>(report.pairs);
  summary.over = static_cast<uint64_t>(report.over);
  summary.longest = static_cast<uint64_t>(report.longest);
  summary.longest_pair = static_cast<uint64_t>(report.longest_pair);
  writer.finish(summary);
}

std::shared_ptr<const CorpusIndex> sample_index(const CorpusIndex& texts, const IndexSettings& settings,
                                                const SubwordSampling& sampling, uint64_t epoch,
                                                const std::string& directory) {
  return temporary_index(directory, [&](const IndexWriter::Sink& sink) {
    int64_t at = 0;
    const PairSource next = [&](TextPair& pair) {
      if (at == texts.size()) return false;
      pair = texts.text(at++);
      return true;
    };
    IndexWriter writer(sink, 4);
    uint64_t part = 0;
    for (std::vector<TextPair> pairs = next_part(next); !pairs.empty(); pairs = next_part(next)) {
      std::vector<Example> examples =
          sample_pairs(pairs, *settings.source, *settings.target, sampling, epoch, part++);
      limit_lengths(settings.limit, examples);
      for (const Example& example : examples) writer.add(example);
    }
    IndexSummary summary;
    summary.source_vocabulary = static_cast<uint64_t>(settings.source->vocabulary().size());
    summary.target_vocabulary = static_cast<uint64_t>(settings.target->vocabulary().size());
    writer.finish(summary);
  });
}

std::shared_ptr<const CorpusIndex> index_examples(const std::vector<Example>& examples,
                                                  const std::string& directory) {
  return temporary_index(directory, [&](const IndexWriter::Sink& sink) {
    IndexWriter writer(sink, 4);
    IndexSummary summary;
    summary.source_vocabulary = summary.target_vocabulary = INT32_MAX;
    for (const Example& example : examples) writer.add(example);
    writer.finish(summary);
  });
}

std::string fingerprint(const std::vector<Example>& examples) {
  Hash hash;
  for (const Example& example : examples) {
    for (const auto* side : {&example.source, &example.target}) add_side(hash, bytes_of(*side), 4);
  }
  return words_for(examples.size(), hash.value());
}

}  // namespace transduce

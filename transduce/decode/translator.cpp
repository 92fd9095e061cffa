#include "transduce/decode/translator.h"

#include <algorithm>
#include <map>

namespace transduce {
namespace {

// Source tokens encoded at a time: bounds the memory of the encoder.
constexpr int64_t kEncodedTokens = 8192;

bool is_blank(const std::string& text) { return split_whitespace(text).empty(); }

bool same(const Tokenizer& a, const Tokenizer& b) {
  return a.kind() == b.kind() && a.normal_form() == b.normal_form() && a.vocabulary() == b.vocabulary();
}

std::vector<int32_t> known_tokens(const Tokenizer& tokenizer, const std::string& text, const char* what) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  check_input(!ids.empty() && std::find(ids.begin(), ids.end(), Vocabulary::unknown) == ids.end(),
              "{} {} holds a token that the target vocabulary lacks", what, in_quotes(text));
  return ids;
}

}  // namespace

void check_same_vocabularies(const std::vector<const Seq2SeqModel*>& models) {
  for (size_t i = 1; i < models.size(); ++i) {
    check_input(
        same(*models[0]->source, *models[i]->source) && same(*models[0]->target, *models[i]->target),
        "model {} of the ensemble has other vocabularies than the first: train them with the same ones",
        i + 1);
  }
}

int64_t source_limit(const std::vector<const Seq2SeqModel*>& models, int64_t wanted) {
  for (const Seq2SeqModel* model : models) {
    const TransformerConfig& config = model->transformer->config();
    if (config.positions == PositionKind::learned) wanted = std::min(wanted, config.max_positions - 1);
  }
  return wanted;
}

Translator::Translator(std::vector<const Seq2SeqModel*> models, const Options& options)
    : models_(std::move(models)), options_(options) {
  check_input(!models_.empty(), "there is no model to translate with");
  check_same_vocabularies(models_);
  const auto check = [](const char* name, int64_t value, int64_t high) {
    check_input(value >= 1 && value <= high, "{} {} is out of range: give 1 to {}", name, value, high);
  };
  check("batch size", options_.batch_size, 100000);
  check("read-ahead", options_.read_ahead, 10000000);
  check("max source length", options_.max_source_length, 1000000);
  options_.attention.validate(first().transformer->config());
  const Tokenizer& target = *first().target;
  SearchOptions& search = options_.search;
  search.vocabulary = target.vocabulary().size();
  for (const std::string& text : options_.forbidden) {
    const auto ids = known_tokens(target, text, "what is to be forbidden,");
    check_input(ids.size() == 1, "what is to be forbidden, {}, is not one token but {}", in_quotes(text),
                ids.size());
    search.forbidden.push_back(ids[0]);
  }
  if (options_.forbid_unknown) search.forbidden.push_back(Vocabulary::unknown);
  for (const std::string& text : options_.forced) {
    search.forced.push_back(known_tokens(target, text, "what is to be forced,"));
  }
  const Search checked(transformers(), search);
  max_source_length_ = source_limit(models_, options_.max_source_length);
}

std::vector<const Transformer*> Translator::transformers() const {
  std::vector<const Transformer*> all;
  for (const Seq2SeqModel* model : models_) all.push_back(model->transformer.get());
  return all;
}

// The lines of one run on their way.
class Translator::Stream {
 public:
  Stream(const Translator& translator, const Input& input, const Output& output)
      : translator_(translator),
        options_(translator.options_),
        input_(input),
        output_(output),
        search_(translator.transformers(), translator.options_.search) {}

  void run() {
    while (true) {
      if (pending_.empty()) take_lines();
      begin_sentences();
      emit();
      if (search_.size() == 0) {
        if (pending_.empty() && ended_) return;
        continue;
      }
      for (Search::Result& found : search_.step()) finish(found);
      emit();
    }
  }

 private:
  // Reads a window of lines, waiting for them only when there is nothing else to do; the longest come first.
  void take_lines() {
    // A sentence that takes long holds the finished ones behind it back: not without end.
    const int64_t most = options_.read_ahead + options_.batch_size;
    bool wait = search_.size() == 0;
    for (int64_t count = 0; count < options_.read_ahead && !ended_; ++count) {
      if (!wait && read_ - given_ >= most) break;
      Line line;
      const Next next = input_(line, wait);
      if (next == Next::later) break;
      if (next == Next::end) {
        ended_ = true;
        break;
      }
      take(std::move(line));
      wait = wait && pending_.empty();
    }
    std::stable_sort(pending_.begin(), pending_.end(), [](const SearchRequest& a, const SearchRequest& b) {
      return a.source.size() < b.source.size();
    });
  }

  void take(Line line) {
    Result result;
    result.number = ++read_;
    if (is_blank(line.source)) {
      result.translations.emplace_back();
      result.line = std::move(line);
      done_.emplace(result.number, std::move(result));
      return;
    }
    SearchRequest request;
    request.number = static_cast<uint64_t>(result.number);
    request.source = translator_.first().source->encode(line.source);
    request.prefix = translator_.first().target->encode(line.prefix);
    result.source_tokens = static_cast<int64_t>(request.source.size());
    if (result.source_tokens > translator_.max_source_length_) {
      result.cut_to = translator_.max_source_length_;
      request.source.resize(static_cast<size_t>(result.cut_to));
    }
    result.line = std::move(line);
    waiting_.emplace(result.number, std::move(result));
    pending_.push_back(std::move(request));
  }

  // Fills the places that are free, not one by one: a batch of few sentences is slow to encode.
  void begin_sentences() {
    const int64_t places = options_.batch_size - search_.size();
    if (search_.size() > 0 && places < options_.batch_size / 4) return;
    std::vector<SearchRequest> group;
    int64_t tokens = 0;
    for (int64_t i = 0; i < places && !pending_.empty(); ++i) {
      tokens += static_cast<int64_t>(pending_.back().source.size()) + 1;
      if (!group.empty() && tokens > kEncodedTokens) break;
      if (translator_.options_.alignments) sources_[pending_.back().number] = pending_.back().source;
      group.push_back(std::move(pending_.back()));
      pending_.pop_back();
    }
    search_.add(std::move(group));
  }

  void finish(Search::Result& found) {
    const auto at = waiting_.find(static_cast<int64_t>(found.number));
    Result& result = at->second;
    for (Hypothesis& hypothesis : found.hypotheses) {
      std::string text = translator_.first().target->decode(hypothesis.tokens);
      result.translations.push_back({std::move(text), std::move(hypothesis), {}});
    }
    if (options_.alignments) align(result, found.number);
    done_.insert(waiting_.extract(at));
  }

  void align(Result& result, uint64_t number) {
    const auto source = sources_.extract(number).mapped();
    for (Translation& translation : result.translations) {
      const auto attention = cross_attention(*translator_.first().transformer, {source},
                                             {translation.hypothesis.tokens}, options_.attention);
      translation.alignment = alignment(attention[0], static_cast<int64_t>(source.size()));
    }
  }

  void emit() {
    for (auto next = done_.find(given_ + 1); next != done_.end(); next = done_.find(given_ + 1)) {
      output_(next->second);
      done_.erase(next);
      ++given_;
    }
  }

  const Translator& translator_;
  const Options& options_;
  const Input& input_;
  const Output& output_;
  Search search_;
  std::vector<SearchRequest> pending_;                // read, not yet begun; the next stands last
  std::map<uint64_t, std::vector<int32_t>> sources_;  // of sentences in work, for alignments
  std::map<int64_t, Result> waiting_;                 // pending or in work
  std::map<int64_t, Result> done_;                    // whose turn has not come
  int64_t read_ = 0, given_ = 0;                      // lines so far
  bool ended_ = false;
};

void Translator::run(const Input& input, const Output& output) const { Stream(*this, input, output).run(); }

std::vector<std::vector<Translation>> Translator::translate(std::span<const std::string> lines) const {
  std::vector<std::vector<Translation>> results;
  size_t next = 0;
  run(
      [&](Line& line, bool) {
        if (next == lines.size()) return Next::end;
        line.source = lines[next++];
        return Next::line;
      },
      [&](const Result& result) { results.push_back(result.translations); });
  return results;
}

}  // namespace transduce

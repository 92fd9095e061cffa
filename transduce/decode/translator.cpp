#include "transduce/decode/translator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>

#include "transduce/base/parallel.h"

namespace transduce {
namespace {

// Source tokens encoded at a time: bounds the memory of the encoder.
constexpr int64_t kEncodedTokens = 8192;
// Tokens of a forced prefix at most: they are fed one by one.
constexpr int64_t kMaxPrefix = 1024;

bool same(const Tokenizer& a, const Tokenizer& b) {
  return a.spec() == b.spec() && a.file_content() == b.file_content();
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

std::vector<const Transformer*> transformers_of(const std::vector<const Seq2SeqModel*>& models) {
  std::vector<const Transformer*> all;
  for (const Seq2SeqModel* model : models) all.push_back(model->transformer.get());
  return all;
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
  const Search checked(transformers_of(models_), search);
  max_source_length_ = source_limit(models_, options_.max_source_length);
  max_prefix_length_ = source_limit(models_, kMaxPrefix);
}

// A prefix stands as it was given, also where the vocabulary does not know it all.
std::string Translator::text_of(const std::vector<int32_t>& tokens, const std::string& prefix) const {
  const Tokenizer& target = *first().target;
  std::string text = target.decode(tokens);
  if (!prefix.empty()) {
    const std::string known = target.decode(target.encode(prefix));
    if (text.starts_with(known)) text = prefix + text.substr(known.size());
  }
  return join_pieces(text, options_.joiner.empty() ? target.spec().joiner : options_.joiner);
}

// The lines of one run on their way. They are read in windows; the sentences of a window are sorted by length
// and dealt out to the workers, so which sentences a worker has in work together depends on the input alone,
// never on timing, and results repeat to the bit.
class Translator::Stream {
 public:
  Stream(const Translator& translator, const Input& input, const Output& output)
      : translator_(translator), options_(translator.options_), input_(input), output_(output) {}

  void run() {
    // Few sentences are better shared by all threads in each product, many are better dealt out.
    constexpr size_t kMany = 16;
    while (!ended_) {
      std::vector<SearchRequest> requests = read_window(true);
      const bool many = requests.size() >= kMany * static_cast<size_t>(threads());
      workers_.assign(many ? static_cast<size_t>(threads()) : 1, Worker());
      closing_ = ended_;
      windows_.clear();
      deal_out(std::move(requests));
      const auto work_all = [&](int64_t i) { work(workers_[static_cast<size_t>(i)]); };
      if (workers_.size() == 1) {
        work(workers_[0]);
      } else if (!run_together(threads(), work_all)) {
        merge_shares();
        work(workers_[0]);
      }
      emit();
    }
  }

 private:
  struct Worker {
    size_t window = 0;                                 // the one it takes sentences from
    std::map<uint64_t, size_t> in_work;                // number of a sentence -> its window
    std::map<uint64_t, std::vector<int32_t>> sources;  // of sentences in work, for alignments
    bool done = false;

    // It has finished the windows before this one.
    size_t oldest() const {
      size_t oldest = done ? SIZE_MAX : window;
      for (const auto& [number, its] : in_work) oldest = std::min(oldest, its);
      return oldest;
    }
  };

  void work(Worker& worker) {
    try {
      Search search(transformers_of(translator_.models_), options_.search);
      while (!failed_) {
        search.add(next_group(worker, search.size()));
        if (search.size() == 0) break;
        std::vector<Search::Result> found = search.step();
        const std::lock_guard<std::mutex> lock(mutex_);
        for (Search::Result& result : found) finish(worker, result);
        emit();
        changed_.notify_all();
      }
      end(worker, false);
    } catch (...) {
      end(worker, true);
      throw;
    }
  }

  void end(Worker& worker, bool failed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    worker.done = true;
    if (failed) failed_ = true;
    changed_.notify_all();
  }

  // What fills the places that are free, not one by one: a batch of few sentences is slow to encode.
  std::vector<SearchRequest> next_group(Worker& worker, int64_t in_work) {
    const auto workers = static_cast<int64_t>(workers_.size());
    const int64_t size = std::max<int64_t>(1, options_.batch_size / workers), places = size - in_work;
    std::vector<SearchRequest> group;
    if (in_work > 0 && places < (size + 3) / 4) return group;
    std::unique_lock<std::mutex> lock(mutex_);
    int64_t tokens = 0;
    while (static_cast<int64_t>(group.size()) < places) {
      const auto window = windows_.find(worker.window);
      if (window == windows_.end()) {
        if (closing_ || !deal_out(read_window(false))) break;
        continue;
      }
      std::vector<SearchRequest>& share = window->second[static_cast<size_t>(&worker - workers_.data())];
      if (share.empty()) {
        if (!next_window(worker, lock)) break;
        continue;
      }
      tokens += static_cast<int64_t>(share.back().source.size()) + 1;
      if (!group.empty() && tokens > kEncodedTokens) break;
      worker.in_work[share.back().number] = worker.window;
      if (options_.alignments) worker.sources[share.back().number] = share.back().source;
      group.push_back(std::move(share.back()));
      share.pop_back();
    }
    return group;
  }

  // Goes on to the next window once all are done with those before the present one, so that no more than
  // three are ever held. False while the worker itself is not.
  bool next_window(Worker& worker, std::unique_lock<std::mutex>& lock) {
    if (worker.oldest() < worker.window) return false;
    changed_.wait(lock, [&] {
      return failed_ || std::all_of(workers_.begin(), workers_.end(),
                                    [&](const Worker& other) { return other.oldest() >= worker.window; });
    });
    windows_.erase(windows_.begin(), windows_.lower_bound(worker.window));
    ++worker.window;
    return !failed_;
  }

  // Reads a window of lines, waiting for the first where asked to.
  std::vector<SearchRequest> read_window(bool wait) {
    std::vector<SearchRequest> requests;
    for (int64_t count = 0; count < options_.read_ahead; ++count) {
      Line line;
      const Next next = input_(line, wait);
      ended_ = next == Next::end;
      closing_ = closing_ || next != Next::line;
      if (next != Next::line) break;
      take(std::move(line), requests);
      wait = false;
    }
    std::stable_sort(requests.begin(), requests.end(), [](const SearchRequest& a, const SearchRequest& b) {
      return a.source.size() < b.source.size();
    });
    return requests;
  }

  // One worker does it all, where the threads are taken.
  void merge_shares() {
    std::vector<SearchRequest> all;
    for (auto& share : windows_.begin()->second)
      std::move(share.begin(), share.end(), std::back_inserter(all));
    workers_.resize(1);
    windows_.clear();
    deal_out(std::move(all));
  }

  // A new window; the longest sentences stand last and are taken first. False when there is nothing to do.
  bool deal_out(std::vector<SearchRequest> requests) {
    if (requests.empty() && closing_) return false;
    std::vector<std::vector<SearchRequest>> shares(workers_.size());
    for (size_t i = 0; i < requests.size(); ++i) shares[i % shares.size()].push_back(std::move(requests[i]));
    const size_t next = windows_.empty() ? 0 : windows_.rbegin()->first + 1;
    windows_.emplace(next, std::move(shares));
    return true;
  }

  void take(Line line, std::vector<SearchRequest>& requests) {
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
    const auto prefix = static_cast<int64_t>(request.prefix.size());
    check_input(prefix <= translator_.max_prefix_length_,
                "line {}: its prefix has {} tokens; at most {} are possible", result.number, prefix,
                translator_.max_prefix_length_);
    result.source_tokens = static_cast<int64_t>(request.source.size());
    if (result.source_tokens > translator_.max_source_length_) {
      result.cut_to = translator_.max_source_length_;
      request.source.resize(static_cast<size_t>(result.cut_to));
    }
    result.line = std::move(line);
    waiting_.emplace(result.number, std::move(result));
    requests.push_back(std::move(request));
  }

  void finish(Worker& worker, Search::Result& found) {
    const auto at = waiting_.find(static_cast<int64_t>(found.number));
    Result& result = at->second;
    for (Hypothesis& hypothesis : found.hypotheses) {
      std::string text = translator_.text_of(hypothesis.tokens, result.line.prefix);
      result.translations.push_back({std::move(text), std::move(hypothesis), {}});
    }
    if (options_.alignments) align(result, worker.sources.extract(found.number).mapped());
    worker.in_work.erase(found.number);
    done_.insert(waiting_.extract(at));
  }

  void align(Result& result, const std::vector<int32_t>& source) {
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
  std::mutex mutex_;                 // guards all of the following, input and output
  std::condition_variable changed_;  // a worker got on
  std::vector<Worker> workers_;
  std::map<size_t, std::vector<std::vector<SearchRequest>>> windows_;  // a share for each worker
  std::map<int64_t, Result> waiting_;                                  // pending or in work
  std::map<int64_t, Result> done_;                                     // whose turn has not come
  int64_t read_ = 0, given_ = 0;                                       // lines so far
  bool closing_ = false;  // no more windows for these workers: the end, or lines that are yet to be written
  bool ended_ = false;
  std::atomic<bool> failed_ = false;
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

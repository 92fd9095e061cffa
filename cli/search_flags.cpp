#include "cli/search_flags.h"

namespace transduce::cli {

void SearchFlags::add_ranking_to(CLI::App& app) {
  const std::string group = "Ranking";
  Ranking& ranking = options_.search.ranking;
  app.add_option(
         "--length-normalization", normalization_,
         "gnmt: log probability / ((5 + length) / 6)^penalty; average: log probability / length^penalty")
      ->group(group);
  app.add_option("--length-penalty", ranking.length_penalty,
                 "the penalty in it; 0: outputs are ranked by their log probability")
      ->group(group);
  app.add_option("--coverage-penalty", ranking.coverage_penalty,
                 "lowers outputs that pass over parts of the source; 0: off, 0.2 is usual")
      ->group(group);
}

void SearchFlags::add_to(CLI::App& app) {
  SearchOptions& search = options_.search;
  std::string group = "Search";
  app.add_option("--beam", search.beam,
                 "hypotheses kept while searching, at most as many as there are tokens; 1 is greedy search")
      ->group(group);
  app.add_option("--min-length", search.min_length, "tokens of an output at least")->group(group);
  app.add_option("--max-length", search.max_length,
                 "tokens of an output at most; 0 without --max-length-factor: 2 x source + 50")
      ->group(group);
  app.add_option("--max-length-factor", search.max_length_factor,
                 "an output has at most this x source + 50 tokens; with --max-length the smaller bound holds")
      ->group(group);
  app.add_option("--max-source-length", options_.max_source_length,
                 "tokens of a source at most; the rest is cut off, with a warning")
      ->group(group);
  app.add_option("--no-repeat-ngram", search.no_repeat_ngram,
                 "no sequence of so many tokens occurs twice in an output; 0: off")
      ->group(group);
  app.add_option("--repetition-penalty", search.repetition_penalty,
                 "multiplies the log probability of tokens that the output holds already; 1: off")
      ->group(group);
  app.add_option("--forbid", options_.forbidden, "a token that is never generated; may repeat")
      ->take_all()
      ->group(group);
  app.add_flag("--forbid-unknown", options_.forbid_unknown, "never generate the unknown token <unk>")
      ->group(group);
  app.add_option("--force", options_.forced, "a text that every output must contain; may repeat")
      ->take_all()
      ->group(group);
  CLI::Option* const groups =
      app.add_option("--diverse-groups", search.groups, "groups of the beam that are kept different; 1: off")
          ->group(group);
  app.add_option("--diversity", search.diversity,
                 "by how much a token's log probability falls each time an earlier group takes it")
      ->needs(groups)
      ->group(group);
  app.add_option("--batch-size", options_.batch_size, "sentences translated at the same time")->group(group);
  add_ranking_to(app);
  group = "Sampling";
  CLI::Option* const sample =
      app.add_flag("--sample", sample_, "draw outputs at random in place of searching for the best")
          ->group(group);
  app.add_option("--temperature", sampling_.temperature, "below 1 keeps closer to the likely tokens")
      ->needs(sample)
      ->group(group);
  app.add_option("--top-k", sampling_.top_k, "draw from the k likeliest tokens; 0: from all")
      ->needs(sample)
      ->group(group);
  app.add_option("--top-p", sampling_.top_p, "draw from the fewest tokens with this much probability")
      ->needs(sample)
      ->group(group);
  app.add_option("--sampling-seed", sampling_.seed, "the same seed draws the same outputs")
      ->needs(sample)
      ->group(group);
}

Ranking SearchFlags::ranking() const {
  SearchOptions checked;
  checked.ranking = options_.search.ranking;
  checked.ranking.normalization = parse_length_normalization(normalization_);
  checked.validate();
  return checked.ranking;
}

Translator::Options SearchFlags::options() const {
  Translator::Options options = options_;
  options.search.ranking.normalization = parse_length_normalization(normalization_);
  if (sample_) options.search.sampling = sampling_;
  return options;
}

Models::Models(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) models_.push_back(load_model(directory));
  check_same_vocabularies(all());
}

std::vector<const Seq2SeqModel*> Models::all() const {
  std::vector<const Seq2SeqModel*> pointers;
  for (const Seq2SeqModel& model : models_) pointers.push_back(&model);
  return pointers;
}

}  // namespace transduce::cli

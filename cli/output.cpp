#include "cli/output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "transduce/base/text.h"

namespace transduce::cli {

Output::Output(const std::string& path) {
  if (path != "-" && path != "/dev/stdout") file_.emplace(path);
}

void Output::line(std::string text) {
  text += '\n';
  write(text);
}

void Output::write(std::string_view bytes) {
  if (file_) {
    file_->write(bytes);
  } else if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size()) {
    fail_run("cannot write to standard output: {}", std::strerror(errno));
  }
}

void Output::flush() {
  if (!file_ && std::fflush(stdout) != 0) {
    fail_run("cannot write to standard output: {}", std::strerror(errno));
  }
}

void Output::commit() {
  flush();
  if (file_) file_->commit();
}

std::string as_field(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

std::string moses_features(const Hypothesis& hypothesis) {
  return fmt::format("LogProbability= {:.6f} Length= {} ||| {:.6f}", hypothesis.log_probability,
                     hypothesis.token_log_probability.size(), hypothesis.score);
}

nlohmann::ordered_json as_json(const std::string& text, const Hypothesis& hypothesis,
                               const Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (const int32_t token : hypothesis.tokens) tokens.push_back(to_valid_utf8(vocabulary.token(token)));
  return {{"text", to_valid_utf8(text)},
          {"score", hypothesis.score},
          {"log_probability", hypothesis.log_probability},
          {"tokens", tokens},
          {"token_log_probabilities", hypothesis.token_log_probability}};
}

}  // namespace transduce::cli

#include "transduce/data/pair_inputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <system_error>

#include "transduce/base/error.h"
#include "transduce/base/hash.h"
#include "transduce/base/text.h"

namespace transduce {
namespace {

// Gives a file's bytes piece by piece. `name`: what errors call it.
void read_through(const std::string& path, const std::string& name,
                  const std::function<void(std::string_view)>& take) {
  const auto fail = [&](int error) {
    fail_input("cannot read {}: {}; check the path and its permissions", name,
               std::generic_category().message(error));
  };
  struct Descriptor {
    int value;
    ~Descriptor() {
      if (value > STDIN_FILENO) ::close(value);
    }
  } const file{path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.value < 0) fail(errno);
  std::string buffer(size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t count = ::read(file.value, buffer.data(), buffer.size());
    if (count == 0) return;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    take(std::string_view(buffer).substr(0, static_cast<size_t>(count)));
  }
}

std::string name_of(const std::string& file) {
  return file == "-" ? "standard input" : std::string(in_quotes(file, 4096));
}

// The size of a file and when it last changed, in nanoseconds; -1 for what is no regular file.
std::pair<int64_t, int64_t> state_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {-1, -1};
  return {status.st_size, int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec};
}

}  // namespace

PairInputs::PairInputs(PairFiles files, const std::string& directory) : files_(std::move(files)) {
  for (const std::string& file : files_.all()) {
    std::string& path = paths_[file];
    if (!path.empty()) {  // named twice
      bytes_ += state_of(path).first;
      continue;
    }
    path = file;
    struct stat status = {};
    const bool once = file == "-" || (::stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
                                      !S_ISDIR(status.st_mode));
    if (once) {
      copies_.push_back(std::make_unique<TemporaryFile>(directory));
      read_through(file, name_of(file), [&](std::string_view bytes) { copies_.back()->write(bytes); });
      path = copies_.back()->path();
    }
    states_[path] = state_of(path);
    bytes_ += states_[path].first;
  }
}

uint64_t PairInputs::fingerprint() const {
  Hash hash;
  hash.add(fmt::format("{} files of pairs, {} and {} of a side\n", files_.pairs.size(), files_.sources.size(),
                       files_.targets.size()));
  for (const std::string& file : files_.all()) {
    Hash content;
    int64_t bytes = 0;
    read_through(paths_.at(file), name_of(file), [&](std::string_view some) {
      content.add(some);
      bytes += std::ssize(some);
    });
    hash.add(fmt::format("{} bytes, {:016x}\n", bytes, content.value()));
  }
  return hash.value();
}

void PairInputs::check_unchanged() const {
  for (const auto& [name, path] : paths_) {
    if (state_of(path) != states_.at(path)) {
      fail_run("{} changed while it was read: begin again when it is complete", name_of(name));
    }
  }
}

}  // namespace transduce

#include "transduce/base/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {
namespace {

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

TemporaryFile::TemporaryFile(const std::string& directory) : directory_(directory) {
  std::string name = directory + "/.transduce-XXXXXX";
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail_input("cannot write in {}: {}", in_quotes(directory, 4096), reason());
  ::unlink(name.c_str());
}

TemporaryFile::~TemporaryFile() { ::close(descriptor_); }

void TemporaryFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_run("cannot write a temporary file in {}: {}", in_quotes(directory_, 4096), reason());
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

// Opening a descriptor's link in /proc gives the file another reading position.
std::string TemporaryFile::path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

}  // namespace transduce

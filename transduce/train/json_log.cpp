#include "transduce/train/json_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {

JsonLog::~JsonLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void JsonLog::fail() const { fail_run("cannot write {}: {}", in_quotes(path_, 4096), std::strerror(errno)); }

void JsonLog::open(int64_t keep_bytes) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  struct stat status = {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail();
  if (!S_ISREG(status.st_mode)) return;  // a link to /dev/null, say: there is nothing to cut off
  bytes_ = std::min<int64_t>(keep_bytes, status.st_size);
  if (::ftruncate(descriptor_, bytes_) != 0 || ::lseek(descriptor_, bytes_, SEEK_SET) < 0) fail();
}

void JsonLog::resume(int64_t bytes) { open(bytes); }

void JsonLog::write(const nlohmann::ordered_json& object) {
  if (descriptor_ < 0) open(0);
  const std::string line =
      object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t count = ::write(descriptor_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail();
    rest.remove_prefix(static_cast<size_t>(count));
  }
  bytes_ += static_cast<int64_t>(line.size());
}

int64_t JsonLog::flush() {
  if (descriptor_ >= 0 && ::fsync(descriptor_) != 0 && errno != EINVAL) fail();  // a pipe has no disk
  return bytes_;
}

}  // namespace transduce

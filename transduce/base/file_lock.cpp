#include "transduce/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {

FileLock::FileLock(const std::string& path) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  check_input(descriptor_ >= 0, "cannot open {}: {}; check that its directory exists and may be written",
              in_quotes(path, 4096), std::strerror(errno));
  held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (held_) {  // the number is only there to be read by people: a full disk does not matter
    const std::string id = std::to_string(::getpid()) + "\n";
    if (::ftruncate(descriptor_, 0) == 0) (void)!::pwrite(descriptor_, id.data(), id.size(), 0);
    return;
  }
  std::string id(20, '\0');
  id.resize(static_cast<size_t>(std::max<ssize_t>(0, ::pread(descriptor_, id.data(), id.size(), 0))));
  id = id.substr(0, id.find('\n'));
  const bool is_number =
      !id.empty() && std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (is_number) holder_ = "process " + id;
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace transduce

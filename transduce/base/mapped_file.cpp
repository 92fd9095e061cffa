#include "transduce/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {

MappedFile::MappedFile(const std::string& path) {
  const auto check = [&](bool fine) {
    if (!fine) {
      const std::string reason = std::generic_category().message(errno);
      fail_input("cannot read {}: {}", in_quotes(path, 4096), reason);
    }
  };
  struct Descriptor {
    int value;
    ~Descriptor() {
      if (value >= 0) ::close(value);
    }
  } const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  check(file.value >= 0);
  struct stat status = {};
  check(::fstat(file.value, &status) == 0);
  check_input(S_ISREG(status.st_mode), "cannot read {}: it is no regular file", in_quotes(path, 4096));
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;  // nothing that could be mapped
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.value, 0);
  check(data != MAP_FAILED);
  data_ = static_cast<char*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedFile::let_go() const {
  if (data_ != nullptr) ::madvise(data_, size_, MADV_DONTNEED);
}

}  // namespace transduce

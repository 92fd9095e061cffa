#include "transduce/base/file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "transduce/base/error.h"
#include "transduce/base/text.h"

namespace transduce {
namespace {

constexpr size_t buffer_bytes = size_t{256} << 10;

std::string system_reason(int error) { return std::generic_category().message(error); }

// Opens for reading. Errors: InputError.
int open_to_read(const std::string& path, const std::string& name) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    fail_input("cannot read {}: {}; check the path and its permissions", name, system_reason(error));
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    fail_input("cannot read {}: it is a directory; give a file", name);
  }
  return descriptor;
}

// Reads what there is, up to `size` bytes; 0 at the end of the file. Errors: InputError.
size_t read_some(int descriptor, char* data, size_t size, const std::string& name) {
  for (;;) {
    const ssize_t count = ::read(descriptor, data, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) fail_input("cannot read {}: {}", name, system_reason(errno));
  }
}

}  // namespace

// A file's bytes, unpacked. Written on read() and inflate(), because zlib's own gzread waits until its buffer
// is full and would hold back lines of a pipe.
class LineReader::Input {
 public:
  Input(const std::string& path, std::string name) : name_(std::move(name)) {
    const bool standard_input = path == "-";
    descriptor_ = standard_input ? STDIN_FILENO : open_to_read(path, name_);
    owned_ = !standard_input;
    raw_.resize(buffer_bytes);
  }
  ~Input() {
    if (packed_) inflateEnd(&zlib_);
    if (owned_) ::close(descriptor_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // The bytes not yet taken; empty only at the end of the file.
  std::string_view peek() {
    if (begin_ == text_.size() && !finished_) refill();
    return std::string_view(text_).substr(begin_);
  }
  void take(size_t count) { begin_ += count; }
  int64_t bytes_read() const { return bytes_read_; }

  bool ready() const {
    if (finished_ || begin_ < text_.size() || raw_begin_ < raw_end_) return true;
    pollfd waiting = {descriptor_, POLLIN, 0};
    return ::poll(&waiting, 1, 0) != 0;
  }

 private:
  // Reads more of the file behind what raw_ holds. False at its end.
  bool read_raw() {
    if (raw_begin_ > 0) {
      std::memmove(raw_.data(), raw_.data() + raw_begin_, raw_end_ - raw_begin_);
      raw_end_ -= raw_begin_;
      raw_begin_ = 0;
    }
    const size_t count = read_some(descriptor_, raw_.data() + raw_end_, raw_.size() - raw_end_, name_);
    raw_end_ += count;
    bytes_read_ += static_cast<int64_t>(count);
    return count > 0;
  }

  std::string_view raw() const { return {raw_.data() + raw_begin_, raw_end_ - raw_begin_}; }

  bool raw_starts_gzip() {
    constexpr std::string_view magic = "\x1F\x8B";
    while (raw().size() < magic.size() && magic.starts_with(raw())) {
      if (!read_raw()) return false;
    }
    return raw().starts_with(magic);
  }

  void refill() {
    begin_ = 0;
    text_.clear();
    if (!started_) start();
    if (packed_) {
      refill_packed();
    } else if (!raw().empty() || read_raw()) {
      text_ = raw();
      raw_begin_ = raw_end_;
    } else {
      finished_ = true;
    }
  }

  void start() {
    started_ = true;
    packed_ = raw_starts_gzip();
    if (packed_ && inflateInit2(&zlib_, 16 + MAX_WBITS) != Z_OK) {
      packed_ = false;
      fail_run("out of memory while opening {}", name_);
    }
    while (!packed_ && raw().size() < 3 && std::string_view("\xEF\xBB\xBF").starts_with(raw()) &&
           read_raw()) {
    }
    if (!packed_) drop_byte_order_mark(raw(), raw_begin_);
  }

  void drop_byte_order_mark(std::string_view text, size_t& begin) {
    if (text.starts_with("\xEF\xBB\xBF")) begin += 3;
  }

  void refill_packed() {
    const size_t enough = past_start_ ? 1 : 3;  // at the start, so that a byte-order mark is whole
    while (text_.size() < enough && !finished_) inflate_some();
    if (!past_start_) drop_byte_order_mark(text_, begin_);
    past_start_ = true;
    if (begin_ == text_.size() && !finished_) refill();
  }

  // Unpacks some bytes to the end of text_ and goes on to the next member where one ends.
  void inflate_some() {
    if (raw().empty() && !read_raw()) broken("it ends early");
    const size_t old_size = text_.size();
    text_.resize(old_size + buffer_bytes);
    zlib_.next_in = reinterpret_cast<Bytef*>(raw_.data() + raw_begin_);
    zlib_.avail_in = static_cast<uInt>(raw().size());
    zlib_.next_out = reinterpret_cast<Bytef*>(text_.data() + old_size);
    zlib_.avail_out = static_cast<uInt>(buffer_bytes);
    const int result = inflate(&zlib_, Z_NO_FLUSH);
    raw_begin_ = raw_end_ - zlib_.avail_in;
    text_.resize(old_size + buffer_bytes - zlib_.avail_out);
    if (result == Z_STREAM_END) {
      next_member();
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      broken(zlib_.msg != nullptr ? zlib_.msg : "its data cannot be unpacked");
    }
  }

  // After a member comes another, or zeros that fill up a block (as gzip allows), or the end.
  void next_member() {
    if (raw_starts_gzip()) {
      inflateReset(&zlib_);
      return;
    }
    finished_ = true;
    do {
      if (raw().find_first_not_of('\0') != std::string_view::npos)
        broken("something else follows the packed data");
      raw_begin_ = raw_end_;
    } while (read_raw());
  }

  [[noreturn]] void broken(const char* reason) {
    fail_input("broken gzip file {}: {}; get or pack it again", name_, reason);
  }

  std::string name_;
  int descriptor_ = -1;
  bool owned_ = false;
  bool started_ = false;
  bool packed_ = false;
  bool past_start_ = false;
  bool finished_ = false;
  z_stream zlib_ = {};
  std::string raw_;  // bytes of the file; those in [raw_begin_, raw_end_) are not used yet
  size_t raw_begin_ = 0;
  size_t raw_end_ = 0;
  int64_t bytes_read_ = 0;
  std::string text_;  // unpacked bytes; those from begin_ on are not taken yet
  size_t begin_ = 0;
};

LineReader::LineReader(const std::string& path, size_t max_line_bytes, const std::string& name)
    : max_line_bytes_(max_line_bytes) {
  const std::string& shown = name.empty() ? path : name;
  name_ = shown == "-" ? "standard input" : std::string(in_quotes(shown, 4096));
  input_ = std::make_unique<Input>(path, name_);
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

bool LineReader::next(std::string& line) {
  line.clear();
  bool any = false;
  for (std::string_view text = input_->peek(); !text.empty(); text = input_->peek()) {
    any = true;
    const size_t feed = text.find('\n');
    const size_t count = std::min(feed, text.size());
    if (line.size() + count > max_line_bytes_) {
      fail_input("{}, line {}: longer than {} bytes; is it a text file? Break the line up", name_,
                 number_ + 1, max_line_bytes_);
    }
    line += text.substr(0, count);
    input_->take(feed == std::string_view::npos ? count : count + 1);
    if (feed != std::string_view::npos) return end_line(line);
  }
  return any && end_line(line);
}

int64_t LineReader::count() {
  for (std::string line; next(line);) {
  }
  return number_;
}

int64_t LineReader::bytes_read() const { return input_->bytes_read(); }

bool LineReader::ready() const { return input_->ready(); }

bool LineReader::end_line(std::string& line) {
  if (line.ends_with('\r')) line.pop_back();
  ++number_;
  return true;
}

int64_t count_lines(const std::string& path) {
  std::error_code ignored;
  if (path == "-" || !std::filesystem::is_regular_file(path, ignored)) return -1;
  return LineReader(path).count();
}

std::vector<std::string> read_lines(const std::string& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

std::string read_file(const std::string& path, size_t max_bytes) {
  const std::string name = in_quotes(path, 4096);
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  const bool special =
      kind == std::filesystem::file_type::fifo || kind == std::filesystem::file_type::socket ||
      kind == std::filesystem::file_type::character || kind == std::filesystem::file_type::block;
  check_input(!special, "cannot read {}: it is a pipe or a device; give a regular file",
              name);  // opening one may hang
  struct Descriptor {
    int value;
    ~Descriptor() { ::close(value); }
  } const descriptor{open_to_read(path, name)};
  std::string content;
  std::string buffer(std::min(buffer_bytes, max_bytes) + 1, '\0');
  while (const size_t count = read_some(descriptor.value, buffer.data(), buffer.size(), name)) {
    check_input(count <= max_bytes - content.size(), "{} is larger than the {} bytes such a file may have",
                name, max_bytes);
    content.append(buffer, 0, count);
  }
  return content;
}

namespace {

// The file a link leads to; the path itself where nothing is yet.
std::string follow_links(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

// Opens a new file beside `target` and sets `temporary` to its name, which does not grow with the target's.
int open_beside(const std::string& target, mode_t mode, std::string& temporary) {
  static std::atomic<uint64_t> counter{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::string name = fmt::format(".transduce-{}-{}.tmp", ::getpid(), counter++);
    temporary = (std::filesystem::path(target).parent_path() / name).string();
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

// Says why `path` cannot be written, from errno.
[[noreturn]] void fail_open(const std::string& path) {
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR || error == EACCES || error == EROFS || error == ENAMETOOLONG) {
    fail_input("cannot write {}: {}; check that its directory exists and may be written",
               in_quotes(path, 4096), system_reason(error));
  }
  fail_run("cannot write {}: {}", in_quotes(path, 4096), system_reason(error));
}

// Makes a rename last through a power failure. Not every file system can; then there is nothing to do.
void flush_directory(const std::string& target) {
  const auto parent = std::filesystem::path(target).parent_path();
  const int descriptor = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(path) {
  check_input(!path.empty(), "cannot write a file without a name; give a path");
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail_open(path);
  if (exists && S_ISDIR(status.st_mode)) {
    fail_input("cannot write {}: it is a directory; give a file", in_quotes(path, 4096));
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) fail_open(path);
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    target_ = follow_links(path);
    descriptor_ = open_beside(target_, 0666, temporary_);
    if (descriptor_ >= 0 && exists) (void)!::fchmod(descriptor_, status.st_mode & 07777);
  }
  if (descriptor_ < 0) fail_open(path);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() < buffer_bytes) {
    buffer_ += bytes;
    return;
  }
  write_through(buffer_);
  buffer_.clear();
  write_through(bytes);
}

void AtomicFile::write_through(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::commit() {
  write_through(buffer_);
  buffer_.clear();
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) fail("flush");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename to");
  temporary_.clear();
  flush_directory(target_);
}

void AtomicFile::fail(const char* doing) {
  const int error = errno;
  const char* kept = temporary_.empty() ? "" : "; nothing there was changed";
  fail_run("cannot {} {}: {}{}", doing, in_quotes(path_, 4096), system_reason(error), kept);
}

void write_file_atomic(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void remove_leftovers(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    int process = 0, length = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), ".transduce-%d-%*u.tmp%n", &process, &length) != 1) continue;
    if (length != static_cast<int>(name.size())) continue;
    // A new process may have the number of the one that was killed, above all in a container.
    const bool stale = process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
    if (stale) ::unlink(entry.path().c_str());
  }
}

void make_directories(const std::string& path) {
  std::error_code error;
  check_input(!path.empty(), "cannot make a directory without a name; give a path");
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path))
    error = std::make_error_code(std::errc::not_a_directory);
  check_input(!error, "cannot make the directory {}: {}; give a path that may be written",
              in_quotes(path, 4096), error.message());
}

}  // namespace transduce

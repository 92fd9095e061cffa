#pragma once

// Reading and writing files. Whatever is in a file, reading it gives every line of it or an error that says
// why.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace transduce {

// Reads a text file line by line; `path` "-" is standard input. A gzip file is known by its content, not by
// its name, and is unpacked on the way; it may have several members.
//
// Only LF ends a line. One CR directly before it (or before the end of the file) is dropped, so a file and
// its CRLF twin give the same lines; a CR elsewhere is text. A UTF-8 byte-order mark at the very start is
// dropped; elsewhere it is text. NUL is text. The last line counts with or without its LF; an empty file has
// no line. From a pipe or a terminal a line is given as soon as it is complete.
class LineReader {
 public:
  static constexpr size_t default_max_line_bytes = size_t{64} << 20;

  // `name`: what error messages call the file, where not its path. Errors: InputError for a missing file, a
  // directory, a file that may not be read.
  explicit LineReader(const std::string& path, size_t max_line_bytes = default_max_line_bytes,
                      const std::string& name = "");
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  // Sets `line` to the next line and returns true; false at the end of the file.
  // Errors: InputError for a line above `max_line_bytes`, a broken or truncated gzip file, a failing disk.
  bool next(std::string& line);

  // Whether next() need not wait: the next line, or part of it, or the end is at hand. False where a person
  // or another program has yet to write it.
  bool ready() const;

  // The number of the line last given, from 1; 0 before the first.
  int64_t number() const { return number_; }

  // Reads on to the end: the number of lines of the whole file. Errors: as next().
  int64_t count();

  // Bytes of the file that were read so far, packed ones where it is packed: how far one is in it.
  int64_t bytes_read() const;

  // What error messages call the file: its path in quotes, or "standard input".
  const std::string& name() const { return name_; }

 private:
  class Input;
  bool end_line(std::string& line);

  std::unique_ptr<Input> input_;
  std::string name_;
  size_t max_line_bytes_ = 0;
  int64_t number_ = 0;
};

// The number of lines of a file, as LineReader counts them; -1 for what can be read only once (standard
// input, a pipe, a terminal). Errors: as LineReader.
int64_t count_lines(const std::string& path);

// All lines of a file, as LineReader gives them. Errors: as LineReader.
std::vector<std::string> read_lines(const std::string& path);

// The bytes of a file as they are (gzip is not unpacked). Errors: InputError when it cannot be read or holds
// more than `max_bytes`; no more than that is ever held.
std::string read_file(const std::string& path, size_t max_bytes);

// A file that is written in full or not at all: the bytes go to a temporary file in the same directory, and
// commit() flushes it to the disk and renames it. Until then, and after any failure or kill, `path` is what
// it was before. A link is followed; an existing file keeps its permissions. A device or pipe (/dev/null,
// /dev/stdout) cannot be renamed over and is written directly.
//
// Errors of all members: InputError when the path cannot be written (no such directory, no permission, a
// directory); RunError when writing fails (disk full), naming the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  // Removes the temporary file unless it was committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends bytes (buffered).
  void write(std::string_view bytes);

  // Makes what was written the content of `path`. Nothing may be written afterwards.
  void commit();

 private:
  void write_through(std::string_view bytes);
  [[noreturn]] void fail(const char* doing);

  std::string path_;       // as the caller named it
  std::string target_;     // where the bytes end up: `path_` with links followed
  std::string temporary_;  // empty when the target is written directly
  std::string buffer_;
  int descriptor_ = -1;
};

// Writes a whole file through AtomicFile. Errors: as AtomicFile.
void write_file_atomic(const std::string& path, std::string_view content);

// Removes the temporary files that AtomicFile left in a directory because its process was killed; those of
// other processes that live are let be. To be called before this process writes there. A directory that is
// not there holds none.
void remove_leftovers(const std::string& directory);

// Makes a directory and those above it; one that exists is fine. Errors: InputError naming the path and why.
void make_directories(const std::string& path);

}  // namespace transduce

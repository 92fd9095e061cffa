#include "transduce/base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tests/base/temporary_directory.h"

namespace transduce {
namespace {

using namespace std::string_literals;
using testing::error_of;
using testing::TemporaryDirectory;
using Lines = std::vector<std::string>;

// `content` as one gzip member.
std::string gzip(const std::string& content) {
  z_stream stream = {};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, content.size()) + 64, '\0');
  std::string input = content;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Lines lines_of(const std::string& content) {
  const TemporaryDirectory directory;
  return read_lines(directory.file("file", content));
}

TEST(LineReader, OnlyLineFeedEndsALine) {
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("\n"), Lines{""});
  EXPECT_EQ(lines_of("a"), Lines{"a"});
  EXPECT_EQ(lines_of("a\nb"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\nb\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\n\nb\n\n"), (Lines{"a", "", "b", ""}));
  EXPECT_EQ(lines_of("a\vb\fc\u0085d\u2028e\u2029f\x1C\n"), Lines{"a\vb\fc\u0085d\u2028e\u2029f\x1C"});
}

TEST(LineReader, DropsOneCarriageReturnBeforeTheEndOfALine) {  // flores PR#9, sacrebleu PR#24
  EXPECT_EQ(lines_of("a\r\nb\r\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\rb\r\r\nc\r"), (Lines{"a\rb\r", "c"}));
  EXPECT_EQ(lines_of("\r"), Lines{""});
  EXPECT_EQ(lines_of("\r\n\r\n"), (Lines{"", ""}));
}

TEST(LineReader, DropsAByteOrderMarkAtTheStartOnly) {  // UD_German-GSD#29
  EXPECT_EQ(lines_of("\uFEFFa\n\uFEFFb\n"), (Lines{"a", "\uFEFFb"}));
  EXPECT_EQ(lines_of("\uFEFF\uFEFFa\uFEFF"), Lines{"\uFEFFa\uFEFF"});
  EXPECT_EQ(lines_of("\uFEFF"), Lines{});
  EXPECT_EQ(lines_of("\uFEFF\n"), Lines{""});
  EXPECT_EQ(lines_of("\xEF\xBB"), Lines{"\xEF\xBB"});
  EXPECT_EQ(lines_of(gzip("\uFEFFa\n\uFEFFb\n")), (Lines{"a", "\uFEFFb"}));
  EXPECT_EQ(lines_of(gzip("\uFEFF")), Lines{});
}

TEST(LineReader, KeepsNul) {  // spm#331
  EXPECT_EQ(lines_of("a\0b\n\0\n"s), (Lines{"a\0b"s, "\0"s}));
}

// Lines of many lengths, far more bytes than any buffer holds, some lines longer than one.
Lines long_text() {
  Lines lines;
  for (size_t i = 0; i < 120000; ++i) lines.push_back(std::to_string(i) + std::string(i % 37, 'x'));
  lines.push_back(std::string(3 << 20, 'y'));
  lines.push_back("");
  lines.push_back("last");
  return lines;
}

std::string joined(const Lines& lines, const std::string& end) {
  std::string content;
  for (const auto& line : lines) content += line + end;
  return content;
}

TEST(LineReader, GivesEveryLineOfALargeFile) {  // ONMT PR#1318
  const Lines lines = long_text();
  EXPECT_EQ(lines_of(joined(lines, "\n")), lines);
  EXPECT_EQ(lines_of(joined(lines, "\r\n")), lines);
  EXPECT_EQ(lines_of(gzip(joined(lines, "\n"))), lines);
  EXPECT_EQ(lines_of(gzip(joined(lines, "\r\n"))), lines);
}

TEST(LineReader, LineEndsMayFallAnywhereInABuffer) {
  for (size_t length = (256 << 10) - 3; length < (256 << 10) + 3; ++length) {
    const Lines lines{std::string(length, 'a'), "b", ""};
    EXPECT_EQ(lines_of(joined(lines, "\r\n")), lines) << length;
    EXPECT_EQ(lines_of(gzip(joined(lines, "\r\n"))), lines) << length;
  }
}

TEST(LineReader, GzipIsKnownByItsContent) {
  EXPECT_EQ(lines_of(gzip("a\nb\n")), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of(gzip("")), Lines{});
  EXPECT_EQ(lines_of(gzip("a\nb") + gzip("c\n") + gzip("") + gzip("d")), (Lines{"a", "bc", "d"}));
  EXPECT_EQ(lines_of(gzip("a\n") + std::string(1000000, '\0')), Lines{"a"});  // padded, as on tapes
  const TemporaryDirectory directory;
  EXPECT_EQ(read_lines(directory.file("plain.gz", "a\nb\n")), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("\x1F"), Lines{"\x1F"});
}

TEST(LineReader, SaysWhatIsWrongWithAGzipFile) {
  const TemporaryDirectory directory;
  const std::string whole = gzip(joined(long_text(), "\n"));
  const auto error = [&](const std::string& content) {
    const std::string path = directory.file("x.gz", content);
    const std::string message = error_of([&] { read_lines(path); });
    const std::string begin = "broken gzip file \"" + path + "\": ";
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(std::min(begin.size(), message.size()));
  };
  for (const size_t size : {size_t{2}, size_t{9}, size_t{30}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_EQ(error(whole.substr(0, size)), "it ends early; get or pack it again");
  }
  EXPECT_EQ(error(whole + "more"), "something else follows the packed data; get or pack it again");
  std::string damaged = whole;
  damaged[whole.size() - 6] = static_cast<char>(damaged[whole.size() - 6] ^ 1);
  EXPECT_EQ(error(damaged), "incorrect data check; get or pack it again");
}

TEST(LineReader, SaysWhyAFileCannotBeRead) {
  const TemporaryDirectory directory;
  EXPECT_EQ(error_of([&] { LineReader(directory / "none"); }),
            "cannot read \"" + directory / "none" +
                "\": No such file or directory; check the path and its permissions");
  EXPECT_EQ(error_of([&] { LineReader(directory.path()); }),
            "cannot read \"" + directory.path() + "\": it is a directory; give a file");
  EXPECT_EQ(error_of([&] { LineReader(""); }),
            "cannot read \"\": No such file or directory; check the path and its permissions");
  if (::geteuid() != 0) {
    const std::string locked = directory.file("locked", "a");
    ::chmod(locked.c_str(), 0);
    EXPECT_EQ(error_of([&] { LineReader{locked}; }),
              "cannot read \"" + locked + "\": Permission denied; check the path and its permissions");
  }
}

TEST(LineReader, BoundsALine) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x", "short\n" + std::string(11, 'a') + "\n");
  LineReader reader(path, 10);
  std::string line;
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(error_of([&] { reader.next(line); }),
            "\"" + path + "\", line 2: longer than 10 bytes; is it a text file? Break the line up");
  EXPECT_NE(error_of([] {
              LineReader zeros("/dev/zero", 1 << 20);
              std::string endless;
              zeros.next(endless);
            }),
            "");
}

TEST(LineReader, NumbersLinesFromOne) {
  const TemporaryDirectory directory;
  LineReader reader(directory.file("x", "a\nb"));
  std::string line;
  EXPECT_EQ(reader.number(), 0);
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(reader.number(), 1);
  LineReader moved = std::move(reader);
  EXPECT_TRUE(moved.next(line));
  EXPECT_EQ(line, "b");
  EXPECT_FALSE(moved.next(line));
  EXPECT_FALSE(moved.next(line));
  EXPECT_EQ(moved.number(), 2);
}

TEST(LineReader, GivesALineOfAPipeAsSoonAsItIsThere) {
  const TemporaryDirectory directory;
  const std::string path = directory / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  int read_lines_then_write[2];
  ASSERT_EQ(::pipe(read_lines_then_write), 0);
  std::thread writer([&] {
    std::ofstream out(path);
    out << "first\n" << std::flush;
    char answer = 0;
    EXPECT_EQ(::read(read_lines_then_write[0], &answer, 1), 1);  // waits until the first line has been read
    out << "second\n";
  });
  LineReader reader(path);
  std::string line;
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(line, "first");
  EXPECT_EQ(::write(read_lines_then_write[1], "x", 1), 1);
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(line, "second");
  EXPECT_FALSE(reader.next(line));
  writer.join();
  ::close(read_lines_then_write[0]);
  ::close(read_lines_then_write[1]);
}

TEST(LineReader, ReadsStandardInput) {
  const TemporaryDirectory directory;
  const int saved = ::dup(STDIN_FILENO);
  for (const auto& content : {"a\r\nb"s, gzip("a\nb\n")}) {
    ASSERT_NE(std::freopen(directory.file("x", content).c_str(), "r", stdin), nullptr);
    LineReader reader("-");
    std::string line;
    EXPECT_TRUE(reader.next(line));
    EXPECT_EQ(line, "a");
    EXPECT_TRUE(reader.next(line));
    EXPECT_EQ(line, "b");
    EXPECT_FALSE(reader.next(line));
    EXPECT_EQ(reader.name(), "standard input");
  }
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
}

TEST(ReadFile, GivesTheBytesAndIsBounded) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x", "\uFEFFa\r\n\0b"s);
  EXPECT_EQ(read_file(path, 8), "\uFEFFa\r\n\0b"s);
  EXPECT_EQ(read_file(path, SIZE_MAX), "\uFEFFa\r\n\0b"s);
  EXPECT_EQ(error_of([&] { read_file(path, 7); }),
            "\"" + path + "\" is larger than the 7 bytes such a file may have");
  EXPECT_NE(error_of([] { read_file("/dev/zero", 1000); }), "");
  EXPECT_NE(error_of([&] { read_file(directory.path(), 1000); }), "");
  EXPECT_EQ(read_file(directory.file("empty", ""), 0), "");
  const std::string large(1000000, 'x');
  EXPECT_EQ(read_file(directory.file("large", large), large.size()), large);
}

size_t files_in(const TemporaryDirectory& directory) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) ++count;
  return count;
}

TEST(AtomicFile, ReplacesAFileOnCommitOnly) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x", "old");
  {
    AtomicFile file(path);
    file.write(std::string(1000000, 'n'));
    EXPECT_EQ(read_file(path, 100), "old");
  }
  EXPECT_EQ(read_file(path, 100), "old");
  EXPECT_EQ(files_in(directory), 1u);
  AtomicFile file(path);
  for (int i = 0; i < 100000; ++i) file.write("new\n");
  file.write(std::string(1000000, 'n'));
  file.write("end");
  file.commit();
  EXPECT_EQ(read_lines(path).size(), 100001u);
  EXPECT_TRUE(read_file(path, 2000000).ends_with("nend"));
  EXPECT_EQ(files_in(directory), 1u);
}

TEST(AtomicFile, FollowsLinksAndKeepsPermissions) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x", "old"), link = directory / "link";
  ::chmod(path.c_str(), 0640);
  std::filesystem::create_symlink("x", link);
  write_file_atomic(link, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_file(path, 100), "new");
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms{0640});
}

TEST(AtomicFile, WritesDevicesDirectly) {
  write_file_atomic("/dev/null", "gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_EQ(error_of<RunError>([] { write_file_atomic("/dev/full", "x"); }),
              "cannot write \"/dev/full\": No space left on device");
  }
}

TEST(AtomicFile, AFullDiskLeavesTheOldFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x", "old");
  rlimit saved = {};
  ::getrlimit(RLIMIT_FSIZE, &saved);
  const rlimit small = {100000, saved.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of<RunError>([&] { write_file_atomic(path, std::string(1000000, 'n')); });
  ::setrlimit(RLIMIT_FSIZE, &saved);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "cannot write \"" + path + "\": File too large; nothing there was changed");
  EXPECT_EQ(read_file(path, 100), "old");
  EXPECT_EQ(files_in(directory), 1u);
}

TEST(AtomicFile, SaysWhyAFileCannotBeWritten) {
  const TemporaryDirectory directory;
  EXPECT_EQ(error_of([&] { write_file_atomic(directory / "none/x", "a"); }),
            "cannot write \"" + directory / "none/x" +
                "\": No such file or directory; check that its directory exists and may be written");
  EXPECT_EQ(error_of([&] { write_file_atomic(directory.path(), "a"); }),
            "cannot write \"" + directory.path() + "\": it is a directory; give a file");
  EXPECT_NE(error_of([&] { write_file_atomic("", "a"); }), "");
  const std::string name(250, 'n');  // the temporary name must not be longer than the system allows
  write_file_atomic(directory / name, "a");
  EXPECT_EQ(read_file(directory / name, 10), "a");
  EXPECT_NE(error_of([&] { write_file_atomic(directory / std::string(300, 'n'), "a"); }), "");
  EXPECT_EQ(files_in(directory), 1u);
}

TEST(MakeDirectories, MakesAllOfThem) {
  const TemporaryDirectory directory;
  make_directories(directory / "a/b/c");
  make_directories(directory / "a/b/c/");
  EXPECT_TRUE(std::filesystem::is_directory(directory / "a/b/c"));
  const std::string file = directory.file("file", "");
  for (const auto& path : {file, file + "/below", ""s}) {
    EXPECT_TRUE(error_of([&] { make_directories(path); }).starts_with("cannot make ")) << path;
  }
}

}  // namespace
}  // namespace transduce
